"""Collision shapes in robot files and through edits; as MuJoCo reads them where it does."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest

from spacearm.errors import ModelError
from spacearm.mechanics.shapes import SHAPES, Box, Capsule, Sphere
from spacearm.model import Body, CollisionShape, Frame, Inertia, Joint, Pose, Robot, edit, load, save
from spacearm.model.notices import LossyConversion
from spacearm.model.parts import COLLISIONS
from spacearm.model.rotations import rotation_matrices
from spacearm.scene.shapes import body_shapes
from spacearm.simulate import ShapeOnFrame, World
from support.random_robots import random_rotation

SIZES = {"cone": [0.1, 0.3, 0.25], "hole": [0.02, 0.1], "ring": [0.4, 0.05], "box": [0.4, 0.6, 0.9]}
INERTIAL = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'


def with_shapes(*kinds: str) -> Robot:
    rng = np.random.default_rng(3)
    shapes = [
        CollisionShape(
            kind,
            np.array(SIZES.get(kind, [0.1, 0.5][: COLLISIONS[kind]])),
            Pose(random_rotation(rng), rng.normal(size=3)),
        )
        for kind in kinds
    ]
    body = Inertia(2.0, tensor=np.eye(3))
    joint = Joint("j", "revolute", "base", "link", Pose(np.eye(3), np.array([0.0, 0.0, 1.0])))
    return Robot("r", (Body("base", body, (), tuple(shapes)), Body("link", body, (), tuple(shapes))), (joint,))


def test_each_shape_has_as_many_lengths_as_its_class() -> None:
    assert {kind: len(SHAPES[kind].__dataclass_fields__) for kind in SHAPES} == COLLISIONS


def test_toml_keeps_every_shape_bit_for_bit(tmp_path: Path) -> None:
    robot = with_shapes(*COLLISIONS)
    assert load(save(robot, tmp_path / "r.toml")) == robot
    text = (tmp_path / "r.toml").read_text()
    (tmp_path / "r.toml").write_text(
        text.replace('shape = "capsule", size = [0.1, 0.5]', 'shape = "capsule", size = [0.1]')
    )
    with pytest.raises(ModelError, match=r"body\[0\].collision\[2\].*size of a capsule"):
        load(tmp_path / "r.toml")
    (tmp_path / "r.toml").write_text(text.replace("[0.1, 0.5]", "[0.1, 0.0]"))
    with pytest.raises(ModelError, match=r"body\[0\].collision\[1\].*size\[1\] is 0"):
        load(tmp_path / "r.toml")


@pytest.mark.parametrize("ending", ["urdf", "xml"])
def test_other_formats_keep_simple_shapes_and_tell_the_others(tmp_path: Path, ending: str) -> None:
    kept = ["box", "capsule", "cylinder", "sphere", "cylinder", "sphere"]
    robot = with_shapes(*kept)
    with warnings.catch_warnings():
        warnings.simplefilter("error" if ending == "urdf" else "ignore")
        found = load(save(robot, tmp_path / f"r.{ending}"))
    for body, old in zip(found.bodies, robot.bodies, strict=True):
        assert not body.visuals
        assert [each.shape for each in body.collisions] == kept
        for shape, was in zip(body.collisions, old.collisions, strict=True):
            np.testing.assert_allclose(shape.size, was.size, rtol=1e-12)
            np.testing.assert_allclose(shape.placement.rotation, was.placement.rotation, atol=1e-12)
            np.testing.assert_allclose(shape.placement.translation, was.placement.translation, atol=1e-12)
    with pytest.warns(LossyConversion, match=r"a collision shape \(cone\), which .* is left out"):
        save(with_shapes("cone"), tmp_path / f"cone.{ending}")


def test_shapes_of_an_mjcf_file_are_those_of_mujoco(tmp_path: Path) -> None:
    text = f"""<mujoco><compiler angle="degree"/><worldbody><body name="base" pos="1 2 3"><freejoint/>
      <geom type="box" size=".1 .2 .3" pos="1 0 0" euler="10 20 30" mass="1"/>
      <geom type="mesh" mesh="m" contype="0" conaffinity="0"/><geom type="ellipsoid" size=".1 .2 .3"/>
      <body name="link"><joint pos="0 0 .5" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 1 1" size=".05"/></body>
      </body></worldbody><asset><mesh name="m" file="{tmp_path}/m.obj"/></asset></mujoco>"""
    (tmp_path / "m.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 3 1 4\n")
    (tmp_path / "r.xml").write_text(text)
    with pytest.warns(LossyConversion) as notes:
        robot = load(tmp_path / "r.xml")
    messages = [str(each.message) for each in notes]
    assert any("body 'base': a geom that can touch others is left out" in each for each in messages)
    assert any("contact (3 shapes): the forces of contacts are left out" in each for each in messages)
    model = mujoco.MjModel.from_xml_string(text)
    (box,), (rod,) = (body.collisions for body in robot.bodies)
    np.testing.assert_allclose(box.size, 2 * model.geom_size[0])
    np.testing.assert_allclose(box.placement.rotation, rotation_matrices(model.geom_quat[0]), atol=1e-12)
    np.testing.assert_allclose(rod.size, [0.05, 2 * model.geom_size[3, 1]])
    np.testing.assert_allclose(rod.placement.translation, model.geom_pos[3] - [0, 0, 0.5], atol=1e-12)
    assert [visual.shape for visual in robot.bodies[0].visuals] == ["mesh"]


def test_collisions_of_a_urdf_are_read_and_what_is_not_is_told(tmp_path: Path) -> None:
    def of(*shapes: str) -> str:
        inside = "".join(
            f"<collision><origin xyz='1 0 0'/><geometry>{shape}</geometry></collision>" for shape in shapes
        )
        return f"<robot name='r'><link name='base'>{INERTIAL}{inside}</link></robot>"

    path = tmp_path / "r.urdf"
    path.write_text(of("<capsule radius='.1' length='.5'/>", "<mesh filename='a.stl'/>", "<box size='1 2 0'/>"))
    with pytest.warns(LossyConversion) as notes:
        robot = load(path)
    (rod,) = robot.bodies[0].collisions
    assert (rod.shape, rod.size.tolist(), rod.placement.translation.tolist()) == ("capsule", [0.1, 0.5], [1, 0, 0])
    messages = " ".join(str(each.message) for each in notes)
    assert "a collision is left out: it is a mesh, and contacts are between simple shapes" in messages
    assert "a collision is left out: size[2] is 0" in messages


def test_edits_take_shapes_along_and_contacts_take_them_from_the_robot() -> None:
    robot, rod = with_shapes("box"), CollisionShape("capsule", np.array([0.1, 0.5]))
    held = edit.freeze(robot, {"j": 0.0})
    first, second = held.bodies[0].collisions
    np.testing.assert_allclose(second.placement.translation, first.placement.translation + np.eye(3)[2])
    caught = edit.attach(held, "link", Body("target", Inertia(1.0), (), rod), Pose(np.eye(3), np.array([0, 0, 2.0])))
    np.testing.assert_allclose(caught.bodies[0].collisions[2].placement.translation, [0, 0, 3.0])
    tip = Frame("tip", "base", Pose(np.eye(3), np.array([0.0, 0.5, 0.0])))
    world = World({"a": caught.replace(frames=(*caught.frames, tip))})
    sides = ShapeOnFrame.from_collision_shapes(world, "tip")
    assert [type(side.shape) for side in sides] == [Box, Box, Capsule]
    np.testing.assert_allclose(sides[2].placement.translation, [0, -0.5, 3.0])
    assert not ShapeOnFrame.from_visuals(world, "tip")
    bodies = (replace(robot.bodies[0], collisions=CollisionShape("sphere", np.array([0.2]))), *robot.bodies[1:])
    (ball,) = ShapeOnFrame.from_collision_shapes(World({"a": robot.replace(bodies=bodies)}), "base")
    assert ball.shape == Sphere(0.2)
    (_, drawn), *_ = body_shapes(robot)[0].shapes  # where there is no visual
    np.testing.assert_allclose(drawn.size, SIZES["box"])
    with pytest.raises(ModelError, match="shape"):
        CollisionShape("ellipsoid", np.ones(3))
