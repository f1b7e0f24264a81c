"""A campaign on disk: a manifest, and Parquet files that each appear complete or not at all.

``campaign.json`` says what the campaign is; ``runs-CCCCCC-NNNNNN.parquet`` is chunk N of cell C, and
``worst-CCCCCC-NNNNNN.parquet`` generation N of the search for its worst case. All chunks have the
columns of the first, whatever rows later runs have, so that they read as one table::

    duckdb.sql("select * from 'out/runs-*.parquet'")        pandas.read_parquet("out")
"""

from __future__ import annotations

import errno
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from spacearm.campaign._work import RunOutcome
from spacearm.campaign.plan import CampaignFile, CampaignPlan
from spacearm.errors import InputError, SpacearmError
from spacearm.report.folder import read_json
from spacearm.report.reuse import input_digest
from spacearm.result import json_value
from spacearm.typing import Array

MANIFEST = "campaign.json"


def _pyarrow() -> Any:
    """Imported when it is needed: it takes time."""
    import pyarrow
    import pyarrow.parquet

    return pyarrow


class Store:
    """The folder of a campaign."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self.manifest: dict[str, Any] = read_json(self.folder / MANIFEST)

    @classmethod
    def begin(cls, folder: Path, plan: CampaignPlan, vectorised: bool = False) -> Store:
        """The store of this campaign: a new one, or the one that it goes on with.

        Vectorised runs differ in the last bits from single ones: a folder holds one kind only.
        """
        _pyarrow()
        store = cls(folder)
        content = {
            "campaign": json_value(plan.file.model_dump(exclude_unset=True, exclude={"worst_case"})),
            "scenario": json_value(plan.document),
            "robot": plan.robot_text,
        } | ({"side_by_side": True} if vectorised else {})
        # Everything that decides a run, the version of spacearm included: chunks of two campaigns must never mix.
        digest = input_digest(json.dumps(content, sort_keys=True))
        if store.manifest:
            if store.manifest.get("digest") != digest:
                raise InputError(
                    "holds another campaign, one of another version of spacearm, or one that differs in running with "
                    "or without a device",
                    file=folder,
                    hint="choose another folder, or remove this one",
                )
        else:
            # A folder with other content is never written into.
            if store.folder.exists() and (not store.folder.is_dir() or any(store.folder.iterdir())):
                raise InputError("is there and holds no campaign", file=folder, hint="choose another folder")
            store.folder.mkdir(parents=True, exist_ok=True)
            store.manifest = {"digest": digest, "folder": str(plan.folder.resolve()), **content}
            store._write(MANIFEST, (json.dumps(store.manifest, indent=1) + "\n").encode())
        for left in store.folder.glob(".writing-*"):  # of a killed call
            left.unlink(missing_ok=True)
        store._begin_search(plan)
        return store

    def _begin_search(self, plan: CampaignPlan) -> None:
        """Take note of the search for worst cases: it comes after the runs and may be changed without them."""
        search = None if plan.file.worst_case is None else json_value(plan.file.worst_case.model_dump())
        if self.manifest.get("worst_case") == search:
            return
        for path in self.folder.glob("worst-*-*.parquet"):
            path.unlink()
        self.manifest["worst_case"] = search
        self._write(MANIFEST, (json.dumps(self.manifest, indent=1) + "\n").encode())

    def abandon(self) -> None:
        """Give up a campaign of which no run is kept."""
        if not any(self.stored_chunks()):
            (self.folder / MANIFEST).unlink(missing_ok=True)

    @classmethod
    def open(cls, folder: Path) -> Store:
        """The store that is there."""
        store = cls(folder)
        if "digest" not in store.manifest:
            raise InputError("holds no campaign", file=folder, hint="expected the folder of 'spacearm campaign run'")
        return store

    @property
    def plan(self) -> CampaignPlan:
        """The plan with which the campaign was begun."""
        from spacearm.model.document import validate_tables

        search = self.manifest.get("worst_case")
        tables = self.manifest["campaign"] | ({} if search is None else {"worst_case": search})
        file = validate_tables(CampaignFile, tables)
        return CampaignPlan(file, self.manifest["scenario"], Path(self.manifest["folder"]), self.manifest["robot"])

    def path(self, cell: int, chunk: int) -> Path:
        return self.folder / f"runs-{cell:06d}-{chunk:06d}.parquet"

    def has(self, cell: int, chunk: int) -> bool:
        return self.path(cell, chunk).is_file()

    def stored_chunks(self) -> Iterator[tuple[int, int]]:
        """Cell and number of each chunk that is there, in order."""
        for path in sorted(self.folder.glob("runs-*-*.parquet")):
            _, cell, chunk = path.stem.split("-")
            yield int(cell), int(chunk)

    def write(self, plan: CampaignPlan, names: Mapping[str, str], outcomes: list[RunOutcome]) -> None:
        """Put a chunk into its place; ``names`` are the rows that are kept, with their units."""
        arrow = _pyarrow()
        table: dict[str, Any] = {
            "cell": arrow.array([outcome.cell for outcome in outcomes], arrow.int64()),
            "run": arrow.array([outcome.number for outcome in outcomes], arrow.int64()),
        }
        for axis in plan.file.axis:
            table[axis.name] = arrow.array([plan.cells[outcome.cell][axis.name] for outcome in outcomes])
        for entry in plan.file.vary:
            table[entry.key] = arrow.array([float(outcome.drawn[entry.key]) for outcome in outcomes], arrow.float64())
        table["status"] = arrow.array([outcome.status for outcome in outcomes], arrow.string())
        table["success"] = arrow.array([outcome.success for outcome in outcomes], arrow.bool_())
        table["margin"] = arrow.array([outcome.margin for outcome in outcomes], arrow.float64())
        table["binding"] = arrow.array([outcome.binding for outcome in outcomes], arrow.string())
        table["reason"] = arrow.array([outcome.reason for outcome in outcomes], arrow.string())
        for name in names:
            table[name] = arrow.array([outcome.values.get(name) for outcome in outcomes], arrow.float64())
        # Units travel with the columns: a file by itself says what its numbers are.
        schema = [arrow.field(name, a.type, metadata={"unit": names.get(name, "")}) for name, a in table.items()]
        sink = arrow.BufferOutputStream()
        arrow.parquet.write_table(arrow.table(table, schema=arrow.schema(schema)), sink, compression="zstd")
        first = outcomes[0]
        self._write(self.path(first.cell, first.number // plan.file.chunk).name, sink.getvalue().to_pybytes())

    def generation_path(self, cell: int, generation: int) -> Path:
        return self.folder / f"worst-{cell:06d}-{generation:06d}.parquet"

    def has_generation(self, cell: int, generation: int, shares: Array) -> bool:
        """Whether a generation of the search for worst cases is there, at these points."""
        if not self.generation_path(cell, generation).is_file():
            return False
        # Another seed, another box or another worst run leads to other points: what is stored is then of another
        # search.
        return bool(np.array_equal(np.array(self.read_generation(cell, generation)["shares"]), shares))

    def write_generation(
        self, plan: CampaignPlan, cell: int, generation: int, shares: Array, outcomes: list[RunOutcome]
    ) -> None:
        """Put a generation of the search for worst cases into its place."""
        arrow = _pyarrow()
        table: dict[str, Any] = {
            "shares": arrow.array(shares.tolist(), arrow.list_(arrow.float64())),
            **{entry.key: [float(outcome.drawn[entry.key]) for outcome in outcomes] for entry in plan.file.vary},
            "status": [outcome.status for outcome in outcomes],
            "margin": arrow.array([outcome.margin for outcome in outcomes], arrow.float64()),
            "binding": arrow.array([outcome.binding for outcome in outcomes], arrow.string()),
            "reason": [outcome.reason for outcome in outcomes],
        }
        sink = arrow.BufferOutputStream()
        arrow.parquet.write_table(arrow.table(table), sink, compression="zstd")
        self._write(self.generation_path(cell, generation).name, sink.getvalue().to_pybytes())

    def read_generation(self, cell: int, generation: int) -> dict[str, list[Any]]:
        """Columns of a generation of the search for worst cases."""
        found: dict[str, list[Any]] = _pyarrow().parquet.read_table(self.generation_path(cell, generation)).to_pydict()
        return found

    def read_generations(self, cell: int) -> dict[str, list[Any]] | None:
        """Columns of all generations of a cell's search, in order; None if there are none."""
        count = 0
        while self.generation_path(cell, count).is_file():
            count += 1
        parts = [self.read_generation(cell, number) for number in range(count)]
        return {name: [*chain(*(part[name] for part in parts))] for name in parts[0]} if parts else None

    def names(self) -> dict[str, str]:
        """The rows that all chunks keep, with their units."""
        schema = _pyarrow().parquet.read_schema(self.path(*next(self.stored_chunks())))
        # Fixed columns end with "reason"; result rows follow.
        fields = [schema.field(k) for k in range(schema.get_field_index("reason") + 1, len(schema.names))]
        return {field.name: field.metadata[b"unit"].decode() for field in fields}

    def read(self) -> Any:
        """All runs as one Arrow table, in order."""
        arrow = _pyarrow()
        tables = [arrow.parquet.read_table(self.path(*place)) for place in self.stored_chunks()]
        if not tables:
            raise InputError("holds no finished run yet", file=self.folder)
        return arrow.concat_tables(tables, promote_options="default")

    def successes(self, cell: int, chunk: int) -> tuple[int, int]:
        """Successes and runs of a chunk."""
        found = _pyarrow().parquet.read_table(self.path(cell, chunk), columns=["success"])["success"].to_pylist()
        return sum(found), len(found)

    def _write(self, name: str, content: bytes) -> None:
        """A file that appears complete."""
        descriptor, temporary = tempfile.mkstemp(prefix=".writing-", dir=self.folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                # On disk before it gets its name: after a crash a file with a name is a whole one.
                os.fsync(file.fileno())
            os.replace(temporary, self.folder / name)
        except BaseException as error:
            Path(temporary).unlink(missing_ok=True)
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise SpacearmError(
                    f"cannot write {name}: {error.strerror}",
                    file=self.folder,
                    hint="finished runs are kept; free some space and run the same command again",
                ) from error
            raise
