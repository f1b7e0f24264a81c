"""The command line on robots: check, convert, catalogue."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest

from spacearm import Body, Inertia, Joint, Robot
from spacearm.cli import main
from spacearm.model.files import load, save
from support.cli import Capture, files_in


def test_check_prints_tree_totals_frames_and_thrusters(robot_file: Path, capsys: Capture) -> None:
    assert main(["check", str(robot_file)]) == 0
    shown = capsys.readouterr()
    lines = shown.out.splitlines()
    assert lines[0] == "hub  100 kg  base, 6 degrees of freedom"
    assert lines[1].startswith("└── arm  5 kg  on shoulder (revolute; friction 2/1 N m; rotor 0.0001 kg m2, ratio 100)")
    assert lines[2].startswith("    └── slide  2.5 kg  on rail (prismatic; spring 100 N/m; damper 3 N s/m)")
    assert lines[-1] == (
        "two [red]arms[/red]: 3 bodies (0 massless), 2 joints (1 revolute, 1 prismatic), 8 degrees of freedom, 107.5 kg"
    )
    for expected in ("hand", "jet", "(0, 0, 1)", "22", "home", "(0.1, 0.2)"):
        assert expected in shown.out
    assert "\x1b" not in shown.out
    assert shown.err == ""


def test_check_json(robot_file: Path, robot: Robot, capsys: Capture) -> None:
    assert main(["check", str(robot_file), "--json"]) == 0
    notes = json.loads(capsys.readouterr().out)
    assert notes["mass"] == 107.5
    assert notes["dofs"] == 8
    assert notes["dof_names"] == list(robot.dof_names)
    assert [body["name"] for body in notes["bodies"]] == ["hub", "arm", "slide"]
    assert notes["joints"][1]["axis"] == [0.0, 0.0, 1.0]
    assert notes["thrusters"][0]["force"] == 22.0
    assert notes["configurations"] == {"home": [0.1, 0.2]}


def test_a_bad_robot_is_status_2_with_file_and_place(robot_file: Path, capsys: Capture) -> None:
    robot_file.write_text(robot_file.read_text().replace("mass = 5.0", "mass = -5.0"))
    assert main(["check", str(robot_file)]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert str(robot_file) in shown.err
    assert "arm" in shown.err
    assert "mass" in shown.err


def test_check_tells_what_nothing_resists(tmp_path: Path, capsys: Capture) -> None:
    point = Robot("p", (Body("hub", Inertia(1.0)),))
    assert main(["check", str(save(point, tmp_path / "point.toml"))]) == 0
    shown = capsys.readouterr()
    assert "warning: nothing resists 'base_wx', 'base_wy', 'base_wz'" in shown.err
    assert "hub" in shown.out
    assert main(["check", str(tmp_path / "point.toml"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["weightless_dofs"] == ["base_wx", "base_wy", "base_wz"]


def test_warnings_are_messages_without_source_lines(robot_file: Path, tmp_path: Path, capsys: Capture) -> None:
    robot_file.write_text(robot_file.read_text().replace("[0.1, 0.2]", "[90.0, 0.2]"))
    urdf = tmp_path / "odd.urdf"
    assert main(["convert", "xu2017", str(urdf)]) == 0
    urdf.write_text(urdf.read_text().replace("<dynamics", "<dinamics").replace("<axis", "<axes/><axis", 1))
    capsys.readouterr()
    for file, note in ((robot_file, "angle is 90 rad"), (urdf, "<axes> is unknown and is ignored")):
        assert main(["check", str(file)]) == 0
        notes = capsys.readouterr().err
        assert notes.startswith(("warning: ", "lost: "))
        assert note in notes
        for leak in (".py", "UserWarning", "warnings.warn", "UnitWarning"):
            assert leak not in notes
        assert len(notes.splitlines()) == 1


def test_a_whole_file_in_place_of_its_name_is_told_shortly(robot_file: Path, capsys: Capture) -> None:
    text = robot_file.read_text() * 20
    for arguments in (["check", text], ["check", text + ".toml"], ["catalogue", "show", text]):
        assert main(arguments) == 2
        assert len(capsys.readouterr().err) < 400


def test_every_catalogue_robot_checks(capsys: Capture) -> None:
    assert main(["catalogue", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {"yoshida1992", "cai2023", "zhang2020", "xu2017", "wojtunik2023"} <= {entry["name"] for entry in listed}
    for entry in listed:
        assert main(["check", entry["name"], "--json"]) == 0
        notes = json.loads(capsys.readouterr().out)
        assert (notes["mass"], notes["dofs"]) == (entry["mass"], entry["dofs"])


def test_a_file_wins_over_a_catalogue_name(
    robot: Robot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["check", "xu2017", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["mass"] != robot.mass
    save(robot, tmp_path / "robot.toml").rename(tmp_path / "xu2017")
    assert main(["check", "xu2017"]) == 2  # it has no ending, so it is no robot file: but it is the file that is read
    assert "xu2017: the file's name has no ending" in capsys.readouterr().err


def test_catalogue_show_prints_a_file_that_loads(tmp_path: Path, capsys: Capture) -> None:
    assert main(["catalogue", "show", "xu2017"]) == 0
    path = tmp_path / "mine.toml"
    path.write_text(capsys.readouterr().out, encoding="utf-8")
    from spacearm.model import catalogue

    assert load(path) == catalogue.load("xu2017")


def test_an_unknown_catalogue_name_gets_a_suggestion(capsys: Capture) -> None:
    assert main(["catalogue", "show", "xu2071"]) == 2
    assert "did you mean 'xu2017'?" in capsys.readouterr().err


def test_convert_says_what_is_lost_and_keeps_the_rest(robot_file: Path, tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "robot.urdf"
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # losses are told by the command, not as Python warnings
        assert main(["convert", str(robot_file), str(target)]) == 0
    shown = capsys.readouterr()
    assert "lost: " in shown.err
    assert "'jet'" in shown.err
    assert str(target) in shown.out
    assert load(target).mass == pytest.approx(107.5)


def test_convert_json_lists_the_losses(robot_file: Path, tmp_path: Path, capsys: Capture) -> None:
    assert main(["convert", str(robot_file), str(tmp_path / "robot.urdf"), "--json"]) == 0
    shown = capsys.readouterr()
    assert any("'jet'" in text for text in json.loads(shown.out)["lost"])
    assert shown.err == ""


def test_strict_convert_writes_nothing(robot_file: Path, tmp_path: Path, capsys: Capture) -> None:
    assert main(["convert", str(robot_file), str(tmp_path / "robot.urdf"), "--strict"]) == 2
    assert "'jet'" in capsys.readouterr().err
    assert files_in(tmp_path) == ["robot.toml"]


@pytest.mark.parametrize("target", ["robot.xyz", "missing/robot.urdf", "robot.toml"])
def test_convert_refuses_targets_it_cannot_write(robot_file: Path, tmp_path: Path, target: str) -> None:
    before = robot_file.read_bytes()
    assert main(["convert", str(robot_file), str(tmp_path / target)]) == 2
    assert files_in(tmp_path) == ["robot.toml"]
    assert robot_file.read_bytes() == before


def test_convert_takes_a_catalogue_name(tmp_path: Path) -> None:
    assert main(["convert", "xu2017", str(tmp_path / "mine.toml")]) == 0
    assert load(tmp_path / "mine.toml").mass == pytest.approx(476.0)


# -- robots from elsewhere ---------------------------------------------------------------------------------------------

BROKEN = """<robot name="arm"><link name="hub"/>
<link name="arm"><inertial><mass value="2"/>
<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="3"/></inertial></link>
<link name="hand"><inertial><mass value="-2"/>
<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link>
<joint name="j" type="continuous"><parent link="hub"/><child link="arm"/><axis xyz="0 0 0.99999"/></joint>
<joint name="k" type="continuous"><parent link="arm"/><child link="hand"/></joint></robot>"""
MENDABLE = BROKEN.replace('"-2"', '"1"')


def test_check_tells_all_problems_at_once(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "arm.urdf"
    path.write_text(BROKEN)
    assert main(["check", str(path)]) == 2
    notes = capsys.readouterr().err
    for note in (
        "4 problems",
        "link 'arm': inertia breaks",
        "link 'hand': mass is -2",
        "axis has length",
        "--base-mass",
    ):
        assert note in notes
    assert "wrong sign" not in notes


def test_check_repairs_and_writes(tmp_path: Path, capsys: Capture) -> None:
    path, fixed = tmp_path / "arm.urdf", tmp_path / "fixed.urdf"
    path.write_text(MENDABLE)
    assert main(["check", str(path), "--repair", "--base-mass", "7", "-o", str(fixed)]) == 0
    shown = capsys.readouterr()
    assert [line.partition(":")[0] for line in shown.err.splitlines()] == ["repaired", "repaired"]
    assert "principal moments 1, 1, 3 -> 1.333, 1.333, 2.667 kg m2, 17 %" in shown.err
    robot = load(fixed)
    assert robot.bodies[0].inertia.mass == 7.0
    assert robot.body("arm").inertia.tensor[2, 2] == pytest.approx(8 / 3)
    assert "1.333, 1.333, 2.667" in fixed.read_text()
    assert main(["check", str(fixed), "--strict"]) == 0
    capsys.readouterr()
    assert main(["check", str(path), "--repair", "--json"]) == 0
    repairs = json.loads(capsys.readouterr().out)["repairs"]
    assert [each["place"] for each in repairs] == ["link 'arm'", "joint 'j'", "link 'hub'"]


@pytest.mark.parametrize(
    "options",
    [["-o", "fixed.toml"], ["--repair", "-o", "arm.urdf"], ["--repair", "-o", "fixed.xyz"], ["--base-mass", "0"]],
)
def test_check_writes_nothing_on_error(
    options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("arm.urdf").write_text(MENDABLE)
    assert main(["check", "arm.urdf", *options]) == 2
    assert capsys.readouterr().err.startswith("error: ")
    assert files_in(tmp_path) == ["arm.urdf"]
    assert Path("arm.urdf").read_text() == MENDABLE


def test_convert_takes_the_same_options(tmp_path: Path, capsys: Capture) -> None:
    path, target = tmp_path / "arm.urdf", tmp_path / "arm.toml"
    path.write_text(MENDABLE.replace("<link name", "<odd/><link name", 1))
    assert main(["convert", str(path), str(target)]) == 2
    assert main(["convert", str(path), str(target), "--repair", "--strict"]) == 2
    assert "<odd> is unknown" in capsys.readouterr().err
    assert not target.exists()
    assert main(["convert", str(path), str(target), "--repair", "--base", "arm"]) == 0
    notes = capsys.readouterr().err
    assert "link 'hub': is not beyond the base 'arm'" in notes
    assert load(target).body_names == ("arm", "hand")


# -- bus and mount ---------------------------------------------------------------------------------------------------


def test_a_bus_with_two_arms_needs_no_code(tmp_path: Path, robot_file: Path, robot: Robot, capsys: Capture) -> None:
    bus, one, two = (str(tmp_path / name) for name in ("bus.toml", "one.toml", "two.toml"))
    assert main(["bus", "--mass", "300", "--size", "1,1.1,1.2", "--thrusters", "16", "-o", bus]) == 0
    assert (
        main(["mount", bus, str(robot_file), "--at", "-0.4,0,0.6", "--rpy", "0,0,90", "--prefix", "l_", "-o", one]) == 0
    )
    assert (
        main(["mount", one, str(robot_file), "--frame", "plus_z", "--prefix", "r_", "--name", "both", "-o", two]) == 0
    )
    whole = load(two)
    assert whole.name == "both"
    assert whole.mass == pytest.approx(300.0 + 2 * robot.mass)
    assert whole.joint_names == ("wheel1", "wheel2", "wheel3", "wheel4", "l_shoulder", "l_rail", "r_shoulder", "r_rail")
    assert whole.configuration("home").tolist() == [0.0, 0.0, 0.0, 0.0, 0.1, 0.2, 0.1, 0.2]
    assert whole.frame("l_hub").placement.translation.tolist() == [-0.4, 0.0, 0.6]
    assert whole.frame("l_hub").placement.rotation[:, 0].tolist() == [0.0, 1.0, 0.0]
    assert whole.frame("r_hub").placement.translation.tolist() == [0.0, 0.0, 0.6]
    capsys.readouterr()
    assert main(["bus", "-o", bus]) == 2
    assert "the file already exists" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--at", "1,2"], "expected three numbers"),
        (["--at", "nan,0,0"], "expected three numbers"),
        (["--rpy", "a,b,c"], "expected three numbers"),
        (["--frame", "roof"], "roof"),
        (["--scale", "0"], "length"),
        ([], "give a prefix"),
        (["--prefix", "\n"], "is not a name"),
        (["--prefix", "a_", "--name", ""], "is not a name"),
    ],
)
def test_a_wrong_mount_writes_nothing(
    robot_file: Path, tmp_path: Path, capsys: Capture, arguments: list[str], words: str
) -> None:
    target = tmp_path / "out.toml"
    assert main(["mount", str(robot_file), str(robot_file), *arguments, "-o", str(target)]) == 2
    assert words in capsys.readouterr().err
    assert not target.exists()


def test_long_chains_are_not_indented_out_of_sight(tmp_path: Path, capsys: Capture) -> None:
    body = Inertia(1.0, (0.1, 0.0, 0.0), np.diag([0.1, 0.1, 0.1]))
    links = [Body(f"link{k}", body) for k in range(61)]
    joints = [Joint(f"joint{k}", "revolute", f"link{k}", f"link{k + 1}") for k in range(60)]
    save(Robot("chain", links, joints), tmp_path / "chain.toml")
    assert main(["check", str(tmp_path / "chain.toml")]) == 0
    lines = capsys.readouterr().out.splitlines()[:61]
    places = [line.index("link") for line in lines]
    assert places[:16] == [4 * k for k in range(16)]
    assert max(places) == 4 * 16
    assert "on joint59 (revolute) of link59" in lines[60]
    assert " of link" not in "".join(lines[:17])
