"""MuJoCo in a process of its own: compiles the models that it is sent, and sends their numbers back.

:mod:`spacearm.model.mjcf_compile` runs this as a script, by its path; requests and answers are described in
:mod:`spacearm.guarded`. A request's parts are the model's text and the files that it refers to, called ``names``.
"""

from __future__ import annotations

from typing import Any

from spacearm.guarded import Desk, serve

#: Arrays and counts of the compiled model that are sent. Those that this version of MuJoCo lacks are left out.
FIELDS = (
    *(
        "nbody",
        "njnt",
        "nq",
        "nv",
        "nu",
        "nactuator",
        "ntendon",
        "neq",
        "nkey",
        "nsite",
        "nexclude",
        "npair",
        "nflex",
        "nplugin",
    ),
    *("ngeom", "names"),
    *(f"name_{kind}adr" for kind in ("body", "jnt", "site", "actuator", "tendon", "eq", "key")),
    *(f"body_{key}" for key in ("parentid", "mass", "inertia", "ipos", "iquat", "pos", "quat", "jntadr", "jntnum")),
    *("body_gravcomp", "body_rootid", "geom_bodyid", "geom_contype", "geom_conaffinity"),
    *(f"jnt_{key}" for key in ("type", "bodyid", "dofadr", "qposadr", "axis", "pos", "limited", "range", "stiffness")),
    *("jnt_stiffnesspoly", "jnt_springyield", "jnt_actfrclimited", "jnt_actfrcrange", "jnt_actgravcomp"),
    *(f"dof_{key}" for key in ("armature", "damping", "dampingpoly", "frictionloss")),
    *("qpos0", "qpos_spring", "site_bodyid", "site_pos", "site_quat"),
    *("key_qpos", "key_qvel", "key_act", "key_ctrl", "eq_type", "eq_objtype", "eq_obj1id", "eq_obj2id", "eq_data"),
    *(f"actuator_{key}" for key in ("trntype", "trnid", "dyntype", "gaintype", "gainprm", "biastype", "gear", "delay")),
    *(f"actuator_{key}" for key in ("ctrllimited", "ctrlrange", "forcelimited", "forcerange", "armature", "damping")),
    *("actuator_ctrladr",),
    *(f"tendon_{key}" for key in ("adr", "num", "lengthspring", "limited", "frictionloss", "stiffness", "damping")),
    *("tendon_stiffnesspoly", "tendon_dampingpoly", "tendon_armature", "tendon_springyield", "tendon_actfrclimited"),
    *("wrap_type", "wrap_objid", "wrap_prm"),
)
OPTIONS = ("density", "viscosity")
#: A model whose numbers take more bytes is not sent.
LARGEST = 1 << 28
#: What a model's flags may switch off; older versions have one flag for springs and dampers.
FLAGS = ("constraint", "equality", "frictionloss", "limit", "contact", "spring", "damper", "passive", "actuation")


def compiled(text: str, files: dict[str, bytes]) -> tuple[dict[str, Any], list[str]]:
    """Fields of the compiled model, and MuJoCo's warnings."""
    import mujoco
    import numpy as np

    told: list[str] = []
    mujoco.set_mju_user_warning(told.append)  # by itself it would write them to a file
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
    return found, told


def answer(desk: Desk, request: dict[str, Any], parts: list[bytes]) -> None:
    """Compile one model and send what it is, or what is wrong with it."""
    import numpy as np

    text, *contents = parts
    try:
        found, told = compiled(text.decode(), dict(zip(request["names"], contents, strict=True)))
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
        desk.send(sent, told=[each[:2000] for each in told[:100]], arrays=columns)


if __name__ == "__main__":
    serve(answer)
