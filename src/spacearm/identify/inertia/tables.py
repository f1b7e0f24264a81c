"""Tables of a scenario file of inertia identification: how to estimate, what is known, what else is wanted.

Experiments and the study itself are in :mod:`spacearm.identify.inertia.scenario`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from pydantic import AfterValidator

from spacearm.checks import non_negative, positive
from spacearm.errors import InputError, error_context
from spacearm.identify._nuisances import INERTIA_NUISANCES
from spacearm.identify.inertia.design import ExperimentLimits, ExperimentPlan, design
from spacearm.identify.inertia.identify import Identification
from spacearm.identify.inertia.load import TargetLoad, extract_load
from spacearm.identify.inertia.standard_parameters import Prior
from spacearm.identify.inertia.validate import SineTorque
from spacearm.mechanics.sensors import Sensor
from spacearm.model import Robot
from spacearm.model.files import file_format
from spacearm.model.toml_schema import Duration, Name, Number, Seed, integer_between
from spacearm.study import ScenarioTable, Session, key
from spacearm.study.keys import RobotTable, keyword_maker, validation_error
from spacearm.study.scenario import Progress
from spacearm.study.tables import ConfigurationKeys, Count

#: Nuisances that are the size of the thrust.
THRUST = ("thrust", "thrusters")
if TYPE_CHECKING:
    NuisanceName = str
else:  # the words of the file are those of the table
    NuisanceName = Literal[tuple(INERTIA_NUISANCES)]


def check_plain_name(name: str) -> str:
    """A robot file's plain name: what a scenario writes stays in the folder of its results."""
    hint = "expected a plain file name, such as identified.toml: it is written into the folder of the results"
    if name != PurePath(name).name or name.startswith("."):
        raise validation_error("leads out of that folder", hint)
    try:
        file_format(name)
    except InputError as error:
        raise validation_error(error.message, error.hint) from None
    return name


class EstimateTable(ScenarioTable):
    """How to estimate."""

    either: ClassVar = (("known_bodies", "unknown_bodies"),)

    method: Literal["output-error", "total", "linear", "consistent"] | None = key(
        None, "output-error where the records have position, attitude, joints and their noise; else total"
    )
    equations: tuple[Literal["momentum", "dynamics"], ...] = key(("momentum",), "of methods other than output-error")
    nuisances: dict[NuisanceName, bool | Literal["test"] | Number] = key(
        {},
        'true: estimated; a number: estimated, with this prior standard deviation about zero; "test": only tested, '
        "the default; false: neither",
    )
    prior: Number | None = key(None, "uncertainty of the nominal model, as a share of each number's typical size")
    known_bodies: list[Name] = key([], "whose inertias are known")
    unknown_bodies: list[Name] = key([], "those of all others are known")
    known_mass_centre: list[Name] = key([], "bodies whose mass and mass centre are known")
    segment: Duration | None = key(None, "cut records into intervals of about this length, s, each with its own start")
    write: Annotated[Name, AfterValidator(check_plain_name)] | None = key(None, "robot file with what was found")

    def prior_of(self, nominal: Robot, name: str) -> Prior | None:
        """The prior: what is known before the experiments; None where nothing is."""
        exact = list(self.known_bodies)
        with error_context("estimate"):
            if self.unknown_bodies:
                wanted = {nominal.body_index(body) for body in self.unknown_bodies}
                exact = [body for k, body in enumerate(nominal.body_names) if k not in wanted]
            parts = [Prior.from_known_bodies(nominal, exact, f"{', '.join(exact)} known")] if exact else []
            for body in self.known_mass_centre:
                parts.append(Prior.from_known_mass_centre(nominal, body, f"mass and mass centre of {body} known"))
            if self.prior is not None:
                source = f"nominal model {name} with {100 * self.prior:g} % deviation"
                parts.append(Prior.from_nominal(nominal, self.prior, source))
        if not parts:
            return None
        sigma = np.min([part.sigma for part in parts], axis=0)
        return Prior(parts[0].mean, sigma, "; ".join(part.source for part in parts))

    def estimated_nuisances(self) -> dict[str, float]:
        """Nuisances that are looked for, with the deviation that they are assumed to have."""
        given = {str(name): value for name, value in self.nuisances.items() if value is not False and value != "test"}
        with error_context("estimate.nuisances"):
            return {name: np.inf if value is True else positive(value, name) for name, value in given.items()}

    def tested_nuisances(self) -> list[str]:
        """Nuisances that are tested."""
        return [name for name in INERTIA_NUISANCES if self.nuisances.get(name, "test") == "test"]


class NominalInertiaTable(ScenarioTable):
    """How well numbers are known that are not estimated: standard deviations. What the data do not determine of them
    widens every interval; 0 takes a number as exact."""

    sd: Number = key(0.03, "of the inertias of known bodies, share of each number's typical size")
    body: dict[Name, Number] = key({}, "known body = the same for it alone")
    thrust: Number = key(0.03, "of all thrusters together, share of the stated thrust; exact if nuisances estimate it")
    thrusters: Number = key(0.01, "of each thruster besides, share of the stated thrust; likewise")
    thrust_direction: Number = key(0.01, "of each thruster, rad about each axis")
    encoder_offset: Number = key(0.001, "of the zero of each joint's encoder, rad or m")
    mount: Number = key(0.002, "of the place of the base's sensors, along each axis, m")

    def deviations(self, robot: Robot, estimated: Collection[str]) -> dict[str, float]:
        """Standard deviations by name, as :func:`identify` takes them.

        A file that has its thrust ``estimated`` says there how well it is known: no default is added to that.
        """
        for name in self.body:
            with error_context("nominal.body"):
                robot.body_index(name)
        found = {"nominal": self.sd, **{str(name): value for name, value in self.body.items()}}
        stated = THRUST if not {*estimated} & {*THRUST} else self.model_fields_set
        names = [name for name in NominalInertiaTable.model_fields if name in INERTIA_NUISANCES]
        found |= {name: getattr(self, name) for name in names if name not in THRUST or name in stated}
        with error_context("nominal"):
            return {name: non_negative(value, name) for name, value in found.items()}


class TargetFilterTable(ScenarioTable):
    """One body's ten numbers while samples arrive, all others known."""

    body: Name
    every: Count = key(50, "samples between estimates")
    relative: Number = key(1.0, "standard deviation of the first guess, share of each number's typical size")


class TargetLoadTable(ScenarioTable):
    """A captured target that is fused with the body that holds it: its own mass, mass centre and tensor."""

    robot: RobotTable = key(what="the same robot with nothing in its hand, whose inertia of that body is known")
    body: Name | None = key(None, "that holds the target; the one that carries `frame`")
    frame: Name | None = key(None, "of the target, in which its numbers are given; that of the body if omitted")
    doubt: Number = key(0.0, "how well the holding body is known, share of each number's typical size")

    def extract(self, found: Identification, session: Session) -> TargetLoad:
        """The target that the body carries."""
        robot = found.known.robot
        with error_context("load"):
            if self.body is None and self.frame is None:
                raise InputError("names neither a body nor a frame", hint="expected body or frame")
            frame = None if self.frame is None else robot.frame(self.frame)
            body = self.body or (frame.body if frame is not None else "")
            place = None if frame is None else frame.placement
            return extract_load(found, body, session.robot(self.robot, "load.robot"), doubt=self.doubt, placement=place)


class ExperimentDesignTable(ConfigurationKeys):
    """A plan of experiments that leave the least uncertainty, within limits; the robot is the nominal model."""

    motions: Count = key(2, "experiments")
    duration: Duration = key(60.0, "of each, s")
    angle: Number | None = key(None, "largest excursion of a joint, rad or m")
    angle_deg: Number | None = key(None, "30 if omitted")
    rate: Number | None = key(None, "largest joint rate, rad/s or m/s")
    rate_deg: Number | None = key(None, "6 if omitted")
    attitude: Number | None = key(None, "largest turn of the base, rad")
    attitude_deg: Number | None = key(None, "30 if omitted")
    impulse: Number = key(np.inf, "most impulse of the thrusters, N s")
    clearance: Number = key(0.0, "least distance of a link's end from the base's origin, m")
    margin: Number = key(0.0, "least gap between collision shapes of the robot, m")
    pulses: Annotated[int, integer_between(0, 1000)] = key(6, "of thrusters")
    criterion: Literal["D", "A"] = key("D", "mean logarithm, or root mean square, of the deviations")
    candidates: Count = key(12, "random starts")
    refinements: Count = key(40, "changes of the best")
    seed: Seed = 0

    def plan(self, robot: Robot, sensors: Sequence[Sensor], prior: Prior | None, report: Progress) -> ExperimentPlan:
        """The best experiments found."""
        limits = ExperimentLimits(**self.options("angle", "rate", "attitude", "impulse", "clearance", "margin"))
        options = self.options("motions", "duration", "pulses", "criterion", "candidates", "refinements", "seed")
        return design(robot, self.positions(robot), sensors, limits, prior=prior, progress=report, **options)


class InertiaMonteCarloTable(ScenarioTable):
    """The experiments again and again with other noise."""

    samples: Count = 100
    seed: Seed = 0


class TorqueTable(ScenarioTable):
    """A sine."""

    joint: Name
    amplitude: Number = key(what="N m or N")
    frequency: Number = key(what="rad/s")
    phase: Number = key(0.0, "rad")

    make = keyword_maker(SineTorque)


class ValidationTable(ConfigurationKeys):
    """Both robots, as found and as simulated, moved by the same torques."""

    duration: Duration = key(2.0, "s")
    torque: list[TorqueTable] = key([])
