"""The right-hand side of a run in time: state in, its time derivative, powers and reactions out.

The order of inputs and outputs is a contract with the integration loops in :mod:`spacearm.engine`, which know offsets
and nothing of robots.

Right-hand side of x' = f(x, t): pose rates from velocities, accelerations from hybrid dynamics, and beside them the
powers that the ledger integrates. Springs, dampers, couplings and dry friction are generalised forces here; loads are
wrenches on frames. Body recursions may run in frames of their own (:mod:`spacearm.mechanics.reframe`), which nobody
outside sees: inputs and outputs are in the robot's frames, base velocity in base axes, SI units. The quaternion is not
normalised in the program; the loops project it after each step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import casadi as ca

from spacearm import checks
from spacearm.mechanics.constraints import closures
from spacearm.mechanics.dynamics import (
    FreeProblem,
    Hybrid,
    articulate_inertias,
    free_problem,
    hybrid_dynamics,
    joint_wrenches,
    net_wrenches,
    select_driven,
)
from spacearm.mechanics.kinematics import wrench_on_body
from spacearm.mechanics.program import Program, select_entries
from spacearm.mechanics.spatial import (
    SX,
    Spatial,
    dot,
    quaternion_rate,
    rotation_matrix,
    scale_spatial,
    spatial,
    wrench_rate,
)
from spacearm.mechanics.sweep import inertial_wrenches, velocities
from spacearm.mechanics.tree import Tree
from spacearm.model import Robot
from spacearm.model.layout import QUATERNION, Layout


@dataclass(frozen=True)
class LoadFrame:
    """A frame that a wrench acts on during a run, given in ``world`` or ``frame`` axes.

    ``element`` names the force element that exerts it; empty for what is given in time.
    """

    frame: str
    axes: str = "world"
    element: str = ""

    def __post_init__(self) -> None:
        checks.one_of(self.axes, ("world", "frame"), "axes of a load")


def state_size(n: int) -> int:
    """Length of the state: position 3, quaternion 4, joints n, velocity 6 + n."""
    return Layout(n).size


@dataclass(frozen=True)
class MotionTerms:
    """The pieces that a run's right-hand side is put together from."""

    tree: Tree
    free: bool
    inputs: dict[str, SX]
    loads: tuple[LoadFrame, ...]
    force: SX  # applied and passive forces and dry friction
    damper: SX  # the dampers' part of it
    coupling_power: list[SX]
    wrenches: list[Spatial | None]
    load_wrenches: list[Spatial]

    @property
    def quaternion(self) -> SX:
        return self.inputs["state"][QUATERNION]

    @property
    def joints(self) -> SX:
        return self.inputs["state"][Layout(self.tree.n).joints]

    @property
    def velocity(self) -> SX:
        return self.inputs["state"][Layout(self.tree.n).velocity]

    @property
    def inertia(self) -> SX:
        """Inertias in the frames of the tree."""
        return self.tree.sparse(self.inputs[self.tree.inertia_name or "inertia"])

    def pose_rate(self) -> SX:
        """Time derivative of position, quaternion and joints."""
        return ca.vertcat(
            rotation_matrix(self.quaternion) @ self.velocity[:3],
            quaternion_rate(self.quaternion, self.velocity[3:6]),
            self.velocity[6:],
        )

    def problem(self) -> FreeProblem:
        """Velocity and force as the recursions take them, and what makes the robot's acceleration of theirs."""
        if self.free:
            return free_problem(self.tree, self.velocity, self.force)
        return FreeProblem(self.velocity, self.force, lambda found: found)

    @property
    def mode(self) -> SX:
        return ca.SX.zeros(6 + self.tree.n) if self.free else self.inputs["mode"]

    @property
    def drive(self) -> SX:
        return ca.SX.zeros(6 + self.tree.n) if self.free else self.inputs["drive"]

    def hybrid(self, problem: FreeProblem) -> Hybrid:
        """Accelerations of the problem, and reactions."""
        own = (self.drive, self.mode, self.inertia, self.inputs["rotor"], self.wrenches)
        return hybrid_dynamics(self.tree, self.joints, problem.velocity, problem.force, *own)

    def power(self, reaction: SX) -> SX:
        twist = velocities(self.tree, self.tree.placements(self.joints), self.velocity, self.inputs["rotor"]).twist
        loaded = [self.tree.robot.body_index(self.tree.robot.frame(load.frame).body) for load in self.loads]
        return ca.vertcat(
            # A drive gives its force where it is free and the reaction beside it where it is driven: the sum is its
            # effort.
            (self.inputs["force"] + reaction) * self.velocity,
            -self.damper * self.velocity,
            *self.coupling_power,
            -self.inputs["friction"] * self.velocity,
            *(dot(push, twist[body]) for push, body in zip(self.load_wrenches, loaded, strict=True)),
        )


def motion_terms(robot: Robot, loads: tuple[LoadFrame, ...], free: bool = False) -> MotionTerms:
    tree = Tree(robot, short=True, free=free)
    n, dofs = tree.n, 6 + tree.n
    symbol = ca.SX.sym
    # Everything that may change between samples or phases is an input, whatever its value: a stiffness of zero costs a
    # product, while another structure would cost a compilation.
    inputs: dict[str, SX] = {
        "state": symbol("state", state_size(n)),
        "force": symbol("force", dofs),
        "drive": symbol("drive", dofs),
        "mode": symbol("mode", dofs),
        "friction": symbol("friction", dofs),
        "wrench": symbol("wrench", 6 * len(loads)),
        "inertia": symbol("inertia", 10 * tree.bodies),
        "rotor": symbol("rotor", tree.rotors),
        "stiffness": symbol("stiffness", n),
        "rest": symbol("rest", n),
        "damping": symbol("damping", dofs),
        "coupling": symbol("coupling", 4 * len(robot.couplings)),
    }
    if tree.inertia_name:
        inputs[tree.inertia_name] = symbol(tree.inertia_name, 10 * tree.bodies)
    state = inputs["state"]
    quaternion, q, velocity = state[QUATERNION], state[Layout(n).joints], state[Layout(n).velocity]
    force, damper, coupling_power = with_passive(robot, q, velocity, inputs, inputs["force"] + inputs["friction"])
    load_wrenches = load_wrenches_on_bodies(tree, q, quaternion, loads, inputs["wrench"])
    return MotionTerms(
        tree,
        free,
        inputs,
        loads,
        force,
        damper,
        coupling_power,
        sum_on_bodies(tree, loads, load_wrenches),
        load_wrenches,
    )


def with_passive(robot: Robot, q: SX, velocity: SX, x: Mapping[str, SX], force: SX) -> tuple[SX, SX, list[SX]]:
    """``force`` (6 + n) with springs, dampers and couplings; the dampers' part of it; the power of each coupling's."""
    # The base has no springs: nothing outside holds it.
    spring = ca.vertcat(ca.SX.zeros(6), -x["stiffness"] * (q - x["rest"]))
    damper = -x["damping"] * velocity
    force = force + spring + damper
    coupling_power = []
    for k, coupling in enumerate(robot.couplings):
        stiffness, damping, ratio, rest = ca.vertsplit(x["coupling"][4 * k : 4 * k + 4])
        first, second = robot.joint_index(coupling.first), robot.joint_index(coupling.second)
        # A coupling pulls its first joint towards ratio times the second, which feels the ratio times the opposite
        # force: powers of both sides add up to what the damper takes.
        rate = velocity[6 + first] - ratio * velocity[6 + second]
        pull = -stiffness * (q[first] - ratio * q[second] - rest) - damping * rate
        force[6 + first] += pull
        force[6 + second] -= ratio * pull
        # Only what the damper dissipates: the coupling's spring stores energy, which follows from the state.
        coupling_power.append(damping * rate * rate)
    return force, damper, coupling_power


def load_wrenches_on_bodies(
    tree: Tree, q: SX, quaternion: SX, loads: tuple[LoadFrame, ...], wrench: SX
) -> list[Spatial]:
    """Each load's wrench (6 entries of ``wrench``) on the body that it acts on, in body axes and origin."""
    if not loads:
        return []
    placements = tree.placements(q)
    return [
        wrench_on_body(tree, placements, quaternion, tree.robot.frame(load.frame), wrench[6 * k : 6 * k + 6], load.axes)
        for k, load in enumerate(loads)
    ]


def sum_on_bodies(tree: Tree, loads: tuple[LoadFrame, ...], pushes: list[Spatial]) -> list[Spatial | None]:
    """One wrench for each body that any load acts on."""
    wrenches: list[Spatial | None] = [None] * tree.bodies
    for load, push in zip(loads, pushes, strict=True):
        body = tree.robot.body_index(tree.robot.frame(load.frame).body)
        before = wrenches[body]
        wrenches[body] = push if before is None else before.plus(push)
    return wrenches


def motion_program(
    robot: Robot, loads: tuple[LoadFrame, ...] = (), *, ledger: bool = True, free: bool = False
) -> Program:
    """The motion program of a robot under these loads.

    Inputs: ``state`` (position, quaternion, joints, velocity), ``force``, ``drive``, ``mode``, ``friction`` (6 + n
    each), ``wrench`` (6 for each load), ``inertia`` (10 for each body), ``rotor``, ``stiffness``, ``rest`` (n each),
    ``damping`` (6 + n), ``coupling`` (stiffness, damping, ratio, rest for each); the derived ``reframed``, the inertias
    in the program's own frames, of a robot with skew axes. With ``free`` no mode is read, everything is free, and
    ``reframed_free`` is for frames that suit that.

    Outputs: ``rate`` (of the state), with ``ledger`` also ``power`` (drives, dampers: 6 + n each; coupling dampers;
    dry friction: 6 + n; loads), and ``reaction`` (6 + n).
    """
    motion = motion_terms(robot, loads, free)
    problem = motion.problem()
    hybrid = motion.hybrid(problem)
    outputs: dict[str, SX] = {"rate": ca.vertcat(motion.pose_rate(), problem.back(hybrid.acceleration))}
    if ledger:
        outputs["power"] = motion.power(hybrid.reaction)
    outputs["reaction"] = hybrid.reaction
    dense = {name: ca.densify(value) for name, value in outputs.items()}
    return Program("motion", motion.inputs, dense, derived=reframe_inertia(motion.tree, motion.inputs))


def loop_program(robot: Robot, loads: tuple[LoadFrame, ...] = ()) -> Program:
    """The forces that keep closed loops, from the inputs of the motion program.

    By the loop's name: force and moment on its second frame, at its origin, in the first frame's axes; of a gear the
    force or torque on its first joint.
    """
    motion = motion_terms(robot, loads)
    problem = motion.problem()
    hybrid = motion.hybrid(problem)
    outputs = {
        loop.name: ca.densify(wrench @ forces)
        for closure, forces in zip(closures(motion.tree, motion.joints, motion.velocity[6:]), hybrid.loops, strict=True)
        for loop, wrench in zip(closure.loops, closure.wrenches, strict=True)
    }
    return Program("loops", motion.inputs, outputs, derived=reframe_inertia(motion.tree, motion.inputs))


def reframe_inertia(tree: Tree, inputs: Mapping[str, SX]) -> dict[str, SX]:
    """The derived input of a program that sees the bodies in other frames than their own."""
    return {tree.inertia_name: tree.inertia(inputs["inertia"])} if tree.inertia_name in inputs else {}


def motion_tangent(
    robot: Robot, wrt: Mapping[str, Sequence[int] | None], loads: tuple[LoadFrame, ...] = (), *, free: bool = False
) -> Program:
    """The motion program's ``rate`` and its directional derivative ``d_rate`` along ``d_<input>`` of these inputs.

    Not by differentiating forward dynamics, but by its definition: with the accelerations held, the demands of the
    motion change by so much, and the free degrees of freedom give way to the change as they do to any demand. Half
    the work. The idea: Carpentier and Mansard, Analytical derivatives of rigid body dynamics algorithms, RSS 2018.
    With ``free`` no mode is read, as in :func:`motion_program`.
    """
    motion = motion_terms(robot, loads, free)
    x, tree, problem = motion.inputs, motion.tree, motion.problem()
    solved = motion.hybrid(problem)
    found = solved.acceleration
    points, seeds = [], {}
    for name, which in wrt.items():
        checks.check_name(name, x, "input", of="the motion program")
        point = select_entries(x[name], name, which)
        seeds[f"d_{name}"] = ca.SX.sym(f"d_{name}", point.numel())
        points.append(point)
    at, along = ca.vertcat(*points), ca.vertcat(*seeds.values())
    derived = reframe_inertia(tree, x)
    d_derived = [ca.jtimes(expression, at, along) for expression in derived.values()]
    at = ca.vertcat(at, *(x[name] for name in derived))
    along = ca.vertcat(along, *d_derived)
    d_given = select_driven(motion.mode, ca.jtimes(motion.drive, at, along))
    # A symbol in place of the acceleration: differentiating with it held leaves out the derivative of forward dynamics
    # itself, which is the expensive one.
    held = ca.SX.sym("acceleration", 6 + tree.n)

    def value(flat: SX) -> SX:
        return ca.substitute(flat, held, found)

    def change(flat: SX, d_held: SX = d_given) -> SX:
        """Change of these numbers, the free degrees of freedom accelerating as before."""
        return value(ca.jtimes(flat, ca.vertcat(at, held), ca.vertcat(along, d_held)))

    placements = tree.placements(motion.joints)
    needed = inertial_wrenches(tree, placements, problem.velocity, held, motion.inertia, x["rotor"])
    # Wrenches through the joints at the actual motion: they change direction where a joint position changes.
    through = _wrenches(value(_flat(joint_wrenches(tree, placements, needed, motion.wrenches).joint)))
    d_body = _wrenches(change(_flat(net_wrenches(needed.body, motion.wrenches))))
    d_carrier = _wrenches(change(_flat([own or _NOTHING for own in needed.carrier])))
    d_joints = ca.jtimes(motion.joints, at, along)
    for i, joint in enumerate(tree.joints):
        # What goes through a joint turns or shifts with it, on its way to the parent.
        d_carrier[i] = d_carrier[i].plus(scale_spatial(wrench_rate(through[i], joint.subspace), d_joints[i]))
    loops = closures(tree, motion.joints, motion.velocity[6:])
    inertias = articulate_inertias(tree, placements, motion.mode, motion.inertia, x["rotor"], loops)
    force = problem.force - needed.effort
    d_demand, d_loops = list[SX](), list[SX]()
    for loop, own in zip(loops, solved.loops, strict=True):
        # The loops' forces are held like the accelerations: their directions change with the joints around them.
        rows = [6 + i for i in loop.joints]
        pull = ca.SX.sym("loop", own.numel())
        d_pull = ca.jtimes(loop.jacobian.T @ pull, at, along)
        push = ca.SX.zeros(6 + tree.n)
        push[rows] = ca.substitute(d_pull, pull, own)
        d_loops.append(push)
        d_demand.append(change(loop.demand - loop.jacobian @ held[rows]))
    # H da = d(force) - d(demand): the articulated inertias of the point solve for the change, as they did for the
    # motion.
    response = inertias.respond(change(force) + sum(d_loops, ca.SX(0)), d_body, [*d_carrier], d_demand)
    rate = ca.vertcat(motion.pose_rate(), problem.back(found))
    d_rate = change(ca.vertcat(motion.pose_rate(), problem.back(held)), d_given + response.acceleration)
    outputs = {"rate": ca.densify(rate), "d_rate": ca.densify(d_rate)}
    return Program("motion_tangent", {**x, **seeds}, outputs, derived=derived)


_NOTHING = Spatial(ca.SX.zeros(3), ca.SX.zeros(3))


def _flat(wrenches: Sequence[Spatial]) -> SX:
    return ca.vertcat(*(own.stack() for own in wrenches))


def _wrenches(flat: SX) -> list[Spatial]:
    return [spatial(flat[k : k + 6]) for k in range(0, flat.numel(), 6)]
