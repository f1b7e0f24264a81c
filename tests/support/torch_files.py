"""Files as ``torch.save`` writes them, without torch: a zip of a pickled description and plain numbers."""

from __future__ import annotations

import io
import zipfile

TENSOR, DOUBLES, FLOATS = b"torch._utils\n_rebuild_tensor_v2", b"torch\nDoubleStorage", b"torch\nFloatStorage"


def tensor_description(
    what: bytes, kind: bytes, shape: tuple[int, int], strides: tuple[int, int], first: int = 0
) -> bytes:
    """The pickle of a tensor."""
    number = lambda value: b"J" + int(value).to_bytes(4, "little", signed=True)  # noqa: E731
    text = lambda value: b"X" + len(value).to_bytes(4, "little") + value  # noqa: E731
    storage = b"(" + text(b"storage") + b"c" + kind + b"\n" + text(b"0") + text(b"cpu") + number(1) + b"tQ"
    pairs = b"".join(number(a) + number(b) + b"\x86" for a, b in (shape, strides))
    return b"\x80\x02c" + what + b"\n(" + storage + number(first) + pairs + b"\x89ccollections\nOrderedDict\n)RtR."


TENSOR, DOUBLES, FLOATS = b"torch._utils\n_rebuild_tensor_v2", b"torch\nDoubleStorage", b"torch\nFloatStorage"


def tensor_bytes(pickled: bytes, numbers: bytes, order: bytes | None = None) -> bytes:
    """The file of a pickle, its numbers and, if given, their byte order."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", pickled)
        archive.writestr("archive/data/0", numbers)
        if order is not None:
            archive.writestr("archive/byteorder", order)
    return buffer.getvalue()
