"""What acts on the bodies of a compiled MuJoCo model: actuators, tendons, equality constraints, keyframes.

What spacearm has a word for (thrusters, effort limits, couplings, loops, configurations) is kept; the rest is reported
lost.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from spacearm.errors import error_context
from spacearm.model._mjcf_compile import CompiledModel
from spacearm.model._repair import Mimic
from spacearm.model.loops import Loop
from spacearm.model.notices import Losses
from spacearm.model.parts import Coupling, Frame, Pose, Thruster
from spacearm.model.robot import free_name
from spacearm.model.rotations import rotation_from_quaternion
from spacearm.typing import Array

#: MuJoCo's numbers for kinds of joints, transmissions, wraps and equality constraints.
_FREE, _SLIDE = 0, 2
_ON_JOINT, _ON_SITE = (0, 1), 4
_WRAP_JOINT = 1
_EQUALITIES = ("connect", "weld", "joint", "tendon")
_EQ_CONNECT, _EQ_WELD, _EQ_JOINT = 0, 1, 2
_SITE = 6
_UNEVEN = "has a different limit in each direction; the larger is kept for both"
#: A gear below this pushes nothing, and has no direction that could be told from rounding.
_NO_GEAR = 1e-30


@dataclass(frozen=True)
class _Actuator:
    """An actuator: its place for messages, its range of force (times gear), whether it is force alone."""

    index: int
    name: str
    place: str
    least: float
    most: float
    plain: bool


class Extras:
    """Reads what is neither body nor joint; ``inside`` are the robot's bodies."""

    def __init__(self, model: CompiledModel, inside: set[int], losses: Losses) -> None:
        self.model, self.inside, self.losses = model, inside, losses
        count = model.nu if model.nactuator is None else model.nactuator
        self.actuators = [] if model.off_actuation else [self._actuator(a) for a in range(count)]
        self._on_joints: dict[int, list[_Actuator]] = {}
        for each in self.actuators:
            joint = int(model.actuator_trnid[each.index, 0])
            if model.actuator_trntype[each.index] in _ON_JOINT and model.jnt_type[joint] >= _SLIDE:
                self._on_joints.setdefault(joint, []).append(each)

    # -- actuators ---------------------------------------------------------------------------------------------------

    def _actuator(self, a: int) -> _Actuator:
        model, name = self.model, self.model.name("actuator", a)
        control = a if model.actuator_ctrladr is None else int(model.actuator_ctrladr[a])
        kinds = (model.actuator_dyntype[a], model.actuator_gaintype[a], model.actuator_biastype[a])
        # Kind 0 three times is MuJoCo's motor: force = gain times control. All others add a law that depends on state
        # or time.
        plain = not any(kinds) and (model.actuator_delay is None or not model.actuator_delay[a])
        least, most = -math.inf, math.inf
        if plain and model.actuator_ctrllimited[control]:
            gain = float(model.actuator_gainprm[a, 0])
            # A negative gain exchanges the ends.
            least, most = sorted(float(x) * gain for x in model.actuator_ctrlrange[control])
        if model.actuator_forcelimited[a]:
            low, high = (float(x) for x in model.actuator_forcerange[a])
            least, most = max(least, low), min(most, high)
        return _Actuator(a, name, f"actuator {name or a!r}", least, most, plain)

    def actuator_terms(self, joint: int) -> tuple[float, float]:
        """(damping, armature) that the actuators of a joint add to it."""
        model, damping, armature = self.model, 0.0, 0.0
        for each in self._on_joints.get(joint, ()):
            # A damper and an inertia on the actuator's side of a gear act on the joint with the gear's square.
            square = float(model.actuator_gear[each.index, 0]) ** 2
            if model.actuator_damping is not None:
                damping += float(model.actuator_damping[each.index]) * square
                armature += float(model.actuator_armature[each.index]) * square
        return damping, armature

    def effort(self, joint: int) -> float:
        """The most that the actuators of a joint give, N or N m; their laws are reported as lost."""
        model, total = self.model, 0.0
        for each in self._on_joints.get(joint, ()):
            gear = float(model.actuator_gear[each.index, 0])
            size = max(-each.least, each.most)
            # Without the branch infinite force times no gear would be NaN.
            total += size * abs(gear) if gear else 0.0
            if not each.plain:
                kept = "; its largest force is kept" if math.isfinite(size) else ""
                self.losses.add(each.place, f"its control law is left out{kept}")
            elif math.isfinite(size) and each.least != -each.most:
                self.losses.add(each.place, _UNEVEN)
        # Without an actuator the file states no bound.
        if joint not in self._on_joints:
            total = math.inf
        if model.jnt_actfrclimited[joint]:
            low, high = (float(x) for x in model.jnt_actfrcrange[joint])
            if low != -high:
                name = model.name("jnt", joint) or joint
                self.losses.add(f"joint {name!r}", _UNEVEN)
            total = min(total, max(-low, high))
        return total

    def thrusters(self, sites: dict[int, tuple[str, Pose]]) -> tuple[list[Thruster], set[int]]:
        """Actuators that push at a site; also the sites that serve nothing else. Other actuators are reported."""
        model, thrusters, used = self.model, [], set()
        taken = {each.name for each in self.actuators}
        for each in self.actuators:
            a, site = each.index, int(model.actuator_trnid[each.index, 0])
            kind, gear = model.actuator_trntype[a], model.actuator_gear[a]
            if kind in _ON_JOINT and model.jnt_type[site] >= _SLIDE:
                if int(model.jnt_bodyid[site]) not in self.inside:
                    self.losses.add(each.place, "is not on the robot, and is left out")
                continue
            if kind != _ON_SITE or model.actuator_trnid[a, 1] >= 0 or np.abs(gear[:3]).max() < _NO_GEAR:
                self.losses.add(each.place, "pushes neither a joint nor at a site, and is left out")
                continue
            if site not in sites:
                self.losses.add(each.place, "is not on the robot, and is left out")
                continue
            if not (math.isfinite(each.least) and math.isfinite(each.most)):
                self.losses.add(each.place, "has no largest force, as a thruster must, and is left out")
                continue
            self._report_thruster_losses(each, gear)
            name = each.name or free_name(f"thruster{a}", taken)
            with error_context(each.place, fallback=True):
                thrusters += self._make_thrusters(each, name, *sites[site], gear=gear[:3], taken=taken)
            # Such sites were written by spacearm's own export for its thruster: as frames they would multiply with each
            # round trip.
            if model.name("site", site).startswith(f"{name}.thruster"):
                used.add(site)
        return thrusters, used

    def _report_thruster_losses(self, actuator: _Actuator, gear: Array) -> None:
        if np.any(gear[3:]):
            self.losses.add(actuator.place, "the torque beside its thrust is left out")
        if not actuator.plain:
            self.losses.add(actuator.place, "its control law is left out; its largest force is kept")
        if actuator.least > 0.0 or actuator.most < 0.0:
            self.losses.add(actuator.place, "never shuts off in the file; its smallest force is left out")

    def _make_thrusters(
        self, actuator: _Actuator, name: str, body: str, place: Pose, *, gear: Array, taken: set[str]
    ) -> list[Thruster]:
        """One thruster, or one for each way."""
        length = float(np.linalg.norm(gear))
        if abs(length - 1.0) < 1e-12:  # a unit vector but for rounding: the force is the control itself
            length = 1.0
        direction = place.rotation @ (gear / length)
        forces = [(1.0, actuator.most)] if actuator.most > 0.0 else []
        if actuator.least < 0.0:
            forces.append((-1.0, -actuator.least))
        made = []
        for index, (sign, force) in enumerate(forces or [(1.0, 0.0)]):
            own = name if index == 0 else free_name(f"{name}.reverse", taken)
            made.append(Thruster(own, body, place.translation, sign * direction, force * length))
        if len(made) == 2:
            self.losses.add(actuator.place, "pushes both ways and becomes two thrusters")
        return made

    # -- tendons and equality constraints ----------------------------------------------------------------------------

    def couplings(self, names: dict[int, str]) -> list[Coupling]:
        """Fixed tendons over two joints; ``names`` are the robot's joints of one degree of freedom."""
        return [each for t in range(self.model.ntendon) if (each := self._tendon_coupling(t, names)) is not None]

    def _tendon_coupling(self, t: int, names: dict[int, str]) -> Coupling | None:
        model, name = self.model, self.model.name("tendon", t) or f"tendon{t}"
        place = f"tendon {name!r}"
        stiffness = 0.0 if model.off_spring else float(model.tendon_stiffness[t])
        damping = 0.0 if model.off_damper else float(model.tendon_damping[t])
        self._report_tendon_losses(t, place)
        if not stiffness and not damping:
            return None  # it only measures, or an actuator pulls at it, which is reported
        parts = range(int(model.tendon_adr[t]), int(model.tendon_adr[t]) + int(model.tendon_num[t]))
        low, high = (float(x) for x in model.tendon_lengthspring[t])
        joints = [int(model.wrap_objid[w]) for w in parts]
        coefficients = [float(model.wrap_prm[w]) for w in parts]
        two = len(joints) == 2 and all(model.wrap_type[w] == _WRAP_JOINT for w in parts)
        if not two or any(j not in names for j in joints) or low != high or not coefficients[0]:
            self.losses.add(place, "is not a spring between two joints, and is left out")
            return None
        first, second = coefficients
        with error_context(place, fallback=True):
            # The tendon's length is a q1 + b q2. Divided by a, the spring acts on q1 + (b / a) q2: stiffness and
            # damping get the square of a, and the coupling's ratio is -b / a.
            return Coupling(
                name,
                names[joints[0]],
                names[joints[1]],
                stiffness * first**2,
                damping * first**2,
                -second / first,
                low / first,
            )

    def _report_tendon_losses(self, t: int, place: str) -> None:
        model = self.model
        for key in ("tendon_stiffnesspoly", "tendon_dampingpoly", "tendon_springyield"):
            if getattr(model, key) is not None and np.any(getattr(model, key)[t]):
                self.losses.add(place, "the non-linear part of its spring or damper is left out")
        if model.tendon_limited[t] and not model.off_limit:
            self.losses.add(place, "its length limits are left out")
        if model.tendon_frictionloss[t] and not model.off_frictionloss:
            self.losses.add(place, "its dry friction is left out")
        if model.tendon_armature is not None and model.tendon_armature[t]:
            self.losses.add(place, "its armature is left out")

    def constraints(
        self,
        names: dict[int, str],
        place_on: Callable[[int], tuple[str, Pose]],
        sites: dict[int, tuple[str, Pose]],
        known: dict[int, str],
    ) -> tuple[list[Loop], list[Frame], list[Mimic]]:
        """Equality constraints as loops, with the frames that they join, and as joints that follow others.

        Args:
            names: the robot's joints of one degree of freedom.
            place_on: body of the model to the robot's body and the model's frame in it.
            sites: places of the robot's sites.
            known: names of the frames that sites have become.
        """
        model, mimics = self.model, dict[int, Mimic]()
        loops, frames = list[Loop](), list[Frame]()
        taken = {model.name("body", i) for i in range(model.nbody)} | {
            model.name("site", s) for s in range(model.nsite)
        }
        for e in range(0 if model.off_equality else model.neq):
            kind, name = int(model.eq_type[e]), model.name("eq", e)
            place, what = f"equality {name or e!r}", _EQUALITIES[kind] if kind < len(_EQUALITIES) else "other"
            one, two = int(model.eq_obj1id[e]), int(model.eq_obj2id[e])
            data = model.eq_data[e]
            if model.eq_active0 is not None and not model.eq_active0[e]:
                self.losses.add(place, "is inactive in the file, and is left out")
                continue
            if kind == _EQ_JOINT and two >= 0 and not np.any(data[2:5]) and {one, two} <= names.keys():
                if data[1] != 0.0 and one not in mimics and one != two:
                    at = [float(model.qpos0[int(model.jnt_qposadr[j])]) for j in (one, two)]
                    offset, ratio = float(data[0]), float(data[1])
                    # MuJoCo's polynomial relates differences from the reference positions qpos0, ours the positions
                    # themselves.
                    mimics[one] = Mimic(names[one], names[two], ratio, offset + at[0] - ratio * at[1], name)
                    continue
            elif kind in (_EQ_CONNECT, _EQ_WELD):
                ends = self._ends(e, kind, place_on, sites)
                if ends is not None and ends[0][0] != ends[1][0]:
                    own, joined = name or f"equality{e}", list[str]()
                    for letter, which, (body, pose) in zip("ab", (one, two), ends, strict=True):
                        # A site that has become a frame already serves; a second frame at its place would have another
                        # name only.
                        if int(model.eq_objtype[e]) == _SITE and which in known:
                            joined.append(known[which])
                            continue
                        joined.append(free_name(f"{own}.{letter}", taken))
                        frames.append(Frame(joined[-1], body, pose))
                    loops.append(Loop(own, "weld" if kind == _EQ_WELD else "point", joined[0], joined[1]))
                    continue
                self.losses.add(place, f"the {what} constraint does not join two bodies of the robot, and is left out")
                continue
            if kind == _EQ_JOINT and int(model.jnt_bodyid[one]) not in self.inside:
                self.losses.add(place, "is not on the robot, and is left out")
                continue
            self.losses.add(place, f"the {what} constraint is left out")
        return loops, frames, list(mimics.values())

    def _ends(
        self, e: int, kind: int, place_on: Callable[[int], tuple[str, Pose]], sites: dict[int, tuple[str, Pose]]
    ) -> list[tuple[str, Pose]] | None:
        """The frames that a connect or weld constraint joins, on the robot's bodies; None if they are not on it."""
        model, data = self.model, self.model.eq_data[e]
        ids = int(model.eq_obj1id[e]), int(model.eq_obj2id[e])
        if int(model.eq_objtype[e]) == _SITE:
            return [sites[s] for s in ids] if all(s in sites for s in ids) else None
        if not all(i in self.inside for i in ids):
            return None
        (one, first), (two, second) = map(place_on, ids)
        if kind == _EQ_CONNECT:
            return [(one, first @ Pose(translation=data[:3])), (two, second @ Pose(translation=data[3:6]))]
        # MuJoCo joins the anchor of the second body to the point of the first that ``relpose`` gives, whatever its
        # reference says of the origin of the second body.
        relative = Pose(rotation_from_quaternion(data[6:10]), data[3:6])
        return [(one, first @ relative), (two, second @ Pose(translation=data[:3]))]

    # -- keyframes and the rest --------------------------------------------------------------------------------------

    def configurations(self, positions: Callable[[Array], dict[str, float]]) -> dict[str, dict[str, float]]:
        """Keyframes, by name; ``positions`` makes joint positions of MuJoCo's."""
        model, found = self.model, {}
        taken = {model.name("key", k) for k in range(model.nkey)} | {"zero"}
        for k in range(model.nkey):
            name = model.name("key", k)
            values = positions(model.key_qpos[k])
            # The name zero is taken in every robot: all joints at zero.
            if not name or (name == "zero" and any(values.values())):
                name = free_name(f"key{k}" if not name else f"{name}.key", taken)
            found[name] = values
            place = f"keyframe {name!r}"
            for key, what in (("qvel", "velocities"), ("act", "activations"), ("ctrl", "controls")):
                rest = getattr(model, f"key_{key}")
                if rest is not None and np.any(rest[k]):
                    self.losses.add(place, f"its {what} are left out")
            if self._moves_base(model.key_qpos[k]):
                self.losses.add(place, "where it places free bodies is left out")
        return found

    def _moves_base(self, qpos: Array) -> bool:
        """Whether a keyframe places a free body elsewhere than at the world's origin or where the file draws it."""
        model = self.model
        for j in range(model.njnt):
            start = int(model.jnt_qposadr[j])
            if model.jnt_type[j] == _FREE and not any(
                np.array_equal(qpos[start : start + 7], other)
                for other in (model.qpos0[start : start + 7], [0, 0, 0, 1, 0, 0, 0])
            ):
                return True
        return False

    def report_other_losses(self) -> None:
        """What acts in MuJoCo and has no place in spacearm."""
        model = self.model
        for body in sorted(self.inside):
            if model.body_gravcomp is not None and model.body_gravcomp[body]:
                name = model.name("body", body) or body
                self.losses.add(f"body {name!r}", "gravity compensation is left out: there is no gravity")
        if model.opt_density or model.opt_viscosity:
            self.losses.add("option", "the density and viscosity of a medium are left out: there is none in space")
        if not model.off_contact:
            on_robot = np.isin(model.geom_bodyid, sorted(self.inside))
            # Both masks zero: the shape is drawn and touches nothing, so nothing is lost.
            shapes = int(np.count_nonzero(on_robot & ((model.geom_contype | model.geom_conaffinity) != 0)))
            counts = {"shape": shapes, "pair": int(model.npair), "exclude": int(model.nexclude)}
            shown = ", ".join(f"{count} {what}{'s' * (count > 1)}" for what, count in counts.items() if count)
            if shown:
                self.losses.add(f"contact ({shown})", "the forces of contacts are left out: give a run a Contact")
