"""The figures of the embedded family: pictures of 1,210 captions with known concepts, made by the job and judged.

    python jobs/evaluate.py emoji --output out/emoji --data train/data
    python jobs/evaluate.py emoji --output out/emoji --limit 100 --decoder mulo
    python jobs/evaluate.py fit --data train/data       makes the judge and the statistics of real pictures again
    python jobs/evaluate.py prompts                     draws the captions again

Needs the extra `eval`. Run it again to continue or to check; docs/evaluation.md says what the figures mean.
"""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # also from an unpacked upload, with nothing installed

import tyro

from mulo_ray import cli, job
from mulo_ray.config import JobConfig
from mulo_ray.evaluation.emoji import commands
from mulo_ray.evaluation.emoji.evaluate import EMOJI_MD, EmojiOptions, Rows, evaluate
from mulo_ray.evaluation.emoji.figures import table
from mulo_ray.storage import Ledger, Store
from mulo_ray.types import Prompt


def emoji(options: EmojiOptions) -> None:
    """Make the pictures of the evaluation captions at 128 px, judge them, and print every figure beside its goal."""
    out = Store(options.output)
    figures = evaluate(options, _made, out, f"python jobs/evaluate.py {shlex.join(sys.argv[1:])}")
    print(table(figures))
    print(f"see {out.uri_of(EMOJI_MD)}")


def _made(config: JobConfig, prompts: Sequence[Prompt]) -> tuple[Store, Rows]:
    job.run(config, prompts)
    store = Store(config.output.output)
    return store, Ledger(store).rows()


STAGES = {"emoji": emoji, "fit": commands.fit, "prompts": commands.prompts}

if __name__ == "__main__":
    sys.exit(cli.main(lambda: tyro.extras.subcommand_cli_from_dict(STAGES, config=(tyro.conf.OmitArgPrefixes,))))
