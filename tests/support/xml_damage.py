"""Well-formed XML after accidents, for fuzzing the readers of foreign files."""

import copy
import xml.etree.ElementTree as ET

from hypothesis import strategies as st

#: What no number or name should be, and markup where none belongs.
NASTY = st.sampled_from(
    [
        *("nan", "-inf", "1e309", "1e-320", "1e200", "-1", "0", "0 0 0", "1 2", "1_0", "0x10", "", " ", "\t", "\u0661"),
        *("&lt;", "&#0;", "&x;", "<!--", "]]>", "<![CDATA[", "<?xml?>", "<!DOCTYPE a>"),
        *("\x00", "\ud800", "é", "\u2028", 'xmlns="urn:x"'),
    ]
)


@st.composite
def damaged_text(draw, text, nasty, most):
    """``text`` after one to ``most`` accidents that need not leave it well-formed; ``nasty`` are words to put in."""
    all_lines = text.splitlines()
    words = text.replace('"', ' " ').replace("<", " < ").replace("/>", " /> ").split()
    for _ in range(draw(st.integers(1, most))):
        place = draw(st.integers(0, len(text)))
        kind = draw(st.sampled_from(["insert", "cut", "word", "value", "line", "swap"]))
        if kind == "insert":
            text = text[:place] + draw(nasty | st.text(max_size=5)) + text[place:]
        elif kind == "cut":
            text = text[:place] + text[place + draw(st.integers(1, 200)) :]
        elif kind == "word":
            text = text.replace(draw(st.sampled_from(words)), draw(nasty | st.sampled_from(words)), 1)
        elif kind == "value":
            start = text.find('="', place)
            end = text.find('"', start + 2)
            if 0 <= start < end:
                number = st.floats().map(repr)
                text = text[: start + 2] + draw(nasty | number | st.text(max_size=6)) + text[end:]
        elif kind == "line":
            lines = text.split("\n")
            line = draw(st.integers(0, len(lines) - 1))
            text = "\n".join([*lines[:line], *([lines[line]] * draw(st.sampled_from([0, 2]))), *lines[line + 1 :]])
        else:
            one, two = draw(st.sampled_from(all_lines)), draw(st.sampled_from(all_lines))
            text = text.replace(one, "\x01").replace(two, one).replace("\x01", two)
    return text


@st.composite
def damaged_tree(draw, text, values, most):
    """``text`` after one to ``most`` accidents: other values, elements lost, doubled or elsewhere."""
    root = ET.fromstring(text)
    for _ in range(draw(st.integers(1, most))):
        elements = list(root.iter())
        element, other = draw(st.sampled_from(elements)), draw(st.sampled_from(elements))
        kind = draw(st.sampled_from(["value", "value", "value", "key", "lose", "double", "graft"]))
        if kind == "value" and element.attrib:
            element.set(draw(st.sampled_from(sorted(element.attrib))), draw(values))
        elif kind == "key" and element.attrib:
            del element.attrib[draw(st.sampled_from(sorted(element.attrib)))]
        elif kind == "lose" and len(element):
            element.remove(draw(st.sampled_from(list(element))))
        elif kind == "double" and len(element):
            element.append(copy.deepcopy(draw(st.sampled_from(list(element)))))
        elif kind == "graft":
            element.append(copy.deepcopy(other))
    return ET.tostring(root, encoding="unicode")
