"""Control laws in a scenario file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import PrivateAttr, model_validator

from spacearm import control
from spacearm.checks import known
from spacearm.engine.mechanics import mechanics_of
from spacearm.errors import InputError
from spacearm.model import Robot
from spacearm.model.document import at
from spacearm.model.rotations import quaternion_from_rotation
from spacearm.model.toml_schema import Name, Number, Vector3, Vector4
from spacearm.motion.own_laws import own_law
from spacearm.simulate import Signal, State, constant
from spacearm.study import Table, key
from spacearm.study.signal_tables import SignalKey, SignalTable, not_an_angle


class ModulationTable(Table):
    """How thrusters give a part of their force: in pulses on the law's ticks."""

    uses: ClassVar = {"pulse_width": ("window",), "pulse_width_frequency": ("gain", "time_constant", "on", "off")}

    kind: Literal["pulse_width", "pulse_width_frequency"]
    window: Number | None = key(None, "s from pulse to pulse, a whole number of the law's periods")
    gain: Number = key(4.5, "of the filter before the trigger")
    time_constant: Number = key(0.15, "s, of that filter")
    on: Number = key(0.45, "where the trigger goes on")
    off: Number = key(0.15, "where it goes off")

    def make(self) -> control.PulseWidth | control.PulseWidthFrequency:
        if self.kind == "pulse_width_frequency":
            return control.PulseWidthFrequency(self.gain, self.time_constant, self.on, self.off)
        if self.window is None:
            raise InputError("'window' is missing", place="modulation")
        return control.PulseWidth(self.window)


_TIMED = ("period", "delay", "continuous", "sensors", "system")
_HAND = (*_TIMED, "plan", "frame", "reference", "attitude", "axis", "turn", "joints")


#: One for all joints, or by their names.
Gain = Number | dict[str, Number]


class LawTable(Table):
    """A control law; see the page on closed loops."""

    uses: ClassVar = {
        "joint_pid": (*_TIMED, "plan", "reference", "stiffness", "damping", "integral"),
        "computed_torque": (*_TIMED, "plan", "reference", "stiffness", "damping", "held"),
        "resolved_rate": (*_HAND, "gain", "rate_gain", "jacobian"),
        "resolved_acceleration": (*_HAND, "stiffness", "damping", "jacobian"),
        "impedance": (*_HAND, "mass", "stiffness", "damping"),
        "coordinated": (
            *_HAND, "stiffness", "damping", "centre", "centre_stiffness", "centre_damping", "momentum_gain",
        ),
        "reaction_null_space": (*_TIMED, "rates", "gain"),
        "attitude_by_wheels": (*_TIMED, "target", "stiffness", "damping", "wheels"),
        "attitude_by_thrusters": (
            "period", "delay", "sensors", "system", "target", "dead_band", "rate_gain", "thrusters", "modulation",
        ),
        "detumble": (*_TIMED, "torque"),
        "python": (*_TIMED, "python", "reference", "numbers"),
    }  # fmt: skip

    kind: Literal[
        "joint_pid",
        "computed_torque",
        "resolved_rate",
        "resolved_acceleration",
        "impedance",
        "coordinated",
        "reaction_null_space",
        "attitude_by_wheels",
        "attitude_by_thrusters",
        "detumble",
        "python",
    ]
    python: str | None = key(None, "`file.py:function` beside the scenario, called with a Plant; its code is run")
    numbers: dict[str, Number | list[Number]] = key({}, "name = numbers that it asks for: `plant.constant(name)`")
    system: Name | None = key(None, "whose law it is; the scenario's robot where left out")
    period: Number = key(0.01, "s between ticks; commands are held between them")
    delay: Number = key(0.0, "s from tick to action, a whole number of periods")
    continuous: bool = key(False, "asked at all times, in place of ticks")
    sensors: list[Name] | None = key(None, "that it reads; all where left out")
    plan: Name | None = key(None, "plan that its joints (but for held ones) or its frame follow")
    reference: dict[str, SignalKey] = key(
        {}, "path that it follows: of each joint of the law, or of the frame's x, y, z (m, world)"
    )
    held: list[Name] = key([], "further joints that do not move, beside those that the phase locks")
    frame: Name | None = key(None, "that a law at the hand moves; axes without a path stay where they are at time zero")
    attitude: Literal["hold", "free"] = key(
        "hold", "of that frame: the plan's, as at time zero without one; or whatever it becomes"
    )
    axis: Vector3 = key([0.0, 0.0, 1.0], "about which the frame turns, world")
    turn: SignalKey | None = key(None, "angle by which the frame turns about that axis")
    joints: list[Name] | None = key(None, "that move the frame; all but reaction wheels where left out")
    jacobian: Literal["generalized", "fixed-base"] = key("generalized")
    stiffness: Gain | None = key(
        None,
        "N m/rad or N/m; of computed_torque, resolved_acceleration, coordinated 1/s2; also joint = gain",
    )
    damping: Gain | None = key(
        None, "N m s/rad or N s/m; of computed_torque, resolved_acceleration, coordinated 1/s; the same"
    )
    mass: Number | None = key(None, "of an impedance, kg or kg m2; with a force/torque sensor at its frame, exactly so")
    integral: Gain = key(0.0, "N m/(rad s) or N/(m s); also joint = gain")
    gain: Number = key(1.0, "1/s")
    rates: dict[str, SignalKey] = key({}, "joint = wished rate; all joints but reaction wheels, 0 where left out")
    centre: dict[str, SignalKey] = key({}, "path of the mass centre's x, y, z, m, world")
    centre_stiffness: Number | None = key(None, "1/s2")
    centre_damping: Number | None = key(None, "1/s")
    momentum_gain: Number | None = key(None, "1/s, with which angular momentum is taken away")
    target: Vector4 = key([1.0, 0.0, 0.0, 0.0], "attitude of the base: quaternion w, x, y, z")
    wheels: list[Name] | None = key(None, "reaction wheels that it uses; all where left out")
    thrusters: list[Name] | None = key(None, "thrusters that it uses; all where left out")
    dead_band: Number | None = key(None, "rad; with a modulation, where the torque is the greatest")
    modulation: ModulationTable | None = key(
        None, "of thrusters: in pulses, in place of on and off by a switching line"
    )
    rate_gain: Number | None = key(None, "of thrusters, s; of resolved_rate, 1/s")
    torque: Number | None = key(None, "N m")
    _planned: control.HandPath | None = PrivateAttr(None)

    def following(self, path: control.HandPath) -> LawTable:
        """The same at the hand, along the path of a plan but for what it says itself."""
        table = self.model_copy()
        table._planned = path
        return table

    @model_validator(mode="before")
    @classmethod
    def _kind_of_code(cls, given: Any) -> Any:
        """``python = ...`` needs no kind."""
        return {"kind": "python", **given} if isinstance(given, dict) and "python" in given else given

    def of(
        self,
        robot: Robot,
        start: State,
        sensors: Mapping[str, control.Sensor],
        seed: int,
        others: Mapping[str, tuple[Robot, State]] | None = None,
        folder: Path = Path(),
    ) -> control.Law:
        """The law of this robot, or of one of the others; both are here at time zero."""
        name = robot.name
        if self.system is not None:
            systems = {robot.name: (robot, start), **(others or {})}
            name = known(self.system, systems, "system", place="system")
            robot, start = systems[name]
            if self.plan is not None and name in (others or {}):
                raise InputError("plans are of the scenario's robot", place="plan", hint="give 'reference'")
        chosen = sensors if self.sensors is None else self.sensors
        read = [sensors[known(name, sensors, "sensor", place="sensors")] for name in chosen]
        settings: dict[str, Any] = {"period": None if self.continuous else self.period, "name": self.kind}
        settings |= {"system": name, "sensors": read, "seed": seed} | ({"delay": self.delay} if self.delay else {})
        if self.kind == "python":
            return self._own_law(folder, settings)
        if self.kind not in ("joint_pid", "computed_torque"):
            for gain in ("stiffness", "damping"):
                if isinstance(getattr(self, gain), dict):
                    raise InputError(f"is by joint, which {self.kind} is not", place=gain, hint="expected a number")
        if "frame" in self.uses[self.kind]:
            return self._hand_law(robot, start, settings)
        if self.kind in ("joint_pid", "computed_torque", "reaction_null_space"):
            return self._joint_law(robot, settings)
        if self.kind == "attitude_by_wheels":
            gains = self._needed("stiffness", "damping")
            return control.attitude_by_wheels(self.target, **gains, wheels=self.wheels, **settings)
        if self.kind == "attitude_by_thrusters":
            gains = self._needed("dead_band", "rate_gain")
            settings |= {"thrusters": self.thrusters, "modulation": self.modulation and self.modulation.make()}
            return control.attitude_by_thrusters(robot, self.target, **gains, **settings)
        return control.detumble(**self._needed("torque"), **settings)

    def _needed(self, *names: str) -> dict[str, Any]:
        for name in names:
            if getattr(self, name) is None:
                raise InputError(f"{name!r} is missing")
        return {name: getattr(self, name) for name in names}

    def _joint_law(self, robot: Robot, settings: dict[str, Any]) -> control.Law:
        if self.kind == "reaction_null_space":
            names = [name for name in robot.joint_names if name not in robot.wheel_names]
            for name in self.rates:
                known(name, names, "joint", of=robot.name, place="rates")
            given = {name: path.of(f"rates.{name}", not_an_angle(robot, name)) for name, path in self.rates.items()}
            wished = [given.get(name, constant(0.0)) for name in names]
            return control.reaction_null_space(wished, self.gain, **settings)
        gains = self._needed("stiffness", "damping")
        joints = [robot.joint(name).name for name in self.reference]
        if not joints:
            raise InputError("'reference' is missing", hint="expected joint = path")
        paths = [path.of(f"reference.{name}", not_an_angle(robot, name)) for name, path in self.reference.items()]
        gains = {name: self._by_joint(name, joints) for name in gains}
        if self.kind == "computed_torque":
            return control.computed_torque(paths, **gains, joints=joints, held=self.held, **settings)
        integral = self._by_joint("integral", joints)
        return control.joint_pid(paths, **gains, integral=integral, joints=joints, **settings)

    def _by_joint(self, name: str, joints: Sequence[str]) -> Any:
        """A gain for all joints, or a list of one for each."""
        given = getattr(self, name)
        if not isinstance(given, dict):
            return given
        for joint in given:
            known(joint, joints, "joint with a reference", place=name)
        for joint in joints:
            if joint not in given:
                raise InputError(
                    f"{joint!r} is missing", place=name, hint="expected one for each joint with a reference"
                )
        return [given[joint] for joint in joints]

    def _own_law(self, folder: Path, settings: dict[str, Any]) -> control.Law:
        with at("python"):
            build = own_law(self._needed("python")["python"], folder)
        paths = {name: path.of(f"reference.{name}") for name, path in self.reference.items()}
        numbers = {name: np.atleast_1d(given) for name, given in self.numbers.items()}
        return control.Law(build, references=paths, constants=numbers, **(settings | {"name": self.python}))

    def joints_of(self, robot: Robot) -> set[str] | None:
        """Joints of this robot that the law commands; None where only its program says."""
        arm = {name for name in robot.joint_names if name not in robot.wheel_names}
        if self.kind in ("joint_pid", "computed_torque"):
            return {*self.reference}
        if "frame" in self.uses[self.kind]:
            return arm if self.joints is None else {*self.joints}
        return {"reaction_null_space": arm, "python": None}.get(self.kind, set())

    def _hand_law(self, robot: Robot, start: State, settings: dict[str, Any]) -> control.Law:
        frame = self._needed("frame")["frame"]
        robot.frame(frame)
        mechanics = mechanics_of(robot)
        origin, rotation = mechanics.frame_pose(frame, start.joints, base=start.pose)
        attitude: control.Turning | control.AttitudeSpline | None = None
        planned = self._planned
        if self.attitude == "hold" and planned is not None and self.turn is None:
            attitude = planned.attitude
        elif self.attitude == "hold":
            angle = constant(0.0) if self.turn is None else self.turn.of("turn")
            attitude = control.Turning(quaternion_from_rotation(rotation), self.axis, angle)
        elif self.turn is not None:
            raise InputError("'turn' needs attitude = \"hold\"")
        paths = _path(self.reference, "reference", [*map(constant, origin)] if planned is None else planned.position)
        place: dict[str, Any] = {"frame": frame, "position": paths, "attitude": attitude}
        settings |= {"joints": self.joints}
        if self.kind == "resolved_rate":
            fast = 10.0 if self.rate_gain is None else self.rate_gain
            settings |= {"gain": self.gain, "rate_gain": fast, "jacobian": self.jacobian}
            return control.resolved_rate(**place, **settings)
        gains = self._needed("stiffness", "damping")
        if self.kind == "resolved_acceleration":
            return control.resolved_acceleration(**place, **gains, jacobian=self.jacobian, **settings)
        if self.kind == "impedance":
            feels = any(isinstance(s, control.ForceTorque) and s.frame == frame for s in settings["sensors"])
            force: Literal["measured"] | None = "measured" if feels else None
            return control.impedance(**place, **gains, **self._needed("mass"), force=force, **settings)
        middle = mechanics.centre_of_mass(start.joints, base=start.pose)
        centre = _path(self.centre, "centre", [*map(constant, middle)])
        gains |= self._needed("centre_stiffness", "centre_damping", "momentum_gain")
        return control.coordinated(**place, centre=centre, **gains, **settings)


def _path(given: Mapping[str, SignalTable], what: str, others: Sequence[Signal]) -> list[Signal]:
    """Paths of x, y, z, as given or else the others."""
    for name in given:
        known(name, "xyz", "axis", place=what)
    return [
        given[axis].of(f"{what}.{axis}", "a length has no degrees") if axis in given else others[k]
        for k, axis in enumerate("xyz")
    ]
