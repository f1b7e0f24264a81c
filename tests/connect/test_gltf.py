"""Exported scenes by the words of glTF's specification: bodies are where kinematics puts them at every key frame."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from spacearm.connect import write_gltf
from spacearm.errors import InputError
from spacearm.model import Robot, Visual, catalogue
from spacearm.model.edit import rename
from spacearm.scene import scene_of
from spacearm.simulate import Phase, State, simulate
from spacearm.typing import Array


class Glb:
    """A reader that knows the specification and nothing of spacearm."""

    def __init__(self, file: Path) -> None:
        data = file.read_bytes()
        magic, version, length = struct.unpack_from("<4sII", data)
        assert (magic, version, length) == (b"glTF", 2, len(data))
        size, kind = struct.unpack_from("<I4s", data, 12)
        assert (kind, size % 4) == (b"JSON", 0)
        self.json: dict[str, Any] = json.loads(data[20 : 20 + size])
        more, kind = struct.unpack_from("<I4s", data, 20 + size)
        assert (kind, more % 4) == (b"BIN\0", 0)
        self.data = data[28 + size :]
        assert len(self.data) - self.json["buffers"][0]["byteLength"] in range(4)

    def accessor(self, number: int) -> Array:
        own = self.json["accessors"][number]
        view, width = self.json["bufferViews"][own["bufferView"]], {"SCALAR": 1, "VEC3": 3, "VEC4": 4}[own["type"]]
        assert view["byteOffset"] % 4 == 0
        assert view["byteLength"] == 4 * width * own["count"]
        rows = np.frombuffer(self.data, "<f4", width * own["count"], view["byteOffset"]).reshape(-1, width)
        assert np.array_equal(rows.min(axis=0), np.array(own["min"], dtype="<f4"))
        assert np.array_equal(rows.max(axis=0), np.array(own["max"], dtype="<f4"))
        return rows.astype(float)

    def track(self, node: int, path: str) -> tuple[Array, Array]:
        (own,) = self.json["animations"]
        (channel,) = [each for each in own["channels"] if each["target"] == {"node": node, "path": path}]
        sampler = own["samplers"][channel["sampler"]]
        times = self.accessor(sampler["input"])[:, 0]
        assert np.all(np.diff(times) > 0.0)
        return times, self.accessor(sampler["output"])


@pytest.fixture(scope="module")
def robot() -> Robot:
    return catalogue.load("xu2017")


def test_bodies_move_as_kinematics_says(robot: Robot, tmp_path: Path) -> None:
    velocity = np.linspace(-0.5, 0.5, robot.dofs)
    start = State([1.0, 2.0, 3.0], [0.5, 0.5, -0.5, 0.5], np.linspace(0.1, 0.5, robot.n), velocity)
    run = simulate(robot, start, Phase(4.0, friction=False, limits="ignore"), sample=0.1)
    glb = Glb(write_gltf(scene_of(run), tmp_path / "run.glb"))
    upright = Rotation.from_quat(glb.json["nodes"][glb.json["scenes"][0]["nodes"][0]]["rotation"])
    np.testing.assert_allclose(upright.apply([0.0, 0.0, 1.0]), [0.0, 1.0, 0.0], atol=1e-15)
    for k, name in enumerate(robot.body_names):
        (node,) = [i for i, each in enumerate(glb.json["nodes"]) if each.get("name") == name]
        times, origin = glb.track(node, "translation")
        _, turn = glb.track(node, "rotation")
        np.testing.assert_allclose(times, run.times, atol=1e-6)
        np.testing.assert_allclose(np.linalg.norm(turn, axis=1), 1.0, atol=1e-6)
        assert np.all(np.sum(turn[1:] * turn[:-1], axis=1) > 0.9)
        state = run.states[-1]
        from spacearm.engine import Mechanics

        poses = Mechanics(robot).body_poses(state[7 : 7 + robot.n], base=state[:7])
        np.testing.assert_allclose(origin[-1], poses[0][k], atol=1e-5)
        np.testing.assert_allclose(Rotation.from_quat(turn[-1]).as_matrix(), poses[1][k], atol=1e-5)
    for mesh in glb.json["meshes"]:
        (primitive,) = mesh["primitives"]
        corners, normals = (glb.accessor(primitive["attributes"][name]) for name in ("POSITION", "NORMAL"))
        assert len(corners) % 3 == 0
        assert len(corners) == len(normals)
        np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1.0, atol=1e-5)


def test_a_shape_keeps_its_size_and_colour(robot: Robot, tmp_path: Path) -> None:
    from dataclasses import replace

    base = replace(robot.bodies[0], visuals=(Visual("box", np.array([1.0, 2.0, 3.0]), colour="#ff0080"),))
    glb = Glb(write_gltf(scene_of(robot.replace(bodies=(base, *robot.bodies[1:]))), tmp_path / "robot.glb"))
    corners = glb.accessor(glb.json["meshes"][0]["primitives"][0]["attributes"]["POSITION"])
    np.testing.assert_allclose(np.ptp(corners, axis=0), [1.0, 2.0, 3.0], rtol=1e-6)
    red, green, blue, alpha = glb.json["materials"][0]["pbrMetallicRoughness"]["baseColorFactor"]
    assert (red, green, alpha) == (1.0, 0.0, 1.0)
    assert blue == pytest.approx(0.2158605, rel=1e-5)  # sRGB 0x80 as a linear number
    assert "animations" not in glb.json


def test_names_are_names(robot: Robot, tmp_path: Path) -> None:
    hostile = '"}],"scene":9,"x":[{"</script>\\'
    named = rename(robot, {robot.body_names[1]: hostile}).replace(name=hostile)
    glb = Glb(write_gltf(scene_of(named), tmp_path / "robot.glb"))
    assert glb.json["scene"] == 0
    assert hostile in [node.get("name") for node in glb.json["nodes"]]
    with pytest.raises(InputError, match="suffix"):
        write_gltf(scene_of(named), tmp_path / "robot.gltf")
