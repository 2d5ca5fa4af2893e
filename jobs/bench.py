"""Decoding speed on this machine: plain decoding against mulo, phases against the cost model, the machine's bounds.

python jobs/bench.py --batch 1 8 --repeats 3 --out bench.json
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # also from an unpacked upload, with nothing installed

from mulo_ray import cli
from mulo_ray.benchmark import bench_lines, line_text


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """What is measured, and how often."""

    batch: tuple[int, ...] = (1, 8)
    """Images decoded together."""
    repeats: int = 3
    """Runs of every setting, in turn."""
    out: str = ""
    """A JSON file for the figures."""


def job(options: BenchOptions) -> None:
    """Measure, print a line per figure as it comes, write the list."""
    command = f"python jobs/bench.py --batch {' '.join(map(str, options.batch))} --repeats {options.repeats}"
    lines = []
    for line in bench_lines(options.batch, options.repeats, command):
        lines.append(line)
        print(line_text(line), flush=True)
    if options.out:
        Path(options.out).write_text(json.dumps(lines, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    options = cli.parse(BenchOptions, "Measure decoding speed.", BenchOptions())
    sys.exit(cli.main(lambda: job(options)))
