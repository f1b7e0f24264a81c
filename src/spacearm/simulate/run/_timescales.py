"""Time scales of springs, dampers and motion that a method must resolve, known before the run.

With the inverse W of the inertia of all free degrees of freedom, dampers d_k along the directions s_k decay at the
eigenvalues of W sum(d_k s_k s_k^T), and springs oscillate at the roots of the same with their stiffnesses.

These are linear estimates at the state where a phase begins, for a budget of steps, for warnings and for the reason of
a failure; they do not control the step. Rates are 1/s (dampers) or rad/s. Limits of stability are those of the methods
on the real and the imaginary axis (E. Hairer and G. Wanner, Solving Ordinary Differential Equations II, section IV.2).
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from spacearm.errors import InputError
from spacearm.simulate.contact import ContactElement
from spacearm.simulate.methods import RK4, Dopri853, Method
from spacearm.simulate.motion import WorldMotion
from spacearm.simulate.run.prepare import PreparedPhase
from spacearm.simulate.world import World
from spacearm.typing import Array

#: Of each system: see ``spacearm.simulate.overrides.PARAMETERS``.
Parameters: TypeAlias = Sequence[Mapping[str, Array]]
#: Stability limits, step times rate: RK4 for a damper and for a spring, and DOP853 for a damper.
STABLE_RK4 = (2.78, 2.82)
STABLE_DOP853 = 6.3
#: A run that may take more steps than this because of one spring or damper is warned of.
MANY_STEPS = 50_000
#: Steps of the adaptive method permitted per run, per second, and per edge of a signal.
FREE_STEPS, STEPS_PER_SECOND, STEPS_PER_EDGE = 100_000, 100, 50
#: Multiple of the steps that the initial time scales need: they may become faster.
AMPLE = 10
#: Largest budgets: for the motion, for springs and dampers (which are reported before the run), for a given step.
MOST_STEPS, MOST_STIFF, MOST_GIVEN = 250_000, 10_000_000, 10_000_000
#: Computing time, s, that a run may take unless its number of steps is given.
LONGEST_RUN = 60.0
#: Approximate time, s, of a step, and of an instruction of the motion's program in each of its stages.
STEP_TIME, INSTRUCTION_TIME = 3e-6, 0.6e-9
#: Where events of force elements are looked for within each step, it takes about so many times as long.
WATCHING = 3.0
#: Steps per radian of a contact's oscillation in an impact, additional ones permitted in a run with contacts, and the
#: number that a persistently oscillating contact may need before that is reported.
CONTACT_STEPS, BLOWS, LONG_SWING = 3.0, 400_000, 10_000_000


@dataclass(frozen=True)
class TimeScale:
    """A rate and its owner: decay of a damper (1/s), frequency of a spring or angular velocity (rad/s)."""

    kind: Literal["damper", "spring", "motion", "contact"]
    rate: float
    owner: str = ""

    @property
    def text(self) -> str:
        """The rate as text."""
        if self.kind == "damper":
            return f"the damper of {self.owner} has a time constant of {1.0 / self.rate:.2g} s"
        if self.kind == "spring":
            return f"the spring of {self.owner} oscillates at {self.rate:.2g} rad/s"
        if self.kind == "contact":
            return f"contact {self.owner} needs steps of {1.0 / (CONTACT_STEPS * self.rate):.2g} s in an impact"
        return f"{self.owner} rotates at {self.rate:.2g} rad/s"


@dataclass(frozen=True)
class TimeScales:
    """The fastest of each kind; of the motion, only rotations."""

    damper: TimeScale
    spring: TimeScale
    motion: TimeScale
    contact: TimeScale = TimeScale("contact", 0.0)

    @property
    def fastest(self) -> TimeScale:
        """The fastest, except contacts, which are usually open."""
        return max(self.damper, self.spring, self.motion, key=lambda scale: scale.rate)


def inverse_inertia(model: WorldMotion, parameters: Parameters, state: Array, driven: Sequence[int]) -> Array:
    """Accelerations (nv, nv) of the free degrees of freedom under unit forces, at rest and without passive forces."""
    code, inputs = model.code, model.kernel.inputs
    inp, out = model.input(parameters), np.zeros(model.kernel.n_out)
    # Without passive forces and at zero velocity the acceleration is W times the force: unit forces give its columns.
    for name in ("stiffness", "damping", "coupling"):
        inp[inputs[name]] = 0.0
    inp[: code.nx] = state
    inp[code.speed] = 0.0
    inp[code.mode + np.asarray(driven, dtype=np.int64)] = 1.0
    kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(code.address)
    result = np.zeros((code.speed.size, code.speed.size))
    given, found = inp.ctypes.data, out.ctypes.data
    for j in range(code.speed.size):
        inp[inputs["force"].start + j] = 1.0
        kernel(given, found)
        inp[inputs["force"].start + j] = 0.0
        # W is symmetric: a column may be stored as a row.
        result[j] = out[code.speed]
    return result


def _fastest(inverse: Array, name: Callable[[int], str], directions: Array, sizes: Array) -> tuple[float, str]:
    """Largest eigenvalue of ``inverse @ sum(size * s s^T)`` and the part that contributes most to it."""
    chosen = np.flatnonzero(sizes)
    if not chosen.size:
        return 0.0, ""
    # W D is not symmetric, but sqrt(d) S W S^T sqrt(d) is, and has the same eigenvalues other than zero.
    roots = np.sqrt(np.abs(sizes[chosen]))
    table = roots[:, None] * (directions[chosen] @ inverse @ directions[chosen].T) * roots
    if not np.all(np.isfinite(table)):  # a free degree of freedom without inertia, which friction may hold
        return 0.0, ""
    values, vectors = np.linalg.eigh(0.5 * (table + table.T))
    return max(float(values[-1]), 0.0), name(int(chosen[np.argmax(np.abs(vectors[:, -1]))]))


def contact_scales(
    model: WorldMotion, world: World, parameters: Parameters, state: Array, driven: Sequence[int] = ()
) -> dict[str, TimeScale]:
    """Oscillation rate of each place of contact with the effective mass in a flat state; for Hertz contacts at 1 um
    depth.
    """
    elements = model.elements
    touching = [element for element in world.elements if isinstance(element, ContactElement)]
    if elements is None or not touching:
        return {}
    speed = model.code.speed
    states = np.tile(state, (speed.size, 1))
    # Closing speed is linear in the velocities: unit velocities give the contact normal in generalised coordinates, J.
    states[:, speed] = np.eye(speed.size)
    memory = np.tile(elements.memory, (speed.size, 1))
    seen = elements.observations(world, states, np.zeros(speed.size), memory)
    inverse = inverse_inertia(model, parameters, state, driven)
    found = {}
    for element in touching:
        for place in element.places(world):
            row = seen[f"{place}.closing"]
            # J W J^T: inverse of the effective mass that an impulse along the normal meets.
            mobility = float(row @ inverse @ row)
            if not (np.isfinite(mobility) and mobility > 0.0):
                continue
            # Hertz: dF/dx = 1.5 k sqrt(x), with x = 1e-6 m.
            stiffness = element.stiffness * (1.0 if element.law == "linear" else 1.5e-3)
            rate = math.sqrt(stiffness * mobility)
            unit = "N/m" if element.unit == "m" else "N m/rad or N/m"
            mass = f"{1.0 / mobility:.3g} {'kg' if element.unit == 'm' else 'kg m2 or kg'}"
            text = f"{place!r} (stiffness {stiffness:.3g} {unit} on {mass}: period {2.0 * math.pi / rate:.2g} s)"
            found[place] = TimeScale("contact", rate, text)
    return found


def time_scales(model: WorldMotion, parameters: Parameters, state: Array, driven: Sequence[int] = ()) -> TimeScales:
    """The time scales of a world in a flat state, with the driven degrees of freedom held."""
    nv = len(model.dof_names)
    inverse = inverse_inertia(model, parameters, state, driven)
    couples: list[str] = []

    def name(index: int) -> str:
        if index >= nv:
            return f"coupling {couples[index - nv]!r}"
        return f"joint {model.dof_names[index]!r}" if model.positions[index] >= 0 else repr(model.dof_names[index])

    # Each joint is a direction of its own; couplings act on the difference of two joints and come behind.
    rows, sizes = [np.eye(nv)], np.zeros((2, 0))
    for own in parameters:
        passive = [own["damping"], np.concatenate([np.zeros(6), own["stiffness"]])]
        sizes = np.concatenate([sizes, passive], axis=1)
    for part, own in zip(model.parts, parameters, strict=True):
        robot, couplings = part.motion.robot, own["coupling"].reshape(-1, 4)
        directions = np.zeros((len(couplings), nv))
        for row, coupling, (_, _, ratio, _) in zip(directions, robot.couplings, couplings, strict=True):
            row[part.dofs.start + robot.dof_index(coupling.first)] = 1.0
            row[part.dofs.start + robot.dof_index(coupling.second)] = -ratio
            couples.append(coupling.name)
        rows.append(directions)
        sizes = np.concatenate([sizes, couplings[:, [1, 0]].T], axis=1)
    # Without the bodies' velocities and with all dampers (or all springs) at once: two parts that share a light body
    # are faster together than each alone.
    every = np.concatenate(rows)
    damper, spring = (_fastest(inverse, name, every, size) for size in sizes)
    rotating = [i for i, joint in model.joints if joint.kind == "revolute"]
    rotating += [part.dofs.start + i for part in model.parts for i in (3, 4, 5)]
    speeds = np.zeros(nv)
    speeds[rotating] = np.abs(state[model.code.speed[rotating]])
    quickest = int(np.argmax(speeds))
    return TimeScales(
        TimeScale("damper", *damper),
        TimeScale("spring", math.sqrt(spring[0]), spring[1]),
        TimeScale("motion", float(speeds[quickest]), name(quickest)),
    )


def stiffness_warnings(method: Method, prepared: Sequence[PreparedPhase], scales: Sequence[TimeScales]) -> list[str]:
    """Warnings of parts so fast that the method diverges, or needs very many steps, in each phase; once per part."""
    notes: dict[str, str] = {}
    for phase, found in zip(prepared, scales, strict=True):
        for scale, stable in ((found.damper, STABLE_RK4[0]), (found.spring, STABLE_RK4[1])):
            text = ""
            if isinstance(method, RK4):
                if method.step * scale.rate > stable:
                    text = (
                        f"RK4 with steps of {method.step:g} s diverges, it needs less than {stable / scale.rate:.2g} s"
                    )
            else:
                steps = float(phase.phase.duration) * scale.rate * steps_per_radian(method, scale)
                if steps > MANY_STEPS:
                    text = f"the explicit method may need {steps:.2g} steps for {phase.phase.duration:g} s"
            if text:
                # Once for each part: the same spring is usually too fast in every phase.
                hint = f"lock it, lower its {'damping' if scale.kind == 'damper' else 'stiffness'}, or add inertia"
                notes.setdefault(scale.kind + scale.owner, f"{phase.place}: {scale.text}; {text} ({hint})")
        steps = float(phase.phase.duration) * found.contact.rate * CONTACT_STEPS
        if steps > LONG_SWING and not isinstance(method, RK4):
            text = f"if it keeps oscillating, {phase.phase.duration:g} s take {steps:.2g} steps, and the run ends early"
            notes.setdefault("contact", f"{phase.place}: {found.contact.text}; {text} (lower its stiffness)")
    return list(notes.values())


def steps_per_radian(method: Dopri853, scale: TimeScale) -> float:
    """Steps of DOP853 for each unit of rate times duration: for stability with a damper, else for accuracy."""
    # Error of order 8: the step grows with the eighth root of the tolerance (2.8 steps for each radian at 1e-10).
    return 1.0 / STABLE_DOP853 if scale.kind == "damper" else 2.8 * (1e-10 / method.rtol) ** 0.125


def step_budget(method: Method, prepared: Sequence[PreparedPhase], scales: Sequence[TimeScales]) -> int:
    """Largest number of steps of a run: many times the number expected from its duration and time scales."""
    usual, stiff, given = float(FREE_STEPS), 0.0, 0.0
    for phase, found in zip(prepared, scales, strict=True):
        duration, edges = float(phase.phase.duration), phase.signals.breaks.size
        ticks = 0 if phase.law is None else phase.law.ticks
        if isinstance(method, RK4):
            given += duration / method.step + 2 * edges + ticks
            continue
        needed = {
            scale.kind: AMPLE * duration * scale.rate * steps_per_radian(method, scale)
            for scale in (found.damper, found.spring, found.motion)
        }
        # The kinds of budget are capped apart, so that a stiff spring cannot use up what the motion needs.
        usual += STEPS_PER_SECOND * duration + STEPS_PER_EDGE * edges + needed["motion"]
        stiff += needed["damper"] + needed["spring"]
        # A law's tick ends a step, and a step from rest to its full length takes several.
        given += duration / method.max_step + AMPLE * ticks
    return int(min(usual, MOST_STEPS) + min(stiff, MOST_STIFF) + min(given, MOST_GIVEN))


def step_time(model: WorldMotion, method: Method) -> float:
    """Approximate computing time of one step, s, from the instructions of the programs of motion and force elements."""
    # DOP853 has twelve stages.
    stages = 4 if isinstance(method, RK4) else 12
    elements = () if model.elements is None else (model.elements.kernel, model.elements.watch)
    count = sum(len(kernel.trace.instructions) for kernel in (model.kernel, *elements) if kernel is not None)
    watching = WATCHING if model.elements is not None and model.elements.watch is not None else 1.0
    return watching * (STEP_TIME + stages * INSTRUCTION_TIME * count)


def check_budget(
    method: Method, model: WorldMotion, prepared: Sequence[PreparedPhase], scales: Sequence[TimeScales], samples: int
) -> None:
    """An error where springs, dampers, ticks of laws or samples make for more work than a run may be unasked.

    Phases that an event may end before their time are left out: how long they last is not known.
    """
    each = step_time(model, method)
    total = 0.1 * samples  # a sample takes about as long as a tenth of a step
    worst = (total, f"there are {samples:.3g} samples", "take fewer")
    for phase, found in zip(prepared, scales, strict=True):
        if phase.ends_early:
            continue
        duration, needs = float(phase.phase.duration), []
        if phase.law is not None and phase.law.ticks:
            law = phase.law.law
            text = f"{law.place} ticks {phase.law.ticks:.3g} times"
            needs.append((float(phase.law.ticks), text, "give it a longer period"))
        if isinstance(method, Dopri853):
            for scale in (own for own in (found.damper, found.spring) if own.rate > 0.0):
                what = "damping" if scale.kind == "damper" else "stiffness"
                steps = duration * scale.rate * steps_per_radian(method, scale)
                needs.append((steps, scale.text, f"lock it, lower its {what}, or add inertia"))
        if needs:
            largest = max(needs)
            total += largest[0]
            worst = max(worst, (largest[0], f"{phase.place}: {largest[1]}", largest[2]))
    if total * each > LONGEST_RUN:
        raise InputError(
            f"the run would take about {total:.2g} steps, {total * each:.2g} s of computing: {worst[1]}",
            place="simulate",
            hint=f"expected at most {LONGEST_RUN:g} s; {worst[2]}, make it shorter, or set max_steps",
        )


def check_step(method: Method, prepared: Sequence[PreparedPhase], most: int) -> None:
    """An error where a given step makes for more steps than a run may take, and no event could end it before."""
    if not isinstance(method, RK4) or any(phase.ends_early for phase in prepared):
        return
    total = sum(float(phase.phase.duration) for phase in prepared)
    if total / method.step > most:
        raise InputError(
            f"steps of {method.step:g} s make {total / method.step:.3g} steps in {total:g} s",
            place="RK4",
            hint=f"expected at most {most}; take a longer step, or set max_steps",
        )


def describe_fastest(scales: TimeScales) -> str:
    """The fastest time scale as text; empty if nothing rotates, oscillates or is damped."""
    fastest = scales.fastest
    return f": {fastest.text}" if fastest.rate else ""
