"""An MJCF file with all that it refers to, gathered into one text and the few files that its inertias need.

MuJoCo itself opens no file: what it compiles is handed to it in memory. Here it is decided what may be read, how much
of it, and what is not needed at all. Left out without a word is what says nothing about the motion: textures, skins,
lights, cameras, sensors, custom data, visual settings, sizes of buffers. A mesh is opened only where a body without an
``<inertial>`` takes its inertia from it; all others are a tetrahedron to MuJoCo.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath
from xml.etree.ElementTree import Element
from xml.sax.saxutils import quoteattr

from spacearm.errors import ModelError, clip_text, format_path
from spacearm.model.safexml import BOUNDS, Bounds, Located, parse, read_file
from spacearm.model.visuals import mesh_file

#: How deeply files may include or attach each other.
DEEPEST = 16
#: Elements that say nothing about the motion.
_SILENT = {
    *("texture", "skin", "light", "camera", "sensor", "custom", "visual", "statistic", "size", "extension", "layer"),
    "lengthrange",
}
#: Elements that spacearm cannot follow, and what they are called where that is reported.
_REPORTED_ELEMENTS = {
    "flexcomp": "flexible body",
    "composite": "composite body",
    "deformable": "flexible body",
    "plugin": "plugin",
}
#: Stands for the file of a mesh whose shape a plugin would make.
_FROM_PLUGIN = "(plugin)"
_TETRAHEDRON = b"v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"


@dataclass
class Bundle:
    """What MuJoCo gets: a text, and the files that it refers to by name; ``left_out`` counts what was taken away."""

    path: Path | None = None
    text: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    #: where the meshes lie, by name; they are not opened
    meshes: dict[str, str] = field(default_factory=dict)
    #: for each line of the text (and of the attached texts, which have other line numbers) where it stood
    lines: list[tuple[Path | None, int]] = field(default_factory=list)

    def locate_message(self, message: str) -> str:
        """A message of MuJoCo's with the lines of the files in place of the text's."""

        def original_line(match: re.Match[str]) -> str:
            number = int(match[1])
            if not 1 <= number <= len(self.lines):
                return ""
            file, line = self.lines[number - 1]
            return f"line {line}" if file in (None, self.path) else f"line {line} of {format_path(str(file))}"

        return re.sub(r"\bline (\d+)\b", original_line, message)


def bundle_file(path: Path, *, outside: bool = False, bounds: Bounds = BOUNDS) -> Bundle:
    """The model of this file.

    What it includes, attaches or takes an inertia from must lie in its folder, unless ``outside``.
    """
    gatherer = _FileCollector(Path("/") if outside else path.parent, bounds)
    return gatherer.bundle(gatherer.read(path), path)


def bundle_text(text: str | bytes, *, bounds: Bounds = BOUNDS) -> Bundle:
    """The model of a text that needs no other files."""
    return _FileCollector(None, bounds).bundle(text, None)


class _FileCollector:
    def __init__(self, within: Path | None, bounds: Bounds) -> None:
        self.within = None if within is None else Path(os.path.realpath(within))
        self.bounds = bounds
        self.out = Bundle()
        self.elements = self.text_bytes = self.mesh_bytes = 0
        #: models that were attached already, and those that attach each other now
        self.models: dict[Path, tuple[str, int, str]] = {}
        self.open: list[Path] = []

    def read(self, path: Path) -> bytes:
        """An XML file; all of them together are bounded."""
        text = read_file(path, self.bounds.file_bytes - self.text_bytes, self.bounds.lift("file_bytes"))
        self.text_bytes += len(text)
        return text

    def bundle(self, text: str | bytes, path: Path | None) -> Bundle:
        self.out.path = path
        root, _ = self._model(text, path)
        self.out.text = self._write_text(root)
        return self.out

    # -- one model ---------------------------------------------------------------------------------------------------

    def _model(self, text: str | bytes, path: Path | None) -> tuple[Located, int]:
        """The root element of a model with its includes, ready to be written; and how many elements it expands to."""
        root = self._parse_model(text, path, "mujoco")
        own = Path(os.path.realpath(path or ""))
        self.open.append(own)
        self._include(root, path, [own], {own}, 0)
        self._leave_out(root)
        folder = None if path is None else path.parent
        sizes = {}
        for element in _elements(root):
            if element.tag == "model" and element.get("file") is not None:
                name, size, title = self._attach_model(element, folder)
                element.set("file", name)
                element.attrib.pop("content_type", None)
                sizes[element.get("name") or title] = size
        self._meshes(root, path)
        self._check_references(root)
        self.open.pop()
        return root, _ElementCount(sizes, self.bounds).count_copies(root)

    def _parse_model(self, text: str | bytes, path: Path | None, tag: str | None) -> Located:
        root = parse(text, None, bounds=self.bounds, file=path)
        for element in _elements(root):
            element.tag = element.tag.lower()  # as MuJoCo reads some of them
            if any(name.startswith("{") for name in (element.tag, *element.attrib)):
                raise ModelError("MJCF has no namespaces", place=_place(element), hint="expected MuJoCo's own names")
            self.elements += 1
        if self.elements > self.bounds.elements:
            raise ModelError(
                f"there are more than {self.bounds.elements:,} elements in all files together",
                hint=self.bounds.lift("elements"),
            )
        if tag is not None and root.tag != tag:
            also = "; the name of a URDF file ends in .urdf" if root.tag == "robot" else ""
            raise ModelError(f"the root element is <{clip_text(root.tag)}>", hint=f"expected <{tag}>{also}")
        return root

    def _include(self, parent: Located, top: Path | None, chain: list[Path], seen: set[Path], level: int) -> None:
        """Put the contents of included files in their places; MuJoCo takes each file once."""
        if level > self.bounds.depth:
            raise ModelError(
                f"elements are nested more than {self.bounds.depth:,} levels deep",
                place=_place(parent),
                hint=self.bounds.lift("depth"),
            )
        position = 0
        while position < len(parent):
            child = parent[position]
            assert isinstance(child, Located)
            if child.tag != "include":
                self._include(child, top, chain, seen, level + 1)
                position += 1
                continue
            file = self._resolve_file(child, [] if top is None else [top.parent, chain[-1].parent])
            if file in seen or len(chain) > DEEPEST:
                what = "is included a second time" if file in seen else f"is included by {DEEPEST} files in a row"
                raise ModelError(what, place=_place(child), hint="files must not include each other")
            seen.add(file)
            content = self._parse_model(self.read(file), file, None)
            self._include(content, top, [*chain, file], seen, level)
            parent[position : position + 1] = list(content)
            position += len(content)

    def _leave_out(self, parent: Located) -> None:
        for child in list(parent):
            notes = _REPORTED_ELEMENTS.get(child.tag) or (
                "flexible body" if parent.tag == "equality" and "flex" in child.tag else ""
            )
            if notes and parent.tag != "asset":
                self.out.left_out[notes] += 1
            if notes or child.tag in _SILENT:
                parent.remove(child)
                if child.tag == "plugin" and parent.tag == "mesh":
                    parent.set("file", _FROM_PLUGIN)
                elif child.tag == "plugin" and parent.tag == "geom":
                    parent.set("type", "mesh")
                continue
            assert isinstance(child, Located)
            if child.tag in ("material", "light"):
                child.attrib.pop("texture", None)
            self._leave_out(child)
        if parent.tag == "mujoco":
            # MuJoCo would otherwise simulate each muscle to find how long it can get
            settings = Located("compiler", {"usethread": "false"})
            settings.append(Located("lengthrange", {"mode": "none"}))
            parent.append(settings)

    def _attach_model(self, element: Located, folder: Path | None) -> tuple[str, int, str]:
        """(name among the files, size, own name) of another model that this one attaches parts of."""
        file = self._resolve_file(element, [] if folder is None else [folder])
        if file in self.open or len(self.open) > DEEPEST:
            what = "attaches itself" if file in self.open else f"is attached by {DEEPEST} files in a row"
            raise ModelError(what, place=_place(element), hint="files must not attach each other")
        if file not in self.models:
            root, size = self._model(self.read(file), file)
            name = f"model{len(self.out.files)}.xml"
            self.out.files[name] = self._write_text(root).encode()
            self.models[file] = name, size, root.get("model", "")
        return self.models[file]

    # -- files -------------------------------------------------------------------------------------------------------

    def _meshes(self, root: Located, path: Path | None) -> None:
        folder = None if path is None else path.parent
        inertial = set(_inertia_mesh_names(root))
        settings: dict[str, str] = {}
        for element in _elements(root):
            if element.tag == "compiler":
                settings |= {key: element.attrib.pop(key) for key in list(element.attrib) if key in _DIRECTORIES}
        directory = settings.get("meshdir", settings.get("assetdir", ""))
        for element in _elements(root):
            if element.tag == "hfield":
                _name_by_file(element)
                for key in ("file", "content_type", "elevation"):
                    element.attrib.pop(key, None)
                element.attrib.update(nrow="2", ncol="2")
            if element.tag != "mesh" or element.get("file") is None:
                continue
            value = _name_by_file(element)
            if settings.get("strippath") == "true":
                value = PureWindowsPath(value).name
            # MuJoCo looks in the model's folder of meshes, then beside the included file in which the element stands.
            beside = element.file.parent if element.file not in (None, path) else None
            if value != _FROM_PLUGIN:
                reference = os.path.join(_slashes(directory), _slashes(value))
                found = mesh_file(reference, folder)
                if found == reference and beside is not None:
                    nearer = mesh_file(_slashes(value), beside)
                    found = reference if nearer == _slashes(value) else nearer
                self.out.meshes[element.get("name", "")] = found
            if element.get("name") not in inertial:
                self.out.files["tetrahedron.obj"] = _TETRAHEDRON
                element.set("file", "tetrahedron.obj")
                element.attrib.pop("content_type", None)
                continue
            if value == _FROM_PLUGIN:
                raise ModelError(
                    f"a body takes its inertia from mesh {element.get('name')!r}, which a plugin makes",
                    place=f"line {element.line}: <mesh>",
                    hint="plugins are not run; give the body an <inertial>",
                )
            folders = [None if folder is None else folder / _slashes(directory), beside]
            self._read_inertia_mesh(element, value, [each for each in folders if each is not None])

    def _read_inertia_mesh(self, element: Located, value: str, folders: list[Path]) -> None:
        file = self._resolve_file(element, folders, value)
        left, hint = self.bounds.mesh_bytes - self.mesh_bytes, self.bounds.lift("mesh_bytes")
        try:
            data = read_file(file, left, hint)
        except ModelError as error:
            raise ModelError(
                f"a body takes its inertia from {format_path(file)}: {error.message}",
                place=_place(element),
                hint=error.hint if error.hint == hint else "give the body an <inertial>; then no mesh is needed",
            ) from error
        self.mesh_bytes += len(data)
        name = f"mesh{len(self.out.files)}{PurePosixPath(_slashes(value)).suffix.lower()}"
        self.out.files[name] = data
        element.set("file", name)

    def _resolve_file(self, element: Located, folders: list[Path], value: str | None = None) -> Path:
        """The file that is meant, in the first of the folders that has it; never outside the one allowed."""
        value = element.get("file", "") if value is None else value
        place = _place(element)
        if self.within is None:
            raise ModelError("a string of MJCF cannot refer to files", place=place, hint="read it from a file instead")
        if not value or "\0" in value:
            raise ModelError("names no file", place=place)
        path = Path(_slashes(value))
        for folder in folders:
            path = Path(os.path.realpath(folder / _slashes(value)))
            if not path.is_relative_to(self.within) or PureWindowsPath(value).drive:
                raise ModelError(
                    f"refers to a file outside the folder {format_path(self.within)}",
                    place=place,
                    hint="for a trusted file use outside=True (--outside)",
                )
            if os.path.exists(path):  # false for a name that no file can have, too
                break
        return path

    def _check_references(self, root: Located) -> None:
        """No element refers to a file of which nothing is known here."""
        for element in _elements(root):
            for key in element.attrib:
                known = element.get(key) in self.out.files
                if key.startswith("file") and not known:
                    raise ModelError("refers to a file of unknown kind", place=_place(element))

    def _write_text(self, root: Located) -> str:
        """The element as text, one element a line; the lines of all texts of the bundle have different numbers."""
        parts = ["\n" * len(self.out.lines)]
        self._write(root, parts)
        return "".join(parts)

    def _write(self, element: Located, parts: list[str]) -> None:
        attributes = "".join(f" {key}={quoteattr(value)}" for key, value in element.attrib.items())
        self.out.lines.append((element.file, element.line))
        parts.append(f"<{element.tag}{attributes}>\n")
        for child in element:
            assert isinstance(child, Located)
            self._write(child, parts)
        parts.append(f"</{element.tag}>")


_DIRECTORIES = ("meshdir", "texturedir", "assetdir", "strippath")


def _elements(root: Located) -> Iterator[Located]:
    for element in list(root.iter()):
        assert isinstance(element, Located)
        yield element


def _place(element: Located) -> str:
    file = f" {clip_text(element.get('file'))!r}" if element.get("file") else ""
    return f"line {element.line}: <{clip_text(element.tag)}{file}>"


def _slashes(value: str) -> str:
    return value.replace("\\", "/")


def _name_by_file(element: Located) -> str:
    """Gives the element the name that MuJoCo takes from its file; returns the file's name as it was written."""
    value = element.get("file") or ""
    if not element.get("name") and value:
        element.set("name", PurePosixPath(_slashes(value)).stem)
    return value


# -- which meshes carry mass ---------------------------------------------------------------------------------------


def _inertia_mesh_names(root: Located) -> Iterator[str]:
    """Names of the meshes that a body without an ``<inertial>`` may take its inertia from."""
    mode, groups = "auto", (0, 5)
    classes: dict[str, dict[str, str]] = {}
    for element in _elements(root):
        if element.tag == "compiler":
            mode = element.get("inertiafromgeom", mode)
            wanted = element.get("inertiagrouprange", "").split()
            if len(wanted) == 2 and all(word.isdecimal() for word in wanted):
                groups = int(wanted[0]), int(wanted[1])
    if mode == "false":
        return
    for default in root.findall("default"):
        _geom_classes(default, classes.get("main", {}), classes, "main")
    todo = [(each, False, "main") for each in root.findall("worldbody")]
    while todo:
        parent, has_mass, inherited = todo.pop()
        for child in parent:
            if child.tag == "geom":
                values = classes.get(child.get("class", inherited), {}) | child.attrib
                if has_mass and values.get("mesh") and _has_mass(values, groups):
                    yield values["mesh"]
            elif child.tag == "body":
                explicit = mode == "auto" and child.find("inertial") is not None
                todo.append((child, not explicit, child.get("childclass", inherited)))
            elif child.tag in ("frame", "replicate"):
                todo.append((child, has_mass, child.get("childclass", inherited)))


def _geom_classes(element: Element, inherited: dict[str, str], classes: dict[str, dict[str, str]], name: str) -> None:
    own = inherited | {key: value for geom in element.findall("geom") for key, value in geom.attrib.items()}
    name = element.get("class", name)
    classes[name] = classes.get(name, {}) | own
    for child in element.findall("default"):
        _geom_classes(child, own, classes, "")


def _has_mass(values: dict[str, str], groups: tuple[int, int]) -> bool:
    """Whether a geom with these attributes may have mass; what cannot be read here is left to MuJoCo."""
    try:
        mass, density = values.get("mass"), float(values.get("density", "1000"))
        group = int(values.get("group", "0"))
        return groups[0] <= group <= groups[1] and (density if mass is None else float(mass)) != 0.0
    except ValueError:
        return True


# -- how large a model becomes ---------------------------------------------------------------------------------------


class _ElementCount:
    """Counts elements as they are after ``<replicate>`` and ``<attach>``, and stops at the bound."""

    def __init__(self, models: dict[str, int], bounds: Bounds) -> None:
        self.models, self.bounds = models, bounds
        self.bodies: dict[str, int] = {}
        self.total = 0

    def count_copies(self, element: Located) -> int:
        count = 1
        for child in element:
            assert isinstance(child, Located)
            count += self.count_copies(child)
        if element.tag == "replicate":
            words = element.get("count", "1").split()
            # A count that is not plain digits is for MuJoCo to refuse: here it is as good as endless.
            count *= max(int(words[0]), 1) if words and re.fullmatch(r"\+?\d{1,9}", words[0]) else 10**9
        elif element.tag == "attach":
            model = element.get("model")
            whole = self.total if model is None else self.models.get(model, 1)
            count += whole if model is not None else self.bodies.get(element.get("body", ""), whole)
        elif element.tag == "body" and element.get("name"):
            self.bodies[element.get("name", "")] = count
        self.total += 1 if element.tag not in ("replicate", "attach") else count
        if count > self.bounds.elements or self.total > self.bounds.elements:
            raise ModelError(
                f"expands to more than {self.bounds.elements:,} elements",
                place=_place(element),
                hint=self.bounds.lift("elements"),
            )
        return count
