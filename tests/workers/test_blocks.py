"""The tables that travel: one row per micro-batch, whatever is cut and joined on the way."""

import pyarrow as pa

from mulo_ray.types import LedgerRow
from mulo_ray.workers.blocks import (
    BLOCKS_PER_TABLE,
    Stored,
    block_tables,
    one_by_one,
    outcomes_table,
    read_block,
    read_outcomes,
    read_rows,
    rows_table,
)
from mulo_ray.workers.roles import Item, Outcome


def items_of(block: int) -> list[Item]:
    return [Item(key=f"{block}-{n}", sample=0, text=f"thing {n}", seed=n) for n in range(1 + block % 3)]


def test_blocks_come_out_of_their_tables_as_they_went_in() -> None:
    """Two full tables and one of a single block; blocks of one to three items."""
    blocks = [(number, items_of(number)) for number in range(2 * BLOCKS_PER_TABLE + 1)]
    tables = block_tables(blocks)
    assert [table.num_rows for table in tables] == [BLOCKS_PER_TABLE, BLOCKS_PER_TABLE, 1]
    cut = [block for table in tables for block in one_by_one(table)]
    assert all(block.num_rows == 1 for block in cut)
    assert [read_block(block) for block in cut] == blocks


def test_what_a_micro_batch_gives_is_one_row_and_joins_to_many() -> None:
    items = items_of(2)
    outcomes = [Outcome(png=b"one"), Outcome(error="no"), Outcome(png=b"three")]
    table = outcomes_table(items, outcomes)
    assert table.num_rows == 1
    told = read_outcomes(pa.concat_tables([table, outcomes_table(items[:1], outcomes[2:])]))
    assert [(row["key"], row["png"], row["error"]) for row in told] == [
        ("2-0", b"one", ""),
        ("2-1", b"", "no"),
        ("2-2", b"three", ""),
        ("2-0", b"three", ""),
    ]
    stored = [
        Stored(row=LedgerRow(key="a", sample=0, status="ok"), timing={"group": 1}, put_s=0.5),
        Stored(row=LedgerRow(key="b", sample=1, status="failed", error="no")),
    ]
    table = rows_table(stored)
    assert table.num_rows == 1
    assert read_rows(pa.concat_tables([table, rows_table(stored[1:])])) == [*stored, stored[1]]
