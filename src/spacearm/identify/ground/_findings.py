"""What comes out of a scenario of ground identification: rows, certificate, figures, the identified robot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from spacearm.figures import add_curve, new_figure
from spacearm.identify.ground.held_base import flight_only_parameters
from spacearm.identify.ground.identify import HeldArmIdentification, TorquePrediction
from spacearm.identify.inertia.base_parameters import base_parameters
from spacearm.model.files import file_format, robot_text
from spacearm.result import Checks, Figure, figure_name
from spacearm.study import Findings, row
from spacearm.study.findings import IdentifiedRobotFile, NotedValue

if TYPE_CHECKING:
    from spacearm.identify.ground.scenario import GroundFile

#: Points of a curve that are drawn.
DRAWN = 1500


class TorqueErrors(Findings):
    """Errors of the torques of a record, by joint."""

    found: HeldArmIdentification
    one: TorquePrediction

    error = row(of=lambda w: w.by_joint(w.one.rms, "root mean square"))
    share = row(of=lambda w: w.by_joint(100.0 * w.one.share, "of the root mean square torque", "%"))
    total = row("%", "root mean square of all joints' errors, of all torques", of=lambda w: w.total_share())
    of_limits = row(of=lambda w: w.limit_share())

    def by_joint(self, values: Any, note: str, unit: str = "") -> dict[str, NotedValue]:
        """A number for each joint."""
        joints = self.found.model.robot.joints
        return {
            joint.name: NotedValue(float(value), note, unit or joint.force_unit)
            for joint, value in zip(joints, values, strict=True)
        }

    def total_share(self) -> float:
        """Root mean square of all errors as a share of that of all torques, %."""
        return float(100.0 * np.linalg.norm(self.one.residual) / max(float(np.linalg.norm(self.one.measured)), 1e-300))

    def limit_share(self) -> NotedValue | None:
        """Mean over the joints of the error as a share of twice the effort limit."""
        limits = np.array([joint.limits.effort for joint in self.found.model.robot.joints])
        if not np.all(np.isfinite(limits) & (limits > 0.0)):
            return None
        return NotedValue(100.0 * float(np.mean(self.one.rms / (2.0 * limits))), "mean of all joints", "% of 2 limits")


class GroundFindings(Findings):
    """What joint torques tell about a held arm."""

    file: GroundFile
    found: HeldArmIdentification

    rank = row(of=lambda w: w.ranks())
    combination = row(of=lambda w: w.estimates(slice(0, w.found.model.base.rank)))
    term = row(of=lambda w: w.estimates(slice(w.found.model.base.rank, None)))
    friction_width = row("rad/s", "of the friction's change of sign", of=lambda w: dict(w.found.widths))
    body = row(of=lambda w: w.bodies())
    only_in_orbit = row(of=lambda w: w.flight_only())
    suspected = row(of=lambda w: w.list_suspects())
    used = row(of=lambda w: w.tabulate(held_out=False))
    hold_out = row(of=lambda w: w.tabulate(held_out=True))

    def ranks(self) -> dict[str, Any]:
        """Numbers of combinations that torques show with the base held, and in free flight."""
        robot = self.found.model.robot
        condition = self.found.linear.information.condition if self.found.linear.information else np.nan
        return {
            "ground": NotedValue(self.found.model.base.rank, "combinations that torques show with the base held"),
            "orbit": NotedValue(base_parameters(robot).rank, "combinations that free flight shows"),
            "condition": NotedValue(condition, "of all that is estimated, in typical sizes"),
        }

    def estimates(self, part: slice) -> dict[str, NotedValue]:
        """Values with standard deviations."""
        estimate, base = self.found.estimate, self.found.model.base
        formulas = [p.formula for p in base.parameters] + [""] * (len(estimate.names) - base.rank)
        rows = list(zip(estimate.names, estimate.values, estimate.std, estimate.units, formulas, strict=True))[part]
        found = {}
        for name, value, std, unit, formula in rows:
            note = f"standard deviation {std:.3g}" + (f"; {formula}" if formula else "")
            found[name] = NotedValue(float(value), note, unit)
        return found

    def bodies(self) -> dict[str, NotedValue]:
        """Masses of the complete set for simulation."""
        note = "one of the sets of possible bodies with these combinations; a single mass is not determined"
        pairs = zip(self.found.model.robot.bodies, self.found.inertia.reshape(-1, 10), strict=True)
        return {f"{body.name}.mass": NotedValue(float(numbers[0]), note, "kg") for body, numbers in pairs}

    def flight_only(self) -> dict[str, NotedValue]:
        """Combinations that no motion on the ground shows."""
        hidden = flight_only_parameters(self.found.model.robot, self.found.model.gravity)
        return {p.name: NotedValue(None, f"not shown by torques on a held base: {p.formula}", p.unit) for p in hidden}

    def list_suspects(self) -> dict[str, NotedValue]:
        """Faults that the residuals suggest, the most likely first."""
        whole = max(sum(one.residual.size for one in self.found.predictions if not one.held_out), 1)
        return {
            one.name: NotedValue(100.0 * one.statistic / whole, f"of all residuals are explained by {one.what}", "%")
            for one in self.found.suspects[:12]
        }

    def tabulate(self, *, held_out: bool) -> dict[str, TorqueErrors]:
        """Errors of the records' torques."""
        return {
            one.name: TorqueErrors(found=self.found, one=one)
            for one in self.found.predictions
            if one.held_out is held_out
        }

    def title(self) -> str:
        return f"Ground identification of {self.found.model.robot.name}"

    def headline(self) -> str:
        notes = [one for one in self.found.predictions if one.held_out] or list(self.found.predictions)
        worst = [(float(100.0 * one.share.max()), float(100.0 * np.median(one.share)), one) for one in notes]
        most, middle, one = max(worst, key=lambda entry: entry[0])
        kind = "predicted" if one.held_out else "explained"
        return (
            f"Torques of {one.name!r} are {kind} to {middle:.3g} % of their root mean square "
            f"(median of the joints; {most:.3g} % at worst)."
        )

    def summary(self) -> str:
        found, robot = self.found, self.found.model.robot
        hidden = flight_only_parameters(robot, found.model.gravity)
        merged = [axis for axis, apart in found.model.separable.items() if not apart] if found.model.rotors else []
        text = (
            f"Joint torques with the base held show {found.model.base.rank} combinations of the bodies' inertias; free "
            f"flight shows {base_parameters(robot).rank}, and {len(hidden)} of those cannot be had on the ground: "
            f"{', '.join(p.name for p in hidden[:12])}{', ...' if len(hidden) > 12 else ''}. Friction, torque offsets "
            f"and rotors come from torques alone: without torque sensors the orbit does not show them."
        )
        if merged:
            text += f" The rotors of {', '.join(merged)} rotate as their links do: only the sums are shown."
        factor = float(np.median(found.widening))
        text += f"\n\nIntervals are {factor:.3g} times (median) those of white noise, by the scatter of blocks of data."
        if found.suspects:
            words = "; ".join(f"{one.what} ({one.name})" for one in found.suspects[:4])
            text += f" What the residuals show besides, the most telling first: {words}."
        return text

    def certificate(self) -> Mapping[str, Checks]:
        return dict(self.found.certificate())

    def settings(self) -> Mapping[str, Any]:
        model = self.found.model
        return {
            "records": [one.name for one in self.found.predictions if not one.held_out],
            "held_out": [one.name for one in self.found.predictions if one.held_out],
            "gravity": [float(g) for g in model.gravity],
            "method": self.found.estimate.method,
            "window": self.file.estimate.window,
        }

    def figures(self) -> list[Figure]:
        made = []
        for one in self.found.predictions:
            some = slice(None, None, -(-one.times.size // DRAWN))
            both = new_figure(x="time", x_unit="s", y="torque", y_unit="N m", height=420)
            left = new_figure(x="time", x_unit="s", y="measured - predicted", y_unit="N m", height=420)
            for k, joint in enumerate(self.found.model.robot.joint_names[:8]):
                dots: dict[str, Any] = {"mode": "markers", "marker": {"size": 3}}
                add_curve(both, one.times[some], one.measured[some, k], f"{joint}, measured", colour=k % 8, **dots)
                add_curve(both, one.times[some], one.predicted[some, k], f"{joint}, predicted", colour=k % 8)
                add_curve(left, one.times[some], one.residual[some, k], joint, colour=k % 8)
            kind = "held out" if one.held_out else "used"
            made += [
                Figure(
                    f"torque-{figure_name(one.name)}", both, f"Torques of {one.name} ({kind}), measured and predicted."
                ),
                Figure(f"residual-{figure_name(one.name)}", left, f"Errors of {one.name} ({kind})."),
            ]
        return made

    def robot_file(self) -> IdentifiedRobotFile | None:
        name, found = self.file.estimate.write, self.found
        if name is None:
            return None
        comments = [
            f"Identified on the ground from {', '.join(self.settings()['records'])}.",
            "Only combinations of inertias are determined; single numbers are one possible set.",
            *(f"not shown on the ground: {p.name}" for p in flight_only_parameters(found.model.robot)),
        ]
        why = "the identified inertias belong to no possible body" if found.impossible else ""
        return IdentifiedRobotFile(name, lambda: robot_text(found.robot, file_format(name), comments), why)
