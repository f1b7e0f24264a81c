"""xacro files: expanded like xacro does it, and no more than that."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from spacearm.cli import main
from spacearm.errors import InputError, ModelError
from spacearm.model import load
from spacearm.model.files import save

HEAD = '<?xml version="1.0"?>\n<robot name="arm" xmlns:xacro="http://www.ros.org/wiki/xacro">\n'
INERTIAL = '<inertial><mass value="{}"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
LINK = f"""<xacro:macro name="piece" params="name mass:=2"><link name="${{name}}">{INERTIAL.format("${mass}")}</link>
</xacro:macro>
"""
ARM = f"""{HEAD}
<xacro:arg name="payload" default="1.5"/>
<xacro:arg name="long" default="true"/>
<xacro:property name="reach" value="${{2 * cos(radians(60))}}"/>
{LINK}<xacro:piece name="base" mass="100"/>
<xacro:piece name="link" mass="$(arg payload)"/>
<joint name="j" type="revolute"><parent link="base"/><child link="link"/><axis xyz="0 0 1"/>
<origin xyz="${{reach}} 0 0"/><limit lower="${{-pi}}" upper="${{pi}}" effort="10" velocity="1"/></joint>
<xacro:if value="$(arg long)"><xacro:piece name="tip"/>
<joint name="k" type="revolute"><parent link="link"/><child link="tip"/><axis xyz="0 1 0"/>
<origin xyz="0 0 1"/><limit lower="-1" upper="1" effort="10" velocity="1"/></joint></xacro:if>
</robot>
"""


def write(folder, text, name="arm.urdf.xacro"):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_it_is_what_the_program_xacro_makes_of_it(tmp_path):
    path = write(tmp_path, ARM)
    program = "import sys, xacro; xacro.main()"
    made = subprocess.run(
        [sys.executable, "-c", program, str(path), "payload:=7", "long:=false"],
        check=True,
        capture_output=True,
        text=True,
    )
    urdf = write(tmp_path, made.stdout, "made.urdf")
    robot = load(path, arguments={"payload": 7, "long": False})
    assert robot == load(urdf)
    assert robot.mass == 107.0
    np.testing.assert_allclose(robot.joint("j").placement.translation, [1.0, 0.0, 0.0], rtol=1e-15)


def test_arguments_come_from_the_command_line_and_from_files(tmp_path, capsys):
    path = write(tmp_path, ARM)
    assert load(path).mass == 103.5
    assert main(["check", str(path), "--argument", "payload:=4", "--argument", "long:=false"]) == 0
    assert "104 kg" in capsys.readouterr().out
    assert main(["check", str(path), "--argument", "payload=4"]) != 0
    assert "NAME:=VALUE" in capsys.readouterr().err
    body = '[robot]\nname = "bus"\n[[body]]\nname = "bus"\nmass = 10.0\ninertia = [1, 1, 1]\n'
    bus = f'{body}[[mount]]\nfile = "{path.name}"\n'
    mounted = write(tmp_path, f'{bus}arguments = {{ payload = 4, long = false }}\nprefix = "a_"\n', "bus.toml")
    assert load(mounted).mass == 114.0
    with pytest.raises(InputError, match=r"takes no arguments, and is given 'payload'"):
        load(mounted, arguments={"payload": 3})
    with pytest.raises(ModelError, match="read and not written"):
        save(load(path), tmp_path / "out.xacro")


def test_packages_are_found_beside_and_above(tmp_path):
    for name in ("arm_description", "common"):
        write(tmp_path, f"<package><name>{name}</name></package>", f"{name}/package.xml")
    write(tmp_path, f"{HEAD}{LINK}</robot>", "common/urdf/parts.xacro")
    text = f'{HEAD}<xacro:include filename="$(find common)/urdf/parts.xacro"/><xacro:piece name="base"/></robot>'
    path = write(tmp_path, text, "arm_description/urdf/arm.xacro")
    assert load(path).mass == 2.0
    path.write_text(text.replace("find common", "find uncommon"))
    with pytest.raises(ModelError, match="no package 'uncommon'"):
        load(path)


PROBE = "${[f for f in [(g for g in [1])]][0].gi_frame.f_back.f_globals}"
REFUSED = {
    "frames": (f'<xacro:property name="x" value="{PROBE}"/>${{x}}', "may not use"),
    "dunder": ('<a b="${().__class__}"/>', "may not use"),
    "dunder in eval": ('<a b="$(eval [].__class__)"/>', "may not use"),
    "frames in eval": ('<a b="$(eval [].gi_frame)"/>', "may not use"),
    "outside": ('<xacro:include filename="../other.xacro"/>', "outside the model's package"),
    "outside by yaml": ("<a b=\"${xacro.load_yaml('/etc/passwd')}\"/>", "outside the model's package"),
    "environment": ('<a b="$(env HOME)"/>', "environment is not read"),
    "device": ('<xacro:include filename="/dev/zero"/>', "outside the model's package"),
    "missing argument": ('<a b="$(arg nobody)"/>', "--argument NAME:=VALUE"),
    "unknown macro": ("<xacro:nobody/>", "nobody"),
    "endless": ('<xacro:macro name="m" params=""><xacro:m/></xacro:macro><xacro:m/>', "without end|crashed"),
    "endless include": ('<xacro:include filename="arm.urdf.xacro"/>', "without end|crashed"),
    "large": ('<a b="${len([0] * 10**11)}"/>', "memory|MemoryError"),
    "not closed": ("<a>", "mismatched tag"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_may_not_be_is_an_error_that_names_the_file(name, tmp_path):
    body, message = REFUSED[name]
    write(tmp_path, f"{HEAD}</robot>", "other.xacro")
    path = write(tmp_path, f"{HEAD}{body}<link name='base'>{INERTIAL.format(1)}</link></robot>", "own/arm.urdf.xacro")
    with pytest.raises(ModelError, match=message) as caught:
        load(path)
    assert caught.value.file == path


def test_document_types_are_refused(tmp_path):
    text = f'<!DOCTYPE r [<!ENTITY a "b">]>{HEAD.splitlines()[1]}<link name="&a;"/></robot>'
    with pytest.raises(ModelError, match=r"DTD|Forbidden"):
        load(write(tmp_path, text))


def test_nothing_is_written(tmp_path):
    """Even an expression that came past the guard could not leave a file."""
    path = write(tmp_path, ARM)
    load(path)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_an_arm_among_files_outside_is_read_when_asked(tmp_path):
    write(tmp_path, f"{HEAD}{LINK}</robot>", "parts.xacro")
    text = f'{HEAD}<xacro:include filename="../parts.xacro"/><xacro:piece name="base"/></robot>'
    path = write(tmp_path, text, "own/arm.xacro")
    with pytest.raises(ModelError, match="outside"):
        load(path)
    assert load(path, outside=True).mass == 2.0
