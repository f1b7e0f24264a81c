"""Writes the tables of scenario keys into the pages of the documentation, from the declarations of the studies.

    python tools/key_tables.py           # rewrites what stands between the marks
    python tools/key_tables.py --check   # exit status 1 where a page is not up to date

A page marks the place with ``<!-- keys: STUDY -->`` and ``<!-- end of keys -->``.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from spacearm.study.key_tables import key_tables

DOCS = Path(__file__).parents[1] / "docs"
MARKED = re.compile(r"(<!-- keys: ([\w-]+) -->\n).*?(<!-- end of keys -->)", re.DOTALL)


def fill_page(text: str) -> str:
    """The page with its tables of keys as the studies declare them now."""

    def tables(mark: re.Match[str]) -> str:
        return f"{mark[1]}\n" + "\n\n".join(table.markdown() for table in key_tables(mark[2])) + f"\n\n{mark[3]}"

    return MARKED.sub(tables, text)


def main() -> int:
    """Rewrite the pages, or say which are not up to date."""
    stale = []
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        filled = fill_page(text)
        if filled != text:
            stale.append(page)
            if "--check" not in sys.argv[1:]:
                page.write_text(filled, encoding="utf-8")
    for page in stale:
        print(page.relative_to(DOCS.parent))
    return 1 if stale and "--check" in sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
