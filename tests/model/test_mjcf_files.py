"""MJCF and the files that it refers to: which are read, from where, how much of them, and what MuJoCo gets."""

from __future__ import annotations

import os
import time

import mujoco
import numpy as np
import pytest

from spacearm.errors import ModelError
from spacearm.model.mjcf_read import MAX_PARTS, read_mjcf, robot_from_mjcf
from spacearm.model.notices import LossyConversion
from spacearm.model.robot_import import Reading
from spacearm.model.safexml import Bounds

INERTIAL = '<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>'
BODY = f'<worldbody><body name="base">{INERTIAL}</body></worldbody>'
#: A cube of 1 m at the origin, as an OBJ file.
CUBE = "".join(f"v {x} {y} {z}\n" for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5))
FACES = (132, 243, 567, 687, 125, 265, 374, 487, 153, 375, 246, 684)
CUBE += "".join(f"f {' '.join(str(face))}\n" for face in FACES)


def model(inside, before=""):
    """A model with one body, called base."""
    return f'<mujoco>{before}<worldbody><body name="base">{inside}</body></worldbody></mujoco>'


WEIGHED = model('<geom type="mesh" mesh="m"/>', '{}<asset><mesh file="{}"/></asset>')


def written(folder, **files):
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path = path.with_name(f"{path.name}.xml" if "." not in path.name else path.name)
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text)
    return folder / "main.xml"


def test_included_parts_stand_in_their_places(tmp_path):
    main = written(
        tmp_path,
        main='<mujoco><worldbody><body name="base"><include file="sub/part.xml"/></body></worldbody></mujoco>',
        sub__part='<mujocoinclude><include file="inertia.xml"/><site name="s" pos="1 2 3"/></mujocoinclude>',
        sub__inertia=f"<x>{INERTIAL}</x>",
    )
    robot = read_mjcf(main, reading=Reading(strict=True))
    np.testing.assert_array_equal(robot.frame("s").placement.translation, [1, 2, 3])


def test_other_models_are_attached(tmp_path):
    hand = f'<mujoco model="hand"><worldbody><body name="palm">{INERTIAL}</body></worldbody></mujoco>'
    arm = model(
        f'{INERTIAL}<frame pos="0 0 2"><attach model="h" body="palm" prefix="left-"/></frame>',
        '<asset><model name="h" file="hands/hand.xml"/></asset>',
    )
    main = written(tmp_path, main=arm, hands__hand=hand)
    np.testing.assert_array_equal(read_mjcf(main).frame("left-palm").placement.translation, [0, 0, 2])


#: In which file the mesh is named, and which folders have it, the first as MuJoCo has it.
PLACES = {
    "main": ("main", "meshes", "sub", "."),
    "included": ("sub__part", "meshes", "sub", "sub/meshes", "."),
    "beside": ("sub__part", "sub", "sub/meshes", "."),
    "beside deep": ("sub__deep__part", "sub/deep", "sub", "."),
}


@pytest.mark.parametrize("case", PLACES)
def test_meshes_are_found_where_mujoco_finds_them(tmp_path, case):
    """In the model's meshdir, then beside the included file, without a meshdir."""
    where, *folders = PLACES[case]
    asset = '<asset><mesh name="m" file="m.obj"/></asset>'
    files = {"main": '<compiler meshdir="meshes"/>', "sub__part": "", "sub__deep__part": ""}
    files[where] += asset
    body = '<worldbody><body name="base"><freejoint/><geom type="mesh" mesh="m"/></body></worldbody>'
    include = '<include file="sub/part.xml"/><include file="sub/deep/part.xml"/>'
    main = written(
        tmp_path,
        main=f"<mujoco>{files['main']}{include}{body}</mujoco>",
        sub__part=f"<x><default/>{files['sub__part']}</x>",
        sub__deep__part=f"<x><default/>{files['sub__deep__part']}</x>",
    )
    for size, folder in enumerate(folders, 1):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        corners = [f"v {' '.join(str(size * float(x)) for x in line.split()[1:])}" for line in CUBE.splitlines()[:8]]
        (tmp_path / folder / "m.obj").write_text("\n".join([*corners, *CUBE.splitlines()[8:], ""]))
    expected = mujoco.MjModel.from_xml_path(str(main)).body_mass[1]
    robot = read_mjcf(main)
    assert robot.mass == pytest.approx(expected, rel=1e-9)
    assert expected == pytest.approx(1000.0)
    assert [visual.mesh for visual in robot.bodies[0].visuals] == [str(tmp_path / folders[0] / "m.obj")]


ESCAPES = {
    "parent": '<mujoco><include file="../secret.xml"/></mujoco>',
    "absolute": '<mujoco><include file="{}/secret.xml"/></mujoco>',
    "in capitals": '<mujoco><INCLUDE file="../secret.xml"/></mujoco>',
    "back and forth": '<mujoco><include file="a/../../secret.xml"/></mujoco>',
    "backslashes": '<mujoco><include file="..\\secret.xml"/></mujoco>',
    "drive": '<mujoco><include file="C:\\x.xml"/></mujoco>',
    "model": '<mujoco><asset><model name="m" file="../secret.xml"/></asset></mujoco>',
    "link": '<mujoco><include file="link.xml"/></mujoco>',
    "linked model": '<mujoco><asset><model name="m" file="link.xml"/></asset></mujoco>',
    "linked folder": '<mujoco><include file="up/secret.xml"/></mujoco>',
    "mesh": WEIGHED.format("", "../m.obj"),
    "mesh folder": WEIGHED.format('<compiler meshdir=".."/>', "m.obj"),
    "asset folder": WEIGHED.format('<compiler assetdir="{}"/>', "m.obj"),
}


@pytest.mark.parametrize("case", ESCAPES)
def test_nothing_outside_the_folder_is_read_unless_asked_for(tmp_path, case):
    folder = tmp_path / "model"
    main = written(folder, main=ESCAPES[case].replace("{}", str(tmp_path)))
    (tmp_path / "secret.xml").write_text(f"<mujoco>{BODY}</mujoco>")
    (tmp_path / "m.obj").write_text(CUBE)
    (folder / "a").mkdir()
    (folder / "link.xml").symlink_to("../secret.xml")
    (folder / "up").symlink_to("..")
    with pytest.raises(ModelError, match=rf"{main}: line 1: .*outside the folder .*outside=True"):
        read_mjcf(main)
    if case not in ("drive", "model", "linked model"):  # the last two have no body of their own
        assert read_mjcf(main, Reading(outside=True)).mass > 0.0


def test_what_lies_in_the_folder_may_be_reached_by_any_path(tmp_path):
    main = written(tmp_path, main='<mujoco><include file="a/../part.xml"/></mujoco>', part=f"<x>{BODY}</x>", a__b="")
    assert read_mjcf(main).body_names == ("base",)


CYCLES = {
    "itself": {"main": '<mujoco><include file="main.xml"/></mujoco>'},
    "each other": {
        "main": '<mujoco><include file="one.xml"/></mujoco>',
        "one": '<x><include file="two.xml"/></x>',
        "two": '<x><include file="one.xml"/></x>',
    },
    "attached": {
        "main": '<mujoco><asset><model name="a" file="one.xml"/><model name="b" file="one.xml"/></asset></mujoco>',
        "one": '<mujoco><asset><model name="a" file="main.xml"/><model name="b" file="main.xml"/></asset></mujoco>',
    },
}


@pytest.mark.parametrize("case", CYCLES)
def test_files_that_refer_to_each_other_are_refused(tmp_path, case):
    with pytest.raises(ModelError, match=r"must not (include|attach) each other"):
        read_mjcf(written(tmp_path, **CYCLES[case]))


def many(count, inside):
    return f'<replicate count="{count}" offset="1 0 0">{inside}</replicate>'


def doubled(levels):
    """Bodies that each hold two copies of the one before: 2 ** levels in all."""
    text = f'<body name="b0">{INERTIAL}</body>'
    for level in range(levels):
        copies = "".join(f'<attach body="b{level}" prefix="{side}{level}"/>' for side in "xy")
        text += f'<body name="b{level + 1}">{INERTIAL}{copies}</body>'
    return text


BOMBS = {
    "replicate": many(1_000_000, "<site/>"),
    "nested": many(1000, many(1000, "<site/>")),
    "no number": many("1e6", "<site/>"),
    "attached to itself": doubled(30),
}


@pytest.mark.parametrize("case", BOMBS)
def test_bombs_are_refused_before_they_grow(case):
    start = time.monotonic()
    with pytest.raises(ModelError, match=r"<(replicate|attach|body)>: expands to more than .*Bounds\(elements"):
        robot_from_mjcf(model(INERTIAL + BOMBS[case]))
    assert time.monotonic() - start < 5.0


def test_replicated_parts_are_read():
    text = model(INERTIAL + many(3, '<site name="s"/>'))
    assert [frame.name for frame in robot_from_mjcf(text).frames] == ["s0", "s1", "s2"]


CROWDS = {
    "roots": ("", many(2000, f"<body>{INERTIAL}<joint/></body>"), "several bodies .* and 1988 more"),
    "bodies": (many(1000, f"<body>{INERTIAL}<joint/></body>"), "", "there are 1001 bodies .at most 1000"),
    "sites": (many(21, "<site/>"), "", "there are 21 sites .at most 20"),
}


@pytest.mark.parametrize("case", CROWDS)
def test_crowds_are_refused(case, monkeypatch):
    monkeypatch.setitem(MAX_PARTS, "nsite", ("sites", 20))  # MuJoCo itself takes long for so many as are allowed
    inside, beside, message = CROWDS[case]
    with pytest.raises(ModelError, match=message):
        robot_from_mjcf(model(INERTIAL + inside).replace("<worldbody>", f"<worldbody>{beside}"))


def test_all_files_of_a_model_are_bounded_together(tmp_path):
    main = written(
        tmp_path,
        main=f'<mujoco><include file="one.xml"/><include file="two.xml"/>{BODY}</mujoco>',
        one=f"<x><option/><!-- {'x' * 1000} --></x>",
        two=f"<x><option/><!-- {'x' * 1000} --></x>",
    )
    assert read_mjcf(main).n == 0
    with pytest.raises(ModelError, match=r"two\.xml: file is larger than .*Bounds\(file_bytes"):
        read_mjcf(main, bounds=Bounds(file_bytes=2000))


HUNGRY = {
    "texture": '<asset><texture name="t" type="2d" builtin="flat" width="100000" height="100000"/></asset>',
    "height field": '<asset><hfield name="h" nrow="100000" ncol="100000" size="1 1 1 1"/></asset>',
    "arena": '<size memory="1000G" nuserdata="1000000000"/>',
    "numbers": '<custom><numeric name="n" size="1000000000"/></custom>',
}


@pytest.mark.parametrize("case", HUNGRY)
def test_what_no_motion_needs_takes_no_memory(case):
    assert robot_from_mjcf(f"<mujoco>{HUNGRY[case]}{BODY}</mujoco>", reading=Reading(strict=True)).n == 0


def test_a_slow_or_hungry_compilation_is_ended(tmp_path):
    """The next model is read by a new process."""
    sphere = '<asset><mesh name="m" builtin="supersphere" params="3000 1 1"/></asset>'
    heavy = model('<geom type="mesh" mesh="m"/>', sphere)
    with pytest.raises(ModelError, match=r"more than 0\.5 s .*Bounds\(seconds"):
        robot_from_mjcf(heavy, bounds=Bounds(seconds=0.5))
    for _ in range(2):
        with pytest.raises(ModelError, match=r"out of memory .*Bounds\(memory_bytes"):
            robot_from_mjcf(heavy, bounds=Bounds(memory_bytes=2**28))
    assert robot_from_mjcf(f"<mujoco>{BODY}</mujoco>").n == 0


def test_meshes_are_needed_only_for_inertias(tmp_path):
    """A body with an inertia, a shape without mass, and shapes of the world need no mesh file."""
    text = f"""<mujoco><compiler meshdir="none" inertiagrouprange="0 1"/>
      <default><default class="seen"><geom type="mesh" mass="0"/></default></default>
      <asset><mesh file="m.stl"/><texture name="t" file="t.png"/><material name="c" texture="t"/>
        <hfield name="h" file="h.png" size="1 1 1 1"/></asset>
      <worldbody><geom type="mesh" mesh="m"/><geom type="hfield" hfield="h"/>
        <body name="base">{INERTIAL}<geom type="mesh" mesh="m" material="c"/>
          <body name="c" childclass="seen"><geom mesh="m"/><geom mesh="m" type="mesh" group="2" mass="1"/></body>
        </body></worldbody></mujoco>"""
    robot = read_mjcf(written(tmp_path, main=text))
    assert robot.mass == 1.0
    assert robot_from_mjcf(text) == robot


def test_a_mesh_that_carries_mass_is_weighed(tmp_path):
    main = written(tmp_path, **{"main": WEIGHED.format('<compiler meshdir="parts"/>', "m.obj"), "parts__m.obj": CUBE})
    inertia = read_mjcf(main).bodies[0].inertia
    assert inertia.mass == pytest.approx(1000.0, rel=1e-6)  # a cubic metre of water
    np.testing.assert_allclose(inertia.tensor, np.eye(3) * 1000.0 / 6.0, rtol=1e-6, atol=1e-6)
    (tmp_path / "parts" / "m.obj").unlink()
    with pytest.raises(
        ModelError, match=r"a body takes its inertia from .*m\.obj: cannot be read.*\(give the body an <iner"
    ):
        read_mjcf(main)
    os.mkfifo(tmp_path / "parts" / "m.obj")
    with pytest.raises(ModelError, match="a device or a pipe"):
        read_mjcf(main)
    (tmp_path / "parts" / "m.obj").unlink()
    (tmp_path / "parts" / "m.obj").write_text(CUBE)
    with pytest.raises(ModelError, match=r"m\.obj: file is larger than 100 bytes .*Bounds\(mesh_bytes"):
        read_mjcf(main, bounds=Bounds(mesh_bytes=100))


def test_a_shape_that_a_plugin_makes_is_not_weighed():
    plugin = '<plugin plugin="mujoco.sdf.torus"/>'
    before = f'<extension>{plugin}</extension><asset><mesh name="m">{plugin}</mesh></asset>'
    geom = f'<geom type="sdf" mesh="m">{plugin}</geom>'
    with pytest.raises(ModelError, match=r"inertia from mesh 'm', which a plugin makes .*give the body an <inertial>"):
        robot_from_mjcf(model(geom, before))
    with pytest.warns(LossyConversion, match=r"plugin .*left out"):
        assert robot_from_mjcf(model(INERTIAL + geom, before)).mass == 1.0


def test_errors_name_the_line_of_the_file_that_they_stand_in(tmp_path):
    part = "<x>\n\n\n<worldbody>\n<body name='a'>\n<geom\n size='1' sise='2'/></body></worldbody></x>"
    main = written(tmp_path, main='<mujoco>\n<option/>\n<include file="part.xml"/></mujoco>', part=part)
    with pytest.raises(ModelError, match=r"sise.*line 6 of .*part\.xml"):
        read_mjcf(main)
    main.write_text("<mujoco>\n<option/>\n\n<option\n bad=''/></mujoco>")
    with pytest.raises(ModelError, match=r"main\.xml: MuJoCo rejects the file: .*bad.*line 4$"):
        read_mjcf(main)


def test_a_urdf_that_is_called_xml_gets_advice(tmp_path):
    with pytest.raises(ModelError, match=r"URDF file ends in \.urdf"):
        read_mjcf(written(tmp_path, main="<robot/>"))
