"""The tables that travel: a block of items to a group, outcomes to the writer, ledger rows to the driver.

Whatever belongs to one micro-batch is one row of its table, so that Ray Data can neither split it nor bundle it with
another: a block of items is the unit of work, retry and resume, and its composition is fixed. Knows no Ray.
"""

import dataclasses
import json
import typing
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mulo_ray.types import LedgerRow
from mulo_ray.workers.roles import Conditioned, Item, Outcome

_ARROW = {str: pa.string(), int: pa.int64(), bool: pa.bool_()}


def _fields(record: type) -> list[tuple[str, pa.DataType]]:
    return [(name, _ARROW.get(kind, pa.string())) for name, kind in typing.get_type_hints(record).items()]


BLOCKS_PER_TABLE = 256
"""A table of many blocks costs the driver and the object store what one of a single block does."""
BLOCK_SCHEMA = pa.schema([("block", pa.int64()), ("items", pa.list_(pa.struct(_fields(Item))))])
_ARRAY = pa.struct(
    [("name", pa.string()), ("dtype", pa.string()), ("shape", pa.list_(pa.int64())), ("data", pa.binary())]
)
CONDITIONED = pa.list_(
    pa.struct(
        [
            ("prompt_used", pa.string()),
            ("error", pa.string()),
            ("transient", pa.bool_()),
            ("payload", pa.list_(_ARRAY)),
        ]
    )
)
_OUTCOME = pa.struct(
    [
        ("key", pa.string()),
        ("sample", pa.int64()),
        ("prompt", pa.string()),
        ("png", pa.binary()),
        ("prompt_used", pa.string()),
        ("error", pa.string()),
        ("transient", pa.bool_()),
        ("attempts", pa.int64()),
        ("stats", pa.string()),
        ("timing", pa.string()),
    ]
)
OUTCOME_SCHEMA = pa.schema([("outcomes", pa.list_(_OUTCOME))])
_ROW = pa.struct([*_fields(LedgerRow), ("timing", pa.string()), ("put_s", pa.float64())])
ROW_SCHEMA = pa.schema([("rows", pa.list_(_ROW))])


def block_tables(blocks: Sequence[tuple[int, Sequence[Item]]]) -> list[pa.Table]:
    """Tables of many blocks each, a row per block."""
    return [
        pa.Table.from_pylist(
            [{"block": number, "items": [dataclasses.asdict(item) for item in items]} for number, items in some],
            BLOCK_SCHEMA,
        )
        for some in (blocks[start : start + BLOCKS_PER_TABLE] for start in range(0, len(blocks), BLOCKS_PER_TABLE))
    ]


def one_by_one(table: pa.Table) -> Iterator[pa.Table]:
    """The blocks of a table, a table each."""
    for row in range(table.num_rows):
        yield table.slice(row, 1)


def block_table(block: int, items: Sequence[Item]) -> pa.Table:
    """The table of one block."""
    [table] = block_tables([(block, items)])
    return table


def read_block(table: pa.Table) -> tuple[int, list[Item]]:
    """The number and the items of the one block in `table`."""
    [row] = table.to_pylist()
    return row["block"], [Item(**item) for item in row["items"]]


def with_conditions(table: pa.Table, conditioned: Sequence[Conditioned]) -> pa.Table:
    """The block in `table` with what the text stage made of its items, in their order."""
    rows = [
        {
            "prompt_used": one.prompt_used,
            "error": one.error,
            "transient": one.transient,
            "payload": [
                {"name": name, "dtype": array.dtype.str, "shape": list(array.shape), "data": array.tobytes()}
                for name, array in one.payload.items()
            ],
        }
        for one in conditioned
    ]
    return table.append_column("conditioned", pa.array([rows], CONDITIONED))


def read_conditions(table: pa.Table) -> list[Conditioned] | None:
    """What the text stage made of the one block in `table`; None where it did not pass one."""
    if "conditioned" not in table.column_names:
        return None
    [rows] = table.column("conditioned").to_pylist()
    return [Conditioned(**row | {"payload": {a["name"]: _array(a) for a in row["payload"]}}) for row in rows]


def _array(stored: dict[str, Any]) -> Any:
    return np.frombuffer(stored["data"], dtype=stored["dtype"]).reshape(stored["shape"])


def outcomes_table(items: Sequence[Item], outcomes: Sequence[Outcome]) -> pa.Table:
    """One row with an entry per wanted item, each with its own outcome."""
    assert len(items) == len(outcomes), "a group answers every item once"
    rows = []
    for item, outcome in zip(items, outcomes, strict=True):
        assert outcome.png or outcome.error, "an outcome is a file or a reason"
        if item.wanted:
            row = {f.name: getattr(outcome, f.name) for f in dataclasses.fields(outcome)}
            row |= {"stats": json.dumps(outcome.stats), "timing": json.dumps(outcome.timing) if outcome.timing else ""}
            rows.append(row | {"key": item.key, "sample": item.sample, "prompt": item.text})
    return pa.Table.from_pylist([{"outcomes": rows}], OUTCOME_SCHEMA)


def read_outcomes(table: pa.Table) -> list[dict[str, Any]]:
    """The entries of all rows of `table`."""
    return [entry for entries in table.column("outcomes").to_pylist() for entry in entries]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A ledger row on its way to the driver, with what was measured on the way."""

    row: LedgerRow
    timing: dict[str, Any] | None = None  # of a micro-batch, with one of its images
    put_s: float | None = None  # None: nothing was put


def rows_table(rows: Sequence[Stored]) -> pa.Table:
    told = [
        dataclasses.asdict(one.row) | {"timing": json.dumps(one.timing) if one.timing else "", "put_s": one.put_s}
        for one in rows
    ]
    return pa.Table.from_pylist([{"rows": told}], ROW_SCHEMA)


def read_rows(table: pa.Table) -> list[Stored]:
    rows: list[dict[str, Any]] = [row for told in table.column("rows").to_pylist() for row in told]
    return [
        Stored(
            timing=json.loads(told) if (told := row.pop("timing")) else None,
            put_s=row.pop("put_s"),
            row=LedgerRow(**row),
        )
        for row in rows
    ]
