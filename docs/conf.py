"""Sphinx configuration. The build needs no network, and neither do the pages: formulas become MathML."""

from __future__ import annotations

import re
from html import unescape
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

from docutils import nodes
from docutils.statemachine import StringList
from docutils.utils.math import MathError, latex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import nested_parse_with_titles

import spacearm

project = "spacearm"
author = "The spacearm authors"
copyright = author
version = release = spacearm.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
exclude_patterns = ["_build", "figures"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "colon_fence", "attrs_inline"]
myst_heading_anchors = 3
# Pages may speak of commands and keys in any notation; only code blocks that name a language are highlighted.
highlight_language = "none"
# Two packages may use the same short name; an annotation that could mean either is then only not a link.
suppress_warnings = ["ref.python"]

autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
# Types stand in annotations; looking for comments with types in the source of every member takes minutes.
autodoc_use_type_comments = False
autodoc_type_aliases = {"npt.ArrayLike": "ArrayLike", "ArrayLike": "ArrayLike", "Array": "Array"}
maximum_signature_line_length = 88  # one parameter a line where it is longer
python_use_unqualified_type_names = True
napoleon_google_docstring = True
napoleon_use_rtype = False

html_theme = "furo"
html_title = f"spacearm {version}"
html_static_path = ["_static"]
html_show_sourcelink = False
html_show_copyright = False
html_math_renderer = "mathml"

log = logging.getLogger(__name__)
MATHML = "http://www.w3.org/1998/Math/MathML"


class PackageDirective(SphinxDirective):
    """``package:: spacearm.model`` documents the names in ``__all__`` of a package or module, and nothing else of it.

    Several names may be given.
    """

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        lines = []
        packages = self.arguments[0].split()
        for package in packages:
            if len(packages) > 1:
                lines += [package, "-" * len(package), ""]
            lines += [f".. automodule:: {package}", "   :members:", ""]
        source, line = self.get_source_info()
        node = nodes.section()
        node.document = self.state.document
        nested_parse_with_titles(self.state, StringList(lines, f"{source}:{line}"), node)
        return node.children


class PublicNamesDirective(SphinxDirective):
    """``public-names::`` lists what ``spacearm`` itself offers, with links to where it is described."""

    def run(self) -> list[nodes.Node]:
        lines = []
        for name in sorted(set(spacearm.__all__) - {"__version__"}, key=str.lower):
            thing = getattr(spacearm, name)
            if isinstance(thing, ModuleType):
                lines += [f"- :py:mod:`{name} <{thing.__name__}>`"]
                continue
            role = "class" if isinstance(thing, type) else "func"
            lines += [f"- :py:{role}:`{name} <{spacearm._HOME.get(name, 'spacearm.simulate')}.{name}>`"]
        node = nodes.Element()
        self.state.nested_parse(StringList(lines, "public-names"), self.content_offset, node)
        return node.children


def without_named_entities(mathml: str) -> str:
    """HTML's named entities (``&ApplyFunction;`` after a cosine) as characters: XML knows only its own five."""
    return re.sub(r"&(?!(?:lt|gt|amp|quot|apos);)[A-Za-z][A-Za-z0-9]*;", lambda match: unescape(match[0]), mathml)


def accents_on_their_letters(mathml: str) -> str:
    """docutils writes a dotted letter with an index as a limit, index below and dot above; here the index is one."""
    ElementTree.register_namespace("", MATHML)
    root = ElementTree.fromstring(without_named_entities(mathml))
    for element in root.iter(f"{{{MATHML}}}munderover"):
        letter, index, above = element
        if above.tag == f"{{{MATHML}}}mo" and (above.get("accent") or above.get("stretchy")):
            dotted = ElementTree.Element(f"{{{MATHML}}}mover", accent="true")
            dotted.extend([letter, above])
            element.tag = f"{{{MATHML}}}msub"
            element[:] = [dotted, index]
    return ElementTree.tostring(root, encoding="unicode")


def visit_math(translator: Any, node: nodes.math | nodes.math_block) -> None:
    """A formula as MathML, by the converter that docutils brings along."""
    block = isinstance(node, nodes.math_block)
    tex = re.sub(r"\\dots\b", r"\\ldots", node.astext().strip())  # the converter knows only the latter
    try:
        html = accents_on_their_letters(latex2mathml.tex2mathml(tex, as_block=block))
    except MathError as error:
        log.warning("cannot show this formula: %s", error, location=node)
        html = f"<code>{translator.encode(node.astext())}</code>"
    translator.body.append(f'<div class="math">{html}</div>' if block else html)
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("package", PackageDirective)
    app.add_directive("public-names", PublicNamesDirective)
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math, None))
    app.add_css_file("spacearm.css")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
