"""What comes out of a scenario of inertia identification: rows, certificate, figures, the identified robot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from spacearm.identify.inertia._writeback import format_identified_robot
from spacearm.identify.inertia.design import ExperimentPlan, describe_experiment
from spacearm.identify.inertia.figures import figures
from spacearm.identify.inertia.identifiability import Identifiability
from spacearm.identify.inertia.identify import Identification
from spacearm.identify.inertia.inertia_parameters import LINEAR, LINEAR_UNITS
from spacearm.identify.inertia.load import TargetLoad
from spacearm.identify.inertia.montecarlo import MonteCarlo
from spacearm.identify.inertia.online import TargetState
from spacearm.identify.inertia.output_error_fit import nuisance_rows
from spacearm.identify.inertia.readings import MotionRecord
from spacearm.identify.inertia.standard_parameters import ParameterSource, Prior
from spacearm.identify.inertia.validate import HoldOutError, ModelComparison
from spacearm.measure.channels import CHANNELS
from spacearm.result import Check, Checks, Figure
from spacearm.study import Findings, row
from spacearm.study.findings import IdentifiedRobotFile, NotedValue
from spacearm.text_format import format_uncertain
from spacearm.typing import Array

if TYPE_CHECKING:
    from spacearm.identify.inertia.scenario import InertiaFile


#: Fixed numbers that are listed.
MOST_SHARES = 5


class InertiaPrediction(Findings):
    """An experiment that was not used; root mean squares of the errors."""

    held: HoldOutError

    base_rate = row("rad/s", "root mean square", of="held.base_rate")
    base_velocity = row("m/s", "root mean square", of="held.base_velocity")


class InertiaFindings(Findings):
    """What experiments tell about inertias."""

    file: InertiaFile
    possible: Identifiability
    found: Identification
    records: list[MotionRecord]  # as read, those that are held out left out
    truth: Array | None  # base parameters of a robot that was simulated
    carlo: MonteCarlo | None
    prior: Prior | None
    able: bool  # whether the inertias that were found can exist
    held: list[HoldOutError]
    compared: ModelComparison | None
    broken: int  # simulations that are not sound
    checked: dict[str, Check]
    followed: dict[str, list[TargetState]]  # the target's filter, by record
    plan: ExperimentPlan | None
    carried: TargetLoad | None = None

    rank = row(of=lambda w: w.ranks())
    null = row(of=lambda w: {"dimension": w.possible.null_dimension})
    combination = row(of=lambda w: w.combinations())
    numbers = row(name="", of=lambda w: w.each_number())
    impossible = row(
        of=lambda w: {body: NotedValue(why, "no such body exists") for body, why in w.found.impossible.items()}
    )
    nuisance = row(of=lambda w: w.nuisances())
    mode = row(of=lambda w: w.tabulate_modes())
    samples = row(of=lambda w: {name: NotedValue(text) for name, text in w.found.samples.items()})
    suspected = row(of=lambda w: w.list_suspects())
    fixed = row(of=lambda w: {
        one.number.name: NotedValue(one.share, one.text) for one in w.found.consider_shares[:MOST_SHARES]
    })  # fmt: skip
    target = row(of=lambda w: w.tabulate_targets())
    load = row(of=lambda w: None if w.carried is None else w.tabulate_load(w.carried))
    design = row(of=lambda w: None if w.plan is None else w.tabulate_plan(w.plan))
    error = row("standard deviations", of=lambda w: None if w.truth is None else {"largest": w.largest_error()})
    noise = row(of=lambda w: w.tabulate_noise())
    hold_out = row(of=lambda w: {one.experiment: InertiaPrediction(held=one) for one in w.held})
    validation = row(of=lambda w: w.tabulate_validation())

    def ranks(self) -> dict[str, Any]:
        """Numbers of combinations that are determined, after each experiment and in all."""
        total = NotedValue(
            self.possible.rank, f"{self.possible.base_parameters.rank} could be determined by any motion"
        )
        after = {stage.experiment: stage.rank for stage in self.possible.stages}
        return {"after": after, "total": total, "condition": self.possible.stages[-1].condition}

    def combinations(self) -> dict[str, NotedValue]:
        """Base parameters; None where they are not determined."""
        estimate, parameters = self.found.estimate, self.found.problem.base_parameters.parameters
        found = {}
        for name, value, std, unit, own in zip(
            estimate.names, estimate.values, estimate.std, estimate.units, parameters, strict=False
        ):
            known = NotedValue(float(value), f"standard deviation {std:.3g}; {own.formula}", unit)
            unknown = NotedValue(None, "not determined by these experiments", unit)
            found[name] = known if np.isfinite(std) else unknown
        return found

    def each_number(self) -> dict[str, NotedValue]:
        """Every number of every body, with its origin."""
        return {
            f"{one.body}.{one.symbol}": NotedValue(
                None if one.source is ParameterSource.UNDETERMINED else one.value,
                one.text.split(":")[-1].strip(),
                one.unit,
            )
            for one in self.found.known.numbers
        }

    def nuisances(self) -> dict[str, NotedValue]:
        """Nuisance parameters that were estimated."""
        fit = self.found.output_error
        found = [] if fit is None else nuisance_rows(fit)
        factors = np.ones(len(found)) if self.found.factors is None else self.found.factors[-len(found) :]
        pairs = zip(found, factors, strict=True) if found else ()
        return {p.name: NotedValue(float(v), f"standard deviation {std * f:.3g}", p.unit) for (p, v, std), f in pairs}

    def tabulate_modes(self) -> dict[str, Any]:
        """Frequency and damping ratio of each mode."""

        def note(value: float, std: float, unit: str) -> NotedValue:
            return NotedValue(value, f"standard deviation {std:.3g}" if std else "as stated", unit)

        return {
            one.name: {
                "frequency": note(one.frequency, one.frequency_std, "Hz"),
                "damping": note(one.damping, one.damping_std, ""),
            }
            for one in self.found.modes
        }

    def list_suspects(self) -> dict[str, NotedValue]:
        """Suspected faults, the most likely first: by how much each would lower chi-square."""
        return {
            one.name: NotedValue(one.statistic, f"{one.advice}; more unknowns: {one.freedom}")
            for one in self.found.suspects
        }

    def tabulate_targets(self) -> dict[str, Any]:
        """The last estimate of the target's filter, for each record."""
        found: dict[str, Any] = {}
        for record, states in self.followed.items():
            last = states[-1]
            numbers = zip(LINEAR, LINEAR_UNITS, last.values, last.std, strict=True)
            found[record] = {n: NotedValue(float(v), f"standard deviation {s:.3g}", unit) for n, unit, v, s in numbers}
        return found

    def tabulate_load(self, load: TargetLoad) -> dict[str, NotedValue]:
        """The target by itself, with 95 % intervals."""
        found = {}
        for name, value, std, unit in load.rows():
            text = f"standard deviation {std:.3g}; 95 % {value - 1.96 * std:.6g} to {value + 1.96 * std:.6g} {unit}"
            unknown = NotedValue(None, "not determined by these experiments", unit)
            found[name] = NotedValue(value, text, unit) if np.isfinite(std) else unknown
        return found

    def tabulate_plan(self, plan: ExperimentPlan) -> dict[str, Any]:
        """Uncertainties that the designed experiments leave, and what they use."""
        base, robot = self.found.problem.base_parameters, self.found.problem.robot
        sizes = np.array([p.size for p in self.found.problem.parameters[: base.rank]])
        pairs = zip(base.parameters, plan.deviations * sizes, strict=True)
        return {
            "deviation": {
                p.name: NotedValue(float(std), "standard deviation to be expected", p.unit) for p, std in pairs
            },
            "uses": {name: float(value) for name, value in plan.usage.items()},
            "experiments": NotedValue(
                len(plan.experiments),
                ". ".join(f"motion{k}, {describe_experiment(robot, one)}" for k, one in enumerate(plan.experiments, 1)),
            ),
        }

    def largest_error(self) -> float:
        """The largest error of a combination, in standard deviations."""
        assert self.truth is not None
        values, std = (part[: self.truth.size] for part in (self.found.estimate.values, self.found.estimate.std))
        return float(np.nanmax(np.abs((values - self.truth) / std)))

    def tabulate_noise(self) -> dict[str, Any]:
        """The noise that was estimated, by record, and what the Monte Carlo says of the deviations."""
        found: dict[str, Any] = {}
        for record in self.records:
            notes = {
                name: f"estimated from the scatter of the readings, known to {50 * doubt:.2g} %"
                if doubt
                else "typical of such sensors: the readings do not scatter"
                for name, doubt in record.estimated.items()
            }
            found[record.name] = {n: NotedValue(record.sigma[n], note, CHANNELS[n].unit) for n, note in notes.items()}
        if (carlo := self.carlo) is not None:
            found["coverage"] = NotedValue(carlo.coverage, f"of 95 % intervals, {len(carlo.values)} repetitions")
            found["chi_square"] = NotedValue(float(carlo.chi_square.mean()), "per degree of freedom")
        return found

    def tabulate_validation(self) -> dict[str, NotedValue] | None:
        """Differences between the motions of both robots, or why there are none to show."""
        file = self.file
        if not self.able and (file.validation is not None or any(table.hold_out for table in file.tables)):
            why = "the identified inertias belong to no possible body and cannot be simulated"
            return {"possible": NotedValue(False, f"{why}: use method = 'consistent'")}
        note = "against the simulated robot"
        if self.truth is None:
            note = "against the nominal model" if file.real is None else f"against {file.real}"
            note += ", not against the measured robot, whose inertias nobody knows"
        largest = {} if self.compared is None else self.compared.largest()
        return {name: NotedValue(v, note, "m" if name == "base_position" else "rad") for name, v in largest.items()}

    def title(self) -> str:
        return f"Inertia identification of {self.found.known.robot.name}"

    def headline(self) -> str:
        masses = [
            one for one in self.found.known.numbers if one.symbol == "mass" and one.source is ParameterSource.DATA
        ]
        estimate = self.found.estimate
        if masses:
            remarks = [f"{one.body} weighs {format_uncertain(one.value, one.std)} kg" for one in masses[:3]]
            remark = ", ".join(remarks) + (f"; {len(masses) - 3} more bodies are identified" if len(masses) > 3 else "")
        elif estimate.units[0] == "kg" and np.isfinite(estimate.std[0]):
            total = format_uncertain(estimate.values[0], estimate.std[0])
            remark = f"The whole robot weighs {total} kg; no single body's mass is determined by the data"
        else:
            remark = f"{self.possible.rank} combinations of inertias are determined, no mass among them"
        suspects = self.found.suspects
        return remark + (f". Do not rely on it: {suspects[0].advice}." if suspects else ".")

    def summary(self) -> str:
        counts, whole = self.found.known.counts(), self.possible.base_parameters
        text = (
            f"The experiments determine {self.possible.rank} combinations of {whole.unknown} unknown inertia "
            f"parameters; any motion could determine {whole.rank}. Of the single numbers {counts['data']} come from "
            f"the data, {counts['prior']} from the prior, {counts['undetermined']} stay undetermined."
        )
        if self.possible.missing_words:
            text += " Not seen by these experiments: " + "; ".join(self.possible.missing_words[:3]) + "."
        used = "; ".join(f"{name}: {words}" for name, words in self.found.samples.items())
        text += f" Used, by {self.found.estimate.method}: {used}."
        text += f" Standard deviations are by {self.found.interval}."
        if self.found.consider_shares:
            text += f" Of all that is not estimated one number matters most: {self.found.consider_shares[0].text}."
        if self.found.suspects:
            remarks = "; ".join(f"{one.advice} ({one.name})" for one in self.found.suspects[:4])
            text += (
                f"\n\nThe residuals do not fit this model. What would explain them, the most telling first: {remarks}."
            )
        files = {table.name for table in self.file.tables if table.file is not None}
        still = [one.name for one in self.records if one.name in files and not one.thrusters]
        if still and not self.found.certificate().sound:
            text += (
                f" No thruster is told to fire in {', '.join(still)}: if one did, give thruster or thruster_columns."
            )
        return text

    def certificate(self) -> Mapping[str, Checks]:
        noisy = not self.found.problem.assumes_noise
        checks: dict[str, Checks] = {"simulations": Check(float(self.broken), 0.0, "", "runs that broke a law")}
        checks |= self.found.certificate()
        if self.truth is not None and noisy and self.found.estimate.noise_known:
            checks["errors"] = Check(self.largest_error(), 5.0, "", "largest error in standard deviations")
        if self.carlo is not None:
            checks["coverage"] = Check(self.carlo.coverage - 0.94, 0.04, "", "coverage of 95 % intervals minus 0.94")
        if self.carried is not None:
            note = f"{self.carried.body} would carry less than nothing"
            checks["load"] = Check.from_condition(self.carried.is_possible, note)
        return {**checks, "mujoco": self.checked}

    def settings(self) -> Mapping[str, Any]:
        noise = {one.name: dict(one.sigma) for one in self.records}
        first = self.records[0].name
        return {
            "experiments": [table.name for table in self.file.tables if not table.hold_out],
            "method": self.found.estimate.method,
            "samples": self.found.samples,
            "equations": ["motion"] if self.found.output_error is not None else list(self.file.estimate.equations),
            "noise": noise[first] if all(one == noise[first] for one in noise.values()) else noise,
            "prior": "none" if self.prior is None else self.prior.source,
            "passes": list(self.found.problem.base_parameters.passes),
        }

    def figures(self) -> list[Figure]:
        return figures(self.possible, self.found, self.carlo, self.followed)

    def robot_file(self) -> IdentifiedRobotFile | None:
        name, found = self.file.estimate.write, self.found
        if name is None:
            return None
        used = [table.name for table in self.file.tables if not table.hold_out]
        options: dict[str, Any] = {"inertia": found.inertia, "records": used, "method": found.estimate.method}
        options["modes"] = found.mode_errors
        why = "" if self.able else "the identified inertias belong to no possible body"
        return IdentifiedRobotFile(name, lambda: format_identified_robot(found.known, name, **options), why)
