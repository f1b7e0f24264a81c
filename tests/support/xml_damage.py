"""Well-formed XML after accidents, for fuzzing the readers of foreign files."""

import copy
import xml.etree.ElementTree as ET

from hypothesis import strategies as st


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
