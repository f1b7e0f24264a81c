"""Tables of control laws in a scenario file, and the laws of :mod:`spacearm.control` that they make.

Every kind of law uses some keys only (``uses``); a key without effect is an error. References come from the table or
from a plan; a Cartesian law without a path keeps the pose of its frame at time zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import PrivateAttr, model_validator

from spacearm import control
from spacearm.checks import check_name
from spacearm.control.plans import HandPath
from spacearm.engine.mechanics import mechanics_of
from spacearm.errors import InputError, error_context
from spacearm.mechanics.sensors import Sensor
from spacearm.model import Robot
from spacearm.model.rotations import quaternion_from_rotation
from spacearm.model.toml_schema import Name, Number, Vector3, Vector4
from spacearm.motion._python_laws import load_python_law
from spacearm.simulate import Signal, State, constant
from spacearm.study import ScenarioTable, key
from spacearm.study.signal_tables import SignalKey, SignalTable, no_degrees_reason


class ModulationTable(ScenarioTable):
    """Modulation of thrusters: pulses on the ticks of the law that give a fraction of the thrust."""

    uses: ClassVar = {"pulse_width": ("window",), "pulse_width_frequency": ("gain", "time_constant", "on", "off")}

    kind: Literal["pulse_width", "pulse_width_frequency"]
    window: Number | None = key(None, "time from pulse to pulse, s, a multiple of the law's period")
    gain: Number = key(4.5, "gain of the filter before the trigger")
    time_constant: Number = key(0.15, "time constant of that filter, s")
    on: Number = key(0.45, "level at which the trigger switches on")
    off: Number = key(0.15, "level at which it switches off")

    def make(self) -> control.PulseWidth | control.PulseWidthFrequency:
        if self.kind == "pulse_width_frequency":
            return control.PulseWidthFrequency(self.gain, self.time_constant, self.on, self.off)
        if self.window is None:
            raise InputError("'window' is missing", place="modulation")
        return control.PulseWidth(self.window)


_TIMED = ("period", "delay", "continuous", "sensors", "system")
_HAND = (*_TIMED, "plan", "frame", "reference", "attitude", "axis", "rotation", "joints")


#: One number for all joints, or numbers by joint name.
Gain = Number | dict[str, Number]


class ControlLawTable(ScenarioTable):
    """A control law; see the page on closed loops."""

    key_changes: ClassVar = {"turn": "it is 'rotation' now", "numbers": "it is 'constants' now"}

    uses: ClassVar = {
        "joint_pid": (*_TIMED, "plan", "reference", "stiffness", "damping", "integral"),
        "computed_torque": (*_TIMED, "plan", "reference", "stiffness", "damping", "held"),
        "resolved_rate": (*_HAND, "gain", "rate_gain", "jacobian"),
        "resolved_acceleration": (*_HAND, "stiffness", "damping", "jacobian"),
        "impedance": (*_HAND, "mass", "stiffness", "damping"),
        "coordinated": (
            *_HAND, "stiffness", "damping", "centre", "centre_stiffness", "centre_damping", "momentum_gain",
        ),
        "reaction_null_space": (*_TIMED, "rates", "gain"),
        "attitude_by_wheels": (*_TIMED, "target", "stiffness", "damping", "wheels"),
        "attitude_by_thrusters": (
            "period", "delay", "sensors", "system", "target", "dead_band", "rate_gain", "thrusters", "modulation",
        ),
        "detumble": (*_TIMED, "torque"),
        "python": (*_TIMED, "python", "reference", "constants"),
    }  # fmt: skip

    kind: Literal[
        "joint_pid",
        "computed_torque",
        "resolved_rate",
        "resolved_acceleration",
        "impedance",
        "coordinated",
        "reaction_null_space",
        "attitude_by_wheels",
        "attitude_by_thrusters",
        "detumble",
        "python",
    ]
    python: str | None = key(
        None, "`file.py:function`, relative to the scenario, called with a Plant; its code is executed"
    )
    constants: dict[str, Number | list[Number]] = key(
        {}, "name = numbers, constants that the function reads with `plant.constant(name)`"
    )
    system: Name | None = key(None, "system that the law controls; the scenario's robot if omitted")
    period: Number = key(0.01, "sampling period, s; commands are held between ticks")
    delay: Number = key(0.0, "delay from tick to actuation, s, a multiple of the period")
    continuous: bool = key(False, "evaluated continuously, without ticks")
    sensors: list[Name] | None = key(None, "sensors that it reads; all if omitted")
    plan: Name | None = key(None, "plan that its joints (except held ones) or its frame follow")
    reference: dict[str, SignalKey] = key(
        {}, "reference path of each joint of the law, or of the frame's x, y, z (m, world)"
    )
    held: list[Name] = key([], "further joints that do not move, besides those that the phase locks")
    frame: Name | None = key(
        None, "frame that a Cartesian law moves; axes without a path keep their position at time zero"
    )
    attitude: Literal["hold", "free"] = key(
        "hold", "attitude of that frame: that of the plan, or at time zero without one; or free"
    )
    axis: Vector3 = key([0.0, 0.0, 1.0], "axis about which the frame rotates, world")
    rotation: SignalKey | None = key(None, "angle by which the frame rotates about that axis")
    joints: list[Name] | None = key(None, "joints that move the frame; all except reaction wheels if omitted")
    jacobian: Literal["generalized", "fixed-base"] = key("generalized")
    stiffness: Gain | None = key(
        None,
        "N m/rad or N/m; for computed_torque, resolved_acceleration, coordinated 1/s2; also joint = gain",
    )
    damping: Gain | None = key(
        None, "N m s/rad or N s/m; for computed_torque, resolved_acceleration, coordinated 1/s; also joint = gain"
    )
    mass: Number | None = key(
        None, "apparent mass of an impedance, kg or kg m2; exact if a force/torque sensor is at its frame"
    )
    integral: Gain = key(0.0, "N m/(rad s) or N/(m s); also joint = gain")
    gain: Number = key(1.0, "1/s")
    rates: dict[str, SignalKey] = key({}, "joint = desired rate; all joints except reaction wheels, 0 if omitted")
    centre: dict[str, SignalKey] = key({}, "path of the mass centre, x, y, z, m, world")
    centre_stiffness: Number | None = key(None, "1/s2")
    centre_damping: Number | None = key(None, "1/s")
    momentum_gain: Number | None = key(None, "rate at which angular momentum is removed, 1/s")
    target: Vector4 = key([1.0, 0.0, 0.0, 0.0], "target attitude of the base: quaternion w, x, y, z")
    wheels: list[Name] | None = key(None, "reaction wheels that it uses; all if omitted")
    thrusters: list[Name] | None = key(None, "thrusters that it uses; all if omitted")
    dead_band: Number | None = key(None, "rad; with a modulation, the error at which the torque saturates")
    modulation: ModulationTable | None = key(
        None, "of thrusters: pulses in place of on-off switching on a line in the phase plane"
    )
    rate_gain: Number | None = key(None, "for thrusters, s; for resolved_rate, 1/s")
    torque: Number | None = key(None, "N m")
    _planned: HandPath | None = PrivateAttr(None)

    def follow_path(self, path: HandPath) -> ControlLawTable:
        """The same law along the path of a plan, except for what the table sets itself."""
        # A copy: the same table may serve several phases.
        table = self.model_copy()
        table._planned = path
        return table

    @model_validator(mode="before")
    @classmethod
    def _kind_of_code(cls, given: Any) -> Any:
        """With ``python = ...``, no kind is needed."""
        return {"kind": "python", **given} if isinstance(given, dict) and "python" in given else given

    def build(
        self,
        robot: Robot,
        start: State,
        sensors: Mapping[str, Sensor],
        seed: int,
        others: Mapping[str, tuple[Robot, State]] | None = None,
        folder: Path = Path(),
    ) -> control.Law:
        """The law of this robot, or of another system; ``start`` and ``others`` hold the states at time zero."""
        name = robot.name
        # Gains, frames and references are then those of the named system, not of the scenario's robot.
        if self.system is not None:
            systems = {robot.name: (robot, start), **(others or {})}
            name = check_name(self.system, systems, "system", place="system")
            robot, start = systems[name]
            if self.plan is not None and name in (others or {}):
                raise InputError("plans apply to the scenario's robot only", place="plan", hint="give 'reference'")
        chosen = sensors if self.sensors is None else self.sensors
        read = [sensors[check_name(name, sensors, "sensor", place="sensors")] for name in chosen]
        # Common to all kinds; what differs is added below.
        settings: dict[str, Any] = {"period": None if self.continuous else self.period, "name": self.kind}
        settings |= {"system": name, "sensors": read, "seed": seed} | ({"delay": self.delay} if self.delay else {})
        if self.kind == "python":
            return self._python_law(folder, settings)
        # Only laws in joint space have a gain for each joint.
        if self.kind not in ("joint_pid", "computed_torque"):
            for gain in ("stiffness", "damping"):
                if isinstance(getattr(self, gain), dict):
                    raise InputError(
                        f"is given by joint, which {self.kind} does not allow", place=gain, hint="expected a number"
                    )
        if "frame" in self.uses[self.kind]:
            return self._hand_law(robot, start, settings)
        if self.kind in ("joint_pid", "computed_torque", "reaction_null_space"):
            return self._joint_law(robot, settings)
        if self.kind == "attitude_by_wheels":
            gains = self._require_keys("stiffness", "damping")
            return control.attitude_by_wheels(self.target, **gains, wheels=self.wheels, **settings)
        if self.kind == "attitude_by_thrusters":
            gains = self._require_keys("dead_band", "rate_gain")
            settings |= {"thrusters": self.thrusters, "modulation": self.modulation and self.modulation.make()}
            return control.attitude_by_thrusters(robot, self.target, **gains, **settings)
        return control.detumble(**self._require_keys("torque"), **settings)

    def _require_keys(self, *names: str) -> dict[str, Any]:
        for name in names:
            if getattr(self, name) is None:
                raise InputError(f"{name!r} is missing")
        return {name: getattr(self, name) for name in names}

    def _joint_law(self, robot: Robot, settings: dict[str, Any]) -> control.Law:
        if self.kind == "reaction_null_space":
            names = robot.arm_names
            for name in self.rates:
                check_name(name, names, "joint", of=robot.name, place="rates")
            given = {
                name: path.make_signal(f"rates.{name}", no_degrees_reason(robot, name))
                for name, path in self.rates.items()
            }
            # Every joint of the arm needs a desired rate: the null space is one of all joints together.
            wished = [given.get(name, constant(0.0)) for name in names]
            return control.reaction_null_space(wished, self.gain, **settings)
        gains = self._require_keys("stiffness", "damping")
        joints = [robot.joint(name).name for name in self.reference]
        if not joints:
            raise InputError("'reference' is missing", hint="expected joint = path")
        paths = [
            path.make_signal(f"reference.{name}", no_degrees_reason(robot, name))
            for name, path in self.reference.items()
        ]
        gains = {name: self._joint_gains(name, joints) for name in gains}
        if self.kind == "computed_torque":
            return control.computed_torque(paths, **gains, joints=joints, held=self.held, **settings)
        integral = self._joint_gains("integral", joints)
        return control.joint_pid(paths, **gains, integral=integral, joints=joints, **settings)

    def _joint_gains(self, name: str, joints: Sequence[str]) -> Any:
        """A gain for all joints, or a list with one for each."""
        given = getattr(self, name)
        if not isinstance(given, dict):
            return given
        for joint in given:
            check_name(joint, joints, "joint with a reference", place=name)
        # No default for a joint that is left out: a gain of zero would be a silent fault.
        for joint in joints:
            if joint not in given:
                raise InputError(
                    f"{joint!r} is missing", place=name, hint="expected one for each joint with a reference"
                )
        return [given[joint] for joint in joints]

    def _python_law(self, folder: Path, settings: dict[str, Any]) -> control.Law:
        with error_context("python"):
            build = load_python_law(self._require_keys("python")["python"], folder)
        paths = {name: path.make_signal(f"reference.{name}") for name, path in self.reference.items()}
        # Constants are inputs of the compiled law: scenarios that differ in them share machine code.
        numbers = {name: np.atleast_1d(given) for name, given in self.constants.items()}
        return control.Law(build, references=paths, constants=numbers, **(settings | {"name": self.python}))

    def joints_of(self, robot: Robot) -> set[str] | None:
        """Joints of this robot that the law commands; None if only its compiled program shows them."""
        # Wheels turn for the attitude, not for the arm.
        arm = {*robot.arm_names}
        if self.kind in ("joint_pid", "computed_torque"):
            return {*self.reference}
        if "frame" in self.uses[self.kind]:
            return arm if self.joints is None else {*self.joints}
        return {"reaction_null_space": arm, "python": None}.get(self.kind, set())

    def _hand_law(self, robot: Robot, start: State, settings: dict[str, Any]) -> control.Law:
        frame = self._require_keys("frame")["frame"]
        robot.frame(frame)
        mechanics = mechanics_of(robot)
        # Axes without a path and a held attitude refer to the pose at time zero.
        origin, rotation = mechanics.frame_pose(frame, start.joints, base=start.pose)
        attitude: control.AttitudeRotation | control.AttitudeSpline | None = None
        planned = self._planned
        # Precedence: a rotation in the table, then the attitude of the plan, then that at time zero.
        if self.attitude == "hold" and planned is not None and self.rotation is None:
            attitude = planned.attitude
        elif self.attitude == "hold":
            angle = constant(0.0) if self.rotation is None else self.rotation.make_signal("rotation")
            attitude = control.AttitudeRotation(quaternion_from_rotation(rotation), self.axis, angle)
        # A free attitude has no angle to follow.
        elif self.rotation is not None:
            raise InputError("'rotation' needs attitude = \"hold\"")
        paths = _xyz_paths(
            self.reference, "reference", [*map(constant, origin)] if planned is None else planned.position
        )
        place: dict[str, Any] = {"frame": frame, "position": paths, "attitude": attitude}
        settings |= {"joints": self.joints}
        if self.kind == "resolved_rate":
            # The inner rate loop must be faster than the outer position loop, whose gain is 1/s by default.
            fast = 10.0 if self.rate_gain is None else self.rate_gain
            settings |= {"gain": self.gain, "rate_gain": fast, "jacobian": self.jacobian}
            return control.resolved_rate(**place, **settings)
        gains = self._require_keys("stiffness", "damping")
        if self.kind == "resolved_acceleration":
            return control.resolved_acceleration(**place, **gains, jacobian=self.jacobian, **settings)
        if self.kind == "impedance":
            # With a measured wrench the apparent mass is exact; without it the law cannot shape the inertia.
            feels = any(isinstance(s, control.ForceTorque) and s.frame == frame for s in settings["sensors"])
            force: Literal["measured"] | None = "measured" if feels else None
            return control.impedance(**place, **gains, **self._require_keys("mass"), force=force, **settings)
        # Without a path the mass centre stays where it is at time zero.
        middle = mechanics.centre_of_mass(start.joints, base=start.pose)
        centre = _xyz_paths(self.centre, "centre", [*map(constant, middle)])
        gains |= self._require_keys("centre_stiffness", "centre_damping", "momentum_gain")
        return control.base_arm_coordination(**place, centre=centre, **gains, **settings)


def _xyz_paths(given: Mapping[str, SignalTable], what: str, others: Sequence[Signal]) -> list[Signal]:
    """Paths of x, y, z: those given, or else those of ``others``."""
    for name in given:
        check_name(name, "xyz", "axis", place=what)
    return [
        given[axis].make_signal(f"{what}.{axis}", "a length cannot be given in degrees") if axis in given else others[k]
        for k, axis in enumerate("xyz")
    ]
