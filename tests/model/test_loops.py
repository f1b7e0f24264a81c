"""Closed loops in robots and their files: TOML, MJCF, URDF, and operations on robots."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from spacearm import InputError, Mechanics, ModelError
from spacearm.model import Loop, Pose, edit
from spacearm.model.files import load
from spacearm.model.mjcf_read import robot_from_mjcf
from spacearm.model.mjcf_write import mjcf_text
from spacearm.model.notices import LossyConversion
from spacearm.model.similarity import scale
from spacearm.model.toml_read import robot_from_toml
from spacearm.model.toml_write import toml_text
from spacearm.simulate import close_loops
from spacearm.simulate.loops import loop_gap
from support.linkages import dual_arm, four_bar


def every_kind():
    robot = four_bar("axis", 2)
    more = (
        Loop("gear", "gear", "q0", "q1", ratio=-2.0, offset=0.1),
        Loop("rod", "distance", "crank", "base", distance=0.7),
        Loop("weld", "weld", "rocker", "base"),
        Loop("ball", "point", "rocker end", "a0"),
    )
    return robot.replace(loops=(*robot.loops, *more))


def test_every_kind_reads_back():
    robot = every_kind()
    again = robot_from_toml(toml_text(robot))
    assert again == robot
    assert again.loops == robot.loops
    assert again.structure == robot.structure
    assert robot.replace(loops=robot.loops[:1]).structure != robot.structure


BAD = {
    "unknown frame": ({"first": "nowhere"}, r"loop 'x': .*'nowhere'"),
    "one body": ({"second": "coupler"}, "lie on one body"),
    "itself": ({"second": "coupler end"}, "joins 'coupler end' to itself"),
    "no such kind": ({"kind": "hook"}, "hook"),
    "gear of frames": ({"kind": "gear"}, r"loop 'x': .*'coupler end'"),
    "axis of a point": ({"axis": [0.0, 0.0, 1.0]}, "'axis' does not apply to a loop of kind 'point'"),
    "no distance": ({"kind": "distance"}, "distance is zero"),
    "long axis": ({"kind": "axis", "axis": [0.0, 0.0, 2.0]}, "axis has length 2"),
    "no ratio": ({"kind": "gear", "first": "crank", "second": "rocker", "ratio": 0.0}, "ratio is zero"),
    "not a number": ({"offset": "1"}, r"loop\[0\].offset"),
    "misspelt": ({"frist": 1}, "frist"),
}


@pytest.mark.parametrize("case", BAD)
def test_errors_name_the_loop(case):
    changes, message = BAD[case]
    keys = {"name": "x", "kind": "point", "first": "coupler end", "second": "rocker end"} | changes
    table = "\n".join(f"{key} = {value!r}" for key, value in keys.items())
    text = toml_text(four_bar().replace(loops=())) + "\n[[loop]]\n" + table + "\n"
    with pytest.raises(ModelError, match=message):
        robot_from_toml(text)


def test_names_occur_once():
    text = toml_text(four_bar())
    with pytest.raises(ModelError, match=r"two are called 'bar'"):
        robot_from_toml(text + text[text.index("[[loop]]") :])


def test_operations_on_robots_keep_loops():
    robot = four_bar("axis", 2)
    q = close_loops(robot, {"crank": 0.9, "coupler": -0.6, "rocker": 1.2})
    renamed = edit.prefix_names(robot, "left ")
    assert (renamed.loops[0].name, renamed.loops[0].first) == ("left bar", "left coupler end")
    both = edit.mount(dual_arm(), robot, frame="left hand", prefix="grip ")
    assert both.loops[0].first == "grip coupler end"
    frozen = edit.freeze(robot, {"q0": 0.3})
    assert frozen.loops == robot.loops
    assert edit.freeze(robot, dict(zip(robot.joint_names[2:], q[2:], strict=True))).loops == ()
    twice = scale(robot, 2.0)
    np.testing.assert_allclose(loop_gap(twice, q), 0.0, atol=1e-12)
    rest, away = edit.detach(robot, "q1")
    assert (rest.loops, away.loops) == ((), robot.loops)
    rest, away = edit.detach(robot, "rocker")
    assert rest.loops == away.loops == ()
    geared = robot.replace(loops=(Loop("gear", "gear", "q0", "q1"),))
    with pytest.raises(ModelError, match=r"gear 'gear' holds .*freeze both"):
        edit.freeze(geared, ["q0"])
    with pytest.raises(ModelError, match="gear 'gear' holds it"):
        edit.split_joint(geared, "q0", edit.Axis("x", "revolute"), where="instead")


def test_mjcf_equality_constraints_are_loops():
    """Connect and weld between bodies and between sites, and a linear joint equality, as MuJoCo has them at qpos0."""
    text = mjcf_text(four_bar("point", 1).replace(loops=()))
    constraints = """<equality>
      <connect name="c" body1="coupler" body2="a0" anchor="0.4 0.1 0.2"/>
      <weld name="w" body1="crank" body2="a0" anchor="0.1 0.2 0.3" relpose="0.1 0.2 0.3 0.8 0.6 0 0"/>
      <connect name="s" site1="coupler end" site2="rocker end"/>
      <joint name="j" joint1="crank" joint2="q0" polycoef="0.1 2 0 0 0"/>
      <joint name="p" joint1="crank" joint2="q0" polycoef="0.1 2 1 0 0"/>
      <connect name="off" body1="coupler" body2="a0" anchor="0 0 0" active="false"/>
      <connect name="world" body1="coupler" anchor="0 0 0"/>
    </equality></mujoco>"""
    text = text.replace("</mujoco>", constraints)
    with pytest.warns(LossyConversion) as notes:
        robot = robot_from_mjcf(text)
    note = " ".join(str(each.message) for each in notes)
    assert all(f"equality {name!r}" in note for name in ("p", "off", "world"))
    kinds = {loop.name: (loop.kind, loop.first, loop.second) for loop in robot.loops}
    assert kinds["c"] == ("point", "c.a", "c.b")
    assert kinds["s"] == ("point", "coupler end", "rocker end")
    assert kinds["j"] == ("gear", "crank", "q0")
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    # MuJoCo's own residuals at qpos0 are the poses of one frame in the other.
    mechanics, zero = Mechanics(robot), np.zeros(robot.n)
    (p1, _), (p2, _) = (mechanics.frame_pose(f"c.{end}", zero) for end in "ab")
    np.testing.assert_allclose(p1 - p2, 0.0, atol=1e-12)
    (p1, r1), (p2, r2) = (mechanics.frame_pose(f"w.{end}", zero) for end in "ab")
    weld = np.flatnonzero(data.efc_id[: data.ne] == 1)
    np.testing.assert_allclose(np.abs(p1 - p2), np.abs(data.efc_pos[weld[:3]]), atol=1e-12)
    # Its rotations are the vector part of the quaternion between both: the sine of half the angle along the axis.
    half = 0.5 * np.arccos(0.5 * (np.trace(r1.T @ r2) - 1.0))
    assert half == pytest.approx(np.arccos(0.8))
    assert np.linalg.norm(data.efc_pos[weld[3:]]) == pytest.approx(np.sin(half))


def test_mjcf_reads_what_it_wrote():
    robot = four_bar("point", 1)
    robot = robot.replace(loops=(*robot.loops, Loop("gear", "gear", "crank", "q0", ratio=2.0, offset=0.1)))
    with pytest.warns(LossyConversion, match="soft constraints"):
        text = mjcf_text(robot)
    assert robot_from_mjcf(text).loops == robot.loops
    hinge = four_bar("axis", 1)
    with pytest.warns(LossyConversion, match="soft constraints"):
        again = robot_from_mjcf(mjcf_text(hinge))
    # A hinge comes back as two points of its axis, which hold the same.
    assert [loop.kind for loop in again.loops] == ["point", "point"]
    q = close_loops(hinge, {"crank": 0.9, "coupler": -0.6, "rocker": 1.2})
    assert loop_gap(again, q) < 1e-12


def test_a_mimic_joint_of_urdf_is_a_gear(tmp_path):
    links = "".join(
        f'<link name="{name}"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>'
        "</inertial></link>"
        for name in ("base", "a", "b")
    )
    joints = "".join(
        f'<joint name="{name}" type="continuous"><parent link="base"/><child link="{name}"/><axis xyz="0 0 1"/>{more}'
        "</joint>"
        for name, more in (("a", ""), ("b", '<mimic joint="a" multiplier="-2" offset="0.3"/>'))
    )
    path = tmp_path / "gripper.urdf"
    path.write_text(f'<robot name="gripper">{links}{joints}</robot>')
    robot = load(path)
    assert robot.loops == (Loop("b.mimic", "gear", "b", "a", ratio=-2.0, offset=0.3),)
    with pytest.warns(UserWarning, match="follows its leader"):
        assert load(path, repair=True).loops == ()
    # H a = torque with a_b = -2 a_a: the same by hand, the base held.
    mode = np.array([1.0] * 6 + [0.0, 0.0])
    zero = np.zeros(8)
    torque = np.array([0.0] * 6 + [1.0, 0.5])
    q = close_loops(robot, {"a": 0.2})
    found, _ = Mechanics(robot).hybrid_dynamics(q, zero, torque, zero, mode)
    np.testing.assert_allclose(found[6:], np.array([1.0, -2.0]) * (1.0 - 2.0 * 0.5) / 5.0, atol=1e-12)
    path.write_text(f'<robot name="gripper">{links}{joints}</robot>'.replace('mimic joint="a"', 'mimic joint="none"'))
    with pytest.raises(ModelError, match="follows joint 'none'"):
        load(path)


def test_studies_of_trees_refuse_loops(tmp_path):
    from spacearm.study import Session

    (tmp_path / "robot.toml").write_text(toml_text(four_bar()))
    with pytest.raises(InputError, match="closed loops: this study supports trees only"):
        Session(tmp_path).robot("robot.toml")
    assert Session(tmp_path).robot({"file": "robot.toml", "loops": False}).loops == ()


def test_frames_keep_their_place_when_bodies_are_welded():
    robot = edit.freeze(four_bar("axis", 2), {"q1": 0.4})
    assert robot.frame("a1").placement != Pose()
    assert loop_gap(robot, close_loops(robot, {"crank": 0.9, "coupler": -0.6, "rocker": 1.2})) < 1e-12
