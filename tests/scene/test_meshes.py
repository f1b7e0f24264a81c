"""Mesh files: the same tetrahedron in every format, damage and excess told, coarse enough for a page."""

import struct
import warnings
from pathlib import Path

import numpy as np
import pytest

from spacearm import Body, Inertia, ModelError, Pose, Robot
from spacearm.model import Visual
from spacearm.scene import meshes as reading
from spacearm.scene import scene_of
from spacearm.scene.meshes import Mesh, SceneWarning, read_mesh

CORNERS = np.array([[0.0, 0, 0], [1.0, 0, 0], [0, 2.0, 0], [0, 0, 3.0]])
FACES = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])


def binary_stl() -> bytes:
    rows = [struct.pack("<12fH", 0, 0, 0, *CORNERS[face].ravel(), 0) for face in FACES]
    return b"solid made by a careless exporter".ljust(80) + struct.pack("<I", len(FACES)) + b"".join(rows)


def ascii_stl() -> bytes:
    corner = "vertex {} {} {}\n"
    faces = [
        "facet normal 0 0 0\nouter loop\n" + "".join(corner.format(*p) for p in CORNERS[f]) + "endloop\nendfacet\n"
        for f in FACES
    ]
    return ("solid t\n" + "".join(faces) + "endsolid\n").encode()


def obj() -> bytes:
    vertices = "".join("v {} {} {}\n".format(*corner) for corner in CORNERS)
    return (vertices + "vn 0 0 1\nf 1/1/1 3//1 2\nf 1 2 4\nf -4 -1 -2\nf 2 3 4\n").encode()


def dae(nodes: str = "") -> bytes:
    """In centimetres, halved by the file and doubled by its node."""
    numbers = " ".join(str(50 * x) for x in CORNERS.ravel())
    indices = " ".join(f"{corner} 0" for corner in FACES.ravel())
    node = '<node><scale>2 2 2</scale><instance_geometry url="#g"/></node>'
    return f"""<?xml version="1.0"?><COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema">
    <asset><unit meter="0.01"/></asset><library_geometries><geometry id="g"><mesh>
    <source id="p"><float_array id="a" count="12">{numbers}</float_array>
    <technique_common><accessor source="#a" count="4" stride="3"/></technique_common></source>
    <vertices id="v"><input semantic="POSITION" source="#p"/></vertices>
    <triangles count="4"><input semantic="VERTEX" source="#v" offset="0"/>
    <input semantic="NORMAL" source="#n" offset="1"/>
    <p>{indices}</p></triangles></mesh></geometry></library_geometries>
    <library_visual_scenes><visual_scene id="s">{nodes or node}</visual_scene></library_visual_scenes>
    <scene><instance_visual_scene url="#s"/></scene></COLLADA>""".encode()


def volume(mesh: Mesh) -> float:
    """By the divergence theorem: six times the volume is the sum of a . (b x c)."""
    a, b, c = (mesh.vertices[mesh.faces[:, k]] for k in range(3))
    return float(np.einsum("fi,fi->", a, np.cross(b, c)) / 6.0)


@pytest.mark.parametrize(
    ("name", "data"), [("a.stl", binary_stl()), ("b.STL", ascii_stl()), ("c.obj", obj()), ("d.dae", dae())]
)
def test_formats(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    mesh = read_mesh(str(tmp_path / name))
    assert mesh.faces.shape == (4, 3)
    assert mesh.vertices.shape == (4, 3)  # shared corners are one vertex
    assert volume(mesh) == pytest.approx(1.0, rel=1e-6)  # 1 * 2 * 3 / 6, outside out
    again = Mesh.from_data(mesh.data())
    np.testing.assert_allclose(again.vertices, mesh.vertices, atol=3.0 / 65535)


@pytest.mark.parametrize(
    ("name", "data", "note"),
    [
        ("a.stl", binary_stl()[:100], "no triangles"),
        ("b.obj", b"v 0 0 0\nv 1 0 0\nf 1 2 9\n", "a vertex that does not exist"),
        ("c.obj", b"v 0 0\nf 1 1 1\n", "damaged"),
        ("d.dae", b"<COLLADA/>", "no triangles"),
        ("e.dae", b"<!DOCTYPE x [<!ENTITY a 'b'>]><COLLADA/>", "refused"),
        ("f.ply", b"ply", "is not read"),
        ("g.obj", b"v nan 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n", "no triangles"),
    ],
)
def test_damage_is_told(tmp_path: Path, name: str, data: bytes, note: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ModelError, match=note):
        read_mesh(str(tmp_path / name))


def test_excess_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.stl").write_bytes(binary_stl())
    monkeypatch.setattr(reading, "MOST_FACES", 3)
    with pytest.raises(ModelError, match="there are 4 triangles"):
        read_mesh(str(tmp_path / "a.stl"))
    monkeypatch.setattr(reading, "MOST_BYTES", 100)
    (tmp_path / "b.stl").write_bytes(binary_stl())
    with pytest.raises(ModelError, match="larger than 100 bytes"):
        read_mesh(str(tmp_path / "b.stl"))
    with pytest.raises(ModelError, match="cannot be read"):
        read_mesh("/dev/zero.stl")


def test_nodes_that_hold_themselves_come_to_an_end(tmp_path: Path) -> None:
    nodes = '<node id="n"><instance_geometry url="#g"/><instance_node url="#n"/><instance_node url="#n"/></node>'
    (tmp_path / "a.dae").write_bytes(dae(nodes))
    assert len(read_mesh(str(tmp_path / "a.dae")).faces) <= 4 * 2000


def test_a_fine_mesh_becomes_coarse_and_keeps_its_shape() -> None:
    """A ball of 80,000 triangles: volume within 2 %."""
    n = 200
    theta, phi = np.meshgrid(np.linspace(0, np.pi, n + 1), np.linspace(0, 2 * np.pi, n, endpoint=False), indexing="ij")
    points = np.stack([np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi), np.cos(theta)], axis=-1).reshape(-1, 3)
    i, j = (grid.ravel() for grid in np.meshgrid(np.arange(n), np.arange(n), indexing="ij"))
    a, b, c, d = i * n + j, (i + 1) * n + j, (i + 1) * n + (j + 1) % n, i * n + (j + 1) % n
    ball = Mesh(points, np.concatenate([np.stack([a, b, c], axis=1), np.stack([a, c, d], axis=1)]))
    coarse = ball.coarsen(3000)
    assert 800 < len(coarse.faces) <= 3000
    assert volume(coarse) == pytest.approx(4.0 * np.pi / 3.0, rel=0.02)


def test_a_mesh_in_a_scene_and_one_that_is_missing(tmp_path: Path) -> None:
    (tmp_path / "a.stl").write_bytes(binary_stl())
    there = Visual("mesh", np.ones(3), Pose(), mesh=str(tmp_path / "a.stl"))
    gone = Visual("mesh", np.ones(3), Pose(), mesh=str(tmp_path / "gone.stl"))
    inertia = Inertia(1.0, tensor=np.eye(3))
    with pytest.warns(SceneWarning, match=r"gone\.stl cannot be drawn"):
        view = scene_of(Robot("r", (Body("b", inertia, (there, gone)),))).views[0]
    assert [shape.visual.shape for shape in view.actors[0].bodies[0].shapes] == ["mesh"]
    with pytest.warns(SceneWarning):
        view = scene_of(Robot("r", (Body("b", inertia, (gone,)),))).views[0]
    assert [shape.visual.shape for shape in view.actors[0].bodies[0].shapes] == ["box"]  # of its inertia
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scene_of(Robot("r", (Body("b", inertia, (there,)),)))
