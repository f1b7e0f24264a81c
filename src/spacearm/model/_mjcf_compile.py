"""Compiling MJCF with MuJoCo, which runs in a process of its own with limits on time and memory."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from spacearm.errors import InputError, ModelError
from spacearm.model._mjcf_files import Bundle
from spacearm.model.notices import Losses
from spacearm.model.safexml import MAX_NUMBER, Bounds
from spacearm.worker_process import WorkerCrash, WorkerProcess, WorkerTimeout

#: Ranges may be as good as endless.
_MAY_BE_LARGE = {"jnt_range", "jnt_actfrcrange", "actuator_ctrlrange", "actuator_forcerange"}
#: What is only drawn: a shape with such numbers is left out.
_VISUAL_FIELDS = ("geom_", "mat_", "mesh_")
_KINDS = {"jnt": "joint", "dof": "joint", "eq": "equality", "key": "keyframe"}
_mujoco = WorkerProcess(Path(__file__).with_name("_mjcf_worker.py"))


def import_mujoco() -> ModuleType:
    """The mujoco package, or an error that says how to get it."""
    _check_mujoco()
    import mujoco

    module: ModuleType = mujoco
    return module


def _check_mujoco() -> None:
    if importlib.util.find_spec("mujoco") is None:
        raise InputError("the mujoco package is not installed", hint="pip install 'spacearm[verify]'")


class CompiledModel:
    """The numbers of a compiled model, called as in ``mujoco.MjModel``; those that it lacks are None."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields

    def __getattr__(self, key: str) -> Any:
        return self.fields.get(key)

    @property
    def model_name(self) -> str:
        """The model's own name."""
        names: bytes = self.fields["names"]
        return names[: names.index(b"\0")].decode("utf-8", errors="replace")

    def name(self, kind: str, index: int) -> str:
        """The name of a body, jnt, site, actuator, tendon, eq or key; empty if it has none."""
        start = int(self.fields[f"name_{kind}adr"][index])
        names: bytes = self.fields["names"]
        return names[start : names.index(b"\0", start)].decode("utf-8", errors="replace")

    def check(self) -> None:
        """Numbers that are not finite, or so large that products overflow, are an error that says where they stand."""
        for key, values in self.fields.items():
            if (
                key in _MAY_BE_LARGE
                or key.startswith(_VISUAL_FIELDS)
                or getattr(values, "dtype", np.dtype(bool)).kind != "f"
            ):
                continue
            bad = np.argwhere(~(np.abs(values) <= MAX_NUMBER))
            if bad.size:
                kind, _, what = key.partition("_")
                name = self.name(kind, int(bad[0][0])) if f"name_{kind}adr" in self.fields else ""
                raise ModelError(
                    f"{what} is {values[tuple(bad[0])]:g}",
                    place=f"{_KINDS.get(kind, kind)} {name!r}" if name else _KINDS.get(kind, kind),
                    hint=f"expected at most {MAX_NUMBER:g} in size",
                )


def compile_bundle(bundle: Bundle, losses: Losses, bounds: Bounds) -> CompiledModel:
    """The compiled model; MuJoCo's warnings are reported with the losses."""
    _check_mujoco()
    parts = [bundle.text.encode("utf-8", errors="replace"), *bundle.files.values()]
    request = {"names": list(bundle.files)}
    try:
        answer, contents = _mujoco.ask(request, parts, seconds=bounds.seconds, memory=bounds.memory_bytes)
    except WorkerTimeout:
        raise ModelError(
            f"MuJoCo needs more than {bounds.seconds:g} s to compile it", hint=bounds.lift("seconds")
        ) from None
    except WorkerCrash as error:
        raise ModelError(
            f"MuJoCo crashed ({error})",
            hint=f"the file is damaged or too demanding: {bounds.lift('memory_bytes')}",
        ) from None
    except OSError as error:
        raise ModelError(f"no process could be started to compile it: {error.strerror}") from None
    if "memory" in answer:
        _mujoco.close()  # it may still hold locks that it took before
        raise ModelError("MuJoCo ran out of memory", hint=bounds.lift("memory_bytes"))
    if "error" in answer:
        raise ModelError(f"MuJoCo rejects the file: {bundle.locate_message(_one_line(answer['error']))}")
    for message in map(_one_line, answer["notes"]):
        if "NaN" in message:
            raise ModelError(f"MuJoCo warns: {message}", hint="expected finite numbers")
        if "deprecated" not in message:
            losses.add("MuJoCo's own warning", message)
    model = CompiledModel(_fields(answer["arrays"], contents))
    model.check()
    return model


def _fields(columns: list[list[Any]], contents: list[bytes]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for (key, kind, shape), content in zip(columns, contents, strict=True):
        array = np.frombuffer(content, dtype=kind).reshape(shape)
        fields[key] = content if key == "names" else array.item() if not shape else array
    return fields


def _one_line(message: object) -> str:
    return " ".join(str(message).split())
