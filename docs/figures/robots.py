"""Draws docs/_static/robots.svg: arms of the catalogue that move while their bases float.

    python docs/figures/robots.py

Each arm turns its joints from one configuration to another; nothing acts from outside and everything was at rest, so
the base follows from zero momentum, H_b nu_b + H_bm dq/dt = 0, integrated here with the library's mass matrix. The mass
centre (cross) must stay where it was: the script fails if it does not.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from spacearm import Mechanics, Pose, Robot
from spacearm.model import catalogue
from spacearm.model.rotations import rotation_from_quaternion

Array = npt.NDArray[np.float64]

STEPS = 400
GHOSTS = 5
WIDTH, HEIGHT = 300.0, 270.0
MARGIN = 26.0


@dataclass(frozen=True)
class Panel:
    """A robot, its motion (degrees), and how it is drawn: size of the base's box (m), where one looks from."""

    robot: str
    title: str
    start: tuple[float, ...]
    end: tuple[float, ...]
    box: tuple[float, float, float]
    right: tuple[float, float, float]
    up: tuple[float, float, float]


PANELS = (
    Panel("xu2017", "Xu 2017: six joints", (0, 28, 95, 0, 30, 0), (70, 55, 40, 0, 70, 0), (1.4, 0.7, 0.7),
          (0.80, -0.60, 0.0), (0.22, 0.29, 0.93)),
    Panel("cai2023", "Cai 2023: seven joints", (0,) * 7, (0, 35, 0, -105, 0, 50, 0), (0.34, 0.34, 0.34),
          (1.0, 0.0, 0.0), (0.0, 0.0, 1.0)),
    Panel("wojtunik2023", "Wojtunik 2023: flexible joint", (0, 0, 0, 0), (75, 75, 60, 45), (0.42, 0.42, 0.42),
          (1.0, 0.0, 0.0), (0.0, 1.0, 0.0)),
    Panel("yoshida1992", "Yoshida 1992: three rods", (0, 0), (-35, 90), (0.0, 0.0, 0.0),
          (1.0, 0.0, 0.0), (0.0, 1.0, 0.0)),
)  # fmt: skip


def motion(mechanics: Mechanics, start: Array, end: Array) -> list[tuple[Array, Array]]:
    """Base poses (position, quaternion) and joint positions at a few instants, zero momentum throughout."""

    def rate(s: float, pose: Array) -> Array:
        base, coupling, _ = mechanics.mass_blocks(start + s * (end - start))
        twist = -np.linalg.solve(base, coupling @ (end - start))
        turn = pose[3:] / np.linalg.norm(pose[3:])
        w, v = turn[0], turn[1:]
        position = rotation_from_quaternion(turn) @ twist[:3]
        return np.concatenate([position, [-v @ twist[3:] / 2], (w * twist[3:] + np.cross(v, twist[3:])) / 2])

    pose = np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
    shots, h = [], 1.0 / STEPS
    for step in range(STEPS + 1):
        s = step * h
        pose[3:] /= np.linalg.norm(pose[3:])
        if step % (STEPS // GHOSTS) == 0:
            shots.append((pose.copy(), start + s * (end - start)))
        k1 = rate(s, pose)
        k2 = rate(s + h / 2, pose + h / 2 * k1)
        k3 = rate(s + h / 2, pose + h / 2 * k2)
        k4 = rate(s + h, pose + h * k3)
        pose = pose + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return shots


def arms(robot: Robot, poses: list[Pose], *, rod: bool) -> list[list[Array]]:
    """Strokes from each body's origin to what it carries and to the hand; a base that is a rod has two halves."""
    lines: list[list[Array]] = []
    for index, (body, pose) in enumerate(zip(robot.bodies, poses, strict=True)):
        ends = [poses[i + 1].translation for i, parent in enumerate(robot.parents) if parent == index]
        ends += [(pose @ frame.placement).translation for frame in robot.frames if frame.body == body.name]
        if index == 0 and rod:
            ends += [2 * pose.translation - ends[0]]
        lines += [[pose.translation, end] for end in ends if np.linalg.norm(end - pose.translation) > 1e-9]
    return lines


FACES = ((0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3))


def draw(panel: Panel) -> str:
    robot = catalogue.load(panel.robot)
    mechanics = Mechanics(robot)
    shots = motion(mechanics, np.radians(panel.start), np.radians(panel.end))
    right = np.array(panel.right) / np.linalg.norm(panel.right)
    up = np.array(panel.up) - right * (right @ panel.up)
    view = np.array([right, up / np.linalg.norm(up)])
    towards = np.cross(view[0], view[1])
    all_poses = []
    for base, q in shots:
        origins, rotations = mechanics.body_poses(q, base=base)
        all_poses.append([Pose(rotation, origin) for rotation, origin in zip(rotations, origins, strict=True)])
    centres = np.array([mechanics.centre_of_mass(q, base=base) for base, q in shots])
    if np.abs(centres - centres[0]).max() > 1e-8:
        sys.exit(f"{panel.robot}: the mass centre moved by {np.abs(centres - centres[0]).max():.2g} m")

    half = np.array(panel.box) / 2
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) * half
    boxes = [poses[0].rotation @ corners.T + poses[0].translation[:, None] for poses in all_poses]
    lines = [arms(robot, poses, rod=not half.any()) for poses in all_poses]
    joined = np.array([point for strokes in lines for stroke in strokes for point in stroke])
    flat = np.concatenate([np.concatenate(boxes, axis=1).T, joined]) @ view.T
    low, high = flat.min(axis=0), flat.max(axis=0)
    scale = min((WIDTH - 2 * MARGIN) / (high - low)[0], (HEIGHT - 2 * MARGIN - 22) / (high - low)[1])
    middle = (low + high) / 2

    def place(point: Array) -> str:
        x, y = (view @ point - middle) * scale
        return f"{WIDTH / 2 + x:.1f},{HEIGHT / 2 + 10 - y:.1f}"

    parts = [f'<text class="title" x="{WIDTH / 2}" y="22">{panel.title}</text>']
    for shot, (poses, strokes, box) in enumerate(zip(all_poses, lines, boxes, strict=True)):
        last = shot == len(all_poses) - 1
        parts.append(f'<g opacity="{1.0 if last else 0.10 + 0.28 * shot / len(all_poses):.2f}">')
        inside = sum(parent == 0 for parent in robot.parents) if half.any() else 0  # the box hides these strokes
        for start, end in strokes[:inside]:
            parts.append(f'<polyline class="arm" points="{place(start)} {place(end)}"/>')
        if half.any():
            for face in FACES:
                a, b, c, d = (box[:, k] for k in face)
                normal = np.cross(b - a, d - a)
                normal /= np.linalg.norm(normal)
                facing = abs(float(normal @ towards))
                outward = float(normal @ ((a + c) / 2 - box.mean(axis=1)))
                if float(normal @ towards) * np.sign(outward) > 1e-6:
                    corners_text = " ".join(place(p) for p in (a, b, c, d))
                    parts.append(
                        f'<polygon class="base" style="--lit:{0.55 + 0.45 * facing:.2f}" points="{corners_text}"/>'
                    )
        for start, end in strokes[inside:]:
            parts.append(f'<polyline class="arm" points="{place(start)} {place(end)}"/>')
        for pose, body in zip(poses[1:], robot.bodies[1:], strict=True):
            if body.inertia.mass > 0:
                x, y = place(pose.translation).split(",")
                parts.append(f'<circle class="joint" cx="{x}" cy="{y}" r="4"/>')
        hand = robot.frame("hand")
        tip = poses[robot.body_index(hand.body)] @ hand.placement
        x, y = place(tip.translation).split(",")
        parts.append(f'<circle class="hand" cx="{x}" cy="{y}" r="5"/></g>')
    x, y = (float(value) for value in place(centres[0]).split(","))
    parts.append(f'<path class="centre" d="M{x - 7:.1f},{y:.1f}h14M{x:.1f},{y - 7:.1f}v14"/>')
    return "\n".join(parts)


STYLE = """
text { font: 600 14px system-ui, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif; fill: #1c2127; }
text { text-anchor: middle; }
.legend { font-weight: 400; font-size: 12.5px; fill: #5b6570; }
.base { fill: #8fa3b8; stroke: #51657a; stroke-width: 1; stroke-linejoin: round; filter: brightness(var(--lit)); }
.arm { stroke: #0072b2; stroke-width: 7; stroke-linecap: round; fill: none; }
.joint { fill: #ffffff; stroke: #0072b2; stroke-width: 2.5; }
.hand { fill: #e69f00; }
.centre { stroke: #d55e00; stroke-width: 2.5; fill: none; }
@media (prefers-color-scheme: dark) {
  text { fill: #e4e8ec; } .legend { fill: #9aa5b1; }
  .base { fill: #6d8196; stroke: #a9bacb; } .arm { stroke: #4aa8e0; } .joint { fill: #14181d; stroke: #4aa8e0; }
}
"""


def picture() -> str:
    columns = len(PANELS)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH * columns:.0f} {HEIGHT + 30:.0f}" role="img">',
        "<title>Arms of the catalogue move while their bases float; the mass centre stays</title>",
        f"<style>{STYLE}</style>",
    ]
    for index, panel in enumerate(PANELS):
        parts.append(f'<g transform="translate({WIDTH * index:.0f},0)">\n{draw(panel)}\n</g>')
    parts.append(
        f'<text class="legend" x="{WIDTH * columns / 2:.0f}" y="{HEIGHT + 16:.0f}">The joints turn, the base follows '
        "from zero momentum, the mass centre (cross) stays. The boxes are not to scale.</text>"
    )
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    target = Path(__file__).parents[1] / "_static" / "robots.svg"
    target.write_text(picture(), encoding="utf-8")
    print(target)
