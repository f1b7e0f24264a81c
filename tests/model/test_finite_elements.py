"""Matrices of finite elements: forms of files, rigid motions, damping, errors; shapes of modes in a scene."""

from __future__ import annotations

import math
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from spacearm import Body, Inertia, Robot, State, load, save
from spacearm.errors import ModelError
from spacearm.model._finite_elements import FiniteElements, read_finite_elements
from spacearm.model.appendages import add_appendage, make_boom, reduce_elements, reduce_fixed_interface
from spacearm.scene import scene_of
from spacearm.typing import Array

LENGTH, MASS, FLEXURAL, COUNT = 3.0, 8.0, 200.0, 12
HUB = Robot("hub", (Body("bus", Inertia(400.0, tensor=np.diag([60.0, 80.0, 70.0]))),), ())


def beam(viscous: bool = False) -> FiniteElements:
    """A beam along x with all six components of its nodes: bending along y and z, stiff along and about x."""
    h, line = LENGTH / COUNT, MASS / LENGTH
    bend = FLEXURAL / h**3 * np.array([[12, 6 * h, -12, 6 * h], [6 * h, 4 * h**2, -6 * h, 2 * h**2],
                                       [-12, -6 * h, 12, -6 * h], [6 * h, 2 * h**2, -6 * h, 4 * h**2]])  # fmt: skip
    move = line * h / 420 * np.array([[156, 22 * h, 54, -13 * h], [22 * h, 4 * h**2, 13 * h, -3 * h**2],
                                      [54, 13 * h, 156, -22 * h], [-13 * h, -3 * h**2, -22 * h, 4 * h**2]])  # fmt: skip
    pull, share = np.array([[1.0, -1.0], [-1.0, 1.0]]), np.array([[2.0, 1.0], [1.0, 2.0]]) / 6.0
    size = 6 * (COUNT + 1)
    mass, stiffness = np.zeros((size, size)), np.zeros((size, size))

    def add(whole: Array, part: Array, rows: list[int], signs: Array) -> None:
        whole[np.ix_(rows, rows)] += part * np.outer(signs, signs)

    for e in range(COUNT):
        a, b = 6 * e, 6 * (e + 1)
        # The slope of a deflection along z is minus the rotation about y.
        for rows, signs, factor in (([a + 1, a + 5, b + 1, b + 5], np.ones(4), 4.0),
                                    ([a + 2, a + 4, b + 2, b + 4], np.array([1.0, -1.0, 1.0, -1.0]), 1.0)):  # fmt: skip
            add(stiffness, factor * bend, rows, signs)
            add(mass, move, rows, signs)
        for first, rigidity, inertia in ((0, 1e6, line), (3, 50.0, 0.02)):
            add(stiffness, rigidity / h * pull, [a + first, b + first], np.ones(2))
            add(mass, inertia * h * share, [a + first, b + first], np.ones(2))
    nodes = {10 * (k + 1): np.array([k * h, 0.0, 0.0]) for k in range(COUNT + 1)}
    dof = np.array([(node, component) for node in nodes for component in range(1, 7)])
    return FiniteElements(mass, stiffness, nodes, dof, 1e-3 * stiffness if viscous else None)


def nastran_text(elements: FiniteElements, form: str) -> str:
    """Grid points and symmetric matrices as Nastran cards."""
    lines = ["$ written for a test"]
    for node, place in elements.nodes.items():
        if form == "large":
            lines.append(f"GRID*   {node:>16}{'':>16}{place[0]:16.9E}{place[1]:16.9E}")
            lines.append(f"*       {place[2]:16.9E}")
        elif form == "small":
            lines.append(f"GRID    {node:>8}{'':>8}{place[0]:8.5f}{place[1]:8.5f}{place[2]:8.5f}")
        else:
            lines.append(
                f"GRID,{node},,{place[0]!r},{place[1]!r},{place[2]!r}".replace("np.float64(", "").replace(")", "")
            )
    for name, matrix in (("KAAX", elements.stiffness), ("MAAX", elements.mass)):
        if form == "free":
            lines.append(f"DMIG,{name},0,6,2,0,,,{len(matrix)}")
        elif form == "small":
            lines.append(f"DMIG    {name:<8}{0:>8}{6:>8}{2:>8}{0:>8}")
        else:
            lines.append(f"DMIG    {name:<8}{0:>8}{6:>8}{2:>8}{0:>8}{'':>8}{'':>8}{len(matrix):>8}")
        for j, (node, component) in enumerate(elements.dof.tolist()):
            rows = [(*elements.dof[i].tolist(), matrix[i, j]) for i in range(j, len(matrix)) if matrix[i, j]]
            if form == "large":
                lines.append(f"DMIG*   {name:<16}{node:>16}{component:>16}")
                lines += [f"*       {n:>16}{c:>16}{v:16.9E}".replace("E", "D") for n, c, v in rows]
            elif form == "free":
                n, c, v = rows[0]
                lines.append(f"DMIG,{name},{node},{component},,{n},{c},{float(v)!r}")
                lines += [f",{n},{c},{float(v)!r}" for n, c, v in rows[1:]]
            else:
                # Two entries to a line, numbers without the letter of their exponent.
                texts = [f"{n:>8}{c:>8}{f'{v:.2E}'.replace('E', ''):>8}{'':>8}" for n, c, v in rows]
                lines.append(f"DMIG    {name:<8}{node:>8}{component:>8}{'':>8}{texts[0]}")
                lines += [f"{'':>8}{''.join(texts[k : k + 2])}" for k in range(1, len(texts), 2)]
    return "\n".join(lines)


def test_a_beam_by_its_matrices_is_the_boom() -> None:
    elements = beam()
    assert np.abs(elements.stiffness @ elements.rigid).max() < 1e-6 * np.abs(elements.stiffness).max()
    reduced = reduce_elements("panel", elements, [10], share=0.9)
    boom = make_boom("boom", LENGTH, MASS, (4.0 * FLEXURAL, FLEXURAL), modes=10, torsion=(50.0, 0.02 * LENGTH))
    assert reduced.inertia.mass == pytest.approx(MASS)
    np.testing.assert_allclose(reduced.inertia.com, [LENGTH / 2, 0, 0], atol=1e-12)
    lowest = [mode for mode in reduced.modes if mode.frequency < 10.0]
    assert len(lowest) > 3
    for ours in lowest:
        theirs = min(boom.modes, key=lambda mode: abs(mode.frequency / ours.frequency - 1.0))
        assert ours.frequency == pytest.approx(theirs.frequency, rel=2e-3)
        np.testing.assert_allclose(np.abs(ours.participation), np.abs(theirs.participation), rtol=5e-3, atol=1e-6)


def test_every_form_of_file_gives_the_same_matrices(tmp_path: Path) -> None:
    elements = beam(viscous=True)
    nodes = np.array([[number, *place] for number, place in elements.nodes.items()])
    arrays = {"mass": elements.mass, "stiffness": elements.stiffness, "nodes": nodes, "dof": elements.dof}
    np.savez(tmp_path / "panel.npz", **arrays, damping=elements.damping)
    folder = tmp_path / "panel"
    folder.mkdir()
    for name, values in arrays.items():
        np.savetxt(folder / f"{name}.csv", values, delimiter=",", fmt="%.17g")
    forms = {"large": 1e-9, "free": 1e-15, "small": 1e-2}
    for form in forms:
        (tmp_path / f"{form}.pch").write_text(nastran_text(elements, form))
    for path, accuracy in [("panel.npz", 0.0), ("panel", 0.0), *((f"{form}.pch", forms[form]) for form in forms)]:
        found = read_finite_elements(tmp_path / path)
        np.testing.assert_array_equal(found.dof, elements.dof)
        np.testing.assert_allclose(found.mass, elements.mass, rtol=accuracy)
        np.testing.assert_allclose(found.stiffness, elements.stiffness, rtol=accuracy)
        np.testing.assert_allclose([*found.nodes.values()], [*elements.nodes.values()], atol=1e-5)
        assert (found.damping is None) == (path != "panel.npz")


def test_the_damping_matrix_gives_each_mode_its_ratio() -> None:
    """C = a K: the ratio of a mode is a w / 2."""
    reduced = reduce_elements("panel", beam(viscous=True), [10])
    for mode in reduced.modes:
        assert mode.damping == pytest.approx(0.5e-3 * 2.0 * math.pi * mode.frequency, rel=1e-9)
    with pytest.raises(ModelError, match="damping matrix and a damping ratio"):
        reduce_elements("panel", beam(viscous=True), [10], damping=0.01)


def test_a_robot_file_names_the_matrices(tmp_path: Path) -> None:
    elements = beam()
    (tmp_path / "panel.pch").write_text(nastran_text(elements, "large"))
    text = """
    [robot]
    name = "satellite"
    [[body]]
    name = "bus"
    mass = 400.0
    inertia = [60.0, 80.0, 70.0]
    [[appendage]]
    name = "panel"
    body = "bus"
    origin = { xyz = [0.5, 0.0, 0.0] }
    matrices = { file = "panel.pch", interface = [10], damping = 0.01, share = 0.9 }
    """
    path = tmp_path / "robot.toml"
    path.write_text(text)
    robot = load(path)
    assert robot.mass == pytest.approx(400.0 + MASS)
    assert robot.joint_names[0] == "panel.mode1"
    save(robot, tmp_path / "copy.toml")
    assert load(tmp_path / "copy.toml") == robot
    # As a mounted robot may, the file may lie anywhere.
    (tmp_path / "below").mkdir()
    for name in ("../panel.pch", str(tmp_path / "panel.pch")):
        (tmp_path / "below" / "robot.toml").write_text(text.replace("panel.pch", name))
        assert load(tmp_path / "below" / "robot.toml") == robot
    for old, new, message in [
        ("interface = [10]", "interface = [11]", "there is no node 11"),
        ("interface = [10]", "interface = [0]", "value is 0"),
        ("panel.pch", "panels.pch", "no such file"),
        ("matrices", "mass = 8.0\n    matrices", "'mass' does not apply"),
        ("matrices", "mode = [{ frequency = 1.0 }]\n    matrices", "both 'mode' and 'matrices'"),
        ("    matrices", "    # matrices", "'mode' is missing"),
    ]:
        path.write_text(text.replace(old, new))
        with pytest.raises(ModelError, match=message):
            load(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("GRID,1,,0.,0.,0.\n", "no mass matrix"),
        ("GRID,1,7,0.,0.,0.\n", "line 1.*coordinate system"),
        ("GRID,1,,0.,x,0.\n", "line 1.*'x' is not a number"),
        ("DMIG,MAAX,1,1,,1,1,2.0\n", "before its header"),
        ("DMIG,MAAX,0,2,2,0\n", "form 2"),
        ("DMIG,MAAX,0,6,2,0\nDMIG,MAAX,1,1,,1,1,2.0\nDMIG,KAAX,0,6,2,0\nDMIG,KAAX,1,1,,1,1,2.0\n", "node 1 has no pos"),
        ("GRID,99999999999999999999,,0.,0.,0.\n", "is not an integer"),
        (
            "GRID,1,,nan,0.,0.\nDMIG,MAAX,0,6,2,0\nDMIG,MAAX,1,1,,1,1,2.0\nDMIG,KAAX,0,6,2,0\nDMIG,KAAX,1,1,,1,1,2.0\n",
            "is nan",
        ),
        ("DMIG,MAAX,0,6,2,0\nDMIG,MAAX,a,1,,1,1,2.0\n", "'a' is not an integer"),
    ],
)
def test_damaged_punch_files_are_errors(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "panel.pch"
    path.write_text(text)
    with pytest.raises(ModelError, match=message):
        read_finite_elements(path)


def test_matrices_that_are_none_are_errors(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(b"PK nothing")
    with pytest.raises(ModelError, match="not an archive of arrays"):
        read_finite_elements(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", mass=np.eye(2))
    with pytest.raises(ModelError, match="has no 'stiffness'"):
        read_finite_elements(tmp_path / "b.npz")
    np.savez(tmp_path / "c.npz", mass=np.array([None]))
    with pytest.raises(ModelError, match="mass: holds object"):
        read_finite_elements(tmp_path / "c.npz")
    with pytest.raises(ModelError, match=r"has no mass\.csv"):
        read_finite_elements(tmp_path)
    elements = beam()
    # Of the root only the translations: it may still rotate.
    with pytest.raises(ModelError, match="interface does not hold it"):
        reduce_fixed_interface("panel", elements.mass, elements.stiffness, elements.rigid, [0, 1, 2])


def test_a_scene_draws_the_mode_on_its_panel() -> None:
    """The strips' ends follow the first mode: the tip moves as the clamped beam's shape says, the root hardly."""
    robot = add_appendage(HUB, "bus", make_boom("array", 4.0, 12.0, (math.inf, 500.0), modes=2, width=1.2))
    still, bent = State.at_rest(robot), State.at_rest(robot, {"array.mode1": 0.05})
    actor = scene_of((robot, [0.0, 1.0], [still, bent])).views[0].actors[0]
    assert [body.name for body in actor.bodies].count("array") == 1
    strips = [k for k, body in enumerate(actor.bodies) if k >= len(robot.bodies)]
    assert len(strips) == 16
    moved = actor.poses[1, strips, 2] - actor.poses[0, strips, 2]
    mode = make_boom("array", 4.0, 12.0, (math.inf, 500.0), modes=2).modes[0]
    # Mass-weighted mean of the shape times the mass is the participation; the equivalent mass moves by 0.05 m.
    effective = float(np.asarray(mode.translation) @ np.asarray(mode.translation))
    assert moved.mean() * 12.0 == pytest.approx(0.05 * effective, rel=3e-3)
    assert np.all(np.diff(moved) > 0.0)
    assert moved[-1] / moved[0] > 50.0
    boxes = [actor.bodies[k].shapes[0].visual.size for k in strips]
    np.testing.assert_allclose(boxes[0], [0.25, 1.2, 0.02])


def header(shape: str) -> bytes:
    """The start of a .npy file that declares so many numbers."""
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    ("mass", "message"),
    [
        (header("(1000000, 1000000)"), "declares 1000000 x 1000000 values"),
        (header(f"({10**30}, 4)"), "declares"),
        (b"\x93NUMPY\x01\x00\x10\x00" + b"(" * 20, "not an archive of arrays"),
    ],
)
def test_arrays_that_declare_more_than_they_hold_are_errors(tmp_path: Path, mass: bytes, message: str) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("mass.npy", mass)
    with pytest.raises(ModelError, match=message):
        read_finite_elements(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("dof", np.float64(3.0), "dof has shape"),
        ("dof", np.array([[1e300, 1.0]]), "a number in dof"),
        ("mass", np.eye(1) * 1j, "expected real numbers"),
        ("mass", np.array([["1.0"]]), "expected real numbers"),
    ],
)
def test_arrays_of_other_numbers_are_errors(tmp_path: Path, name: str, value: Array, message: str) -> None:
    arrays = {"mass": np.eye(1), "stiffness": np.eye(1), "nodes": np.eye(1, 4), "dof": np.ones((1, 2))}
    np.savez(tmp_path / "a.npz", **arrays | {name: value})
    with pytest.raises(ModelError, match=message):
        read_finite_elements(tmp_path / "a.npz")


def test_an_archive_that_cannot_be_unpacked_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez_compressed(path, mass=np.eye(50), stiffness=np.eye(50))
    raw = path.read_bytes()
    path.write_bytes(raw[:60] + bytes(each ^ 0x5A for each in raw[60:110]) + raw[110:])
    with pytest.raises(ModelError, match="not an archive of arrays: Error -3"):
        read_finite_elements(path)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.npz")
    with pytest.raises(ModelError, match="not a plain file"):
        read_finite_elements(tmp_path / "a.npz")
