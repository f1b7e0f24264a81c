"""What comes out of a scenario of free-flight identification: rows, certificate, figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from spacearm.figures import add_curve, new_figure
from spacearm.identify.free_flight.flown_bodies import DEVICE, BodyEstimate, FreeFlightIdentification
from spacearm.identify.free_flight.tumbling import symmetric
from spacearm.optimise.diagnose import LEVEL, whiteness
from spacearm.result import Check, Checks, Figure, figure_name
from spacearm.study import Findings, row
from spacearm.study.findings import NotedValue, xyz
from spacearm.typing import Array

if TYPE_CHECKING:
    from spacearm.identify.free_flight.scenario import FreeFlightFile

ENTRIES = ("xx", "yy", "zz", "xy", "xz", "yz")
UNITS = dict(zip(DEVICE, ("kg m2", *[""] * 6, "rad", "rad", "s"), strict=True))


def moment_error(tensor: Array, reference: Array) -> float:
    """Error of the principal moments of a tensor (6,), %, as the authors of the throws define it."""
    true = np.linalg.eigvalsh(reference)
    return float(100.0 * np.linalg.norm(np.linalg.eigvalsh(symmetric(tensor)) - true) / np.linalg.norm(true))


class BodyFindings(Findings):
    """Results for one body."""

    one: BodyEstimate
    reference: Array | None

    error = row("%", "of the principal moments, length of their difference over length of the reference's",
                of=lambda w: None if w.reference is None else moment_error(w.one.tensor, w.reference))  # fmt: skip
    error_single = row(of=lambda w: w.single_errors())
    turned = row("deg", "between its principal axes and those of the reference", of=lambda w: w.axes_angle())
    deviations = row("", "of a moment about a device axis from the reference: largest, in standard deviations",
                     of=lambda w: w.largest_deviation())  # fmt: skip
    tensor = row(of=lambda w: w.entries())
    moment = row(
        "kg m2",
        "principal, about the mass centre",
        of=lambda w: xyz(np.linalg.eigvalsh(symmetric(w.one.tensor)), "123"),
    )
    mass_centre = row(of=lambda w: w.place())
    drag = row(
        "N m s2",
        "torque of the air by the square of the rate",
        of=lambda w: xyz(w.one.drag) if np.any(w.one.drag) else None,
    )
    flights = row("", "used", of=lambda w: len(w.one.body.flights))
    left = row("%", "residual gyro readings, of the rates' change in flight, root mean square",
               of=lambda w: 100.0 * w.one.share)  # fmt: skip

    def single_errors(self) -> dict[str, NotedValue] | None:
        if self.reference is None:
            return None
        errors = [moment_error(one, self.reference) for one in self.one.single]
        return {
            "mean": NotedValue(float(np.mean(errors)), "of the tensors by one flight each", "%"),
            "largest": NotedValue(float(np.max(errors)), "of the tensors by one flight each", "%"),
        }

    def axes_angle(self) -> float | None:
        """Least angle of a rotation from one set of principal axes to the other, deg."""
        if self.reference is None:
            return None
        own, true = (np.linalg.eigh(tensor)[1] for tensor in (symmetric(self.one.tensor), self.reference))
        own = own * np.sign(np.diag(true.T @ own))  # the sense of an axis is free
        return float(np.degrees(np.arccos(np.clip(0.5 * (np.trace(true.T @ own) - 1.0), -1.0, 1.0))))

    def largest_deviation(self) -> float | None:
        if self.reference is None:
            return None
        away = (self.one.tensor[:3] - np.diag(self.reference)) / self.one.tensor_sd[:3]
        return float(away[np.argmax(np.abs(away))])

    def entries(self) -> dict[str, NotedValue]:
        pairs = zip(ENTRIES, self.one.tensor, self.one.tensor_sd, self.one.white_sd, strict=True)
        return {
            name: NotedValue(float(value), f"standard deviation {sd:.3g}; {white:.2g} if residuals were white", "kg m2")
            for name, value, sd, white in pairs
        }

    def place(self) -> dict[str, NotedValue] | None:
        if self.one.mass_centre is None or self.one.mass_centre_sd is None:
            return None
        pairs = zip("xyz", self.one.mass_centre, self.one.mass_centre_sd, strict=True)
        return {
            name: NotedValue(float(at), f"from the device's origin; deviation {sd:.2g}", "m") for name, at, sd in pairs
        }


class FreeFlightFindings(Findings):
    """Tensors of the bodies, and the device."""

    file: FreeFlightFile
    found: FreeFlightIdentification
    references: Mapping[str, Array | None]
    left_out: Sequence[str]

    mean_error = row(of=lambda w: w.mean_errors())
    body = row(of=lambda w: w.bodies())
    device = row(of=lambda w: w.device_numbers())
    without_flight = row("", "files in which the wheel never rotates", of=lambda w: len(w.left_out))

    def bodies(self) -> dict[str, BodyFindings]:
        return {
            one.body.name: BodyFindings(one=one, reference=self.references[one.body.name]) for one in self.found.bodies
        }

    def mean_errors(self) -> dict[str, NotedValue] | None:
        """Means over what has a reference."""
        pairs = [(one, self.references[one.body.name]) for one in self.found.bodies]
        pooled = [moment_error(one.tensor, true) for one, true in pairs if true is not None]
        single = [moment_error(own, true) for one, true in pairs if true is not None for own in one.single]
        if not pooled:
            return None
        return {
            "bodies": NotedValue(float(np.mean(pooled)), f"of {len(pooled)} bodies, by all flights of each", "%"),
            "flights": NotedValue(float(np.mean(single)), f"of {len(single)} flights, each by itself", "%"),
        }

    def device_numbers(self) -> dict[str, NotedValue]:
        return {
            name: NotedValue(value, f"standard deviation {self.found.device_sd[name]:.2g}", UNITS[name])
            for name, value in self.found.device.items()
        }

    def title(self) -> str:
        return "Inertia tensors from free flight"

    def headline(self) -> str:
        means = self.mean_errors()
        widest = max(float(np.max(one.tensor_sd[:3] / one.tensor[:3])) for one in self.found.bodies)
        count = len(self.found.bodies)
        what = "Tensor of a body" if count == 1 else f"Tensors of {count} bodies"
        text = f"{what}, moments to {100.0 * widest:.2g} % (one standard deviation)"
        if means is None:
            return f"{text}."
        return f"{text}; they differ from their references by {means['bodies'].value:.2g} % on average."

    def summary(self) -> str:
        wide = float(np.median(self.found.widening))
        text = (
            f"Output error of {sum(len(one.body.flights) for one in self.found.bodies)} flights together. Intervals "
            f"are those of the scatter between flights and of the stated deviations; those of white noise, {wide:.2g} "
            f"times (median) narrower, are not used."
        )
        if self.left_out:
            text += (
                f" No flight was found in {', '.join(self.left_out[:8])}{', ...' if len(self.left_out) > 8 else ''}."
            )
        return text

    def certificate(self) -> Mapping[str, Checks]:
        checks: dict[str, Checks] = {"converged": Check.from_condition(self.found.converged, "the search")}
        for one in self.found.bodies:
            name, most = one.body.name, self.file.allowance
            checks[f"possible.{name}"] = Check.from_condition(one.possible, "a body can have this tensor")
            if most is not None:
                note = "residuals as a share of the rates' change in flight; the bound is 'allowance'"
                checks[f"left.{name}"] = Check(one.share, most, "", note)
                continue
            least = LEVEL / (3 * len(one.residuals) * len(self.found.bodies))
            p = min(whiteness(column).p_value for part in one.residuals for column in part.T)
            note = "1 - p of Ljung and Box's test, worst flight and axis; 'allowance' states what the model may leave"
            checks[f"whiteness.{name}"] = Check(1.0 - p, 1.0 - least, "", note)
        return checks

    def settings(self) -> Mapping[str, Any]:
        flight = self.file.flight
        return {"bodies": [one.name for one in self.file.body], "band": flight.band, "sample": flight.sample,
                "drag": self.file.drag}  # fmt: skip

    def figures(self) -> list[Figure]:
        made = []
        for one in self.found.bodies:
            worst = int(np.argmax([np.sqrt(np.mean(part**2)) for part in one.residuals]))
            flight, name = one.body.flights[worst], one.body.name
            both = new_figure(x="time", x_unit="s", y="rate", y_unit="rad/s", height=420)
            times = flight.times - flight.times[0]
            for k, axis in enumerate("xyz"):
                dots: dict[str, Any] = {"mode": "markers", "marker": {"size": 3}}
                add_curve(both, times, flight.rate[:, k], f"{axis}, measured", colour=k, **dots)
                add_curve(both, times, one.predicted[worst][:, k], f"{axis}, predicted", colour=k)
            made.append(
                Figure(f"flight-{figure_name(name)}", both, f"{name}: the flight that fits worst, {flight.name}.")
            )
            left = new_figure(x="time", x_unit="s", y="measured - predicted", y_unit="rad/s", height=420)
            for k, axis in enumerate("xyz"):
                add_curve(left, times, one.residuals[worst][:, k], axis, colour=k)
            made.append(Figure(f"residual-{figure_name(name)}", left, f"{name}: residuals of {flight.name}."))
        return made
