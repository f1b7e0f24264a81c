"""What a scene holds: poses, shapes, pushes, marks; its size; its pages and pictures."""

import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from spacearm import Body, Frame, Inertia, InputError, Joint, Load, Phase, Pose, Robot, State, catalogue
from spacearm.mechanics.shapes import Cone, Sphere
from spacearm.model import Visual, edit
from spacearm.scene import Scene, scene_of, show
from spacearm.scene._contact_visuals import contact_shapes
from spacearm.scene._page import unpack_numbers
from spacearm.scene.shapes import equivalent_box
from spacearm.scene.solids import triangles
from spacearm.simulate import Run, simulate
from spacearm.simulate.attach import Attach
from spacearm.simulate.changes import Separate
from spacearm.simulate.contact import Contact, ShapeOnFrame
from spacearm.simulate.loads import thruster_load
from spacearm.simulate.world import World
from support.numpy_kinematics import body_poses


@pytest.fixture(scope="module")
def run() -> Run:
    """A satellite with a firing thruster and a pushed hand; then its arm comes off."""
    robot = catalogue.load("xu2017")
    push = Load.pulse("hand", force=[0.0, 40.0, 10.0], duration=0.5, start=0.2, axes="frame")
    phases = [
        Phase(1.0, loads=[push, thruster_load(robot, "thruster7", 0.5)], name="push"),
        Separate("joint1", "arm"),
        Phase(1.0, name="apart"),
    ]
    return simulate(robot, State.at_rest(robot, "normal"), phases, sample=0.01)


def decoded(image: bytes) -> np.ndarray:
    """A PNG without filters, as spacearm writes it."""
    width, height = struct.unpack(">II", image[16:24])
    data = zlib.decompress(image[image.index(b"IDAT") + 4 : image.rindex(b"IEND") - 8])
    return np.frombuffer(data, np.uint8).reshape(height, 1 + 3 * width)[:, 1:].reshape(height, width, 3)


def test_poses_are_those_of_the_states(run: Run) -> None:
    """Against kinematics written apart, body by body, and SciPy's rotations."""
    actor, track = scene_of(run).views[0].actors[0], run.tracks[0]
    row = 40
    base = np.eye(4)
    base[:3, :3] = Rotation.from_quat(track.states[row, [4, 5, 6, 3]]).as_matrix()
    base[:3, 3] = track.states[row, :3]
    expected = body_poses(track.robot, track.states[row, 7:13], base)
    for pose, name in zip(actor.poses[row], track.robot.body_names, strict=True):
        np.testing.assert_allclose(pose[:3], expected[name][:3, 3], atol=1e-12)
        np.testing.assert_allclose(Rotation.from_quat(pose[3:]).as_matrix(), expected[name][:3, :3], atol=1e-12)


def test_systems_before_and_after_a_change(run: Run) -> None:
    view = scene_of(run).views[0]
    assert len(view.actors) == 3  # both in one, then the satellite and the arm
    whole, *parts = view.actors
    assert whole.times[-1] == pytest.approx(1.0)
    assert {actor.times[0] for actor in parts} == {whole.times[-1]}
    owners = {body.name: body.system for actor in parts for body in actor.bodies}
    assert len(set(owners.values())) == 2
    assert {body.name: body.system for body in whole.bodies} == owners  # the same colours before they part
    assert [mark.kind for mark in view.marks] == ["phase", "change", "phase"]


def test_loads_and_thrusters_act_when_they_did(run: Run) -> None:
    actor = scene_of(run).views[0].actors[0]
    pushes = {(push.name, push.kind): push for push in actor.pushes}
    level = pushes["thruster7", "thruster"].values[:, 0]
    np.testing.assert_allclose(level[actor.times < 1.0], 0.5)
    assert not pushes["thruster1", "thruster"].values.any()  # drawn, but it does not fire
    force = pushes["hand", "force"].values
    acting = (actor.times >= 0.2) & (actor.times < 0.7)
    np.testing.assert_allclose(np.linalg.norm(force, axis=1), np.where(acting, np.hypot(40.0, 10.0), 0.0), atol=1e-9)


def test_a_long_run_of_ten_bodies_is_below_two_megabytes() -> None:
    bodies = [Body(f"b{k}", Inertia(1.0, np.array([0.2, 0.0, 0.0]), np.eye(3))) for k in range(10)]
    place = Pose(translation=np.array([0.4, 0.0, 0.0]))
    joints = [Joint(f"j{k}", "revolute", f"b{k}", f"b{k + 1}", place) for k in range(9)]
    robot = Robot("chain", tuple(bodies), tuple(joints))
    start = State.from_velocities(robot, rates=np.linspace(0.1, 0.5, 9))
    scene = scene_of(simulate(robot, start, 60.0, sample=0.01))  # 6000 samples
    page = scene.html()
    assert len(scene.views[0].actors[0].times) <= 602
    assert len(page.encode()) < 500_000
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page


def test_a_page_reads_back(run: Run, tmp_path: Path) -> None:
    scene = scene_of({"A": run, "B": run.tracks[0].robot}, title="<both> & more")
    again = Scene.load(scene.save(tmp_path / "scene.html"))
    assert [view.name for view in again.views] == ["A", "B"]
    for old, new in zip(scene.views[0].actors, again.views[0].actors, strict=True):
        np.testing.assert_array_equal(new.poses, old.poses.astype(np.float32))
        assert [body.name for body in new.bodies] == [body.name for body in old.bodies]
    assert again.views[0].marks == scene.views[0].marks
    pictures = [decoded(each.picture(0.5, width=160, height=120)).astype(int) for each in (scene, again)]
    assert (np.abs(pictures[0] - pictures[1]).max(axis=2) > 8).mean() < 0.002
    assert "<both>" not in scene.html().split("<spacearm-scene")[1]
    (tmp_path / "other.html").write_text("<html></html>")
    with pytest.raises(InputError, match="not the page of a scene"):
        Scene.load(tmp_path / "other.html")


def test_the_equivalent_box_has_the_inertia() -> None:
    """A box's moments in closed form, its axes and middle."""
    edges, mass = np.array([1.0, 0.5, 0.2]), 3.0
    moments = mass / 12.0 * ((edges**2).sum() - edges**2)
    box = equivalent_box(Body("b", Inertia(mass, np.array([1.0, 2.0, 3.0]), np.diag(moments))))
    assert box is not None
    np.testing.assert_allclose(np.abs(box.placement.rotation @ box.size), edges, rtol=1e-12)
    np.testing.assert_allclose(box.placement.translation, [1.0, 2.0, 3.0])
    assert equivalent_box(Body("p", Inertia(1.0))) is None


def test_visuals_take_the_place_of_suggestions() -> None:
    robot = catalogue.load("yoshida1992")
    ball = Visual("sphere", np.array([0.3]), colour="#123456")
    first = Body("base", Inertia(1.0, tensor=np.eye(3)), (ball,))
    plain = Robot("two", (first, Body("arm", Inertia(1.0, tensor=np.eye(3)))), (Joint("j", "revolute", "base", "arm"),))
    shapes = [[shape.visual.shape for shape in body.shapes] for body in scene_of(plain).views[0].actors[0].bodies]
    assert shapes[0] == ["sphere"]
    assert shapes[1]  # has mass, so it is drawn somehow
    assert scene_of(edit.attach(robot, "hand", first)).views[0].actors[0].bodies[-1].shapes[-1].colour == "#123456"


def test_pictures_show_the_robot_and_its_motion(run: Run) -> None:
    scene = scene_of(run)
    early, late = (decoded(scene.picture(time, width=320, height=240)).astype(int) for time in (0.0, 1.9))
    ground = early[0, 0]
    assert (np.abs(early - ground).max(axis=2) > 40).mean() > 0.02
    assert (np.abs(early - late).max(axis=2) > 40).mean() > 0.01
    dark = decoded(scene.picture(0.0, width=320, height=240, dark=True))
    assert dark[0, 0].max() < 60


def test_a_picture_hides_what_is_behind() -> None:
    """Two balls in a row: the nearer one's colour is seen, from either side."""
    red, blue = (
        Visual("sphere", np.array([0.5]), Pose(translation=np.array([0.0, y, 0.0])), colour)
        for y, colour in ((-2.0, "#ff0000"), (2.0, "#0000ff"))
    )
    robot = Robot("balls", (Body("b", Inertia(1.0, tensor=np.eye(3)), (red, blue)),))
    for side, channel in ((-np.pi / 2, 0), (np.pi / 2, 2)):
        image = decoded(scene_of(robot).picture(width=200, height=200, azimuth=side, height_angle=0.0))
        centre = image[100, 100].astype(int)
        assert centre[channel] > 120
        assert centre[2 - channel] < 60


def test_films(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ffmpeg gets every picture; what is missing is told, and nothing is left behind."""
    scene, tools = scene_of(run), tmp_path / "bin"
    tools.mkdir()
    fake = tools / "ffmpeg"
    fake.write_text('#!/bin/sh\nfor last; do :; done\nexec cat > "$last"\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    film = scene.save(tmp_path / "run.mp4", seconds=1.0, rate=4, width=64, height=48)
    frames = np.frombuffer(film.read_bytes(), np.uint8).reshape(-1, 48, 64, 3)
    assert len(frames) == 4
    assert (frames[0] != frames[-1]).any()
    fake.write_text("#!/bin/sh\necho no such codec >&2\nexit 1\n")
    with pytest.raises(InputError, match="no such codec"):
        scene.save(tmp_path / "other.mp4", seconds=1.0, rate=4, width=64, height=48)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    with pytest.raises(InputError, match="needs the program ffmpeg"):
        scene.save(tmp_path / "other.mp4")
    with pytest.raises(InputError, match=r"expected \.html"):
        scene.save(tmp_path / "run.webp")
    monkeypatch.undo()
    monkeypatch.setattr("spacearm.scene._film.shutil.which", lambda name: name)
    with pytest.raises(InputError, match="nothing moves"):
        scene_of(run.tracks[0].robot).save(tmp_path / "still.mp4")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "run.mp4"]


def test_what_is_no_run_is_refused(run: Run) -> None:
    for wrong in (3, "xu2017", {}, None):
        with pytest.raises(InputError, match=r"neither a run nor a robot|nothing to show"):
            scene_of(wrong)
    with pytest.raises(InputError, match="configuration"):
        scene_of(catalogue.load("xu2017"), configuration="?")


def test_show(run: Run) -> None:
    assert "<iframe" in show(run)._repr_html_()
    robot = run.tracks[0].robot
    actor = show(robot, configuration="normal").data()["scenes"][0]["actors"][0]
    poses = unpack_numbers(actor["poses"], 1, len(robot.bodies), 7)
    expected = body_poses(robot, robot.configuration("normal"))[robot.body_names[-1]]
    np.testing.assert_allclose(poses[0, -1, :3], expected[:3, 3], atol=1e-6)


def test_a_nozzle_of_a_contact_is_drawn_where_it_is() -> None:
    """The wall of a cone: its radius at the throat and at the mouth, along z of its frame."""
    nozzle = ShapeOnFrame("target/rim", Cone(0.1, 0.3, 0.4), Pose(translation=np.array([1.0, 0.0, 0.0])))
    place = Pose(translation=np.array([0.0, 0.0, 2.0]))
    target = Robot("target", (Body("target", Inertia(1.0, tensor=np.eye(3))),), frames=(Frame("rim", "target", place),))
    probe = Robot("probe", (Body("probe", Inertia(1.0, tensor=np.eye(3))),))
    world = World(
        {"probe": probe, "target": target}, elements=(Contact(ShapeOnFrame("probe/probe", Sphere(0.05)), nozzle, 1e4),)
    )
    wall = contact_shapes(world, "target", target)["target"]
    points = np.concatenate([triangles(visual)[0].reshape(-1, 3) for visual in wall]) - [1.0, 0.0, 2.0]
    radius = np.hypot(points[:, 0], points[:, 1])
    assert radius[points[:, 2] < 0.02].min() == pytest.approx(0.1, abs=0.01)
    assert radius[points[:, 2] > 0.38].min() == pytest.approx(0.3, abs=0.01)
    assert [visual.shape for visual in contact_shapes(world, "probe", probe)["probe"]] == ["sphere"]
    assert contact_shapes(None, "probe", probe) == {}


def test_a_history_of_states_from_elsewhere_is_shown() -> None:
    """Poses of every body by NumPy's own forward kinematics; a tumbling base whose joints move, made without a run."""
    robot = catalogue.load("yoshida1992")
    times = np.linspace(0.0, 2.0, 21)
    states = np.zeros((21, 13 + 2 * robot.n))
    states[:, 0] = 0.1 * times
    states[:, 3:7] = Rotation.from_rotvec(np.outer(times, [0.1, -0.4, 0.3])).as_quat(scalar_first=True)
    states[:, 7 : 7 + robot.n] = np.outer(times, np.linspace(0.2, -0.3, robot.n))
    (view,) = scene_of((robot, times, states)).views
    (actor,) = view.actors
    np.testing.assert_allclose(actor.times, times)
    for row in (0, 13, 20):
        base = np.eye(4)
        base[:3, :3] = Rotation.from_quat(states[row, 3:7], scalar_first=True).as_matrix()
        base[:3, 3] = states[row, :3]
        poses = body_poses(robot, states[row, 7 : 7 + robot.n], base)
        for name, pose in zip(robot.body_names, actor.poses[row], strict=True):
            np.testing.assert_allclose(pose[:3], poses[name][:3, 3], atol=1e-6)
            np.testing.assert_allclose(Rotation.from_quat(pose[3:]).as_matrix(), poses[name][:3, :3], atol=1e-6)
    listed = [State.from_vector(state) for state in states]
    np.testing.assert_array_equal(scene_of((robot, times, listed)).views[0].actors[0].poses, actor.poses)
    with pytest.raises(InputError, match="states have the shape"):
        scene_of((robot, times, states[:, 1:]))
    with pytest.raises(InputError, match="goes back in time"):
        scene_of((robot, times[::-1], states))


def test_a_load_on_a_part_that_was_attached_belongs_to_the_later_robot() -> None:
    """It acts from the capture on: the robot before has no such body, and no load at the instant that both share."""
    host = Robot("host", (Body("hull", Inertia(10.0, tensor=np.eye(3))),), (), (Frame("hand", "hull"),))
    guest = Robot("guest", (Body("stone", Inertia(2.0, tensor=np.eye(3))),), ())
    world = World({"host": host, "guest": guest})
    shoved = Load.pulse("stone", force=[0.0, 1.0, 0.0], duration=1.0, axes="world")
    before = Load.pulse("hull", force=[1.0, 0.0, 0.0], duration=1.0, axes="world")
    states = {name: State.at_rest(robot) for name, robot in world.systems.items()}
    phases = [
        Phase(0.5, loads=[before]),
        Phase(0.5, loads=[before]),
        Attach("guest", "hand"),
        Phase(0.5, loads=[shoved]),
    ]
    view = scene_of(simulate(world, states, phases, sample=0.1)).views[0]
    pushes = {(actor.times[0], push.name): push.values for actor in view.actors for push in actor.pushes}
    assert set(pushes) == {(0.0, "hull"), (1.0, "stone")}
    np.testing.assert_allclose(pushes[0.0, "hull"][:-1], np.tile([1.0, 0.0, 0.0], (10, 1)))
    np.testing.assert_allclose(pushes[1.0, "stone"], np.tile([0.0, 1.0, 0.0], (6, 1)))
