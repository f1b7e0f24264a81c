"""Shapes of bodies: read, edited, written, and never a reason to refuse a robot or to compile it again."""

import pickle
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spacearm import Body, Inertia, Joint, ModelError, Pose, Robot, catalogue, load, save
from spacearm.engine import Kernel
from spacearm.mechanics.motion import motion_program
from spacearm.model import Visual, edit
from spacearm.model.notices import LossyConversion
from spacearm.model.rotations import rotation_about, rotation_from_rpy
from spacearm.model.urdf_read import robot_from_urdf

PLACE = Pose(rotation_from_rpy([0.1, 0.2, 0.3]), np.array([0.1, -0.2, 0.3]))
SHAPES = (
    Visual("box", np.array([1.0, 2.0, 3.0]), PLACE, "#ff8000"),
    Visual("cylinder", np.array([0.1, 2.0]), PLACE),
    Visual("sphere", np.array([0.1]), PLACE, "#00ff0080"),
    Visual("capsule", np.array([0.1, 0.5]), PLACE),
    Visual("ellipsoid", np.array([0.1, 0.2, 0.3]), PLACE),
)


def drawn(*visuals: Visual) -> Robot:
    """A robot of the catalogue whose base has these shapes."""
    robot = catalogue.load("xu2017")
    bare = [replace(body, visuals=()) for body in robot.bodies]
    return robot.replace(bodies=(replace(bare[0], visuals=visuals), *bare[1:]))


def test_a_robot_file_keeps_every_shape(tmp_path: Path) -> None:
    (tmp_path / "meshes").mkdir()
    mesh = tmp_path / "meshes" / "hull.stl"
    mesh.write_text("solid\nendsolid\n")
    robot = drawn(*SHAPES, Visual("mesh", np.array([1.0, 1.0, -1.0]), PLACE, mesh=str(mesh)))
    path = save(robot, tmp_path / "robot.toml")
    assert load(path) == robot
    assert 'mesh = "meshes/hull.stl"' in path.read_text()  # the folder can be moved
    assert pickle.loads(pickle.dumps(robot)) == robot


def test_urdf_keeps_shapes_and_tells_the_one_it_does_not_know(tmp_path: Path) -> None:
    with pytest.warns(LossyConversion, match="an ellipsoid, which URDF does not know"):
        path = save(drawn(*SHAPES), tmp_path / "robot.urdf")
    found = load(path).bodies[0].visuals
    box, cylinder, sphere, rod, low, high = found
    for read, given in zip((box, cylinder, sphere), SHAPES[:3], strict=True):
        assert (read.shape, read.colour) == (given.shape, given.colour)
        np.testing.assert_array_equal(read.size, given.size)
        np.testing.assert_allclose(read.placement.rotation, given.placement.rotation, atol=1e-15)
    # a capsule is a cylinder with a ball at each end
    assert [rod.shape, low.shape, high.shape] == ["cylinder", "sphere", "sphere"]
    ends = high.placement.translation - low.placement.translation
    np.testing.assert_allclose(ends, PLACE.rotation @ [0.0, 0.0, 0.5], atol=1e-15)


def test_mjcf_keeps_shapes_and_mujoco_gives_them_no_mass(tmp_path: Path) -> None:
    import mujoco

    robot = drawn(*SHAPES)
    path = save(robot, tmp_path / "robot.xml")
    found = load(path).bodies[0].visuals
    for read, given in zip(found, SHAPES, strict=True):
        assert (read.shape, read.colour) == (given.shape, given.colour)
        np.testing.assert_allclose(read.size, given.size, rtol=1e-15)
        np.testing.assert_allclose(read.placement.rotation, given.placement.rotation, atol=1e-14)
        np.testing.assert_allclose(read.placement.translation, given.placement.translation, atol=1e-15)
    model = mujoco.MjModel.from_xml_path(str(path))
    assert model.body_mass.sum() == pytest.approx(robot.mass, rel=1e-14)
    assert not model.geom_contype.any()
    assert not model.geom_conaffinity.any()


def test_mjcf_mesh_lies_where_mujoco_has_it(tmp_path: Path) -> None:
    """MuJoCo moves a mesh into its principal axes; its world coordinates are the reference."""
    import mujoco

    corners = np.array([[0.0, 0, 0], [1.0, 0, 0], [0, 2.0, 0], [0, 0, 3.0]])
    text = "".join("v {} {} {}\n".format(*corner) for corner in corners) + "f 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
    (tmp_path / "rock.obj").write_text(text)
    (tmp_path / "robot.xml").write_text(
        '<mujoco><asset><mesh name="rock" file="rock.obj" scale="1 .5 2"/></asset><worldbody>'
        '<body name="base"><freejoint/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>'
        '<geom type="mesh" mesh="rock" pos=".1 .2 .3" euler="10 20 30" contype="0" conaffinity="0" rgba="1 0 0 1"/>'
        "</body></worldbody></mujoco>"
    )
    (visual,) = load(tmp_path / "robot.xml").bodies[0].visuals
    assert Path(visual.mesh) == tmp_path / "rock.obj"
    assert visual.colour == "#ff0000"
    pose = visual.placement
    ours = corners * visual.size @ pose.rotation.T + pose.translation
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "robot.xml"))
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    theirs = model.mesh_vert @ data.geom_xmat[0].reshape(3, 3).T + data.geom_xpos[0]
    for corner in theirs:
        assert np.abs(ours - corner).max(axis=1).min() < 1e-6  # MuJoCo's vertices are single precision


LINK = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'


@pytest.mark.parametrize(
    ("visual", "note"),
    [
        ("<visual/>", "its shape is not supported"),
        ('<visual><geometry><box size="1 2"/></geometry></visual>', "box.size"),
        ('<visual><geometry><box size="1 2 -3"/></geometry></visual>', "size is"),
        ('<visual><geometry><cylinder radius="nan" length="1"/></geometry></visual>', "cylinder.radius"),
        ("<visual><geometry><sphere/></geometry></visual>", "sphere.radius"),
        ("<visual><geometry><mesh/></geometry></visual>", "names no file"),
        ('<visual><origin rpy="a b c"/><geometry><sphere radius="1"/></geometry></visual>', "origin.rpy"),
        ("<visual><geometry><teapot/></geometry></visual>", "its shape is not supported"),
    ],
)
def test_a_broken_visual_is_told_and_the_robot_is_read(visual: str, note: str) -> None:
    whole = '<visual><geometry><sphere radius="0.5"/></geometry></visual>'
    with pytest.warns(LossyConversion, match=note):
        robot = robot_from_urdf(f'<robot name="r"><link name="base">{LINK}{visual}{whole}</link></robot>')
    assert [each.shape for each in robot.bodies[0].visuals] == ["sphere"]


def test_colours_of_urdf_materials() -> None:
    shape = "<geometry><sphere radius='1'/></geometry>"
    text = (
        f"<robot name='r'><material name='red'><color rgba='1 0 0 1'/></material><link name='base'>{LINK}"
        f"<visual>{shape}<material name='red'/></visual>"
        f"<visual>{shape}<material name='own'><color rgba='0 .5 1 .25'/></material></visual>"
        f"<visual>{shape}<material name='own'/></visual><visual>{shape}<material name='?'/></visual></link></robot>"
    )
    found = [visual.colour for visual in robot_from_urdf(text).bodies[0].visuals]
    assert found == ["#ff0000", "#0080ff40", "#0080ff40", ""]


@pytest.mark.parametrize("reference", ["../meshes/a.stl", "package://mine/meshes/a.stl", "file://{}/mine/meshes/a.stl"])
def test_meshes_of_urdf_are_found(tmp_path: Path, reference: str) -> None:
    for name in ("meshes", "urdf"):
        (tmp_path / "mine" / name).mkdir(parents=True)
    (tmp_path / "mine/meshes/a.stl").write_text("solid")
    mesh = f'<visual><geometry><mesh filename="{reference.format(tmp_path)}"/></geometry></visual>'
    path = tmp_path / "mine/urdf/robot.urdf"
    path.write_text(f'<robot name="r"><link name="base">{LINK}{mesh}</link></robot>')
    assert load(path).bodies[0].visuals[0].mesh == str(tmp_path / "mine/meshes/a.stl")


def test_editing_carries_shapes_along() -> None:
    box = Visual("box", np.ones(3))
    arm = Robot(
        "arm",
        (Body("base", Inertia(1.0), (box,)), Body("link", Inertia(1.0, tensor=np.eye(3)), (box,))),
        (Joint("turn", "revolute", "base", "link", Pose(translation=np.array([1.0, 0.0, 0.0]))),),
    )
    held = edit.freeze(arm, {"turn": np.pi / 2})
    first, second = held.bodies[0].visuals
    assert first == box
    np.testing.assert_allclose(second.placement.translation, [1.0, 0.0, 0.0])
    np.testing.assert_allclose(second.placement.rotation, rotation_about([0, 0, 1], np.pi / 2), atol=1e-15)
    tool = Body("tool", Inertia(1.0), (box,))
    caught = edit.attach(arm, "link", tool, Pose(translation=np.array([0.0, 0.0, 2.0])))
    np.testing.assert_allclose(caught.body("link").visuals[1].placement.translation, [0.0, 0.0, 2.0])
    rest, part = edit.detach(edit.prefix_names(arm, "a."), "a.turn")
    assert (rest.bodies[0].visuals, part.bodies[0].visuals) == ((box,), (box,))
    assert arm.with_inertia_parameters(2.0 * arm.inertia_parameters).bodies[1].visuals == (box,)
    assert edit.replace_inertias(arm, {"link": Inertia(3.0)}).bodies[1].visuals == (box,)


def test_shapes_do_not_concern_the_engine() -> None:
    bare, shown = drawn(), drawn(*SHAPES)
    assert bare != shown
    assert hash(bare) == hash(shown)
    Kernel(motion_program(bare)).code(1)
    assert Kernel(motion_program(shown)).code(1).from_cache


@pytest.mark.parametrize(
    ("change", "note"),
    [
        ({"shape": "cone"}, "shape"),
        ({"size": np.ones(2)}, "size of a box"),
        ({"size": -np.ones(3)}, "below zero"),
        ({"colour": "red"}, "#rrggbb"),
        ({"mesh": "a.stl"}, "no other shape has one"),
    ],
)
def test_a_shape_that_cannot_be_is_refused(change: dict[str, object], note: str) -> None:
    with pytest.raises(ModelError, match=note):
        Visual(**({"shape": "box", "size": np.ones(3)} | change))  # type: ignore[arg-type]


def test_a_robot_file_says_where_a_shape_is_wrong(tmp_path: Path) -> None:
    text = '[robot]\nname = "r"\n[[body]]\nname = "b"\nmass = 1\ninertia = [1, 1, 1]\nvisual = [{ shape = "box" }]\n'
    (tmp_path / "r.toml").write_text(text)
    with pytest.raises(ModelError, match=r"body\[0\].visual\[0\].*'size' is missing"):
        load(tmp_path / "r.toml")


def test_no_warning_for_good_shapes(tmp_path: Path) -> None:
    robot = drawn(*SHAPES[:3])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(save(robot, tmp_path / "robot.toml"))


@pytest.mark.parametrize("kind", ["toml", "urdf"])
@pytest.mark.parametrize("reference", ["/home/someone/meshes/hand.dae", "../hand.dae", "package://arm/hand.dae"])
def test_meshes_that_are_not_there_keep_their_names(kind: str, reference: str, tmp_path: Path) -> None:
    """Absolute paths of another machine, as xacro writes them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LossyConversion)
        back = load(save(drawn(Visual("mesh", np.ones(3), mesh=reference)), tmp_path / f"robot.{kind}"))
    assert [each.mesh for each in back.bodies[0].visuals] == [reference]
