"""MuJoCo in a process of its own: compiles the models that it is sent, and sends their numbers back.

:mod:`spacearm.model._mjcf_compile` runs this as a script, by its path; requests and answers are described in
:mod:`spacearm.worker_process`. A request's parts are the model's text and the files that it refers to,
called ``names``.
"""

from __future__ import annotations

from typing import Any

from spacearm.worker_process import WorkerReplies, serve

#: Arrays and counts of the compiled model that are sent, by what they belong to. Those that this version of MuJoCo
#: lacks are left out.
_FIELDS = {
    "name": "bodyadr jntadr meshadr siteadr actuatoradr tendonadr eqadr keyadr",
    "body": "parentid mass inertia ipos iquat pos quat jntadr jntnum gravcomp rootid",
    "geom": "bodyid contype conaffinity type size pos quat rgba group matid dataid",
    "mat": "rgba",
    "mesh": "pos quat scale",
    "jnt": "type bodyid dofadr qposadr axis pos limited range stiffness stiffnesspoly springyield "
    "actfrclimited actfrcrange actgravcomp",
    "dof": "armature damping dampingpoly frictionloss",
    "site": "bodyid pos quat",
    "key": "qpos qvel act ctrl",
    "eq": "type objtype obj1id obj2id data active0",
    "actuator": "trntype trnid dyntype gaintype gainprm biastype gear delay ctrllimited ctrlrange "
    "forcelimited forcerange armature damping ctrladr",
    "tendon": "adr num lengthspring limited frictionloss stiffness damping stiffnesspoly dampingpoly armature "
    "springyield actfrclimited",
    "wrap": "type objid prm",
    "": "nbody njnt nq nv nu nactuator ntendon neq nkey nsite nexclude npair nflex nplugin ngeom names qpos0 "
    "qpos_spring",
}
FIELDS = tuple(f"{kind}_{key}" if kind else key for kind, keys in _FIELDS.items() for key in keys.split())
OPTIONS = ("density", "viscosity")
#: A model whose numbers take more bytes is not sent.
LARGEST = 1 << 28
#: What a model's flags may switch off; older versions have one flag for springs and dampers.
FLAGS = ("constraint", "equality", "frictionloss", "limit", "contact", "spring", "damper", "passive", "actuation")


def compile_model(text: str, files: dict[str, bytes]) -> tuple[dict[str, Any], list[str]]:
    """Fields of the compiled model, and MuJoCo's warnings."""
    import mujoco
    import numpy as np

    notes: list[str] = []
    mujoco.set_mju_user_warning(notes.append)  # by itself it would write them to a file
    model = mujoco.MjModel.from_xml_string(text, files)
    found = {key: getattr(model, key) for key in FIELDS if hasattr(model, key)}
    found["names"] = np.frombuffer(model.names, dtype=np.uint8)
    found |= {f"opt_{key}": getattr(model.opt, key) for key in OPTIONS}
    flags = {flag: int(getattr(mujoco.mjtDisableBit, f"mjDSBL_{flag.upper()}", 0)) for flag in FLAGS}
    off = {flag: bool(model.opt.disableflags & bit) for flag, bit in flags.items()}
    for flag in ("equality", "frictionloss", "limit", "contact"):
        off[flag] |= off["constraint"]
    for flag in ("spring", "damper"):
        off[flag] |= off["passive"]
    found |= {f"off_{flag}": np.bool_(value) for flag, value in off.items()}
    return found, notes


def answer(desk: WorkerReplies, request: dict[str, Any], parts: list[bytes]) -> None:
    """Compile one model and send what it is, or what is wrong with it."""
    import numpy as np

    text, *contents = parts
    try:
        found, notes = compile_model(text.decode(), dict(zip(request["names"], contents, strict=True)))
        arrays = {key: np.asarray(value) for key, value in found.items()}
        columns = [[key, array.dtype.str, list(array.shape)] for key, array in arrays.items()]
        if sum(array.nbytes for array in arrays.values()) > LARGEST:
            raise MemoryError
        sent = [array.tobytes() for array in arrays.values()]
    except Exception as error:
        # a failed allocation inside MuJoCo reaches Python as "unknown exception"
        short = isinstance(error, MemoryError) or "unknown exception" in str(error)
        desk.send(**{"memory": True} if short else {"error": str(error)[:2000]})
    else:
        desk.send(sent, notes=[each[:2000] for each in notes[:100]], arrays=columns)


if __name__ == "__main__":
    serve(answer)
