"""Joint identification from a scenario file: tests from files or simulations, one fit, its diagnostics and figures."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from spacearm.checks import check_name, non_negative
from spacearm.errors import InputError, did_you_mean, error_context
from spacearm.identify._fit import solvable
from spacearm.identify.joint._figures import channel_figure, fit_figure, profile_figure, response_figure
from spacearm.identify.joint.identify import identify_joints, predict_search_time, profile_likelihood
from spacearm.identify.joint.joint_fit import JointFit
from spacearm.identify.joint.laws import SPECIFICATION, JointLaw
from spacearm.identify.joint.measured import JointTest, prepare_test
from spacearm.identify.joint.measurement_chain import MeasurementChain
from spacearm.identify.joint.prediction import FrequencyResponse, HoldOutTest, frequency_response, hold_out
from spacearm.identify.joint.reference_simulation import record_reference, simulate_reference
from spacearm.identify.joint.sampling import weight_early_samples
from spacearm.identify.joint.select import CANDIDATES, Selection, select_law
from spacearm.measure import Column, Record, read_record
from spacearm.model import Robot
from spacearm.model.files import robot_text
from spacearm.model.toml_schema import Duration, Name, Number, Seed
from spacearm.optimise.posterior import Profile
from spacearm.result import Check, Checks, Figure
from spacearm.simulate import RunWarning
from spacearm.study import Findings, ScenarioTable, Session, StudyFile, key, row
from spacearm.study.findings import IdentifiedRobotFile, NotedValue
from spacearm.study.keys import keyword_maker
from spacearm.study.sensor_tables import ONE_TABLE, SensorTable, sensors_of
from spacearm.study.signal_tables import SignalTable
from spacearm.study.tables import ColumnTable, MeasuredKeys, Pair
from spacearm.text_format import format_uncertain

DEGREE = np.pi / 180.0
#: Searches that are expected to take longer than this, s, are announced; the method that is the fastest.
LONG_SEARCH, DERIVATIVES = 60.0, "levenberg_marquardt"
#: Channels of poses, and where columns of former names have gone.
POSES = ("position", "attitude", "frame_position", "frame_attitude")
_ATTITUDE = "{}attitude = {{ column = angle }}, or {{ column = [w, x, y, z] }} in space"
_POSITION = "{}position = {{ column = [x, y] }}, or {{ column = [x, y, z] }} in space"
MOVED = {
    f"{old}_{entry}": (_POSITION if entry in "xyz" else _ATTITUDE).format(new)
    for old, new in (("base", ""), ("hand", "frame_"))
    for entry in ("x", "y", "z", "angle", "qw", "qx", "qy", "qz")
}
MOST_SAMPLES = 1_000_000  # of a simulation: more is a slip of the pen, and would fill the memory


class JointLawTable(ScenarioTable):
    """Friction and other laws beyond spring and damper."""

    motor: Literal["none", "coulomb", "stribeck", "lugre"] = key("none", "friction of the motor")
    spring: Literal["none", "coulomb", "stribeck", "lugre"] = key("none", "friction beside the spring")
    cubic: bool = key(False, "a spring that stiffens")
    play: bool = False
    motor_damping: bool = False
    slip_speed: Number = JointLaw.slip_speed
    stribeck_speed: Number = JointLaw.stribeck_speed
    bristle_time: Number = JointLaw.bristle_time
    edge: Number = JointLaw.edge

    make = keyword_maker(JointLaw)


class NuisanceTable(ScenarioTable):
    """What may be wrong besides the joint: estimated with it, tested for, or left alone."""

    delay: Literal["off", "test", "estimate"] = key("test", "of the sensors of links and base against the encoders")
    bias: Literal["off", "test", "estimate"] = key("test", "constant, of the same sensors")
    friction: Literal["off", "test", "estimate"] = key("test", "dry, of motors under a torque")


class NominalJointTable(ScenarioTable):
    """How well numbers are known that are not estimated: standard deviations. What the data do not determine of them
    widens every interval; 0 takes a number as exact. Counted with the method levenberg_marquardt or multi_start, the
    likelihood as cost, and no weighting."""

    sd: Number = key(0.03, "of the bodies' inertias, share of each number's typical size")
    body: dict[Name, Number] = key({}, "body = the same for it alone")
    gear: Number | None = key(
        None, "of the reciprocal of gear ratios, share; if omitted, a ratio of 1 in measured tests counts as left out "
        "(1), all others as exact",
    )  # fmt: skip
    hysteresis: Number = key(0.005, "of dry friction beside a spring, share of its largest torque")
    torque_scale: Number = key(0.01, "of measured torques that drive a motor, share")

    def deviations(self, robot: Robot, measured: bool) -> dict[str, float]:
        """Standard deviations by name, as :func:`identify_joints` takes them; ``measured``: by angles
        in files alone."""
        for name in self.body:
            with error_context("nominal.body"):
                robot.body_index(name)
        found = {"nominal": self.sd, **{str(name): value for name, value in self.body.items()}}
        found |= {"hysteresis": self.hysteresis, "torque_scale": self.torque_scale}
        # A robot file without a gear has a ratio of 1; a motor that really turns as slowly as its joint is rare.
        found |= {"gear": self.gear} if self.gear is not None else {"gear_of_one": 1.0 if measured else 0.0}
        with error_context("nominal"):
            return {name: non_negative(value, name) for name, value in found.items()}


class ReferenceTable(ScenarioTable):
    """A simulated test."""

    duration: Duration = key(10.0, "s")
    sample: Duration = key(0.02, "interval of the samples, s")
    seed: Seed | None = key(0, "of the sensors' noise")
    truth: dict[str, dict[str, Number]] = key(what="joint = its true values; names with `_deg` are in degrees")
    driven: dict[str, SignalTable] = key(what="joint = path; at zero if omitted")
    law: JointLawTable = JointLawTable()

    def values(self, chain: MeasurementChain) -> dict[str, dict[str, float]]:
        """True values by joint, SI."""
        links = {joint.name for joint in chain.flexible}
        for joint, own in self.truth.items():
            if joint not in links:
                raise InputError(f"{joint!r} is not a flexible joint", place="truth", hint=did_you_mean(joint, links))
            for name in own:
                if name.removesuffix("_deg") not in SPECIFICATION:
                    hint = did_you_mean(name, SPECIFICATION)
                    raise InputError(f"there is no parameter {name!r}", place=f"truth.{joint}", hint=hint)
        return {
            joint: {n.removesuffix("_deg"): v * (DEGREE if n.endswith("_deg") else 1.0) for n, v in own.items()}
            for joint, own in self.truth.items()
        }

    def simulate_readings(self, chain: MeasurementChain) -> Any:
        """Readings of the simulated test, without noise."""
        robot, truth = chain.robot, self.values(chain)
        needed = [name for name in robot.joint_names if name not in {joint.name for joint in chain.flexible}]
        for joint in self.driven:
            if joint not in needed:
                raise InputError(f"{joint!r} is not driven", place="driven", hint=did_you_mean(joint, needed))
        paths = {
            joint: self.driven.get(joint, SignalTable(value=0.0)).make_signal(f"driven.{joint}") for joint in needed
        }
        count = round(self.duration / self.sample)
        if not 3 <= count <= MOST_SAMPLES:
            raise InputError(
                f"duration {self.duration:g} s every {self.sample:g} s is not usable",
                hint=f"expected 4 to {MOST_SAMPLES} samples",
            )
        # Division by the rate instead of multiplication by the interval: 0.02 has no exact double, 50 has.
        times = np.arange(count + 1) / (1.0 / self.sample)
        return simulate_reference(robot, chain.frame, truth, paths, times, law=self.law.make())


class TestTable(MeasuredKeys):
    """A test: measured, or simulated with known joints."""

    key_changes: ClassVar = {"twin": "it is 'simulation' now: [test.simulation]"}

    name: Name
    columns: dict[str, ColumnTable] = key(
        {}, "joints, `<joint>.torque`, `position` and `attitude` of the base, `frame_position` and `frame_attitude`"
    )
    gaps: Literal["reject", "keep"] = key("keep", "steps of time longer than 1.5 times the usual")
    simulation: ReferenceTable | None = key(None, "in place of `file`")
    from_rest: bool = key(True, "nothing moves at first")
    base_at_origin: bool = key(False, "the base is at the world's origin at first")
    smooth: bool = key(False, "joints were led along smooth curves: paths are splines with as few pieces as possible")

    def build(self, chain: MeasurementChain, file: JointFile, folder: Path) -> JointTest:
        """The test as the fit takes it."""
        if (self.file is None) == (self.simulation is None):
            raise InputError("needs either a file or a simulation", hint='file = "..." or [test.simulation]')
        options: dict[str, Any] = {
            "torque": "known" if file.drive == "torque" else "measured",
            "smooth": self.smooth,
            "attitude": file.attitude,
            "start_known": self.base_at_origin,
        }
        if self.simulation is None:
            path = folder / str(self.file)
            options |= {"angle": "measured"} if file.angle == "measured" else {"method": file.angle}
            with error_context(file=path):  # what is found out after reading is still the measured file's fault
                return prepare_test(self._read(chain, path), chain, from_rest=self.from_rest, **options)
        with error_context("simulation"):
            seen = self.simulation.simulate_readings(chain)
        rng = None if self.simulation.seed is None else np.random.default_rng(self.simulation.seed)
        if self.base_at_origin:
            options["base_pose"] = seen.base[0]
        options["method"] = "least_squares" if file.angle == "measured" else file.angle
        return prepare_test(record_reference(seen, chain, rng, self.name), chain, **options)

    def _read(self, chain: MeasurementChain, path: Path) -> Record:
        """The measured file."""
        joints = chain.robot.joint_names
        allowed = (*joints, *(f"{name}.torque" for name in joints), *POSES)
        columns: dict[str, Column | str] = {}
        for name, table in self.columns.items():
            with error_context(f"columns.{name}"):
                if name in MOVED:
                    raise InputError("is an old name", hint=f"it is {MOVED[name]} now")
                check_name(name, allowed, "channel")
            column, angle = table.make(), name in joints or name.endswith("attitude")
            # entries of a quaternion have no jumps, Euler angles are read as they are
            single = len(column.names) == 1
            column = replace(column, unwrap=column.unwrap or (angle and single))
            columns[name] = replace(column, name=column.names[0]) if single else column
        time = Column(self.time.single_column("time"), self.time.unit or "s")
        return read_record(path, columns, time=time, missing=self.missing, gaps=self.gaps, name=self.name)


class SelectTable(ScenarioTable):
    """Which law the data ask for."""

    candidates: list[Name] = key(["linear", "cubic", "coulomb", "stribeck"])
    criterion: Literal["aic", "bic", "cross_validation"] = "bic"


class JointFile(StudyFile):
    """Flexible joints from measured motion."""

    needs_mujoco: ClassVar = False
    key_changes: ClassVar = {
        "planar": "the columns say it: position = { column = [x, y] }, attitude = { column = angle } are in the plane",
        "noise": ONE_TABLE.format("noise"),
        "sensors": ONE_TABLE.format("noise"),
    }

    frame: Name = key(what="that the vision system sees beside the base")
    drive: Literal["motor_angle", "torque", "rigid_torque"] = key("motor_angle", "how the model's motors move")
    method: Literal["levenberg_marquardt", "nelder_mead", "multi_start"] = key("levenberg_marquardt", "of the search")
    cost: Literal["likelihood", "paper"] = key("likelihood", "or Eq. 24")
    angle: Literal["least_squares", "position", "orientation", "measured"] = key(
        "least_squares", "how Eq. 21 is solved"
    )
    attitude: bool = key(True, "compare the base's attitude too")
    offset_rate: bool = key(False, "the spring's rate at the start is unknown")
    weighting_decay: Number | None = key(None, "of early weights, s")
    profiles: bool = key(False, "profile likelihoods")
    sensor: list[SensorTable] = key([], "encoders and cameras; noise as of typical ones if omitted")
    law: JointLawTable = JointLawTable()
    nuisances: NuisanceTable = NuisanceTable()
    nominal: NominalJointTable = NominalJointTable()
    bounds: dict[str, Pair] = key({}, "parameter = [lower, upper]; from robot and data if omitted")
    guess: dict[str, Number] = key({}, "parameter = where the search starts")
    fixed: dict[str, Number] = key({}, "parameter = its known value")
    select: SelectTable | None = None
    test: list[TestTable] = key(min_length=1)

    @solvable("joint identification")
    def solve(self, session: Session) -> JointFindings:
        robot = self.load_robot(session)
        with error_context("frame"):
            robot.frame(self.frame)
        # Sensors state how readings are weighted, in measured and in simulated tests alike.
        chain = MeasurementChain(robot, self.frame, [*sensors_of(self.sensor).values()])
        session.report_progress(0.05, "reading the tests")
        tests: dict[bool, list[JointTest]] = {False: [], True: []}
        for index, entry in enumerate(self.test):
            with error_context(f"test[{index}]"):
                tests[entry.hold_out].append(entry.build(chain, self, session.folder))
        used, kept = tests.values()
        if not used:
            raise InputError("every test is held out", place="test", hint="leave out hold_out in at least one")
        bounds = {name: (low, high) for name, (low, high) in self.bounds.items()}
        options = {**self.options("drive", "guess", "fixed", "offset_rate"), "bounds": bounds}
        session.report_progress(0.2, "fitting")
        self._warn_of_long_search(sum(test.time.size for test in used))
        weighting = None if self.weighting_decay is None else weight_early_samples(self.weighting_decay)
        # Caught and raised again afterwards with their own place, so that the fit is not interrupted where warnings are
        # errors.
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            how = {**self.options("law", "method", "cost"), "nuisances": self.nuisances.model_dump()}
            torque = any(name.endswith(".torque") for table in self.test for name in table.columns)
            files = all(table.file is not None for table in self.test)
            # Only where data show nothing of a motor but its inertia over the ratio.
            how["consider"] = self.nominal.deviations(robot, files and not torque and self.drive == "motor_angle")
            fit = identify_joints(robot, used, weighting=weighting, **how, **options)
        for one in caught:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
        session.report_progress(0.5, "what the fit is worth")
        profiles = []
        if self.profiles:
            # A profile spans standard deviations: without a finite one there is nothing to span.
            known = [n for n in fit.model.setup.parameters if n in fit.estimate.names and 0.0 < fit.std(n) < np.inf]
            profiles = [profile_likelihood(fit, name, points=7) for name in known]
        chosen = None
        if self.select is not None:
            with error_context("select"):
                chosen = select_law(robot, used, self._laws(), criterion=self.select.criterion, **options)
        session.report_progress(0.8, "tests held out, frequency response")
        any_test = {name: pair for name, pair in bounds.items() if "." not in name}  # not those of a test by its name
        return JointFindings(
            file=self,
            fit=fit,
            profiles=profiles,
            chosen=chosen,
            held=hold_out(fit, kept, offset_rate=self.offset_rate, bounds=any_test) if kept else [],
            responses=frequency_response(fit, np.geomspace(0.1, 100.0, 200)),
            cross_check=session.cross_check,
        )

    def _warn_of_long_search(self, samples: int) -> None:
        if (seconds := predict_search_time(samples, self.method)) > LONG_SEARCH:
            text = f"{samples} samples: the search takes about {seconds / 60.0:.0f} minutes; fewer samples are faster"
            if self.method != DERIVATIVES:
                text += f", as is method = {DERIVATIVES!r}"
            warnings.warn(text, RunWarning, stacklevel=2)

    def _laws(self) -> dict[str, JointLaw]:
        assert self.select is not None
        for name in self.select.candidates:
            if name not in CANDIDATES:
                hint = did_you_mean(name, CANDIDATES)
                raise InputError(f"there is no candidate {name!r}", place="candidates", hint=hint)
        return {name: CANDIDATES[name] for name in self.select.candidates}


class JointPrediction(Findings):
    """A test that was not used."""

    held: HoldOutTest

    rms = row("deg", "error of the link's angle", of=lambda p: p.held.rms / DEGREE)
    rigid_rms = row("deg", "with a rigid joint", of=lambda p: p.held.rigid_rms / DEGREE)
    chi2 = row("", "1 is a perfect model", of="held.chi2")


class JointFindings(Findings):
    """Findings of a joint identification."""

    file: JointFile
    fit: JointFit
    profiles: list[Profile]
    chosen: Selection | None
    held: list[HoldOutTest]
    responses: list[FrequencyResponse]
    cross_check: bool

    parameters = row(name="", of=lambda i: i.values())
    chi2 = row("", "mean squared residual in standard deviations", of="fit.chi2")
    evaluations = row(of="fit.estimate.evaluations")
    readings = row("", "compared with the model", of=lambda i: i.fit.model.readings)
    outliers = row("", "readings left out", of="fit.outliers")
    suspects = row("", "standard deviations that each would explain", of=lambda i: {
        one.name: NotedValue(one.statistic**0.5, one.advice) for one in i.fit.suspects[:5]
    })  # fmt: skip
    fixed = row("", "share of a variance", of=lambda i: {
        one.number.name: NotedValue(one.share, one.text) for one in i.fit.consider_shares[:5]
    })  # fmt: skip
    correlation = row(of=lambda i: i.correlations())
    intervals = row("", "95 %, profile likelihood", name="", of=lambda i: {
        f"{one.name}.interval": list(one.interval) for one in i.profiles
    })  # fmt: skip
    law = row(of=lambda i: i.laws())
    hold_out = row(of=lambda i: {one.test: JointPrediction(held=one) for one in i.held})
    resonances = row(
        "rad/s",
        name="",
        of=lambda i: {
            f"{one.joint}.resonance": NotedValue(one.resonance, f"motor held; sd {one.resonance_sd:.2g}")
            for one in i.responses
        },
    )

    def values(self) -> dict[str, NotedValue]:
        """Each parameter with its standard deviation, angles in degrees."""
        truths = [entry.simulation.truth for entry in self.file.test if entry.simulation is not None]
        found = {}
        for one in self.fit.summary():
            name, unit, scale = one["name"], one["unit"], 1.0
            if unit.startswith("rad"):
                unit, scale = unit.replace("rad", "deg"), 1.0 / DEGREE
            joint, word = name.split(".")[0], name.rsplit(".", 1)[1]
            notes = ["on a bound"] if name in self.fit.parameters_at_bounds else []
            known = {own[joint][word] for own in truths if word in own.get(joint, {})}
            if len(known) == 1 and word != "offset":
                notes.append(f"simulated with: {known.pop() * scale:g}")
            found[name] = NotedValue(one["value"] * scale, ", ".join(notes), unit)
            found[f"{name}.sd"] = NotedValue(one["sd"] * scale, "", unit)
        return found

    def correlations(self) -> dict[str, float]:
        """Between the joints' parameters."""
        names, matrix = self.fit.estimate.names, self.fit.estimate.correlation
        pairs = zip(*np.triu_indices(min(len(self.fit.model.setup.parameters), len(names)), 1), strict=True)
        return {f"{names[i]}.{names[j]}": float(matrix[i, j]) for i, j in pairs}

    def laws(self) -> dict[str, Any] | None:
        """The law that was chosen, and what each candidate scored."""
        if self.chosen is None or self.file.select is None:
            return None
        criterion = self.file.select.criterion
        value = "prediction" if criterion == "cross_validation" else criterion
        scores = {f"{one.name}.{criterion}": getattr(one, value) for one in self.chosen.candidates}
        return {"": NotedValue(self.chosen.chosen.name, "; ".join(self.chosen.reasons)), **scores}

    def title(self) -> str:
        return f"Flexible joints of {self.fit.model.robot.name}"

    def headline(self) -> str:
        fit, words = self.fit, {"stiffness": "stiffness", "damping": "damping", "motor_inertia": "motor inertia"}
        found = []
        for f in fit.model.setup.flexible[:2]:
            own = {word: f"{f.name}.{name}" for name, word in words.items() if f"{f.name}.{name}" in fit.estimate.names}
            units = dict(zip(fit.estimate.names, fit.estimate.units, strict=True))
            remarks = [
                f"{word} {format_uncertain(fit[name], fit.std(name))} {units[name]}" for word, name in own.items()
            ]
            found += [f"{f.name} has " + ", ".join(remarks)] if remarks else []
        worst = [one for one in fit.suspects if not fit.certificate[f"score.{one.name}"].sound]
        doubt = f" Do not rely on it: {worst[0].what}." if worst else "" if fit.sound else " Do not rely on it."
        return "; ".join(found) + "." + doubt if found else ""

    def _find_ungeared_motors(self) -> list[str]:
        """Joints whose motor inertia hangs on a gear ratio of one: the data show the inertia over the ratio."""
        model, names = self.fit.model, self.fit.estimate.names
        torque = any(channel.endswith(".torque") for test in model.tests for channel in test.measured)
        if torque or model.setup.drive != "motor_angle" or self.file.nominal.gear is not None:
            return []
        return [f.name for f in model.setup.flexible if f.gear == 1.0 and f"{f.name}.motor_inertia" in names]

    def summary(self) -> str:
        remarks = "\n\n".join(self.fit.remarks) or "Every parameter is determined by the data."
        if ungeared := self._find_ungeared_motors():
            remarks += (
                f"\n\nThe gear ratio of {', '.join(ungeared)} is 1: behind a gear of ratio N the motor's inertia is N "
                "times as large. If there is no gear, state nominal.gear = 0; if the ratio is not known, measure the "
                "motor's torque."
            )
        if not self.fit.consider_shares:
            return f"{remarks}\n\nAll that is not estimated is taken as exact."
        return f"{remarks}\n\nOf all that is not estimated one number matters most: {self.fit.consider_shares[0].text}."

    def certificate(self) -> Mapping[str, Checks]:
        found: dict[str, Checks] = dict(self.fit.certificate)
        if self.cross_check:
            why = "the forward model has no counterpart in MuJoCo; its tests hold it against plain runs"
            found["cross_check"] = Check.not_applicable(why)
        return found

    def settings(self) -> Mapping[str, Any]:
        estimate, setup = self.fit.estimate, self.fit.model.setup
        chosen = {"drive": self.file.drive, "method": estimate.method, "law": setup.law.name}
        white = {test: {c: w.p_value for c, w in channels.items()} for test, channels in self.fit.whiteness.items()}
        return {**chosen, "evaluations": estimate.evaluations, "seconds": self.fit.seconds, "whiteness": white}

    def figures(self) -> list[Figure]:
        found = [
            Figure(f"test-{k + 1}", fit_figure(self.fit, k), f"Test {test.name!r}: link minus motor and residuals.")
            for k, test in enumerate(self.fit.model.tests)
        ]
        found += [
            Figure(f"channels-{k + 1}", channel_figure(self.fit, k), f"Test {test.name!r}: measured and predicted.")
            for k, test in enumerate(self.fit.model.tests)
        ]
        if self.profiles:
            plot = profile_figure(self.fit, self.profiles)
            found.append(Figure("profiles", plot, "Profile likelihoods of the common parameters."))
        plot = response_figure(self.responses)
        return [*found, Figure("response", plot, "Link angle for a sinus of the motor angle.")]

    def robot_file(self) -> IdentifiedRobotFile:
        comments = ("joint values identified from measured motion",)
        return IdentifiedRobotFile("identified.toml", lambda: robot_text(self.fit.robot(), "toml", comments))
