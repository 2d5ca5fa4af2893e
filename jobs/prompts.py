"""Your own prompts to images with a ledger and a report.

    python jobs/prompts.py --captions-file mine.jsonl --output out/mine
    python jobs/prompts.py --captions-file s3://bucket/prompts.parquet --output s3://bucket/out --samples-per-prompt 4

Formats: .jsonl, .txt, .csv, .tsv, .parquet, .json (also .gz). Run it again to continue or to check.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # also from an unpacked upload, with nothing installed

from mulo_ray import cli
from mulo_ray.config import JobConfig, OutputOptions
from mulo_ray.job import run

if __name__ == "__main__":
    defaults = JobConfig(output=OutputOptions(output="out/prompts"))
    config = cli.parse_config("The prompts of a file to images.", defaults)
    sys.exit(cli.main(lambda: run(config)))
