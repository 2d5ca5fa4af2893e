"""Captions to images with a ledger and a report, in the manner of the COCO 5k benchmark.

    python jobs/coco5k.py --limit 16 --output out/coco5k
    python jobs/coco5k.py --captions-file captions_val2017.json --captions longest --output s3://bucket/prefix
    python jobs/coco5k.py --captions-file coco      fetches the official annotations once and caches them

Without --captions-file it draws the 64 captions of the package. Run it again to continue or to check.
"""

import dataclasses
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # also from an unpacked upload, with nothing installed

from mulo_ray import cli
from mulo_ray.config import JobConfig, OutputOptions
from mulo_ray.job import run
from mulo_ray.prompts import coco_val2017, embedded_captions
from mulo_ray.types import Report


def job(config: JobConfig) -> Report:
    """The captions this recipe defaults to, then the run."""
    if config.input.captions_file is None:
        print("no --captions-file: drawing the captions of the package", file=sys.stderr)
        return run(config, embedded_captions(config.input.limit))
    if config.input.captions_file == "coco":
        named = dataclasses.replace(config.input, captions_file=coco_val2017())
        config = dataclasses.replace(config, input=named)
    return run(config)


if __name__ == "__main__":
    defaults = JobConfig(output=OutputOptions(output="out/coco5k"))
    config = cli.parse_config("COCO captions, or the package's own, to images.", defaults)
    sys.exit(cli.main(lambda: job(config)))
