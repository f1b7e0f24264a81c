"""Pictures and films of a view as files."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from spacearm import checks
from spacearm.errors import InputError
from spacearm.scene._picture import Camera, Image, Viewpoint, png
from spacearm.scene.scene import SceneView

#: Pixels of a picture's side, and pictures of a film.
LARGEST, MOST = 8000, 5000
_ENDINGS = "expected .html, .png, .gif or .mp4"


def still(view: SceneView, time: float | None = None, width: int = 800, height: int = 600, **look: Any) -> bytes:
    """A picture as a PNG file."""
    _check_size(width, height)
    return png(Camera(view, _look(**look)).picture(time, width, height))


def save(view: SceneView, path: Path, **options: Any) -> None:
    """Write a picture or a film, by the ending of the name; nothing is left of one that fails."""
    ending = path.suffix.lower()
    if ending not in (".png", ".gif", ".mp4"):
        raise InputError(f"a scene cannot be saved as {ending or 'a file without ending'!r}", file=path, hint=_ENDINGS)
    if ending == ".gif" and find_spec("PIL") is None:
        raise InputError("a GIF needs the Pillow package", file=path, hint="pip install pillow")
    if ending == ".mp4" and shutil.which("ffmpeg") is None:
        raise InputError("a film needs the program ffmpeg", file=path, hint="install it, or choose .gif or .html")
    if os.path.isdir(path) or not os.path.isdir(path.parent):
        raise InputError("cannot be written", file=path, hint="expected the name of a file in a folder that exists")
    partial = path.with_name(f".{path.name}.part{ending}")
    try:
        if ending == ".png":
            partial.write_bytes(still(view, **options))
        else:
            _film(view, partial, **options)
        partial.replace(path)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", file=path) from error
    finally:
        partial.unlink(missing_ok=True)


def _film(
    view: SceneView, path: Path, seconds: float = 8.0, rate: int = 25, width: int = 640, height: int = 480, **look: Any
) -> None:
    start, end = view.span
    if end <= start:
        raise InputError("nothing moves in this scene", file=path.name, hint="a picture (.png) shows it")
    _check_size(width, height)
    checks.positive(seconds, "seconds", place="film")
    count = math.ceil(seconds * checks.number(rate, "rate", least=1, most=120))
    if count > MOST:
        raise InputError(f"the film would have {count:,} pictures", hint=f"expected at most {MOST:,}: a shorter one")
    camera = Camera(view, _look(**look))
    pictures = (camera.picture(time, width, height) for time in np.linspace(start, end, max(count, 2)))
    (_gif if path.suffix.lower() == ".gif" else _mp4)(pictures, path, rate, width, height)


def _gif(pictures: Iterator[Image], path: Path, rate: int, width: int, height: int) -> None:
    from PIL import Image as Pillow

    first, *rest = (Pillow.fromarray(picture).quantize(128, dither=Pillow.Dither.NONE) for picture in pictures)
    first.save(path, save_all=True, append_images=rest, duration=round(1000 / rate), loop=0, optimize=False)


def _mp4(pictures: Iterator[Image], path: Path, rate: int, width: int, height: int) -> None:
    # yuv420p has half the colour resolution in both directions.
    if width % 2 or height % 2:
        raise InputError(f"the film would have {width} by {height} pixels", hint="expected even numbers for .mp4")
    command = ["ffmpeg", "-v", "error", "-y", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}"]
    command += ["-r", str(rate), "-i", "-", "-pix_fmt", "yuv420p", "-movflags", "+faststart", str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        try:
            for picture in pictures:
                process.stdin.write(picture.tobytes())
            process.stdin.close()
        except BrokenPipeError:
            pass  # it says why below
        note = process.stderr.read().decode(errors="replace").strip()
    if process.returncode:
        raise InputError(f"ffmpeg fails: {note[-300:] or process.returncode}", file=path.name)


def _look(azimuth: float | None = None, height_angle: float | None = None, dark: bool = False) -> Viewpoint:
    return Viewpoint(azimuth, height_angle, dark)


def _check_size(width: int, height: int) -> None:
    for name, value in (("width", width), ("height", height)):
        checks.number(value, name, least=16, most=LARGEST, place="picture")
