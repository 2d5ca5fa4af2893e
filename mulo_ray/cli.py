"""From a command line to a JobConfig and an exit code: what every recipe in jobs/ shares.

Flags are generated from the config dataclasses, so an option exists once. Knows no Ray, no model and no file format.
"""

import contextlib
import dataclasses
import difflib
import io
import itertools
import logging
import re
import sys
import traceback
from collections.abc import Callable, Sequence

import tyro

from mulo_ray.config import JobConfig
from mulo_ray.errors import MuloError, UsageError
from mulo_ray.types import ExitCode, Report


def parse_config(
    description: str,
    args: Sequence[str] | None = None,
    default: JobConfig = JobConfig(),  # noqa: B008 - frozen
) -> JobConfig:
    """The config that `args` (default: the command line) ask for, with flat flags such as --batch-size.

    Exits with code 2 and one sentence when an option is unknown or a value is not allowed.
    """
    args = list(sys.argv[1:] if args is None else args)
    page = io.StringIO()  # tyro frames its complaints; ours are one sentence
    try:
        with contextlib.redirect_stderr(page):
            config, unknown = tyro.cli(
                JobConfig,
                description=description,
                args=args,
                default=default,
                config=(tyro.conf.OmitArgPrefixes,),
                return_unknown_args=True,
            )
    except SystemExit as end:
        if end.code:
            _complain(_sentence(page.getvalue()), ExitCode.USAGE)
        raise
    if unknown:
        raise SystemExit(_complain(_unknown_option(unknown[0]), ExitCode.USAGE))
    return config


def main(job: Callable[[], Report]) -> int:
    """Run a recipe: its exit code, and for every error one sentence on stderr. A traceback means a bug of ours."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    try:
        return int(job().exit_code)
    except KeyboardInterrupt:
        return _complain("interrupted; the same command continues where this one stopped", ExitCode.INTERRUPTED)
    except UsageError as error:
        return _complain(error, ExitCode.USAGE)
    except MuloError as error:
        return _complain(error, ExitCode.RUN_FAILED)
    except Exception:
        traceback.print_exc()
        return _complain("the run failed with the unexpected error above", ExitCode.RUN_FAILED)


def _complain(error: object, code: ExitCode) -> int:
    print(f"error: {error}" if code is not ExitCode.INTERRUPTED else str(error), file=sys.stderr, flush=True)
    return int(code)


def _sentence(framed: str) -> str:
    """The first paragraph inside a frame of box-drawing characters."""
    inside = [line.strip(" \u2502") for line in framed.splitlines()[1:]]
    paragraph = itertools.takewhile(lambda line: line and not line.startswith(("\u2500", "\u2570")), inside)
    sentence = re.sub(r"^Error (parsing \w+: )?", "", " ".join(paragraph)).rstrip(".:")
    return f"{sentence}; --help lists what is allowed"


def _unknown_option(option: str) -> str:
    if not option.startswith("-"):
        return f"unexpected argument {option!r}: every option has a name, such as --limit 16; --help lists them"
    name = option.partition("=")[0].replace("_", "-")
    known = [*option_names(), "--help"]
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
    return f"unknown option {option.partition('=')[0]}: did you mean {near[0]}? --help lists all {len(known)} options"


def option_names() -> list[str]:
    """Every flag of a job, as typed."""
    config = JobConfig()
    sections = [getattr(config, section.name) for section in dataclasses.fields(config)]
    return ["--" + field.name.replace("_", "-") for section in sections for field in dataclasses.fields(section)]
