"""The viewer's script, the pages around it, and numbers in them."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import numpy.typing as npt

from spacearm.typing import Array

#: What a page of its own may load: nothing that is not in it.
_NOTHING_ELSE = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"


@cache
def script() -> str:
    """The viewer, JavaScript that defines the element ``<spacearm-scene>``; once for each page that has scenes."""
    return (files("spacearm.scene") / "templates" / "scene.js").read_text(encoding="utf-8")


def element(data: Mapping[str, Any], height: str) -> str:
    """The element with its data inside."""
    # No "<" in the data: a name that holds "</script>" would end the element.
    text = json.dumps(data, separators=(",", ":"), allow_nan=False, ensure_ascii=False).replace("<", "\\u003c")
    style = html.escape(height, quote=True)
    return f'<spacearm-scene style="height:{style}"><script type="application/json">{text}</script></spacearm-scene>'


def scene_page(data: Mapping[str, Any], title: str) -> str:
    """A page with nothing but the scene."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{_NOTHING_ELSE}">
<title>{html.escape(title)}</title>
<style>html, body {{ margin: 0; height: 100%; }}</style>
</head>
<body>
{element(data, "100%")}
<script>
{script()}
</script>
</body>
</html>
"""


def read_data(page: str) -> dict[str, Any]:
    """The data in a page that has one scene; a ``ValueError`` where there is none."""
    _, found, rest = page.partition('<script type="application/json">')
    if not found or "<spacearm-scene" not in page:
        raise ValueError("no scene")
    data: dict[str, Any] = json.loads(rest.partition("</script>")[0])
    return data


def pack_numbers(values: npt.ArrayLike, kind: str = "<f4") -> str:
    """Numbers as little-endian bytes in base64."""
    return base64.b64encode(np.ascontiguousarray(values, dtype=kind).tobytes()).decode("ascii")


def unpack_numbers(text: str, *shape: int, kind: str = "<f4") -> Array:
    """The same back, as an array of this shape."""
    return np.frombuffer(base64.b64decode(text), dtype=kind).reshape(shape).astype(np.float64)
