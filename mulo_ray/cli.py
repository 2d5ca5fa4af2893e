"""From a command line to option dataclasses and an exit code: what every recipe in jobs/ shares.

Flags are generated from the dataclasses, so an option exists once. Knows no Ray, no model and no file format.
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
from typing import Any, TypeVar

import tyro

from mulo_ray.config import JobConfig
from mulo_ray.errors import MuloError, PromptError, UsageError
from mulo_ray.types import ExitCode, Report

Options = TypeVar("Options")


def parse_config(description: str, default: JobConfig, args: Sequence[str] | None = None) -> JobConfig:
    """A job's config from `args` (default: the command line), with flat flags such as --batch-size."""
    return parse(JobConfig, description, default, args)


def parse(kind: type[Options], description: str, default: Options, args: Sequence[str] | None = None) -> Options:
    """Any tree of option dataclasses from `args`.

    Exits with code 2 and one sentence when an option is unknown or a value is not allowed.
    """
    page = io.StringIO()  # tyro frames its complaints; ours are one sentence
    try:
        with contextlib.redirect_stderr(page):
            found: tuple[Options, list[str]] = tyro.cli(
                kind,
                description=description,
                args=list(sys.argv[1:] if args is None else args),
                default=default,
                config=(tyro.conf.OmitArgPrefixes,),
                return_unknown_args=True,
            )
    except SystemExit as end:
        if end.code:
            _complain(_sentence(page.getvalue()), ExitCode.USAGE)
        raise
    options, unknown = found
    if unknown:
        raise SystemExit(_complain(_unknown_option(unknown[0], option_names(default)), ExitCode.USAGE))
    return options


def main(job: Callable[[], Report | None]) -> int:
    """Run a recipe: its exit code, and for every error one sentence on stderr. A traceback means a bug of ours."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    try:
        report = job()
        return int(ExitCode.DONE if report is None else report.exit_code)
    except KeyboardInterrupt:
        return _complain("interrupted; the same command continues where this one stopped", ExitCode.INTERRUPTED)
    except (UsageError, PromptError) as error:
        return _complain(error, ExitCode.USAGE)
    except MuloError as error:
        return _complain(error, ExitCode.RUN_FAILED)
    except ModuleNotFoundError as error:
        return _complain(f"{error}; install what a run needs with: pip install -e '.[s3]'", ExitCode.RUN_FAILED)
    except Exception:
        traceback.print_exc()
        return _complain("the run failed with the unexpected error above", ExitCode.RUN_FAILED)


def option_names(options: Any) -> list[str]:
    """Every flag of a tree of option dataclasses, as typed."""
    names: list[str] = []
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        names += option_names(value) if dataclasses.is_dataclass(value) else ["--" + field.name.replace("_", "-")]
    return names


def _complain(error: object, code: ExitCode) -> int:
    print(f"error: {error}" if code is not ExitCode.INTERRUPTED else str(error), file=sys.stderr, flush=True)
    return int(code)


def _sentence(framed: str) -> str:
    """The first paragraph inside a frame of box-drawing characters."""
    inside = [line.strip(" \u2502") for line in framed.splitlines()[1:]]
    paragraph = itertools.takewhile(lambda line: line and not line.startswith(("\u2500", "\u2570")), inside)
    sentence = re.sub(r"^Error (parsing \w+: )?", "", " ".join(paragraph)).rstrip(".:")
    return f"{sentence}; --help lists what is allowed"


def _unknown_option(option: str, names: Sequence[str]) -> str:
    if not option.startswith("-"):
        return f"unexpected argument {option!r}: every option has a name, such as --limit 16; --help lists them"
    typed = option.partition("=")[0]
    near = difflib.get_close_matches(typed.replace("_", "-"), [*names, "--help"], n=1, cutoff=0.0)
    return f"unknown option {typed}: did you mean {near[0]}? --help lists all {len(names)} options"
