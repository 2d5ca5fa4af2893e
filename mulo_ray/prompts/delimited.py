"""Comma- and tab-separated values with a header line.

Knows no column: rows.py decides which one is the caption.
"""

import csv
import io
from collections.abc import Iterator

from mulo_ray.prompts.rows import Row, prompts_from_rows
from mulo_ray.types import Prompt


def prompts_from_csv(text: str, name: str) -> list[Prompt]:
    """Quoted fields may hold commas, quotes and line ends. A row with more or fewer fields than the header fails.

    In a file of one column, unquoted commas belong to the caption.
    """
    return prompts_from_rows(list(_rows(text, name, ",", quotes=True)), name)


def prompts_from_tsv(text: str, name: str) -> list[Prompt]:
    """Quotes are read as in CSV when the whole file allows it, else every quote is a plain character.

    Many TSV writers never quote: a lone `"` would then swallow the rows after it.
    """
    quoted = list(_rows(text, name, "\t", quotes=True))
    if any(row.columns is None for row in quoted):
        plain = list(_rows(text, name, "\t", quotes=False))
        if sum(row.columns is None for row in plain) <= sum(row.columns is None for row in quoted):
            return prompts_from_rows(plain, name)
    return prompts_from_rows(quoted, name)


def _rows(text: str, name: str, delimiter: str, *, quotes: bool) -> Iterator[Row]:
    lines = io.StringIO(text, newline="")
    if quotes:
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
    else:
        reader = csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE)
    header: list[str] | None = None
    while True:
        place = f"{name} line {reader.line_num + 1}"
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield Row(place=place, error=f"not readable as separated values: {error}")
            continue
        if not fields:
            continue  # an empty line
        if header is None:
            header = fields
        elif len(header) == 1:  # nothing to confuse: a published caption list leaves its commas unquoted
            yield Row(place=place, columns={header[0]: delimiter.join(fields)})
        elif len(fields) == len(header):
            yield Row(place=place, columns=dict(zip(header, fields, strict=True)))
        else:
            yield Row(place=place, error=f"{len(fields)} fields where the header has {len(header)}; quote the caption")
