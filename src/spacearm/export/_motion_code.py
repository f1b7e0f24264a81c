"""The step function of a scenario in C: RK4 with a fixed step, as :mod:`spacearm.engine.solver` takes it.

Signals in time, driven and locked joints, laws, sensors, dry friction, events and joint limits: the algorithm is the
solver's, in ``templates/motion.c``; what is written here are its numbers and tables.

The right-hand side and the laws are printed from the same instruction traces that the machine code is made of, number
literals are exact, and the order of operations is kept: compiled without contraction, C gives spacearm's results to the
last bit, and the exported test checks that. No allocation: sizes are macros, one row of tables for
each phase. Not exported: adaptive steps, event functions and Python laws (no C for them), several systems, and force
elements with memory or events (contacts, stops).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from spacearm.engine.c_source import literal, statements
from spacearm.engine.events import NODES, ROUNDING, TIME_TOLERANCE
from spacearm.engine.friction import SLACK
from spacearm.engine.kernel import Kernel
from spacearm.engine.law import AT_LIMIT, SAME_TICK
from spacearm.engine.noise import AFTER, MOMENTS
from spacearm.engine.solver import BURST_EVENTS, NO_PROGRESS, TOGETHER
from spacearm.errors import InputError
from spacearm.export._c_text import comment
from spacearm.export._motion_tables import (
    define_array,
    define_function,
    join_numbers,
    law_code,
    output_count,
    phase_code,
    template,
)
from spacearm.export._ports import Ports
from spacearm.model import Robot
from spacearm.model.layout import Layout
from spacearm.simulate import RK4, Phase, State, World, simulate
from spacearm.simulate.elements import ForceElement
from spacearm.simulate.law import Law, PythonLaw
from spacearm.simulate.motion import WorldMotion, load_frames, world_motion
from spacearm.simulate.overrides import robot_parameters
from spacearm.simulate.prepared_law import SAME_INSTANT, PreparedLaw
from spacearm.simulate.run.prepare import PreparedPhase, prepare
from spacearm.simulate.run.propellant import find_fed_thrusters
from spacearm.typing import Array

#: Parameters of dry friction, a number for each degree of freedom.
FRICTION = ("static_friction", "coulomb_friction")


@dataclass(frozen=True, eq=False)
class MotionCode:
    """A scenario that C can step: see :func:`motion_code`."""

    world: World
    robot: Robot
    start: State
    step: float
    model: WorldMotion
    phases: tuple[PreparedPhase, ...]
    end: Array | None = None  # spacearm's own last state
    steps: int = 0
    trial: Array | None = None  # without an end of its own: forces in the test, which takes ``steps`` steps

    @property
    def kernel(self) -> Kernel:
        return self.model.kernel

    @cached_property
    def ports(self) -> Ports:
        """Inputs beside the scenario, and outputs."""
        return Ports(self.robot)

    @property
    def kernels(self) -> list[Kernel]:
        """Kernels whose parameters a run needs."""
        return [self.kernel, *filter(None, [self.ports.push]), self.ports.observe]

    @cached_property
    def laws(self) -> dict[Law, PreparedLaw]:
        """Each law once; it remembers from phase to phase."""
        found = {prepared.law.law: prepared.law for prepared in self.phases if prepared.law is not None}
        for law, own in found.items():
            if (
                law.origin is not None
                and (own.program.memory.size or any(own.program.random_numbers))
                and len(found) > 1
            ):
                # In spacearm such a law knows in each phase what was remembered in another; in C each has memory of its
                # own.
                others = [other for other in found if other is not law]
                if law.origin in (other.origin or other for other in others):
                    raise InputError(
                        "remembers what it knows of phases that lock other joints, which cannot be exported",
                        place=law.place,
                        hint="a law of its own for each of these phases",
                    )
        return found

    @cached_property
    def friction(self) -> dict[str, Array]:
        """Parameters of dry friction, where some joint has it and some phase heeds it."""
        own = robot_parameters(self.robot)
        return {name: own[name] for name in FRICTION} if any(map(self.friction_dofs, self.phases)) else {}

    def friction_dofs(self, prepared: PreparedPhase) -> list[int]:
        # A phase may leave dry friction out; joints that are driven or locked have none to break.
        if not prepared.phase.friction:
            return []
        static = robot_parameters(self.robot)["static_friction"]
        return [j for j in range(static.size) if static[j] > 0.0 and j not in prepared.driven]

    def margins(self, prepared: PreparedPhase) -> list[tuple[int, bool]]:
        return [] if prepared.law is None else prepared.law.event_outputs

    @cached_property
    def event_count(self) -> int:
        """Largest number of functions that are watched in a phase."""
        return max(len(self.friction_dofs(each)) + len(each.levels) + len(self.margins(each)) for each in self.phases)

    def watched_names(self) -> list[list[str]]:
        """Names of the watched functions of each phase."""
        dofs = self.model.dof_names
        return [
            [
                *(f"dry friction of {dofs[j]}" for j in self.friction_dofs(each)),
                *(f"{a} {b}" for a, b, _ in each.labels),
            ]
            for each in self.phases
        ]

    @property
    def has_forces(self) -> bool:
        """Whether the scenario has forces of its own."""
        forces = self.kernel.inputs["force"]
        targets = [int(at) for each in self.phases for at in each.signals.target]
        return bool(self.laws) or any(forces.start <= at < forces.stop for at in targets)

    @property
    def frictional(self) -> int:
        """Largest number of degrees of freedom with dry friction in a phase."""
        return max(len(self.friction_dofs(each)) for each in self.phases)

    @property
    def rate_outputs(self) -> int:
        """Number of outputs of the motion that are needed: reactions cost much, and only dry friction reads them."""
        code = self.model.code
        return int(code.reaction + len(self.model.dof_names) if self.frictional else code.nx)

    @cached_property
    def start_vector(self) -> Array:
        """The integrated vector at the start: the state, then the memory of continuous laws."""
        # Memory of continuous laws is integrated; that of sampled ones changes at ticks and lies elsewhere.
        kept = [law.program.memory for own, law in self.laws.items() if own.period is None]
        return np.concatenate([self.start.vector, *kept])

    def _sizes(self) -> dict[str, str]:
        """Sizes and places, by their names in C."""
        code, inputs, laws = self.model.code, self.kernel.inputs, [*self.laws.values()]
        frictional = self.frictional
        sizes = {
            "NX": code.nx,
            "NY": self.start_vector.size,
            "DOFS": len(self.model.dof_names),
            "INPUTS": code.record,
            "OUTPUTS": self.rate_outputs,
            "MODE": code.mode,
            "DRIVE": code.drive,
            "FORCE": inputs["force"].start,
            "FRICTION": code.friction,
            "REACTION": code.reaction,
            "QUATERNIONS": code.quaternion.size,
            "PHASES": len(self.phases),
            "FRICTIONAL": frictional,
            "WATCHED": self.event_count,
            "LAWS": len(laws),
            "LAW_INPUTS": max((law.kernel.n_in for law in laws), default=0),
            "ANSWER": max((output_count(law) for law in laws), default=0),
            "NOISE": int(any(len(law.random_channels) for law in laws)),
            "FED": int(self.model.elements is not None),
            "THRUSTERS": len(self.robot.thrusters),
            "WRENCHES": 6 * len(self.robot.frames),
            "SEEN": self.ports.observe.n_out,
            "PUSHED": int(self.ports.push is not None),
            "BURST_EVENTS": BURST_EVENTS,
        }
        numbers = {"STEP": self.step, "SLACK": SLACK, "TOGETHER": TOGETHER, "ROUNDING": ROUNDING}
        numbers |= {
            "TIME_TOLERANCE": TIME_TOLERANCE,
            "NO_PROGRESS": NO_PROGRESS,
            "SAME_TICK": SAME_TICK,
            "AT_LIMIT": AT_LIMIT,
        }
        numbers |= {"MOMENTS": MOMENTS, "AFTER": AFTER, "SAME_INSTANT": SAME_INSTANT}
        return {name: str(size) for name, size in sizes.items()} | {name: literal(x) for name, x in numbers.items()}

    def header(self, prefix: str) -> str:
        at, total = Layout(self.robot.n), sum(float(prepared.signals.breaks[-1]) for prepared in self.phases)
        lasts = f"at most {total:.9g} s" if math.isfinite(total) else "without end"
        fields = "\n".join(f"    {line}" for line in self._fields())
        return f"""/*
 * The motion: {len(self.phases)} phases, {lasts}, RK4 with steps of at most {self.step:.9g} s, as
 * spacearm's method "rk4" takes them.
 *
 * state[{at.position.start}..{at.position.stop - 1}]: position of the base's origin, m, world axes
 * state[{at.quaternion.start}..{at.quaternion.stop - 1}]: quaternion of the base, w x y z
 * state[{at.joints.start}..{at.joints.stop - 1}]: joint positions
 * state[{at.velocity.start}..{at.velocity.stop - 1}]: generalised velocity
{self._memory_comment()}{self._input_comment()}{self._event_comment()} */
#define {prefix.upper()}_STATES {self.start_vector.size}

typedef struct {{
    double time;  /* s, since the start */
    double began; /* s, when the phase began */
    double since; /* s, since the phase began */
    int phase;    /* {len(self.phases)}: at the end */
    int piece;    /* of the phase's inputs */
    int fresh;    /* 1: the piece has just begun */
    int opened;   /* 1: the phase has just begun */
{fields}
    double state[{prefix.upper()}_STATES];
}} {prefix}_run;

/* The state at time zero. */
void {prefix}_start({prefix}_run *run);

/* One step, or as far as the next event. 0 at the end of the scenario, where nothing is done; -1 where it cannot go
 * on: numbers are not finite, or events come without end. */
int {prefix}_step(const {prefix}_parameters *p, {prefix}_run *run);

/* As many steps as it takes to this time, s since the start; the inputs act all the while, and may have changed since
 * the last call. 1 there; 0 where the scenario ended before, and -1 where it cannot go on: run->time says when. */
int {prefix}_step_to(const {prefix}_parameters *p, {prefix}_run *run, double time);"""

    def _memory_comment(self) -> str:
        first, end = self.model.nx, self.start_vector.size
        return f" * state[{first}..{end - 1}]: memory of continuous laws\n" if end > first else ""

    def _input_comment(self) -> str:
        """What the inputs are, for the header."""
        lines = [f"force[k], N or N m, in this order: {', '.join(self.robot.dof_names)}"]
        if self.robot.thrusters:
            named = [f"{k} {each.name} ({each.force:g} N)" for k, each in enumerate(self.robot.thrusters)]
            lines.append(f"thruster[k], 0 to 1: {', '.join(named)}")
        if self.robot.frames:
            named = [f"{k} {frame.name}" for k, frame in enumerate(self.robot.frames)]
            lines.append(f"wrench[6 k..6 k + 5], N and N m at the frame's origin, world axes: {', '.join(named)}")
        return " *\n" + comment("\n".join(["Inputs, zero at the start:", *lines])) + "\n"

    def _event_comment(self) -> str:
        """The numbers of events, for the header."""
        lines = []
        for k, prepared in enumerate(self.phases):
            named = [f"{i} {kind} {name}" for i, (kind, name, _) in enumerate(prepared.labels)]
            lines += [f"events of phase {k}: {', '.join(named)}"] if named else []
        return " *\n" + comment("\n".join(lines)) + "\n" if lines else ""

    def _fields(self) -> list[str]:
        # C has no arrays of length zero: what a scenario does not have has no field.
        sizes = {name: value for name, value in self._sizes().items() if value != "0"}
        found = []
        if "LAWS" in sizes:
            actions = max(law.target.size for law in self.laws.values())
            found.append("double ticks; /* of the law since the phase began */")
            found.append("double tick; /* s, the first of them since the phase began */")
            found.append(f"double action[{actions}]; /* what the law commands */")
            found.append(f"int braking[{actions}]; /* 1: the drive brakes at its rate limit */")
            found.append(f"double memory[{self.memory().size}]; /* what sampled laws remember */")
        if "FRICTIONAL" in sizes:
            found.append(
                f"int status[{sizes['FRICTIONAL']}]; /* of dry friction: 0 stuck, 1 or -1 direction of slip */"
            )
        if "WATCHED" in sizes:
            found.append("int event;   /* number of what was crossed in the last step, -1 for nothing */")
            found.append("int stalled; /* events in a row without progress */")
            found.append(f"int sign[{sizes['WATCHED']}]; /* sides of what is watched */")
            found.append(f"double nodes[{sizes['WATCHED']}], opening[{sizes['WATCHED']}]; /* its values */")
        found.append(f"double force[{sizes['DOFS']}]; /* input: generalised, added to the scenario's */")
        if "THRUSTERS" in sizes:
            found.append(f"double thruster[{sizes['THRUSTERS']}]; /* input: levels, 1: full thrust */")
        if "WRENCHES" in sizes:
            found.append(f"double wrench[{sizes['WRENCHES']}]; /* input: force, moment on each frame, world axes */")
        return found

    def memory(self) -> Array:
        """Memory of sampled laws at the start; not empty, since C has no empty arrays."""
        kept = [law.program.memory for own, law in self.laws.items() if own.period is not None]
        found = np.concatenate([np.zeros(0), *kept])
        return found if found.size else np.zeros(1)

    def _read(self, flat: int) -> str:
        for name, place in self.kernel.inputs.items():
            if place.start <= flat < place.stop:
                # What changes during a run stands in the input array, parameters behind it in the structure that a
                # caller may change.
                return f"in[{flat}]" if flat < self.model.code.record else f"p->{name}[{flat - place.start}]"
        raise AssertionError(flat)

    def _push_code(self) -> list[str]:
        """Generalised force of the inputs that are not forces already."""
        if self.ports.push is None:
            return []
        inputs = self.ports.push.inputs

        def read(flat: int) -> str:
            name, at = next((name, at) for name, at in inputs.items() if at.start <= flat < at.stop)
            return f"{'y' if name == 'state' else f'run->{name}'}[{flat - at.start}]"

        lines = statements(self.ports.push.trace, read, "force[{}]".format)
        return [define_function("NAME_push(const NAME_run *run, const double *y, double *force)", lines, "y[")]

    def _feed_code(self) -> list[str]:
        """What force elements add to the motion's input."""
        elements = self.model.elements
        if elements is None:
            return []
        nx, numbers, target = self.model.nx, elements.input(self.world), self.model.feedback().target
        own = elements.kernel.inputs["numbers"]

        def read(flat: int) -> str:
            if flat < nx:
                return f"in[{flat}]"
            # Numbers of force elements are constants of the scenario, not parameters that a caller may change.
            return "time" if flat == nx else literal(float(numbers[own][flat - own.start]))

        lines = statements(elements.kernel.trace, read, lambda k: f"out[{k}]")
        body = ["double out[FED_TARGETS];", "int i;", "{", *lines, "}"]
        body.append("for (i = 0; i < FED_TARGETS; ++i) in[fed[i]] += out[i];")
        head = [f"#define FED_TARGETS {target.size}", f"static const int fed[] = {{ {join_numbers(target, 'int')} }};"]
        return [*head, define_function("NAME_feed(double time, double *in)", body, "time")]

    def code(self, prefix: str) -> str:
        code = self.model.code
        sizes = self._sizes()
        rate = statements(self.kernel.trace.prefix(self.rate_outputs), self._read, "out[{}]".format)
        parts = [
            "\n".join(f"#define {name} {value}" for name, value in sizes.items()),
            f"static const int NAME_speed[] = {{ {join_numbers(code.speed, 'int')} }};",
            f"static const int NAME_quaternion[] = {{ {join_numbers(code.quaternion, 'int')} }};",
            define_array("NAME_state", self.start_vector),
            define_array("NAME_nodes", NODES) if sizes["WATCHED"] != "0" else "",
            define_function("NAME_motion(const NAME_parameters *p, const double *in, double *out)", rate, "p"),
            *self._push_code(),
            *self._feed_code(),
            *law_code(self),
            *phase_code(self),
            template("motion"),
        ]
        return "\n\n".join(part for part in parts if part).replace("NAME_", f"{prefix}_")

    def test(self, prefix: str) -> str:
        assert self.end is not None
        going = f"while ({prefix}_step(p, &run) > 0) ++steps;"
        if self.trial is not None:
            # Without an end of its own: a few steps under forces.
            force = f"static const double force[{self.trial.size}] = {{ {join_numbers(self.trial)} }};"
            going = f"{{ {force} memcpy(run.force, force, sizeof force); }}"
            going += f"\n    {prefix}_step_to(p, &run, {literal(self.steps * self.step)});\n    steps = expected;"
        return f"""static void test_motion(const {prefix}_parameters *p)
{{
    static const double end[{self.model.nx}] = {{ {join_numbers(self.end)} }};
    {prefix}_run run;
    double steps = 0, expected = {self.steps};
    {prefix}_start(&run);
    {going}
    same("end of the motion", run.state, end, {self.model.nx}ul);
    same("steps", &steps, &expected, 1ul);
}}"""


def motion_code(
    robot: Robot,
    start: State,
    phases: Sequence[Phase],
    method: object,
    *,
    elements: Sequence[ForceElement] = (),
    tested: bool = True,
) -> MotionCode:
    """A scenario made ready for C, with spacearm's own run of it as a test.

    Args:
        method: RK4.
        elements: force elements without memory and events: gravity, orbit.
        tested: whether spacearm's own run of it is made, as a test.
    """
    if not isinstance(method, RK4):
        raise InputError(
            "only a fixed step can be exported", place="method", hint='expected kind = "rk4" and a step, or --step'
        )
    for k, phase in enumerate(phases):
        place = phase.place_in_run(k)
        if phase.event_function is not None:
            raise InputError("has event functions, which cannot be exported", place=place, hint="expected 'until'")
        laws = [phase.laws] if isinstance(phase.laws, Law) else phase.laws
        for law in laws:
            if isinstance(law, PythonLaw):
                raise InputError("is a Python function, which cannot be exported", place=f"{place}, {law.place}")
    world = World.from_robots(robot).replace(elements=tuple(elements))
    fed = find_fed_thrusters(world, phases)
    if fed:
        raise InputError(
            f"thrusters draw propellant ({', '.join(fed[:3])}), and masses of exported code are constant",
            place="scenario",
            hint="leave out the thrusters' key 'tank': the tanks then stay full",
        )  # fmt: skip
    model = world_motion(world, load_frames(world, phases), False)
    if model.elements is not None and (model.elements.memory.size or model.elements.labels):
        raise InputError(
            "contacts and stops cannot be exported, nor can laws of joints (bristles, hysteresis, backlash)",
            place="scenario", hint="remove them",
        )  # fmt: skip
    prepared = tuple(prepare(model, world, phase, k) for k, phase in enumerate(phases))
    made = MotionCode(world, robot, start, method.step, model, prepared)
    if not tested:
        return made
    # The expected end of the exported test: the very same method and step.
    done = simulate(world, dict.fromkeys(world.systems, start), phases, method=method, ledger=False)
    if not done.sound:
        raise InputError(f"the scenario does not run to its end: {done.why}", place="phase")
    return MotionCode(world, robot, start, method.step, model, prepared, done.states[-1], done.stats.steps)
