"""The step function of a scenario in C: RK4 with a fixed step through phases whose inputs are given in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from spacearm.engine.c_source import literal, statements
from spacearm.engine.kernel import Kernel
from spacearm.engine.law import SAME_TICK
from spacearm.engine.signals import Signals
from spacearm.errors import InputError
from spacearm.model import Robot
from spacearm.model.layout import Layout
from spacearm.simulate import RK4, Phase, State, simulate
from spacearm.simulate.law import Law, PreparedLaw, PythonLaw
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

    @cached_property
    def laws(self) -> dict[Law, PreparedLaw]:
        """Each law once; it remembers from phase to phase."""
        return {prepared.law.law: prepared.law for prepared in self.phases if prepared.law is not None}

    def _remembered(self, law: Law) -> int:
        """Where its memory begins."""
        laws = list(self.laws)
        return sum(len(self.laws[own].own.memory) for own in laws[: laws.index(law)])

    def _fields(self) -> str:
        if not self.laws:
            return ""
        memory = max(1, sum(len(law.own.memory) for law in self.laws.values()))
        actions = max(law.target.size for law in self.laws.values())
        return f"""    double ticks;  /* of the law since the phase began */
    double action[{actions}]; /* what the law commanded */
    double memory[{memory}]; /* what laws remember */
"""

    def _law(self, prefix: str) -> str:
        """Every law as a function, and the function that asks the right one."""
        if not self.laws:
            return ""
        texts, cases = [], []
        for k, (law, own) in enumerate(self.laws.items()):
            at, first, actions = own.kernel.inputs, self._remembered(law), own.target.size
            size = len(own.own.memory)
            lines = statements(own.kernel.trace.prefix(actions + size), "in[{}]".format, "out[{}]".format)
            model = _numbers(own.numbers) or "0"
            body = "\n".join(f"    {line}" for line in [*([] if "in[" in "".join(lines) else ["(void)in;"]), *lines])
            texts.append(f"static void {prefix}_law_{k}(const double *in, double *out)\n{{\n{body}\n}}")
            cases.append(f"""    if (now->law == {k + 1}) {{
        static const double model[] = {{ {model} }};
        double in[{own.kernel.n_in}], out[{actions + size}];
        memcpy(in, y + {own.first}, {own.size} * sizeof *in);
        in[{own.size}] = t;
        for (i = 0; i < now->references; ++i) {{
            in[now->read[i]] = {prefix}_value(now->follow, now->references, now->follow_powers, local, piece, i);
        }}
        for (i = 0; i < {size}; ++i) in[{at["memory"].start} + i] = run->memory[{first} + i];
        for (i = 0; i < {own.numbers.size}; ++i) in[{at["model"].start} + i] = model[i];
        {prefix}_law_{k}(in, out);
        for (i = 0; i < {actions}; ++i) run->action[i] = out[i];
        for (i = 0; i < {size}; ++i) run->memory[{first} + i] = out[{actions} + i];
    }}""")
        takes = f"const {prefix}_phase *now, int piece, double t, const double *y, {prefix}_run *run"
        head = f"static void {prefix}_ask({takes})"
        body = "\n".join(["    const double local = t - now->breaks[piece];", "    int i;", *cases])
        return "\n\n".join([*texts, f"{head}\n{{\n{body}\n}}"])

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
{self._fields()}    double state[{prefix.upper()}_STATES];
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
        breaks = signals.breaks
        mode = np.zeros(len(self.model.dof_names))
        mode[list(prepared.driven)] = 1.0
        still = [int(code.speed[index]) for index in prepared.locked]
        lines = [f"static const double breaks_{k}[] = {{ {_numbers(breaks)} }};"]
        lines.append(f"static const double mode_{k}[] = {{ {_numbers(mode)} }};")
        lines.append(f"static const double signals_{k}[] = {{ {_table(signals) or '0'} }};")
        lines.append(f"static const int targets_{k}[] = {{ {', '.join(str(int(t)) for t in signals.target) or '0'} }};")
        lines.append(f"static const int still_{k}[] = {{ {', '.join(map(str, still)) or '0'} }};")
        law = prepared.law
        acts, read, follow = ([], [], "") if law is None else (law.target, law.reference.target, _table(law.reference))
        lines.append(f"static const int acts_{k}[] = {{ {', '.join(str(int(t)) for t in acts) or '0'} }};")
        lines.append(f"static const int read_{k}[] = {{ {', '.join(str(int(t)) for t in read) or '0'} }};")
        lines.append(f"static const double follow_{k}[] = {{ {follow or '0'} }};")
        return "\n".join(lines)

    def _entry(self, k: int, prepared: Prepared) -> str:
        signals = prepared.signals
        sizes = (signals.breaks.size - 1, signals.target.size, signals.coefficient.shape[0], len(prepared.locked))
        law, none = prepared.law, (0, 0, 0, 0)
        number = 0 if law is None else 1 + list(self.laws).index(law.law)
        asked = none if law is None else (number, law.target.size, law.reference.target.size, _powers(law.reference))
        names = ("breaks", "mode", "signals", "targets", "still", "acts", "read", "follow")
        period = literal(float(law.law.period or 0.0)) if law is not None else "0"
        arrays = ", ".join([*(f"{name}_{k}" for name in names), period])
        return f"    {{ {', '.join(map(str, (*sizes, *asked)))}, {arrays} }},"

    def code(self, prefix: str) -> str:
        code, kernel = self.model.code, self.kernel
        rate = statements(kernel.trace.prefix(code.nx), self._read, lambda k: f"out[{k}]")
        if not any("p->" in line for line in rate):
            rate.insert(0, "(void)p;")
        quaternions = "\n".join(f"    unit(y + {int(at)});" for at in code.quaternion)
        speeds = ", ".join(str(int(at)) for at in code.speed)
        dofs = len(self.model.dof_names)
        laws = bool(self.laws)
        memory = _numbers(np.concatenate([np.zeros(0), *(law.own.memory for law in self.laws.values())]))
        return _TEMPLATE.format(
            prefix=prefix,
            law=self._law(prefix),
            act=_ACT if laws else "    (void)action;\n",
            action="run->action" if laws else "0",
            remember=_REMEMBER.format(memory=memory) if memory else "",
            anew="            run->ticks = 0;\n" if laws else "",
            tick=_TICK.format(prefix=prefix, same=literal(SAME_TICK)) if laws else "",
            next_tick=_NEXT.format(same=literal(SAME_TICK)) if laws else "",
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


def _table(signals: Signals) -> str:
    return _numbers(np.moveaxis(signals.coefficient, 0, -1))  # (pieces, channels, powers)


def _powers(signals: Signals) -> int:
    return int(signals.coefficient.shape[0])


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
        laws = [phase.laws] if isinstance(phase.laws, Law) else phase.laws
        if any(isinstance(law, PythonLaw) or law.period is None for law in laws):
            raise InputError("has a law that is no sampled expression", place=place, hint="give the law a period")
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
    int pieces, channels, powers, locked, law, actions, references, follow_powers;
    const double *breaks;  /* pieces + 1, s since the phase began */
    const double *mode;    /* 1: a degree of freedom whose motion is given */
    const double *signals; /* of each piece, of each channel: coefficients, lowest power first */
    const int *targets;    /* place in the input of each channel */
    const int *still;      /* velocities of what is locked */
    const int *acts;       /* place in the input of each command of the law */
    const int *read;       /* place in the law's input of what it follows */
    const double *follow;  /* as signals */
    double period;         /* s between two ticks of the law */
}} {prefix}_phase;

{tables}

static const {prefix}_phase {prefix}_phases[] = {{
{entries}
}};

static void {prefix}_motion(const {prefix}_parameters *p, const double *in, double *out)
{{
{rate}
}}

static double {prefix}_value(const double *table, int channels, int powers, double local, int piece, int channel)
{{
    const double *c = table + (piece * channels + channel) * powers;
    int power = powers - 1;
    double result = c[power];
    while (power-- > 0) result = result * local + c[power];
    return result;
}}

static double {prefix}_signal(const {prefix}_phase *now, int piece, int channel, double t)
{{
    return {prefix}_value(now->signals, now->channels, now->powers, t - now->breaks[piece], piece, channel);
}}

{law}

static void {prefix}_rates(const {prefix}_parameters *p, const {prefix}_phase *now, int piece, double t,
                           const double *y, const double *action, double *dy)
{{
    static const int speed[] = {{ {speeds} }};
    double in[{inputs}] = {{ 0 }};
    int i;
    for (i = 0; i < {nx}; ++i) in[i] = y[i];
    for (i = 0; i < {dofs}; ++i) in[{mode} + i] = now->mode[i];
    for (i = 0; i < now->channels; ++i) in[now->targets[i]] = {prefix}_signal(now, piece, i, t);
{act}    {prefix}_motion(p, in, dy);
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
{remember}}}

int {prefix}_step(const {prefix}_parameters *p, {prefix}_run *run)
{{
    const {prefix}_phase *now;
    double k[4][{nx}], tried[{nx}], *y = run->state;
    double left, parts, h, t, t_new, end;
    int i, stage, last;
    if (run->phase >= {phases}) return 0;
    now = &{prefix}_phases[run->phase];
    t = run->since;
    if (run->fresh && run->piece == 0) {{
        for (i = 0; i < now->locked; ++i) y[now->still[i]] = 0;
    }}
{tick}    if (run->fresh) {{
        {prefix}_project(now, run->piece, t, y);
        run->fresh = 0;
    }}
    end = now->breaks[run->piece + 1];
{next_tick}    left = end - t;
    parts = ceil(left / {step} - {slack});
    h = left / (parts > 1 ? parts : 1);
    last = h >= left;
    {prefix}_rates(p, now, run->piece, t, y, {action}, k[0]);
    for (stage = 1; stage < 4; ++stage) {{
        const double part = stage == 3 ? h : {half} * h;
        for (i = 0; i < {nx}; ++i) tried[i] = y[i] + part * k[stage - 1][i];
        {prefix}_rates(p, now, run->piece, t + part, tried, {action}, k[stage]);
    }}
    for (i = 0; i < {nx}; ++i) y[i] = y[i] + h / 6 * (k[0][i] + 2 * (k[1][i] + k[2][i]) + k[3][i]);
    {prefix}_project(now, run->piece, t + h, y);
    t_new = last ? end : t + h;
    run->time += t_new - t;
    run->since = t_new;
    if (last && end >= now->breaks[run->piece + 1]) {{
        run->fresh = 1;
        if (++run->piece == now->pieces) {{
            run->piece = 0;
            run->since = 0;
{anew}            ++run->phase;
        }}
    }}
    return 1;
}}"""


_ACT = "    for (i = 0; i < now->actions; ++i) in[now->acts[i]] += action[i];\n"

_REMEMBER = """    {{
        static const double memory[] = {{ {memory} }};
        memcpy(run->memory, memory, sizeof memory);
    }}
"""

_TICK = """    if (now->law && t >= run->ticks * now->period - {same} * (1 + t)) {{
        {prefix}_ask(now, run->piece, t, y, run);
        ++run->ticks;
        run->fresh = 1;
    }}
"""

_NEXT = """    if (now->law && run->ticks * now->period < end - {same} * (1 + end)) end = run->ticks * now->period;
"""
