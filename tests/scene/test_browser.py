"""A scene in a real browser: it draws, its slider moves the robot, and it asks nobody for anything."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from spacearm import Load, Phase, State, catalogue
from spacearm.scene import scene_of
from spacearm.simulate import Run, simulate
from spacearm.simulate.bodies import evaluate_bodies
from spacearm.simulate.loads import thruster_load
from support.chromium import LOOK, Browser, Page, chromium


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def run() -> Run:
    robot = catalogue.load("xu2017")
    push = Load.pulse("hand", force=[0.0, 40.0, 10.0], duration=0.5, start=0.2)
    phases = [
        Phase(2.0, loads=[push, thruster_load(robot, robot.thrusters[0].name)], name="push"),
        Phase(4.0, name="drift"),
    ]
    return simulate(robot, State.at_rest(robot, "normal"), phases, sample=0.02)


@pytest.fixture
def page(browser: Browser, run: Run, tmp_path: Path) -> Page:
    browser.events.clear()
    shown = Page(browser, scene_of(run).save(tmp_path / "scene.html"))
    shown.wait("!!document.querySelector('spacearm-scene').actors")
    return shown


def test_it_draws_and_asks_for_nothing(page: Page) -> None:
    look = page.run(LOOK)
    assert 0.02 < look["share"] < 0.9
    assert look["width"] > 1000
    assert page.faults() == []
    assert page.requests() == []


def test_the_slider_moves_the_robot(page: Page) -> None:
    before = np.array(page.run(LOOK)["solid"])
    page.run(
        """(() => { const root = document.querySelector("spacearm-scene").shadowRoot;
        const slider = root.querySelector("input[type=range]"); slider.value = 4.5;
        slider.dispatchEvent(new Event("input", { bubbles: true })); })()"""
    )
    assert page.run("document.querySelector('spacearm-scene').time") == pytest.approx(4.5)
    after = np.array(page.run(LOOK)["solid"])
    assert (before != after).mean() > 0.01
    assert "4.5" in page.run("document.querySelector('spacearm-scene').shadowRoot.querySelector('.time').textContent")


def test_poses_between_samples_are_the_runs_own(page: Page, run: Run) -> None:
    """The viewer's interpolation against the run's states at their own times."""
    row = 137
    place = page.run(
        "(() => { const a = document.querySelector('spacearm-scene').actors[0];"
        f"const p = a.pose(0, a.place({run.times[row]})); return [...p.p, ...p.q]; }})()"
    )
    state = run.states[row]
    np.testing.assert_allclose(place[:3], state[:3], atol=1e-6)
    quaternion = np.array([place[6], *place[3:6]])
    np.testing.assert_allclose(quaternion * np.sign(quaternion @ state[3:7]), state[3:7], atol=1e-6)


def test_keys_camera_and_legend(page: Page) -> None:
    scene = "document.querySelector('spacearm-scene')"
    first = page.run(LOOK)["solid"]
    page.run(f"{scene}.shadowRoot.querySelector('canvas.gl').focus()")
    for key in ("ArrowRight", "ArrowUp", "+"):
        page.command("Input.dispatchKeyEvent", type="keyDown", key=key, text=key if len(key) == 1 else "")
    assert page.run(LOOK)["solid"] != first
    page.command("Input.dispatchKeyEvent", type="keyDown", key="r", text="r")
    assert page.run(LOOK)["solid"] == first
    page.run(
        f"[...{scene}.shadowRoot.querySelectorAll('.legend label')].find((l) => l.textContent === 'Bodies').click()"
    )
    assert page.run(LOOK)["share"] < 0.02
    page.command("Input.dispatchKeyEvent", type="keyDown", key=" ", text=" ")
    page.wait(f"{scene}.time > 0.01")
    assert page.faults() == []


@pytest.mark.parametrize(("width", "dark"), [(400, False), (1280, True)])
def test_narrow_and_dark(browser: Browser, run: Run, tmp_path: Path, width: int, dark: bool) -> None:
    browser.events.clear()
    page = Page(browser, scene_of(run).save(tmp_path / "scene.html"), width=width, dark=dark)
    page.wait("!!document.querySelector('spacearm-scene').actors")
    assert page.run("document.documentElement.scrollWidth") <= width
    assert page.run("document.querySelector('spacearm-scene').classList.contains('dark')") is dark
    assert page.run(LOOK)["share"] > 0.02
    assert page.faults() == []


def test_several_runs_have_a_chooser(browser: Browser, run: Run, tmp_path: Path) -> None:
    browser.events.clear()
    scene = scene_of({"A": run, "B": catalogue.load("cai2023")})
    page = Page(browser, scene.save(tmp_path / "scene.html"))
    page.wait("!!document.querySelector('spacearm-scene').actors")
    first = page.run(LOOK)["solid"]
    page.run(
        """(() => { const which = document.querySelector("spacearm-scene").shadowRoot.querySelector(".which");
        which.value = 1; which.dispatchEvent(new Event("change")); })()"""
    )
    assert page.run(LOOK)["solid"] != first
    assert page.faults() == []


@pytest.mark.parametrize("name", ["servicer", "xu2017", "zhang2020_six_axis"])
def test_sliders_move_the_joints_as_spacearm_does(browser: Browser, tmp_path: Path, name: str) -> None:
    """Every body's pose after the sliders were moved, against spacearm's kinematics."""
    browser.events.clear()
    robot = catalogue.load(name)
    page = Page(browser, scene_of(robot).save(tmp_path / "robot.html"))
    page.wait("!!document.querySelector('spacearm-scene').actors")
    random = np.random.default_rng(3)
    bounds = np.array([[joint.limits.lower, joint.limits.upper] for joint in robot.joints]).clip(-1.0, 1.0)
    joints = random.uniform(*bounds.T)
    before = np.array(page.run(LOOK)["solid"])
    found = page.run(
        f"""(() => {{ const scene = document.querySelector("spacearm-scene"), wanted = {joints.tolist()};
        const sliders = [...scene.shadowRoot.querySelectorAll(".drives input")];
        sliders.forEach((slider, i) => {{ slider.value = wanted[i]; slider.dispatchEvent(new Event("input")); }});
        const actor = scene.actors[0];
        const poses = actor.bodies.map((_, i) => actor.pose(i, [0, 0]));
        return {{ names: sliders.map((s) => s.dataset.joint), poses }}; }})()"""
    )
    assert found["names"] == list(robot.joint_names)
    moved = evaluate_bodies(robot, State.at_rest(robot, joints).vector[None])
    np.testing.assert_allclose([pose["p"] for pose in found["poses"]], moved.origin[0], atol=2e-6)
    turns = Rotation.from_quat([pose["q"] for pose in found["poses"]])
    np.testing.assert_allclose(turns.as_matrix(), moved.rotation[0], atol=2e-6)
    assert (before != np.array(page.run(LOOK)["solid"])).mean() > 0.001
    assert page.faults() == []


def test_runs_have_no_sliders_of_joints(page: Page) -> None:
    assert page.run("document.querySelector('spacearm-scene').shadowRoot.querySelector('.drives').hidden")
