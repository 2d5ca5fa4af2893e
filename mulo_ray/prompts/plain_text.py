"""Plain text: one prompt per line, the key is the line's number from 0 in 8 digits.

Knows no ids: a .jsonl file carries those.
"""

from mulo_ray.prompts.rows import Row, prompts_from_rows
from mulo_ray.prompts.source import lines_of
from mulo_ray.types import Prompt


def prompts_from_text(text: str, name: str) -> list[Prompt]:
    """A blank line between prompts is a failed row (it keeps its number); blank lines at the end are ignored."""
    lines = lines_of(text)
    while lines and not lines[-1].strip():
        lines.pop()
    rows = [Row(place=f"{name} line {n}", columns={"caption": line}) for n, line in enumerate(lines, start=1)]
    return prompts_from_rows(rows, name)
