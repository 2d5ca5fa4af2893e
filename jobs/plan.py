"""What a run would take on a cluster: images/s, the best shape of group, hours, device-hours and the bottleneck.

    python jobs/plan.py --report out/coco5k --nodes 4 --gpus-per-node 8 --prompts 1000000
    python jobs/plan.py --drafter-s 0.4 --target-s 0.8 --put-s 0.05 --cores 8 --prompts 5000

Starts nothing: a discrete-event model of drafters, targets, writers and the store runs on measured phase times.
"""

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # also from an unpacked upload, with nothing installed

from mulo_ray import cli
from mulo_ray.errors import StorageError, UsageError
from mulo_ray.evaluation.report import REPORT_JSON
from mulo_ray.planning.recipe import PlanOptions, plan
from mulo_ray.storage import Store


def job(options: PlanOptions) -> None:
    """Print the plan."""
    print(plan(options, None if options.report is None else read(options.report)))


def read(place: str) -> dict[str, Any]:
    """report.json of an output, or that very file. Raises UsageError where there is none."""
    folder = place.removesuffix(REPORT_JSON).rstrip("/") or "."
    try:
        report: dict[str, Any] = json.loads(Store(folder).get(REPORT_JSON))
    except (StorageError, OSError, ValueError) as error:
        raise UsageError(f"--report takes the output of a finished run, got {place!r}: {error}") from error
    return report


if __name__ == "__main__":
    options = cli.parse(PlanOptions, "Plan a run on a cluster.", PlanOptions())
    sys.exit(cli.main(lambda: job(options)))
