"""A sixth study, as another package would bring it: where a robot's mass centre is, and how far joints move it."""

from __future__ import annotations

from typing import Any

import numpy as np

from spacearm.engine import mechanics_of
from spacearm.errors import InputError, error_context
from spacearm.figures import add_curve, new_figure
from spacearm.model import Robot
from spacearm.model.toml_schema import Name
from spacearm.result import Check, Figure
from spacearm.study import Findings, Session, StudyFile, dataset, key, row
from spacearm.study.findings import xyz
from spacearm.study.keys import check_distinct
from spacearm.study.tables import ConfigurationKeys, Count


class SweepTable(ConfigurationKeys):
    """A joint turned once around, the others as they are."""

    name: Name
    joint: Name = key(what="that is moved")
    points: Count = key(181, "along the turn")


class MassCentreFile(StudyFile):
    """Where the mass centre is."""

    sweep: list[SweepTable] = key([], "joints that are moved")

    def solve(self, session: Session) -> MassCentre:
        robot = session.robot(self.robot)
        check_distinct(self.sweep, "sweep")
        sweeps = {}
        for k, table in enumerate(self.sweep):
            with error_context(f"sweep[{k}]"):
                index = robot.joint_index(table.joint)
                if robot.joints[index].kind != "revolute":
                    raise InputError(f"joint {table.joint!r} slides", place="joint", hint="expected one that turns")
                angles = np.linspace(0.0, 2.0 * np.pi, table.points)
                joints = np.tile(table.positions(robot), (table.points, 1))
                joints[:, index] = angles
                sweeps[table.name] = Sweep(angles=angles, path=mechanics_of(robot).centre_of_mass(joints))
        return MassCentre(robot=robot, sweep=sweeps)


class Sweep(Findings):
    """The circle that the mass centre runs along."""

    angles: Any
    path: Any
    radius = row("m", "of the circle", of=lambda s: 0.5 * np.linalg.norm(s.path - s.path[0], axis=1).max())


class MassCentre(Findings):
    """What the study gives."""

    robot: Robot
    sweep: dict[str, Sweep] = row()
    mass = row("kg", "of all bodies", of="robot.mass")
    zero = row("m", "in the zero configuration, base frame", name="centre", of=lambda m: xyz(m.centre()))

    def centre(self) -> Any:
        return mechanics_of(self.robot).centre_of_mass(np.zeros(self.robot.n))

    def title(self) -> str:
        return f"Mass centre of {self.robot.name}"

    def certificate(self) -> dict[str, Check]:
        summed = sum(body.inertia.mass for body in self.robot.bodies)
        return {"mass": Check(self.robot.mass - summed, 1e-9, "kg", "against the sum of the bodies")}

    def data(self) -> Any:
        return dataset(
            {"xyz": list("xyz"), **{f"angle_{n}": (f"angle_{n}", s.angles, "rad", n) for n, s in self.sweep.items()}},
            {f"path_{n}": (f"angle_{n} xyz", s.path, "m", "mass centre") for n, s in self.sweep.items()},
        )

    def figures(self) -> list[Figure]:
        figure = new_figure(x="x", x_unit="m", y="y", y_unit="m")
        for k, (name, sweep) in enumerate(self.sweep.items()):
            add_curve(figure, sweep.path[:, 0], sweep.path[:, 1], name, colour=k)
        return [Figure("paths", figure, "Ways of the mass centre, seen along z.")]
