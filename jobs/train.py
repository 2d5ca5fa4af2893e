"""Train a family: data -> tokenizer -> scale (32, 64, 128 px) -> publish. Each stage resumes; docs/training.md."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tyro

from mulo_ray.cli import main
from mulo_ray.training import commands

STAGES = {
    "data": commands.data,
    "tokenizer": commands.tokenizer,
    "scale": commands.scale,
    "rescaler": commands.rescaler,
    "eagle": commands.eagle,
    "publish": commands.publish,
    "smoke": commands.smoke,
}

if __name__ == "__main__":
    sys.exit(main(lambda: tyro.extras.subcommand_cli_from_dict(STAGES, config=(tyro.conf.OmitArgPrefixes,))))
