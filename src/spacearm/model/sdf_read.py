"""Reading SDF (SDFormat, Gazebo's and Drake's files): one model becomes URDF, and goes the way of URDF from there.

SDF places links, joints and frames in any frame (``relative_to``), URDF each link in the frame of the joint that
carries it. So every pose is first resolved in the model's frame; then a link takes the frame of its joint, and what it
holds is moved there. A ``<frame>`` becomes a link without mass on a fixed joint, which is how URDF writes frames.

Read: one model with links, inertials, shapes, fixed, revolute, continuous and prismatic joints with limits, damping,
friction and mimics, frames. Everything else that would change the motion is an error: nested models and includes, other
joints, loops, springs, static models. Sensors, plugins, lights and materials' scripts say nothing about the motion.
SDF's defaults hold: a link without ``<inertial>`` has 1 kg and 1 kg m2, which is told.

The specification: sdformat.org, "Pose Frame Semantics" (from SDF 1.7), with the older rules for axes (SDF 1.4: in the
model's axes; 1.5 and 1.6: ``use_parent_model_frame``).
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from spacearm.errors import ModelError, clip_text, error_context, quote_text
from spacearm.model.parts import Pose
from spacearm.model.robot import Robot
from spacearm.model.robot_import import Reading
from spacearm.model.rotations import rotation_from_quaternion, rotation_from_rpy, rpy_from_rotation
from spacearm.model.safexml import format_number, format_numbers, number, numbers, parse, read_file
from spacearm.model.urdf_read import MAX_LINKS, robot_from_urdf
from spacearm.typing import Array

#: Bounds from this on mean that there is none.
ENDLESS = 1e16
MODEL, WORLD = "__model__", "world"
_JOINTS = ("revolute", "continuous", "prismatic", "fixed")
#: Elements of a model that are read, and those that say nothing about the motion of the robot.
_READ = {"link", "joint", "frame", "pose", "static"}
_SILENT = {"plugin", "self_collide", "allow_auto_disable", "enable_wind", "gripper", "audio_source", "sensor"}
#: Shapes that URDF has too, with what they are made of.
_SHAPES = {"box": ("size",), "cylinder": ("radius", "length"), "sphere": ("radius",), "mesh": ("uri",)}


def read_sdf(path: str | Path, reading: Reading | None = None) -> Robot:
    """The robot of an SDF file. Raises :class:`ModelError` with the file and every link or joint concerned."""
    with error_context(file=path):
        return robot_from_sdf(read_file(path), path, reading)


def robot_from_sdf(text: str | bytes, file: str | Path | None = None, reading: Reading | None = None) -> Robot:
    """The robot of an SDF text; ``file`` is named in messages, and its folder is where meshes are looked for."""
    with error_context(file=file):
        root = parse(text, "sdf")
        version = tuple(int(part) for part in (root.get("version") or "1.7").split(".") if part.isdigit())
        model = _Model(_only_model(root), version)
        urdf = ET.tostring(model.urdf(), encoding="unicode")
    return robot_from_urdf(urdf, file, reading, lost=model.lost)


def _only_model(root: ET.Element) -> ET.Element:
    models = [*root.findall("model"), *root.findall("world/model")]
    if len(models) != 1:
        names = ", ".join(quote_text(each.get("name") or "") for each in models[:5])
        what = f"there are {len(models)} models: {names}" if models else "there is no <model>"
        raise ModelError(what, hint="expected one: each in a file of its own, joined by [[mount]] in a robot file")
    return models[0]


class _Model:
    """The parts of a model, and their poses in its frame."""

    def __init__(self, element: ET.Element, version: tuple[int, ...]) -> None:
        self.element, self.version = element, version
        #: What is lost, for warnings: place and what.
        self.lost: list[tuple[str, str]] = []
        self.links, self.joints, self.frames = (self._parts(tag) for tag in ("link", "joint", "frame"))
        if not self.links:
            raise ModelError("the model has no links", place="model")
        count = len(self.links) + len(self.frames)
        if count > MAX_LINKS:
            raise ModelError(f"there are {count} links and frames", hint=f"at most {MAX_LINKS} are read")
        self._check_content()
        #: The joint that carries each link.
        self.carrier: dict[str, str] = {}
        for name, joint in self.joints.items():
            child = self._end(joint, name, "child")
            if child in self.carrier:
                both = f"{quote_text(self.carrier[child])} and {quote_text(name)}"
                raise ModelError(f"{both} both carry it", place=f"link {child!r}", hint="loops are not read from SDF")
            self.carrier[child] = name
        self._resolved: dict[str, Pose] = {MODEL: Pose()}

    def _parts(self, tag: str) -> dict[str, ET.Element]:
        found: dict[str, ET.Element] = {}
        for index, element in enumerate(self.element.findall(tag)):
            name = (element.get("name") or "").strip()
            if not name:
                raise ModelError(f"<{tag}> has no 'name'", place=f"{tag}[{index}]")
            if name in found:
                raise ModelError(f"there are two of this name: {quote_text(name)}", place=f"{tag}[{index}]")
            if "::" in name:
                raise ModelError("names of nested models are not read", place=f"{tag} {name!r}")
            found[name] = element
        return found

    def _check_content(self) -> None:
        for child in self.element:
            tag = str(child.tag)
            if tag in ("model", "include"):
                hint = "flatten the file, or join the parts in a robot file with [[mount]]"
                raise ModelError(f"<{tag}> in a model is not read", place="model", hint=hint)
            if tag not in _READ | _SILENT and not tag.startswith("{"):
                self.lost.append(("model", f"element <{clip_text(tag)}> is ignored"))
        if (self.element.findtext("static") or "false").strip() in ("true", "1"):
            raise ModelError("a static model does not move", place="model", hint="expected <static>false</static>")
        if self.element.get("placement_frame"):
            self.lost.append(("model", "its placement_frame is ignored: a robot begins anywhere"))

    # -- poses ----------------------------------------------------------------------------------------------------

    def place(self, name: str) -> Pose:
        """Pose of a link, joint or frame in the model's frame."""
        # A loop, not a recursion: files may place thousands of frames, each in the one before.
        chain: dict[str, Pose] = {}
        while name not in self._resolved:
            if name in chain:
                raise ModelError("depends on itself", place=f"pose of {name!r}")
            element, outer = self._find(name)
            with error_context(place=f"pose of {name!r}"):
                outer, chain[name] = _relative_pose(element, outer)
            name = outer
        pose = self._resolved[name]
        for name, own in reversed(chain.items()):
            pose = self._resolved[name] = pose @ own
        return pose

    def _find(self, name: str) -> tuple[ET.Element, str]:
        """The element of a link, joint or frame, and what its pose is relative to if it does not say."""
        if name in self.links:
            return self.links[name], MODEL
        if name in self.joints:
            return self.joints[name], self._end(self.joints[name], name, "child")
        if name in self.frames:
            return self.frames[name], self.frames[name].get("attached_to") or MODEL
        known = ", ".join(map(quote_text, [*self.links, *self.joints, *self.frames][:8]))
        raise ModelError(f"there is no frame {quote_text(name)}", hint=f"there are: {known}")

    def _pose(self, element: ET.Element, outer: str) -> Pose:
        """An element's ``<pose>`` in the model's frame; ``outer`` is what it is relative to if it does not say."""
        frame, own = _relative_pose(element, outer)
        return self.place(frame) @ own

    def _end(self, joint: ET.Element, name: str, tag: str) -> str:
        """The link at an end of a joint, or the world."""
        text = (joint.findtext(tag) or "").strip()
        if not text:
            raise ModelError(f"has no <{tag}>", place=f"joint {name!r}")
        return text if text == WORLD else self._link_of(text, f"joint {name!r}")

    def _link_of(self, name: str, place: str) -> str:
        """The link that a frame is fixed to."""
        for _ in range(len(self.frames) + len(self.joints) + 2):
            if name in self.links:
                return name
            if name == MODEL:
                # A model's own frame is fixed to its canonical link: the first, if none is named.
                canonical = (self.element.get("canonical_link") or "").strip()
                name = canonical or next(iter(self.links))
            elif name in self.frames:
                name = (self.frames[name].get("attached_to") or MODEL).strip()
            elif name in self.joints:
                name = (self.joints[name].findtext("child") or "").strip()
            else:
                raise ModelError(f"there is no link {quote_text(name)}", place=place)
        raise ModelError("frames are attached to each other in a circle", place=place)

    def _own_frame(self, link: str) -> Pose:
        """Pose in the model's frame of what URDF calls the link's frame: that of the joint that carries it."""
        if link == WORLD:
            return Pose()
        return self.place(self.carrier.get(link, link))

    # -- URDF -----------------------------------------------------------------------------------------------------

    def urdf(self) -> ET.Element:
        """The same as URDF."""
        robot = ET.Element("robot", name=(self.element.get("name") or "").strip())
        if any(self._end(joint, name, "parent") == WORLD for name, joint in self.joints.items()):
            ET.SubElement(robot, "link", name=WORLD)
        for name, link in self.links.items():
            self._write_link(robot, name, link)
        for name, joint in self.joints.items():
            self._write_joint(robot, name, joint)
        for name, frame in self.frames.items():
            holder = self._link_of((frame.get("attached_to") or MODEL).strip(), f"frame {name!r}")
            ET.SubElement(robot, "link", name=name)
            fixed = ET.SubElement(robot, "joint", name=f"{name}_fixed", type="fixed")
            ET.SubElement(fixed, "parent", link=holder)
            ET.SubElement(fixed, "child", link=name)
            self._write_origin(fixed, self.place(name), holder)
        return robot

    def _write_origin(self, element: ET.Element, pose: Pose, link: str) -> None:
        """A pose of the model's frame, in the link's URDF frame."""
        own = self._own_frame(link).inverse() @ pose
        rpy = rpy_from_rotation(own.rotation)
        ET.SubElement(element, "origin", xyz=format_numbers(own.translation), rpy=format_numbers(rpy))

    def _write_link(self, robot: ET.Element, name: str, link: ET.Element) -> None:
        place = f"link {name!r}"
        written = ET.SubElement(robot, "link", name=name)
        inertial = link.find("inertial")
        given = ET.Element("inertial") if inertial is None else inertial
        if given.get("auto") in ("true", "1"):
            raise ModelError("its inertia is to be computed from shapes", place=place, hint="expected numbers")
        if given.find("fluid_added_mass") is not None:
            raise ModelError("<fluid_added_mass> is not read", place=place)
        with error_context(place=place):
            mass = number(given.findtext("mass") or "1", "mass")
            # SDF's defaults: moments of 1 kg m2, products of zero.
            found = {key: number(given.findtext(f"inertia/{key}") or "01"[key[1] == key[2]], key) for key in _MOMENTS}
            pose = self._pose(given, name)
        if inertial is None:
            self.lost.append((place, "has no <inertial>; SDF's default is taken: 1 kg, 1 kg m2 about each axis"))
        body = ET.SubElement(written, "inertial")
        self._write_origin(body, pose, name)
        ET.SubElement(body, "mass", value=format_number(mass))
        ET.SubElement(body, "inertia", {key: format_number(value) for key, value in found.items()})
        for tag in ("visual", "collision"):
            for shape in link.findall(tag):
                self._write_shape(written, name, tag, shape)

    def _write_shape(self, link: ET.Element, name: str, tag: str, shape: ET.Element) -> None:
        kinds = [str(child.tag) for child in shape.find("geometry") or ()]
        kind = kinds[0] if kinds else "empty"
        if kind not in _SHAPES or shape.find("geometry/mesh/submesh") is not None:
            if kind != "empty":
                self.lost.append((f"link {name!r}", f"a shape <{clip_text(kind)}> is left out"))
            return
        written = ET.SubElement(link, tag)
        with error_context(place=f"link {name!r}"):
            self._write_origin(written, self._pose(shape, name), name)
        geometry = ET.SubElement(ET.SubElement(written, "geometry"), kind)
        for key in _SHAPES[kind]:
            text = (shape.findtext(f"geometry/{kind}/{key}") or "").strip()
            if key == "uri":
                geometry.set("filename", text.replace("model://", "package://", 1))
                scale = (shape.findtext("geometry/mesh/scale") or "").strip()
                if scale:
                    geometry.set("scale", scale)
            else:
                geometry.set(key, text)
        colour = (shape.findtext("material/diffuse") or "").strip()
        if tag == "visual" and colour:
            # Opaque where the fourth number is missing.
            rgba = [*colour.split(), "1"][:4]
            material = ET.SubElement(written, "material", name="")
            ET.SubElement(material, "color", rgba=" ".join(rgba))

    def _write_joint(self, robot: ET.Element, name: str, joint: ET.Element) -> None:
        place, kind = f"joint {name!r}", (joint.get("type") or "").strip()
        if kind not in _JOINTS:
            hint = f"expected one of {', '.join(_JOINTS)}"
            raise ModelError(f"joints of type {quote_text(kind)} are not read", place=place, hint=hint)
        parent, child = (self._end(joint, name, tag) for tag in ("parent", "child"))
        if child == WORLD:
            raise ModelError("the world cannot be its child", place=place)
        written = ET.SubElement(robot, "joint", name=name, type=kind)
        ET.SubElement(written, "parent", link=parent)
        ET.SubElement(written, "child", link=child)
        self._write_origin(written, self.place(name), parent)
        if kind == "fixed":
            return
        axis = joint.find("axis")
        with error_context(place=place):
            given = ET.Element("axis") if axis is None else axis
            ET.SubElement(written, "axis", xyz=format_numbers(self._axis(given, name)))
            limit, endless = self._limits(given)
        if kind == "revolute" and endless:
            written.set("type", "continuous")
        if limit:
            ET.SubElement(written, "limit", limit)
        dynamics = _texts(given, "dynamics/", ("damping", "friction"))
        if dynamics:
            ET.SubElement(written, "dynamics", dynamics)
        with error_context(place=place):
            if number(given.findtext("dynamics/spring_stiffness") or "0", "spring_stiffness"):
                raise ModelError("a spring is not read", hint="add it to the robot file: [joint.spring]")
        mimic = given.find("mimic")
        if mimic is not None:
            values = _texts(mimic, "", ("multiplier", "offset"))
            ET.SubElement(written, "mimic", {"joint": (mimic.get("joint") or "").strip(), **values})

    def _axis(self, axis: ET.Element, joint: str) -> Array:
        """Direction in the joint's axes."""
        xyz = axis.find("xyz")
        direction = np.array([0.0, 0.0, 1.0] if xyz is None else numbers(xyz.text or "", 3, "axis.xyz"))
        frame = joint if xyz is None else (xyz.get("expressed_in") or "").strip() or joint
        old = (axis.findtext("use_parent_model_frame") or "false").strip() in ("true", "1")
        # Up to SDF 1.4 axes are in the model's axes, up to 1.6 where use_parent_model_frame says so, later as
        # expressed_in says.
        if self.version and (self.version < (1, 5) or (self.version < (1, 7) and old)):
            frame = MODEL
        length = float(np.linalg.norm(direction))
        if length < 1e-9:
            raise ModelError("axis has no length")
        # SDF's readers scale axes to length one.
        found: Array = self.place(joint).rotation.T @ self.place(frame).rotation @ (direction / length)
        return found

    def _limits(self, axis: ET.Element) -> tuple[dict[str, str], bool]:
        """Attributes of URDF's ``<limit>``, and whether the joint turns without end."""
        found: dict[str, str] = {}
        for key in ("lower", "upper", "effort", "velocity"):
            text = (axis.findtext(f"limit/{key}") or "").strip()
            if not text or text.lstrip("+-").lower() in ("inf", "infinity"):
                continue
            value = number(text, f"limit.{key}", limit=math.inf)
            # Negative limits of effort and velocity mean that there is none.
            if abs(value) < ENDLESS and not (key in ("effort", "velocity") and value < 0.0):
                found[key] = format_number(value)
        endless = "lower" not in found and "upper" not in found
        if not endless:
            for key, sign in (("lower", "-"), ("upper", "")):
                # URDF takes a missing limit as zero: the largest number stands for none.
                found.setdefault(key, f"{sign}1.7976931348623157e+308")
        return found, endless


def _texts(element: ET.Element, path: str, names: Sequence[str]) -> dict[str, str]:
    """Texts of elements below this one, by name, where there are any."""
    found = {name: (element.findtext(f"{path}{name}") or "").strip() for name in names}
    return {name: text for name, text in found.items() if text}


_MOMENTS = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")


def _relative_pose(element: ET.Element, outer: str) -> tuple[str, Pose]:
    """The frame that an element's ``<pose>`` is relative to, and the pose in it."""
    given = element.find("pose")
    if given is None:
        return outer, Pose()
    frame = (given.get("relative_to") or given.get("frame") or "").strip() or outer
    return frame, _read_pose(given)


def _read_pose(element: ET.Element) -> Pose:
    """The numbers of a ``<pose>``: translation (m) and roll, pitch, yaw, or a quaternion x, y, z, w."""
    text = (element.text or "").strip() or "0 0 0 0 0 0"
    kind = (element.get("rotation_format") or "euler_rpy").strip()
    if kind == "quat_xyzw":
        values = np.array(numbers(text, 7, "pose"))
        size = float(np.linalg.norm(values[3:]))
        if abs(size - 1.0) > 1e-3:
            raise ModelError(f"the quaternion of a pose has length {size:.4g}", hint="expected 1")
        return Pose(rotation_from_quaternion(values[[6, 3, 4, 5]] / size), values[:3])
    if kind != "euler_rpy":
        raise ModelError(f"rotation_format is {quote_text(kind)}", hint="expected euler_rpy or quat_xyzw")
    values = np.array(numbers(text, 6, "pose"))
    scale = math.pi / 180.0 if (element.get("degrees") or "").strip() in ("true", "1") else 1.0
    return Pose(rotation_from_rpy(scale * values[3:]), values[:3])
