"""A recipe like those in jobs/, over stub roles that take STUB_SLEEP_S per round: for tests that kill it."""

import os
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS.parent), str(TESTS / "workers")]
os.environ["PYTHONPATH"] = str(TESTS / "workers")  # the workers import the stub roles by name

from stub_engine import stub_engine  # noqa: E402

from mulo_ray import cli  # noqa: E402
from mulo_ray.config import JobConfig  # noqa: E402
from mulo_ray.job import run  # noqa: E402

if __name__ == "__main__":
    config = cli.parse_config("Stub pictures.", JobConfig())
    engine = stub_engine(float(os.environ.get("STUB_SLEEP_S", "0")))
    sys.exit(cli.main(lambda: run(config, engine=engine)))
