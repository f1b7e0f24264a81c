"""Robots with closed loops, and a four-bar linkage by Lagrange's equation of one angle."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from spacearm.model import Body, Frame, Inertia, Joint, Loop, Pose, Robot

#: Crank, coupler, rocker, ground, m.
CRANK, COUPLER, ROCKER, GROUND = 0.2, 0.4, 0.3, 0.4
#: Mass (kg), mass centre from the inner end (m), moment of inertia about it (kg m2).
BARS = {"crank": (0.5, 0.1, 0.004), "coupler": (0.8, 0.2, 0.01), "rocker": (0.6, 0.15, 0.006)}


def at(x: float = 0.0, y: float = 0.0, z: float = 0.0) -> Pose:
    return Pose(np.eye(3), (x, y, z))


def four_bar(
    kind: str = "axis", arm: int = 0, base: str = "free", *, turned: npt.ArrayLike | None = None, **loop: object
) -> Robot:
    """A four-bar linkage in the plane z = 0.1 of its carrier, at the end of an arm of so many joints.

    ``turned``: rotation of the frames at the loop, which changes nothing for hinges of its axis.
    """
    bodies = [Body("base", Inertia(50.0, (0.1, 0.0, 0.05), np.diag([4.0, 5.0, 6.0])))]
    joints, last = [], "base"
    for i in range(arm):
        bodies.append(Body(f"a{i}", Inertia(4.0 - 0.3 * i, (0.05, 0.02, 0.15), np.diag([0.1, 0.12, 0.05]))))
        joints.append(Joint(f"q{i}", "revolute", last, f"a{i}", at(z=0.3), np.eye(3)[[2, 1, 0][i % 3]]))
        last = f"a{i}"
    for name, (mass, centre, inertia) in BARS.items():
        bodies.append(Body(name, Inertia(mass, (centre, 0.0, 0.01), np.diag([0.001, inertia, inertia]))))
    joints.append(Joint("crank", "revolute", last, "crank", at(z=0.1)))
    joints.append(Joint("coupler", "revolute", "crank", "coupler", at(CRANK)))
    joints.append(Joint("rocker", "revolute", last, "rocker", at(GROUND, z=0.1)))
    rotation = np.eye(3) if turned is None else np.asarray(turned)
    frames = (
        Frame("coupler end", "coupler", Pose(rotation, (COUPLER, 0.0, 0.0))),
        Frame("rocker end", "rocker", Pose(rotation, (ROCKER, 0.0, 0.0))),
    )
    if kind == "axis" and "axis" not in loop:
        loop["axis"] = rotation.T @ [0.0, 0.0, 1.0]
    closed = Loop("bar", kind, "coupler end", "rocker end", **loop)  # type: ignore[arg-type]
    return Robot("four-bar", tuple(bodies), tuple(joints), frames, base=base, loops=(closed,))  # type: ignore[arg-type]


def solve_four_bar(angle: complex) -> tuple[complex, complex]:
    """Absolute angles of coupler and rocker at a crank angle, open branch; complex numbers differentiate it."""
    # The end of the crank, and the circle of the coupler's end about it, meet that of the rocker about (GROUND, 0).
    x, y = CRANK * np.cos(angle) - GROUND, CRANK * np.sin(angle)
    square = x * x + y * y
    a = -(COUPLER**2 - square - ROCKER**2) / (2.0 * square)
    h = np.sqrt(ROCKER**2 / square - a * a)
    ex, ey = a * x + h * y, a * y - h * x
    rocker = _angle(ey, ex)
    return _angle(ey - y, ex - x), rocker


def _angle(y: complex, x: complex) -> complex:
    """arctan2 of complex numbers near the real axis."""
    real = np.arctan2(np.real(y), np.real(x))
    return complex(
        real + 1j * (np.imag(y) * np.real(x) - np.imag(x) * np.real(y)) / (np.real(x) ** 2 + np.real(y) ** 2)
    )


def reduced_inertia(angle: float) -> float:
    """I(angle) with kinetic energy I rate^2 / 2, the ground held."""
    step = 1e-30
    phi, psi = (value.imag / step for value in solve_four_bar(angle + 1j * step))
    coupler, rocker = (value.real for value in solve_four_bar(complex(angle)))
    total = 0.0
    for name, rate, turn, tip in (
        ("crank", 1.0, angle, 0.0),
        ("coupler", phi, coupler, 1.0),
        ("rocker", psi, rocker, 0.0),
    ):
        mass, centre, inertia = BARS[name]
        speed = tip * CRANK * np.array([-np.sin(angle), np.cos(angle)])
        speed = speed + rate * centre * np.array([-np.sin(turn), np.cos(turn)])
        total += mass * float(speed @ speed) + inertia * rate**2
    return total


def dual_arm() -> Robot:
    """A satellite with two arms of three joints."""
    bodies, joints, frames = [Body("bus", Inertia(300.0, tensor=np.diag([50.0, 60.0, 70.0])))], [], []
    for side, y in (("left", 0.5), ("right", -0.5)):
        last = "bus"
        for i in range(3):
            bodies.append(Body(f"{side}{i}", Inertia(5.0, (0.4, 0.0, 0.0), np.diag([0.1, 0.4, 0.4]))))
            axis = (0.0, 0.0, 1.0) if i < 2 else (0.0, 1.0, 0.0)
            place = at(0.5, y) if i == 0 else at(0.8)
            joints.append(Joint(f"{side}.q{i}", "revolute", last, f"{side}{i}", place, axis))
            last = f"{side}{i}"
        frames.append(Frame(f"{side} hand", last, at(0.8)))
    return Robot("servicer", tuple(bodies), tuple(joints), tuple(frames))
