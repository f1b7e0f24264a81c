"""The step function of a scenario in C: RK4 with a fixed step through phases whose inputs are given in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from spacearm.engine.c_source import literal, statements
from spacearm.engine.kernel import Kernel
from spacearm.errors import InputError
from spacearm.model import Robot
from spacearm.model.layout import Layout
from spacearm.simulate import RK4, Phase, State, simulate
from spacearm.simulate.motion import WorldMotion, load_frames, world_motion
from spacearm.simulate.prepare import Prepared, prepare
from spacearm.simulate.world import World
from spacearm.typing import Array


@dataclass(frozen=True, eq=False)
class MotionCode:
    """A scenario that C can step: see :func:`motion_code`."""

    robot: Robot
    start: State
    step: float
    model: WorldMotion
    phases: tuple[Prepared, ...]
    end: Array  # spacearm's own last state
    steps: int

    @property
    def kernel(self) -> Kernel:
        return self.model.kernel

    def header(self, prefix: str) -> str:
        at, total = Layout(self.robot.n), sum(prepared.phase.duration for prepared in self.phases)
        return f"""/*
 * The scenario: {len(self.phases)} phases, {total:.9g} s, RK4 with steps of at most {self.step:.9g} s, as spacearm's
 * method "rk4" takes them. Joint limits and recorded events are not watched.
 *
 * state[{at.position.start}..{at.position.stop - 1}]: position of the base's origin, m, world axes
 * state[{at.quaternion.start}..{at.quaternion.stop - 1}]: quaternion of the base, w x y z
 * state[{at.joints.start}..{at.joints.stop - 1}]: joint positions
 * state[{at.velocity.start}..{at.velocity.stop - 1}]: generalised velocity
 */
#define {prefix.upper()}_STATES {self.model.nx}

typedef struct {{
    double time;  /* s, since the start */
    double since; /* s, since the phase began */
    int phase;    /* {len(self.phases)}: at the end */
    int piece;    /* of the phase's inputs */
    int fresh;    /* 1: the piece has just begun */
    double state[{prefix.upper()}_STATES];
}} {prefix}_run;

/* The state at time zero. */
void {prefix}_start({prefix}_run *run);

/* One step; 0 when the scenario is at its end, and nothing was done. */
int {prefix}_step(const {prefix}_parameters *p, {prefix}_run *run);"""

    def _read(self, flat: int) -> str:
        for name, place in self.kernel.inputs.items():
            if place.start <= flat < place.stop:
                first = self.model.code.record
                return f"in[{flat}]" if flat < first else f"p->{name}[{flat - place.start}]"
        raise AssertionError(flat)

    def _tables(self, k: int, prepared: Prepared) -> str:
        signals, code = prepared.signals, self.model.code
        breaks, table = signals.breaks, np.moveaxis(signals.coefficient, 0, -1)  # (pieces, channels, powers)
        mode = np.zeros(len(self.model.dof_names))
        mode[list(prepared.driven)] = 1.0
        still = [int(code.speed[index]) for index in prepared.locked]
        lines = [f"static const double breaks_{k}[] = {{ {_numbers(breaks)} }};"]
        lines.append(f"static const double mode_{k}[] = {{ {_numbers(mode)} }};")
        lines.append(f"static const double signals_{k}[] = {{ {_numbers(table) or '0'} }};")
        lines.append(f"static const int targets_{k}[] = {{ {', '.join(str(int(t)) for t in signals.target) or '0'} }};")
        lines.append(f"static const int still_{k}[] = {{ {', '.join(map(str, still)) or '0'} }};")
        return "\n".join(lines)

    def _entry(self, k: int, prepared: Prepared) -> str:
        signals = prepared.signals
        sizes = (signals.breaks.size - 1, signals.target.size, signals.coefficient.shape[0], len(prepared.locked))
        arrays = ", ".join(f"{name}_{k}" for name in ("breaks", "mode", "signals", "targets", "still"))
        return f"    {{ {', '.join(map(str, sizes))}, {arrays} }},"

    def code(self, prefix: str) -> str:
        code, kernel = self.model.code, self.kernel
        rate = statements(kernel.trace.prefix(code.nx), self._read, lambda k: f"out[{k}]")
        if not any("p->" in line for line in rate):
            rate.insert(0, "(void)p;")
        quaternions = "\n".join(f"    unit(y + {int(at)});" for at in code.quaternion)
        speeds = ", ".join(str(int(at)) for at in code.speed)
        dofs = len(self.model.dof_names)
        return _TEMPLATE.format(
            prefix=prefix,
            tables="\n".join(self._tables(k, prepared) for k, prepared in enumerate(self.phases)),
            entries="\n".join(self._entry(k, prepared) for k, prepared in enumerate(self.phases)),
            inputs=code.record,
            nx=code.nx,
            rate="\n".join(f"    {line}" for line in rate),
            quaternions=quaternions,
            speeds=speeds,
            dofs=dofs,
            drive=code.drive,
            mode=code.mode,
            step=literal(self.step),
            slack=literal(1e-9),
            half=literal(0.5),
            phases=len(self.phases),
            start=_numbers(self.start.vector),
        )

    def test(self, prefix: str) -> str:
        return f"""static void test_motion(const {prefix}_parameters *p)
{{
    static const double end[{self.model.nx}] = {{ {_numbers(self.end)} }};
    {prefix}_run run;
    double steps = 0, expected = {self.steps};
    {prefix}_start(&run);
    while ({prefix}_step(p, &run)) ++steps;
    same("end of the scenario", run.state, end, {self.model.nx}ul);
    same("steps", &steps, &expected, 1ul);
}}"""


def _numbers(values: Array) -> str:
    return ", ".join(literal(float(value)) for value in np.ravel(values))


def motion_code(robot: Robot, start: State, phases: Sequence[Phase], method: object) -> MotionCode:
    """A scenario made ready for C, with spacearm's own run of it as a test.

    Its method must be RK4; no event may end a phase and no dry friction act. Joint limits and events that are only
    recorded are not watched.
    """
    if not isinstance(method, RK4):
        raise InputError("only a fixed step can be exported", place="method", hint='expected kind = "rk4" and a step')
    plain = []
    for k, phase in enumerate(phases):
        place = phase.numbered(k)
        if phase.until or phase.event_function is not None:
            raise InputError("has events that end it, which cannot be exported", place=place, hint="remove 'until'")
        rubbing = [joint.name for joint in robot.joints if joint.friction is not None]
        if phase.friction and rubbing:
            raise InputError(
                f"joint {rubbing[0]!r} has dry friction, which cannot be exported",
                place=place,
                hint="set friction = false",
            )
        plain.append(replace(phase, events=(), limits="ignore"))
    world = World.of(robot)
    model = world_motion(world, load_frames(world, plain), False)
    prepared = tuple(prepare(model, world, phase, k) for k, phase in enumerate(plain))
    done = simulate(robot, start, plain, method=method, ledger=False)
    if not done.sound:
        raise InputError(f"the scenario does not run to its end: {done.why}", place="phase")
    return MotionCode(robot, start, method.step, model, prepared, done.states[-1], done.stats.steps)


_TEMPLATE = """typedef struct {{
    int pieces, channels, powers, locked;
    const double *breaks;  /* pieces + 1, s since the phase began */
    const double *mode;    /* 1: a degree of freedom whose motion is given */
    const double *signals; /* of each piece, of each channel: coefficients, lowest power first */
    const int *targets;    /* place in the input of each channel */
    const int *still;      /* velocities of what is locked */
}} {prefix}_phase;

{tables}

static const {prefix}_phase {prefix}_phases[] = {{
{entries}
}};

static void {prefix}_motion(const {prefix}_parameters *p, const double *in, double *out)
{{
{rate}
}}

static double {prefix}_signal(const {prefix}_phase *now, int piece, int channel, double t)
{{
    const double *c = now->signals + (piece * now->channels + channel) * now->powers;
    const double local = t - now->breaks[piece];
    int power = now->powers - 1;
    double result = c[power];
    while (power-- > 0) result = result * local + c[power];
    return result;
}}

static void {prefix}_rates(const {prefix}_parameters *p, const {prefix}_phase *now, int piece, double t,
                           const double *y, double *dy)
{{
    static const int speed[] = {{ {speeds} }};
    double in[{inputs}] = {{ 0 }};
    int i;
    for (i = 0; i < {nx}; ++i) in[i] = y[i];
    for (i = 0; i < {dofs}; ++i) in[{mode} + i] = now->mode[i];
    for (i = 0; i < now->channels; ++i) in[now->targets[i]] = {prefix}_signal(now, piece, i, t);
    {prefix}_motion(p, in, dy);
    for (i = 0; i < {dofs}; ++i) {{
        if (in[{mode} + i] != 0) dy[speed[i]] = in[{drive} + i];
    }}
}}

static void unit(double *q)
{{
    const double norm = sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
    int i;
    for (i = 0; i < 4; ++i) q[i] /= norm;
}}

/* Quaternions of length one, driven joints on their paths. */
static void {prefix}_project(const {prefix}_phase *now, int piece, double t, double *y)
{{
    int i;
{quaternions}
    for (i = 0; i < now->channels; ++i) {{
        if (now->targets[i] < {nx}) y[now->targets[i]] = {prefix}_signal(now, piece, i, t);
    }}
}}

void {prefix}_start({prefix}_run *run)
{{
    static const double start[{nx}] = {{ {start} }};
    memset(run, 0, sizeof *run);
    memcpy(run->state, start, sizeof start);
    run->fresh = 1;
}}

int {prefix}_step(const {prefix}_parameters *p, {prefix}_run *run)
{{
    const {prefix}_phase *now;
    double k[4][{nx}], tried[{nx}], *y = run->state;
    double left, parts, h, t, t_new;
    int i, stage, last;
    if (run->phase >= {phases}) return 0;
    now = &{prefix}_phases[run->phase];
    if (run->fresh) {{
        if (run->piece == 0) {{
            for (i = 0; i < now->locked; ++i) y[now->still[i]] = 0;
        }}
        {prefix}_project(now, run->piece, run->since, y);
        run->fresh = 0;
    }}
    t = run->since;
    left = now->breaks[run->piece + 1] - t;
    parts = ceil(left / {step} - {slack});
    h = left / (parts > 1 ? parts : 1);
    last = h >= left;
    {prefix}_rates(p, now, run->piece, t, y, k[0]);
    for (stage = 1; stage < 4; ++stage) {{
        const double part = stage == 3 ? h : {half} * h;
        for (i = 0; i < {nx}; ++i) tried[i] = y[i] + part * k[stage - 1][i];
        {prefix}_rates(p, now, run->piece, t + part, tried, k[stage]);
    }}
    for (i = 0; i < {nx}; ++i) y[i] = y[i] + h / 6 * (k[0][i] + 2 * (k[1][i] + k[2][i]) + k[3][i]);
    {prefix}_project(now, run->piece, t + h, y);
    t_new = last ? now->breaks[run->piece + 1] : t + h;
    run->time += t_new - t;
    run->since = t_new;
    if (last) {{
        run->fresh = 1;
        if (++run->piece == now->pieces) {{
            run->piece = 0;
            run->since = 0;
            ++run->phase;
        }}
    }}
    return 1;
}}"""
