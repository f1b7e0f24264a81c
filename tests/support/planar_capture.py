"""Two bodies on a tilted table, by the plain equations of the plane and SciPy: free, pinned at a point, locked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.integrate import solve_ivp

from spacearm.typing import Array


@dataclass(frozen=True)
class Table:
    """Mass centres are the origins; ports in body axes. Coordinates: (x, y, angle) of each body in turn."""

    masses: tuple[float, float]
    inertias: tuple[float, float]
    ports: tuple[tuple[float, float], tuple[float, float]]
    tilt: tuple[float, float]  # m/s2
    drag: float  # N s/m, on both
    pin_damping: float  # N m s/rad
    distance: float  # m, at which the ports are caught
    pinned: float  # s, from the catch to the lock

    @property
    def mass(self) -> Array:
        return np.diag([self.masses[0]] * 2 + [self.inertias[0]] + [self.masses[1]] * 2 + [self.inertias[1]])

    def _force(self, v: Array, pinned: bool) -> Array:
        pull = [m * a for m in self.masses for a in (*self.tilt, 0.0)]
        force = np.array(pull) - self.drag * v * np.array([1, 1, 0, 1, 1, 0])
        torque = self.pin_damping * (v[5] - v[2]) if pinned else 0.0
        return force + torque * np.array([0, 0, 1, 0, 0, -1])

    def motion(self, start: Array, times: Array) -> tuple[Array, float]:
        """Coordinates (T, 6) at these times, and when the second body was caught."""

        def constraint(q: Array, grips: Array, locked: bool) -> tuple[Array, Array]:
            """Rows G with G v = 0, and the part of their derivative that the velocity makes, as a function of it."""
            rows, turns = [], []
            for k, (grip, sign) in enumerate(zip(grips, (1.0, -1.0), strict=True)):
                c, s = np.cos(q[3 * k + 2]), np.sin(q[3 * k + 2])
                arm = np.array([c * grip[0] - s * grip[1], s * grip[0] + c * grip[1]])
                rows.append(sign * np.column_stack([np.eye(2), [-arm[1], arm[0]]]))
                turns.append(sign * -arm)  # times the square of the rate
            extra = np.array([[0.0, 0.0, 1.0, 0.0, 0.0, -1.0]]) if locked else np.zeros((0, 6))
            return np.vstack([np.hstack(rows), extra]), np.array(turns)

        def solve(q: Array, v: Array, force: Array, grips: Array | None, locked: bool) -> Array:
            if grips is None:
                return np.linalg.solve(self.mass, force)
            rows, turns = constraint(q, grips, locked)
            bend = np.concatenate([turns.T @ v[[2, 5]] ** 2, np.zeros(len(rows) - 2)])
            size = len(rows)
            whole = np.block([[self.mass, rows.T], [rows, np.zeros((size, size))]])
            return np.linalg.solve(whole, np.concatenate([force, -bend]))[:6]

        def stopped(q: Array, v: Array, grips: Array, locked: bool) -> Array:
            """Velocity after an impulse that makes G v = 0."""
            rows, _ = constraint(q, grips, locked)
            inverse = np.linalg.inv(self.mass)
            return np.asarray(v - inverse @ rows.T @ np.linalg.solve(rows @ inverse @ rows.T, rows @ v))

        def run(y: Array, begin: float, end: float, grips: Array | None, locked: bool, **more: object) -> object:
            def rate(_: float, y: Array) -> Array:
                q, v = y[:6], y[6:]
                return np.concatenate([v, solve(q, v, self._force(v, grips is not None), grips, locked)])

            own = {"method": "DOP853", "rtol": 1e-11, "atol": 1e-12, "dense_output": True}
            return solve_ivp(rate, (begin, end), y, **own, **more)  # type: ignore[call-overload]

        def near(_: float, y: Array) -> float:
            places = []
            for k, port in enumerate(self.ports):
                c, s = np.cos(y[3 * k + 2]), np.sin(y[3 * k + 2])
                places.append(y[3 * k : 3 * k + 2] + np.array([c * port[0] - s * port[1], s * port[0] + c * port[1]]))
            return float(np.linalg.norm(places[0] - places[1])) - self.distance

        near.terminal = True  # type: ignore[attr-defined]
        first = run(start, 0.0, times[-1], None, False, events=near, max_step=0.05)  # a gate is narrow
        caught, y = first.t[-1], first.y[:, -1]  # type: ignore[attr-defined]
        # The second is held where it is: at the first's port, not at its own.
        c, s = np.cos(y[[2, 5]]), np.sin(y[[2, 5]])
        port = np.array(self.ports[0])
        place = y[:2] + np.array([c[0] * port[0] - s[0] * port[1], s[0] * port[0] + c[0] * port[1]])
        arm = place - y[3:5]
        grips = np.array([port, [c[1] * arm[0] + s[1] * arm[1], -s[1] * arm[0] + c[1] * arm[1]]])
        y = np.concatenate([y[:6], stopped(y[:6], y[6:], grips, False)])
        second = run(y, caught, caught + self.pinned, grips, False)
        y = second.y[:, -1]  # type: ignore[attr-defined]
        y = np.concatenate([y[:6], stopped(y[:6], y[6:], grips, True)])
        third = run(y, caught + self.pinned, max(times[-1], caught + self.pinned + 1.0), grips, True)
        found = np.zeros((times.size, 6))
        for k, t in enumerate(times):
            part = first if t <= caught else second if t <= caught + self.pinned else third
            found[k] = part.sol(t)[:6]  # type: ignore[attr-defined]
        return found, float(caught)


#: A chaser and a target on a table that is not level, and the quantities of scenarios that are their coordinates.
CHASER_AND_TARGET = Table(
    masses=(16.0, 12.0),
    inertias=(0.3, 0.2),
    ports=((0.3, 0.0), (-0.15, 0.02)),
    tilt=(0.004, -0.003),
    drag=0.4,
    pin_damping=0.02,
    distance=0.05,
    pinned=2.0,
)
COORDINATES = ("base_x", "base_y", "base_yaw", "target/base_x", "target/base_y", "target/base_yaw")
#: The chaser as a robot file.
CHASER = """[robot]
name = "chaser"
[[body]]
name = "hull"
mass = 16.0
com = [0.0, 0.0, 0.3]
inertia = [0.4, 0.4, 0.3]
[[frame]]
name = "gripper"
body = "hull"
origin = { xyz = [0.3, 0.0, 0.0] }
"""
