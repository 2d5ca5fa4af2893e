"""Command lines that end before any work: exit code 2 or 1, one sentence on stderr, no traceback."""

import subprocess
import sys
from pathlib import Path

import pytest

from mulo_ray import cli
from mulo_ray.config import JobConfig

ROOT = Path(__file__).parents[2]
ISSUE_FLAGS = (
    "--captions-file --captions --limit --output --family --drafter-px --target-px --decoder --tau --neighbours "
    "--radius --redraw --rows-per-cycle --zipar-window --upsampler --refresh-cache --guidance --temperature "
    "--top-k --top-p --samples-per-prompt --batch-size --in-flight --groups --min-groups --seed --device --max-failed "
    "--batch-invariant --verbose --wait-for-gpus --weights --verify-window --chain --tree --tree-depth --tree-top-k "
    "--tree-nodes --lantern-k --lantern-delta --lantern-lambda --group --span-nodes --threads"
).split()


def test_the_flags_are_frozen() -> None:
    """A new flag is a decision: it is written here too."""
    assert sorted(cli.option_names(JobConfig())) == sorted(ISSUE_FLAGS)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ("--limti 3", "unknown option --limti: did you mean --limit?"),
        ("--batch_sise 3", "did you mean --batch-size?"),
        ("--limit 0", "--limit must be 1 or more, got 0"),
        ("--limit many", "--limit"),
        ("--decoder fast", "Expected one of ('ar', 'zipar', 'mulo', 'exact', 'speculative', 'eagle2', 'lantern')"),
        ("--lantern-delta 2", "--lantern-delta must be between 0 (exact) and 1, got 2.0"),
        ("--lantern-lambda 0.5", "--lantern-lambda must be 1 or more, got 0.5"),
        ("--lantern-delta 0.1 --lantern-lambda 2", "left out where --lantern-delta is given"),
        ("--chain 0", "--chain must be 1 or more, got 0"),
        ("--top-p 1.2", "--top-p must be in (0, 1], got 1.2"),
        ("a picture", "unexpected argument 'a'"),
    ],
)
def test_a_wrong_option_is_one_sentence(args: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli.parse_config("test", JobConfig(), args.split())
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert words in said
    assert len(said.splitlines()) == 1


def test_right_options_arrive() -> None:
    args = "--limit 3 --no-batch-invariant --redraw islands --refresh-cache True --tau 0.2 --output s3://b/p".split()
    config = cli.parse_config("test", JobConfig(), args)
    assert config.input.limit == 3
    assert not config.run.batch_invariant
    assert (config.decoding.redraw, config.decoding.refresh_cache, config.decoding.tau) == ("islands", True, 0.2)
    assert config.output.output == "s3://b/p"


@pytest.mark.parametrize(
    ("recipe", "args", "words"),
    [
        ("prompts", [], "--captions-file is needed"),
        ("prompts", ["--captions-file", "nowhere.jsonl"], "nowhere.jsonl"),
        ("coco5k", ["--family", "emoij"], "did you mean 'emoji'?"),
    ],
)
def test_a_recipe_refuses_in_one_sentence(recipe: str, args: list[str], words: str, tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "jobs" / f"{recipe}.py"), *args]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=50)
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir()), "a refused command leaves nothing behind"


def test_recipes_are_short() -> None:
    for recipe in ("coco5k", "prompts"):
        assert len((ROOT / "jobs" / f"{recipe}.py").read_text().splitlines()) <= 60


def test_without_ray_a_recipe_says_what_to_install(tmp_path: Path) -> None:
    """docs/reports.md C9: a missing extra is an error with an instruction, never an empty success."""
    code = (
        f"import sys, runpy; sys.modules['ray'] = None; sys.argv = ['x', '--output', {str(tmp_path / 'o')!r}]; sys.path"
    )
    code += f".insert(0, {str(ROOT / 'tests' / 'jobs')!r}); runpy.run_path({str(ROOT / 'tests/jobs/stub_job.py')!r}, "
    code += "run_name='__main__')"
    captions = tmp_path / "one.txt"
    captions.write_text("a cat\n")
    code = code.replace("'--output'", f"'--captions-file', {str(captions)!r}, '--output'")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50)
    assert done.returncode == 1, done.stderr
    assert "pip install" in done.stderr
    assert "Traceback" not in done.stderr
