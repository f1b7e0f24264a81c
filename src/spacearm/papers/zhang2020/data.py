"""The arm of Zhang et al. (2020) with any lengths, its hits, and what depends on no length."""

from __future__ import annotations

import numpy as np

from spacearm.capture import SettlingCriterion, SoftAxis, SoftJoint, soften
from spacearm.model import Body, Frame, Inertia, Joint, Pose, Robot
from spacearm.papers.agreement import read_paper_file
from spacearm.simulate import Load

NAME = "zhang2020"
PRINTED = read_paper_file(NAME)
BASE_MASS, SEGMENT_MASS = PRINTED["base_mass"], PRINTED["segment_mass"]  # kg
BASE_IZ, SEGMENT_IZ = PRINTED["base_inertia"][2], PRINTED["segment_inertia"][2]  # kg m2
STIFFNESS: float = PRINTED["stiffness"]  # N/m and N m/rad
#: Components of a load, and each single hit with the axis whose deformation the paper allows it.
PLACES = ("fx", "fy", "fz", "mx", "my", "mz")
SINGLE: dict[str, str] = PRINTED["single"]
DAMPINGS: dict[str, float] = PRINTED["damping"]
CRITERION = SettlingCriterion(0.05)
OTHER_LENGTHS = ((0.3, 0.5), (0.8, 1.0))  # e0, L, m: what the paper could have meant as well


def robot(
    offset: float = 0.55, length: float = 0.75, centroid: float | None = None, damping: float | None = None
) -> Robot:
    """The paper's arm with other lengths (m): base mass centre to joint 1, segment, joint to centroid (default half).

    ``damping`` is that of all axes; without it, Sec. 5.1's.
    """
    at = 0.5 * length if centroid is None else centroid
    segment = Inertia(SEGMENT_MASS, np.array([0.0, 0.0, at]), np.diag(PRINTED["segment_inertia"]))
    base = Body("base", Inertia(BASE_MASS, np.zeros(3), np.diag(PRINTED["base_inertia"])))
    joints = [
        Joint("joint1", "revolute", "base", "segment1", Pose(np.eye(3), np.array([0.0, 0.0, offset]))),
        Joint("joint2", "revolute", "segment1", "segment2", Pose(np.eye(3), np.array([0.0, 0.0, length]))),
    ]
    hand = Frame("hand", "segment2", Pose(np.eye(3), np.array([0.0, 0.0, length])))
    arm = Robot("zhang2020", (base, Body("segment1", segment), Body("segment2", segment)), tuple(joints), (hand,))
    single = PRINTED["single_damping"]
    soft = SoftJoint(**{axis: SoftAxis(STIFFNESS, own if damping is None else damping) for axis, own in single.items()})
    for joint in ("joint1", "joint2"):
        arm = soften(arm, joint, soft, where="instead")
    return arm


def single_hit(entry: str, part: float = 1.0) -> Load:
    """One of the six hits of Sec. 5.1, or a part of it, in the hand's axes."""
    wrench = np.zeros(6)
    wrench[PLACES.index(entry)] = part * PRINTED["force" if entry[0] == "f" else "moment"]
    return Load.pulse("hand", tuple(wrench[:3]), tuple(wrench[3:]), PRINTED["pulse"])


def six_hit() -> Load:
    """The hit of Sec. 5.2: everything at once."""
    return Load.pulse("hand", (PRINTED["force"],) * 3, (PRINTED["moment"],) * 3, PRINTED["pulse"])


def closed_form_modes() -> dict[str, list[float]]:
    """Slide and twist modes (rad/s) of three masses (or inertias) in a row: no length enters."""
    found = {}
    for name, base, segment in (("z_line", BASE_MASS, SEGMENT_MASS), ("z_angle", BASE_IZ, SEGMENT_IZ)):
        # Deformations s1, s2: (1/m) coupling of neighbours; det of [[a + b, -b], [-b, 2 b]] k - w^2.
        a, b = STIFFNESS / base, STIFFNESS / segment
        half, determinant = 0.5 * (a + 3.0 * b), (a + b) * 2.0 * b - b * b
        root = float(np.sqrt(half**2 - determinant))
        found[name] = [float(np.sqrt(half - root)), float(np.sqrt(half + root))]
    return found
