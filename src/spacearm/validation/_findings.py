"""Findings of a validation: rows, checks, curves and figures of measured and predicted quantities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from spacearm.figures import add_curve, new_figure
from spacearm.measure import Record
from spacearm.model import Robot
from spacearm.result import Check, Checks, Figure, figure_name
from spacearm.scene import Scene, scene_of
from spacearm.simulate import Run
from spacearm.study import Findings, row
from spacearm.study.findings import NotedValue, dataset
from spacearm.text_format import format_number
from spacearm.typing import Array
from spacearm.validation._assumptions import RelaxedAssumption, relax_assumptions
from spacearm.validation._balance import MeasuredBalance, measure_balance
from spacearm.validation._measured_run import MeasuredRun
from spacearm.validation.comparison import WITHIN, ChannelComparison, Comparison, worst_channels

#: By this part of its band a linearised prediction may be off.
CURVATURE = 0.5
#: Channels that the first sentence names, and that have a figure.
MOST_NAMED, MOST_FIGURES = 3, 12
#: Relaxed assumptions that have rows, and the share below which none is named.
MOST_RELAXED, SMALL_SHARE = 5, 0.02


class ChannelFindings(Findings):
    """One quantity."""

    found: ChannelComparison

    rms = row(
        "", "measured less predicted, after the fit", of=lambda c: NotedValue(c.found.rms, "", c.found.readings.unit)
    )
    end_z = row("1", "last residual in standard deviations of prediction and reading", name="end.z", of="found.end_z")
    end_sd = row(
        "", "of the prediction at the last reading", name="end.sd",
        of=lambda c: NotedValue(float(c.found.spread[-1]), "", c.found.readings.unit),
    )  # fmt: skip
    within = row("1", "share of the readings within the 95 % band", of="found.share_within")
    white = row(
        "1", "how often white noise looks as coloured as what the uncertain numbers leave", name="white.p",
        of="found.whiteness.p_value",
    )  # fmt: skip


class UncertainFindings(Findings):
    """An uncertain number."""

    value: float = row("", "as fitted; as stated where nothing is fitted")
    sd: float = row("", "standard deviation that is left")
    asked: float = row("", "as all readings have it, those that were not fitted too")
    share: float = row("1", "of the variance of the prediction at its end, from this number alone")


class RelaxedFindings(Findings):
    """An assumption that was relaxed."""

    value: NotedValue = row("", "estimate from all readings, the uncertain numbers fitted anew")
    sd: NotedValue = row("", "its standard deviation, widened by what is left")
    share: float = row("1", "of the sum of squares of all readings that it explains")


class CatchFindings(Findings):
    """Momentum of the measured motion over a catch, less what measured forces, gravity and pushes gave."""

    linear: float = row("N s", "change of linear momentum from before the catch to after it")
    linear_sd: float = row("N s", name="linear.sd")
    angular: float = row("N m s", "change of angular momentum about the world's origin")
    angular_sd: float = row("N m s", name="angular.sd")


class BalanceFindings(Findings):
    """Momentum and energy of the measured motion itself, less what measured forces, gravity and pushes gave."""

    linear: float = row("N s", "rms about the mean over the run")
    linear_sd: float = row("N s", "standard deviation of a value, from the readings", name="linear.sd")
    angular: float = row("N m s", "rms about the mean over the run, about the world's origin")
    angular_sd: float = row("N m s", name="angular.sd")
    energy_start: float = row("J", "kinetic, at the start", name="energy.start")
    energy_end: float = row("J", "kinetic, at the end", name="energy.end")
    catch: CatchFindings | None = row()


class ValidationFindings(Findings):
    """A measured run and its prediction."""

    run: Run
    comparison: Comparison
    record: Record
    fit: float
    names: list[str]
    stated: Array
    deviations: Array
    relaxed: list[RelaxedAssumption]
    measured_balance: MeasuredBalance | None
    measured_states: dict[str, tuple[Robot, Array, Array]]

    channel = row(of=lambda v: {name: ChannelFindings(found=each) for name, each in v.comparison.channels.items()})
    uncertain = row(of=lambda v: v.uncertain_numbers())
    chi_square = row(
        "1", "for each reading that was not fitted, with the covariance of the prediction: 1 where the stated "
        "uncertainties explain the residuals", of="comparison.chi_square.ratio",
    )  # fmt: skip
    readings = row("1", "that were not fitted", of=lambda v: int(v.comparison.chi_square.freedom))

    assumption = row(of=lambda v: v.relaxed_rows(), name="relaxed")
    balance = row(of=lambda v: v.balance_rows())

    def relaxed_rows(self) -> dict[str, RelaxedFindings]:
        found = {}
        for each in self.relaxed[:MOST_RELAXED]:
            found[each.name] = RelaxedFindings(
                value=NotedValue(each.value, "", each.unit),
                sd=NotedValue(each.sd, "", each.unit),
                share=each.share,
            )
        return found

    def balance_rows(self) -> BalanceFindings | None:
        own = self.measured_balance
        if own is None:
            return None
        change = own.change()
        return BalanceFindings(
            linear=float(np.sqrt(np.mean(np.sum((own.linear - own.linear.mean(axis=0)) ** 2, axis=1)))),
            linear_sd=float(np.median(own.linear_sd)),
            angular=float(own.angular.std()),
            angular_sd=float(np.median(own.angular_sd)),
            energy_start=float(own.energy[0]),
            energy_end=float(own.energy[-1]),
            catch=None if change is None else CatchFindings(
                linear=change[0], linear_sd=change[1], angular=change[2], angular_sd=change[3]
            ),
        )  # fmt: skip

    def uncertain_numbers(self) -> dict[str, UncertainFindings]:
        found, left = self.comparison, np.sqrt(np.diag(self.comparison.covariance))
        # Fitted numbers are in standard deviations from the stated ones: back to their own units.
        values, asked = (self.stated + each * self.deviations for each in (found.deviations, found.asked))
        columns = zip(self.names, values, left * self.deviations, asked, found.shares, strict=True)
        return {
            name: UncertainFindings(value=float(value), sd=float(sd), asked=float(all_), share=float(share))
            for name, value, sd, all_, share in columns
        }

    def worst(self) -> str:
        """Name of the channel that is predicted worst."""
        return worst_channels(self.comparison)[0]

    def relaxed_text(self) -> str:
        """The assumption that, if relaxed, explains most of what is left; empty if there is none."""
        if not self.relaxed or self.relaxed[0].share < SMALL_SHARE:
            return ""
        first = self.relaxed[0]
        return f"{first.name}: {first.estimate()} ({100.0 * first.share:.0f} %)"

    def asked_text(self) -> str:
        """The uncertain number that is farthest from what all readings have, with both values."""
        found = self.comparison
        off = np.abs(found.asked - found.deviations) / np.sqrt(np.diag(found.covariance))
        name = self.names[int(np.argmax(off))]
        own = self.uncertain_numbers()[name]
        return (
            f"{name}: {format_number(own.asked, 4)} and not {format_number(own.value, 4)} ± {format_number(own.sd, 2)}"
        )

    def title(self) -> str:
        return f"Prediction of {self.record.name}"

    def headline(self) -> str:
        most = self.comparison.chi_square.bounds()[1]
        ratio = self.comparison.chi_square.ratio
        numbers = self.comparison.numbers
        asked = numbers.ratio > numbers.bounds()[1]
        verb = "do not explain" if ratio > most or asked else "explain"
        texts = []
        # The worst first: a reader must see where the prediction fails.
        for name in worst_channels(self.comparison)[:MOST_NAMED]:
            own = self.comparison.channels[name]
            texts.append(
                f"{name}: rms {format_number(own.rms, 3)} {own.readings.unit}, {own.end_z:+.1f} sd at the end, "
                f"{100.0 * own.share_within:.0f} % within the 95 % band"
            )
        relaxed = self.relaxed_text()
        lead = f" All readings ask for another {self.asked_text()}." if asked else ""
        if ratio > most and relaxed:
            lead += f" Of the assumptions, this explains most of what is left: {relaxed}."
        return (
            f"The stated uncertainties {verb} what was measured: chi-square {format_number(ratio, 3)} for each "
            f"reading, at most {format_number(most, 3)} by chance. {'; '.join(texts)}.{lead}"
        )

    def summary(self) -> str:
        start = "from the stated start" if not self.fit else f"after a fit of the first {format_number(self.fit, 3)} s"
        dropped = f" {self.record.dropped} rows of the file were left out." if self.record.dropped else ""
        matters = ""
        if self.names:
            first = int(np.argmax(self.comparison.shares))
            share = 100.0 * float(self.comparison.shares[first])
            matters = f" Of the uncertain numbers, {self.names[first]} matters most at the end ({share:.0f} %)."
        bounded = [name for name, at_bound in zip(self.names, self.comparison.bounded, strict=True) if at_bound]
        if bounded:
            matters += f" The fit left {', '.join(bounded)} at the bound of what is possible."
        return (
            f"{self.record.name} is predicted {start} over {self.run.end_time:g} s; "
            f"{int(self.comparison.chi_square.freedom)} readings of {len(self.comparison.channels)} quantities are "
            f"judged.{matters}{dropped}"
        )

    def certificate(self) -> Mapping[str, Checks]:
        chi = self.comparison.chi_square
        note = "chi-square for each reading that was not fitted, against its 99.9 % bound: else something is missing"
        asked = "the same of the change of the uncertain numbers that judged readings ask for"
        bent = "part of its band by which the linearised prediction is off, one deviation of a number away"
        return {
            # Numerics, statistics and linearity together: agreement of an unsound run would be worthless.
            **(self.run.certificate or {}),
            "explained": Check(chi.ratio, chi.bounds()[1], "", note),
            "numbers": Check(self.comparison.numbers.ratio, self.comparison.numbers.bounds()[1], "", asked),
            "linear": Check(self.comparison.curvature, CURVATURE, "", bent),
        }

    def settings(self) -> Mapping[str, Any]:
        return {"file": self.record.source, "events": [f"{e.time:.9g} s: {e.kind} {e.name}" for e in self.run.events]}

    def data(self) -> Any:
        columns: dict[str, Any] = {}
        coordinates: dict[str, Any] = {}
        for name, own in self.comparison.channels.items():
            # Each quantity has its own times: readings may be missing.
            clock, label = f"time_{figure_name(name)}", figure_name(name)
            coordinates[clock] = (clock, own.readings.times, "s", "since the start of the run")
            columns[f"{label}_measured"] = (clock, own.readings.values, own.readings.unit, name)
            columns[f"{label}_predicted"] = (clock, own.predicted, own.readings.unit, name)
            columns[f"{label}_sd"] = (clock, own.band, own.readings.unit, "of measured less predicted")
        return dataset(coordinates, columns)

    def scene(self) -> Scene:
        return scene_of(self.run, ghosts={f"{name}, measured": motion for name, motion in self.measured_states.items()})

    def figures(self) -> list[Figure]:
        found = []
        # The worst first: a page unfolds its first figures only.
        for name in worst_channels(self.comparison)[:MOST_FIGURES]:
            own = self.comparison.channels[name]
            # Prediction and reading together: the band is for readings, not for the mean.
            times, width = own.readings.times, WITHIN * own.band
            figure = new_figure(x="time", x_unit="s", y=name, y_unit=own.readings.unit)
            figure.add_scatter(
                x=[*times, *times[::-1]], y=[*(own.predicted + width), *(own.predicted - width)[::-1]], fill="toself",
                line={"width": 0}, name="95 % band", opacity=0.3, hoverinfo="skip", mode="lines",
            )  # fmt: skip
            add_curve(figure, times, own.predicted, "predicted", colour=0)
            add_curve(figure, times, own.readings.values, "measured", colour=1, mode="markers", size=4)
            if self.fit:
                figure.add_vline(x=self.fit, line={"dash": "dot", "width": 1})
            fitted = (
                f" Readings left of the dotted line, up to {format_number(self.fit, 3)} s, were fitted."
                if self.fit else ""
            )  # fmt: skip
            text = f"Measured and predicted {name}; the band holds 95 % of the readings if all is as stated.{fitted}"
            found.append(Figure(figure_name(name), figure, text))
        return [*found[:2], *self._relaxed_figure(), *found[2:], *self._balance_figures()]

    def _relaxed_figure(self) -> list[Figure]:
        """Assumptions that, if relaxed, explain what is left, with their estimates."""
        shown = [each for each in self.relaxed[:MOST_RELAXED] if each.share >= SMALL_SHARE]
        if not shown:
            return []
        figure = new_figure(x="share of the sum of squares", x_unit="%", y="")
        figure.add_bar(
            x=[100.0 * each.share for each in shown], y=[each.name for each in shown], orientation="h",
            text=[each.estimate() for each in shown], textposition="outside", cliponaxis=False, showlegend=False,
        )  # fmt: skip
        # Room for the estimates beside the bars: inside a short one nobody can read them.
        figure.update_xaxes(range=[0.0, 140.0 * max(each.share for each in shown)])
        figure.update_yaxes(autorange="reversed", automargin=True)
        text = (
            "Assumptions that, if one of them is relaxed, explain most of what is left, each with its estimate and "
            "standard deviation. A lead, not a proof: those that move the readings alike share the credit."
        )
        return [Figure("relaxed", figure, text)]

    def _balance_figures(self) -> list[Figure]:
        own = self.measured_balance
        if own is None:
            return []
        figure = new_figure(x="time", x_unit="s", y="momentum", y_unit="N s")
        for k, axis in enumerate("xy"):
            add_curve(figure, own.times, own.linear[:, k], f"along {axis}", colour=k)
        rotation = new_figure(x="time", x_unit="s", y="angular momentum", y_unit="N m s")
        add_curve(rotation, own.times, own.angular, "about the world's z", colour=0)
        energy = new_figure(x="time", x_unit="s", y="kinetic energy", y_unit="J")
        add_curve(energy, own.times, own.energy, "measured", colour=0)
        for each in (figure, rotation, energy):
            if own.catch is not None:
                each.add_vline(x=own.catch, line={"dash": "dot", "width": 1})
        text = "of what was measured, less the impulse of forces, gravity and pushes: constant if nothing else acted."
        sds = [format_number(float(np.median(sd)), 2) for sd in (own.linear_sd, own.angular_sd)]
        loss = "" if own.catch is None else ": a plastic catch loses some of it"
        return [
            Figure("momentum", figure, f"Linear momentum {text} Standard deviation of a value: {sds[0]} N s."),
            Figure(
                "angular_momentum", rotation,
                f"Angular momentum about the origin {text} Standard deviation of a value: {sds[1]} N m s.",
            ),
            Figure("energy", energy, f"Kinetic energy of what was measured{loss}."),
        ]  # fmt: skip


def make_findings(measured: MeasuredRun, found: Comparison) -> ValidationFindings:
    """Findings of a measured run and its comparison."""
    uncertain = measured.file.uncertain
    names = [entry.key for entry in uncertain]
    file, run = measured.run_tables(measured.changed_tables(found.deviations))
    return ValidationFindings(
        run=run,
        comparison=found,
        record=measured.record,
        fit=measured.fit,
        names=names,
        stated=np.array([measured.uncertain_value(name) for name in names]),
        deviations=np.array([entry.sd for entry in uncertain]),
        relaxed=relax_assumptions(measured, found) if measured.file.relax else [],
        measured_balance=measure_balance(measured, file),
        measured_states=measured.motion.histories(),
    )
