"""What Ray costs: stub roles against the ideal pipeline, many groups, many prompts, then the embedded family.

python jobs/bench_ray.py --parts pipelining groups --out bench-ray.json
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # also from an unpacked upload, with nothing installed

from mulo_ray import cli
from mulo_ray.benchmark import line_text
from mulo_ray.ray_benchmark.suite import PARTS, Sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions(Sizes):
    """What is measured, how much of it, and where the figures go."""

    parts: tuple[Literal["pipelining", "groups", "prompts", "family"], ...] = (
        "pipelining",
        "groups",
        "prompts",
        "family",
    )
    """Which figures."""
    out: str = ""
    """A JSON file for the figures; rewritten after every part."""


def job(options: BenchOptions) -> None:
    """Measure part by part, print a line per figure, write the list."""
    lines = []
    command = " ".join(["python jobs/bench_ray.py", *sys.argv[1:]])
    for part in options.parts:
        for line in PARTS[part](options, command):
            print(line_text(line), flush=True)
            lines.append(line)
        if options.out:
            Path(options.out).write_text(json.dumps(lines, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    options = cli.parse(BenchOptions, "Measure what Ray costs.", BenchOptions())
    sys.exit(cli.main(lambda: job(options)))
