"""Parquet files: one row per prompt, any row groups.

Knows no column: rows.py decides which one is the caption.
"""

from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from mulo_ray.errors import UsageError
from mulo_ray.prompts.rows import CAPTION_COLUMNS, ID_COLUMNS, Row, prompts_from_rows
from mulo_ray.types import Prompt


def prompts_from_parquet(stream: BinaryIO, name: str) -> list[Prompt]:
    """Only the caption and id columns are loaded. Raises UsageError for a file that is no Parquet or has no rows."""
    try:
        file = pq.ParquetFile(stream)
        names = file.schema_arrow.names
        wanted = [c for c in names if c.strip().lower() in (*CAPTION_COLUMNS, *ID_COLUMNS)]
        # to_pylist and not pandas: an integer id beside a null stays an integer
        records = file.read(columns=wanted or names).to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise UsageError(f"{name} is not a readable Parquet file: {error}") from error
    if not records:
        raise UsageError(f"{name} has no rows")
    return prompts_from_rows([Row(place=f"{name} row {n}", columns=row) for n, row in enumerate(records, 1)], name)
