"""``spacearm init``, ``keys`` and ``completion``: commands to get started."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

from spacearm.cli.terminal import show, show_json
from spacearm.errors import InputError, did_you_mean, quote_text


def init_study(study: str, out: Path) -> int:
    """Write a scenario of a study, the robot that it uses and its measured file, to edit."""
    from spacearm.model import catalogue
    from spacearm.model.files import write_atomically

    known = starter_names()
    if study not in known:
        raise InputError(f"there is no study {quote_text(study)}", place="init", hint=did_you_mean(study, known))
    text = resources.files("spacearm.study").joinpath("starters", f"{study}.toml").read_text(encoding="utf-8")
    found = re.search(r'^robot = "(\w+)"$', text, re.MULTILINE)
    assert found is not None  # of each starter; tests hold it
    files = {
        out / f"{study}.toml": text.replace(found[0], f'robot = "{found[1]}.toml"'),
        out / f"{found[1]}.toml": catalogue.text(found[1]),
    }
    data = resources.files("spacearm.study").joinpath("starters", f"{study}.csv")
    if data.is_file():
        files[out / f"{study}.csv"] = data.read_text(encoding="utf-8")
    for path in files:
        if path.exists():
            raise InputError(
                "the file already exists", file=path, hint="init does not overwrite files; choose another -o"
            )
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot be created: {error.strerror}", file=out, hint="expected a folder") from error
    for path, content in files.items():
        write_atomically(path, content)
        show(str(path))
    scenario = out / f"{study}.toml"
    show(f"\nrun it:       spacearm run {scenario} -o {out / 'results'}\nits keys:     spacearm keys {study}")
    return 0


def starter_names() -> list[str]:
    """Studies that have a starter file."""
    folder = resources.files("spacearm.study").joinpath("starters")
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def show_keys(study: str, *, markdown: bool, json: bool) -> int:
    """Print the tables and keys of a study's scenario file."""
    from dataclasses import asdict

    from rich.table import Table
    from rich.text import Text

    from spacearm.study.key_tables import key_tables

    tables = key_tables(study)
    if json:
        show_json([asdict(table) for table in tables])
        return 0
    if markdown:
        show("\n\n".join(table.markdown() for table in tables))
        return 0
    for table in tables:
        shown = Table("key", "meaning", "default", box=None, header_style="dim", title_justify="left", pad_edge=False)
        shown.title = Text.assemble((f"{table.heading}  " if table.heading else "", "bold"), table.about)
        for row in table.rows:
            choices = " | ".join(f'"{choice}"' for choice in row.choices)
            meaning = "; ".join(filter(None, (row.meaning, choices, row.table and f"see {row.table}")))
            shown.add_row(Text(row.name, style="cyan"), Text(meaning), Text(row.default))
        show(shown, "")
    return 0


def show_completion(shell: str) -> int:
    """Print the completion script of a shell."""
    from spacearm.cli.app import app

    print(app.generate_completion(prog_name="spacearm", shell=shell))  # type: ignore[arg-type]
    return 0
