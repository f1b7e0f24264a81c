"""The servicer goes to the target: the base flies from hold point to hold point under thrusters, the arm braked.

The last hold point lies before the grasp and moves with the target's body, so that the hand then has little to do. The
law acts on what is known of the target (:mod:`spacearm.mission._navigation`); how well a hold point is kept, the
volumes and the corridor are judged by the truth.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from spacearm.engine import mechanics_of
from spacearm.errors import InputError, error_context
from spacearm.mission import _laws
from spacearm.mission._base_path import HoldPoint
from spacearm.mission._encounter import FACING, GRID, TARGET
from spacearm.mission._limits import LimitUsage, Positive
from spacearm.mission._nearest import States, find_least, limit_most
from spacearm.mission._stages import Flown, StageTable
from spacearm.mission._station import BaseControl, BaseReference, tabulate_levels
from spacearm.mission._zones import KeepOutZoneTable
from spacearm.model import Pose
from spacearm.model.layout import QUATERNION, Layout
from spacearm.model.rotations import rotation_from_rpy, rotation_matrices
from spacearm.model.toml_schema import Duration, Vector3
from spacearm.result import Limit
from spacearm.simulate import Phase, State
from spacearm.study import ScenarioTable, key
from spacearm.study.findings import NotedValue
from spacearm.typing import Array

if TYPE_CHECKING:
    from spacearm.mission._flight import MissionFlight
    from spacearm.mission._laws import Actuators

#: Strategies in which the hand goes with the grasp, as the base does.
STRATEGIES = ("matched", "impedance")
#: rad, of a right angle: a corridor as wide as that is none.
WIDEST = 0.5 * np.pi


class HoldPointTable(ScenarioTable):
    """A hold point: where the base goes to, and how long it stays."""

    either: ClassVar = (("distance", "position"),)

    frame: Literal["target", "orbit"] = key(
        "target", "what it is fixed to: the target's body, or the target's mass centre with world axes"
    )
    distance: Positive | None = key(
        None, "of the hand from the grasp along the grasp's z axis, m; the hand faces the grasp"
    )
    position: Vector3 | None = key(None, "of the base's frame from the target's mass centre, m, axes of `frame`")
    rpy: Vector3 | None = key(
        None, "attitude of the base in `frame`; with `target` the hand faces the grasp if omitted, else as at the start"
    )
    rpy_deg: Vector3 | None = None
    path: Literal["straight", "arc"] = key(
        "straight", "to it: a line, or an arc about the target's mass centre, in axes that change smoothly to `frame`"
    )
    transfer: Duration = key(60.0, "s to get there, a multiple of 0.5 s")
    stay: Duration = key(10.0, "s to stay there, a multiple of 0.5 s")
    corridor: bool = key(
        False, "whether the hand stays in the corridor on this path; keep-out volumes then do not apply"
    )

    def check(self) -> None:
        if self.distance is None and self.position is None:
            raise InputError("has no position", hint="expected 'distance' or 'position'")
        if self.distance is not None and (self.frame != "target" or self.has_key("rpy") or self.has_key("rpy_deg")):
            raise InputError(
                "'distance' is along the grasp's axis", place="distance", hint="expected frame = 'target' without 'rpy'"
            )
        for name in ("transfer", "stay"):
            value = getattr(self, name)
            if abs(value / GRID - round(value / GRID)) > 1e-9:
                raise InputError(f"is {value:g} s", place=name, hint=f"expected a multiple of {GRID:g} s")

    def place(self, flight: MissionFlight) -> HoldPoint:
        """The pose of the base there."""
        robot, start, grasp = flight.actuators.robot, flight.start, flight.table.grasp.pose()
        origin, hand = mechanics_of(robot).frame_pose(flight.actuators.hand, start.joints)
        # Where the hand has to be in the target's frame; with the arm braked, the base follows rigidly.
        facing = grasp.rotation @ FACING
        given, away = self.si_value("rpy"), self.distance or 0.0
        base = Pose(facing, grasp.translation - away * facing[:, 2]) @ Pose(hand, origin).inverse()
        if self.position is not None:
            rotation = base.rotation if self.frame == "target" else rotation_matrices(start.quaternion)
            base = Pose(rotation if given is None else rotation_from_rpy(given), np.array(self.position))
        else:
            # From the target's frame to its mass centre as the laws take it to be.
            base = Pose(base.rotation, base.translation - flight.table.assumed_robot.bodies[0].inertia.com)
        return HoldPoint(self.frame, base, self.transfer, self.stay, self.path == "arc")


class RendezvousTable(StageTable):
    """The base flies to the target by hold points, under thrusters; the arm is braked."""

    called: ClassVar[str] = "rendezvous"

    hold: list[HoldPointTable] = key(
        what="hold points in their order; the last one lies before the grasp", max_length=100
    )
    stiffness: Positive = key(0.04, "of the position's error, 1/s2")
    damping: Positive = key(0.4, "of its rate, 1/s")
    attitude_stiffness: Positive = key(0.09, "of the attitude's error, 1/s2")
    attitude_damping: Positive = key(0.42, "of its rate, 1/s")
    rotation: Literal["wheels", "thrusters"] | None = key(None, "what rotates the base; wheels, if there are any")
    keep: bool = key(
        True, "whether thrusters hold the base at the last hold point until the latch closes; else it floats"
    )
    period: Duration | None = key(None, "s between ticks of the law; chosen from the loop if omitted")
    position_error: Positive = key(0.1, "largest distance from a hold point while the base stays there, m")
    angle_error: Positive | None = key(None, "largest error of its attitude then, rad; 5 deg if omitted")
    angle_error_deg: Positive | None = None
    speed_error: Positive = key(0.05, "largest speed relative to the hold point then, m/s")
    keep_out: list[KeepOutZoneTable] = key([], "volumes that the servicer must not enter", max_length=100)
    corridor: Positive | None = key(None, "half the angle of a cone about the grasp's z axis for the hand, rad")
    corridor_deg: Positive | None = None

    @property
    def duration(self) -> float:
        """Time, s, until the approach of the hand."""
        return sum(hold.transfer + hold.stay for hold in self.hold)

    @property
    def gains(self) -> tuple[float, float, float, float]:
        return self.stiffness, self.damping, self.attitude_stiffness, self.attitude_damping

    @property
    def corridor_angle(self) -> float | None:
        """rad."""
        given = self.si_value("corridor")
        return None if given is None else float(given)

    @property
    def largest_angle(self) -> float:
        """rad."""
        given = self.si_value("angle_error")
        return float(np.radians(5.0)) if given is None else float(given)

    def check(self, strategy: str) -> None:
        """An error where numbers do not fit together."""
        if not self.hold:
            raise InputError("is empty", place="hold", hint="expected one hold point or more")
        for number, hold in enumerate(self.hold):
            with error_context(f"hold[{number}]"):
                hold.check()
        for number, volume in enumerate(self.keep_out):
            with error_context(f"keep_out[{number}]"):
                volume.check()
        if self.hold[-1].frame != "target":
            raise InputError(
                "the last hold point is not fixed to the target", place="hold", hint="expected frame = 'target'"
            )
        if strategy not in STRATEGIES:
            raise InputError(
                f"the hand does not follow the grasp in strategy {strategy!r}", hint=f"expected {STRATEGIES}"
            )
        if self.corridor_angle is not None and not self.corridor_angle < WIDEST:
            raise InputError("is a right angle or more", place="corridor", hint="expected less than 90 deg")

    def control(self, actuators: Actuators, start: State) -> BaseControl:
        """What moves the base, about the mass centre as the arm is at the start."""
        robot = actuators.robot
        by_wheels = bool(robot.wheel_names) if self.rotation is None else self.rotation == "wheels"
        if by_wheels and np.linalg.matrix_rank(actuators.axes) < 3:
            raise InputError(
                "the servicer's wheels cannot rotate it about all axes", place="rendezvous.rotation", hint="thrusters"
            )
        x, y, z = map(float, mechanics_of(robot).centre_of_mass(start.joints))
        control = BaseControl((x, y, z), by_wheels)
        with error_context("rendezvous"):
            tabulate_levels(robot, control.centre, not by_wheels)
        return control

    def hold_points(self, flight: MissionFlight) -> list[HoldPoint]:
        return [hold.place(flight) for hold in self.hold]

    def fly(self, flight: MissionFlight, usage: LimitUsage) -> Flown:
        yield from flight.brake()
        errors, period, thrust = np.zeros(3), self.period, 0.0
        # The arm keeps still, so that base and arm are one body with one mass centre: the table of thrusters then
        # holds.
        for hold in self.hold:
            flight.zone = "corridor" if hold.corridor else "keep-out"
            for stays, duration in ((False, hold.transfer), (True, hold.stay)):
                for end in self._ends(flight, duration):
                    if flight.is_aborted:
                        return [], self._numbers(flight, thrust)
                    flight.look()
                    reference = flight.base_reference()
                    assert reference is not None
                    law = _laws.track_base(flight.actuators, reference, period)
                    phase = Phase(min(end, flight.abort_time) - flight.context.time, laws=law, name=self.called)
                    thrust = max(thrust, self._thrust_share(flight, reference, phase.duration))
                    # The loop is the same in all phases: it is checked and its period chosen once.
                    yield from flight.phase(usage, phase, is_checked=period is not None and period != self.period)
                    period = next((log.law.period for log in flight.context.commands if log.law is not None), None)
                    if stays:
                        found, limits = self._judge_stay(flight, hold.place(flight))
                        errors = np.maximum(errors, found)
                        usage.keep(limits)
                        if any(limit.is_broken for limit in limits) and not flight.file.continue_after_limit:
                            return [], self._numbers(flight, thrust, errors)
        return [], self._numbers(flight, thrust, errors)

    @staticmethod
    def _ends(flight: MissionFlight, duration: float) -> Iterator[float]:
        """Times at which phases end: paths are planned anew as readings of a camera arrive."""
        camera, begin = flight.file.navigation.camera, flight.context.time
        count = 1 if camera is None else max(1, round(duration / camera.update))
        return iter(begin + duration / count * np.arange(1, count + 1))

    def _judge_stay(self, flight: MissionFlight, hold: HoldPoint) -> tuple[Array, list[Limit]]:
        """Errors of position (m), attitude (rad), velocity (m/s) in the phase before, by the target's true motion."""
        largest, limits = np.zeros(3), []
        bounds = (
            ("hold position", self.position_error, "m"),
            ("hold attitude", self.largest_angle, "rad"),
            ("hold velocity", self.speed_error, "m/s"),
        )
        for k, (name, most, unit) in enumerate(bounds):
            # The largest error: the least of its negative.
            times, values = find_least(
                *flight.context.samples,
                lambda states, k=k: -_stay_errors(flight, hold, states)[:, k : k + 1],  # type: ignore[misc]
                -most,
            )
            limits.append(limit_most(name, -values[:, 0], most, unit, "base", times))
            largest[k] = limits[-1].used
        return largest, limits

    @staticmethod
    def _thrust_share(flight: MissionFlight, reference: BaseReference, duration: float) -> float:
        """Largest level of a thruster that the path alone asks for; above 1 the base lags behind."""
        path, control, times = reference.path, reference.control, np.linspace(0.0, duration, 50)
        rates = [signal.derivative() for signal in path.position]
        parts = (path.position, rates, [signal.derivative() for signal in rates])
        place, speed, asked = (np.stack([signal(times) for signal in signals], axis=1) for signals in parts)
        n = reference.orbit
        # Hill's equations: what the orbit gives without thrust.
        field = n * np.stack([3.0 * n * place[:, 0] + 2.0 * speed[:, 1], -2.0 * speed[:, 0], -n * place[:, 2]], axis=1)
        rotation = rotation_matrices(np.stack([signal(times) for signal in path.quaternion], axis=1))
        robot = flight.actuators.robot
        # The path alone, without feedback: where this is above 1 no gain can keep the base on it.
        force = robot.mass * np.einsum("tji,tj->ti", rotation, asked - field)
        _, table = tabulate_levels(robot, control.centre, not control.by_wheels)
        return float((np.maximum(force, 0.0) @ table[:3] + np.maximum(-force, 0.0) @ table[6:9]).max())

    def _numbers(self, flight: MissionFlight, thrust: float, errors: Array | None = None) -> dict[str, Any]:
        share = NotedValue(thrust, "of full thrust, that the path asks for; above 1 the base lags behind")
        found: dict[str, Any] = {"thrust": share}
        if errors is not None:
            found["error"] = {
                "position": NotedValue(float(errors[0]), "largest while it stayed at a hold point", "m"),
                "attitude": NotedValue(float(errors[1]), "", "rad"),
                "velocity": NotedValue(float(errors[2]), "", "m/s"),
            }
        far, _, speed = flight.gap()
        found["distance"] = NotedValue(far, "of hand and grasp, at the end", "m")
        found["speed"] = NotedValue(speed, "of the grasp from the hand then", "m/s")
        if flight.navigation is not None:
            found["navigation"] = flight.navigation.rows(flight.context.time)
        return found


def _stay_errors(flight: MissionFlight, hold: HoldPoint, states: States) -> Array:
    """Errors (T, 3) of a base at a hold point: of its position, m, attitude, rad, and velocity, m/s."""
    base, target = states[flight.name], states[TARGET]
    rotations = [rotation_matrices(each[:, QUATERNION]) for each in (base, target)]
    moving, carried = (
        np.einsum("tij,tj->ti", rotation, each[:, Layout.from_size(each.shape[1]).linear_velocity])
        for rotation, each in zip(rotations, (base, target), strict=True)
    )
    angular_velocity = np.einsum(
        "tij,tj->ti", rotations[1], target[:, Layout.from_size(target.shape[1]).angular_velocity]
    )
    # Hold points lie about the mass centre as it is taken to be: here that point of the true body.
    com = rotations[1] @ flight.table.assumed_robot.bodies[0].inertia.com
    axes = rotations[1] if hold.frame == "target" else np.broadcast_to(np.eye(3), rotations[1].shape)
    arm = axes @ hold.pose.translation
    speed = carried + np.cross(angular_velocity, com + arm if hold.frame == "target" else com)
    aim = axes @ hold.pose.rotation
    # The sine and the cosine of the angle between both: precise for small angles too.
    between = np.swapaxes(aim, 1, 2) @ rotations[0]
    sine = 0.5 * np.stack([between[:, 2, 1] - between[:, 1, 2], between[:, 0, 2] - between[:, 2, 0],
                           between[:, 1, 0] - between[:, 0, 1]], axis=1)  # fmt: skip
    cosine = 0.5 * (np.trace(between, axis1=1, axis2=2) - 1.0)
    return np.stack(
        [
            np.linalg.norm(base[:, :3] - target[:, :3] - com - arm, axis=1),
            np.arctan2(np.linalg.norm(sine, axis=1), cosine),
            np.linalg.norm(moving - speed, axis=1),
        ],
        axis=1,
    )
