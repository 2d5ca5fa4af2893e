"""Imports follow the arrows of the architecture: jobs -> job -> workers -> decoding <- models <- training.

Read from the source by `ast`, so an import inside a function counts as well. The tables are the rule: a new room or a
new arrow is a decision, written here.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOUNS = frozenset({"types", "errors", "seeding", "config"})
# room -> rooms it may import, itself and the nouns apart
ROOMS: dict[str, set[str]] = {
    "types": set(),
    "errors": set(),
    "seeding": set(),
    "config": set(),
    "decoding": set(),
    "models": {"decoding"},
    "training": {"models", "decoding", "workers"},  # of workers, the session that starts Ray
    "prompts": set(),
    "storage": set(),
    "workers": {"decoding"},
    "evaluation": set(),
    "evaluation/emoji": {"evaluation", "models", "training"},  # judges a family; no run needs it
    "planning": set(),
    "resolve": {"models"},
    "cli": set(),
    "engine": {"models", "workers"},
    "single": {"decoding", "workers", "engine", "resolve"},
    "benchmark": {"bench", "engine", "prompts"},
    "bench": {"decoding", "models", "workers", "engine", "resolve", "prompts", "storage", "evaluation"},
    "work": {"workers", "engine"},
    "job": {"work", "decoding", "models", "prompts", "storage", "workers", "evaluation", "resolve", "engine"},
    "ray_benchmark": {
        *("benchmark", "decoding", "engine", "job", "models", "prompts", "resolve", "storage", "work", "workers"),
    },
    "__main__": {"cli", "single"},
    "__init__": set(),
}
# The nouns themselves lean on nothing but errors.
NOUN_ARROWS = {"types": set(), "errors": set(), "seeding": set(), "config": {"errors"}}
# heavy library -> the only rooms that may import it; other libraries are free
LIBRARIES: dict[str, set[str]] = {
    "ray": {"workers", "job", "training", "ray_benchmark"},
    "torch": {"decoding", "models", "training", "workers", "job", "single", "bench", "__main__", "evaluation/emoji"},
    "safetensors": {"models", "training"},
    "transformers": {"models"},
    "fsspec": {"storage", "prompts", "models", "training"},
    "s3fs": {"storage"},
    "matplotlib": {"evaluation", "training"},
    "jinja2": {"evaluation"},
    "tyro": {"cli", "__main__"},
}
# rooms that are torch and the nouns, and nothing else from outside the standard library
TORCH_ONLY = frozenset({"decoding"})


def room_of(path: Path) -> str:
    """The first folder or file stem below the package."""
    relative = path.relative_to(ROOT / "mulo_ray")
    if relative.parts[:2] == ("evaluation", "emoji"):
        return "evaluation/emoji"
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def imports(source: str) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of every import in a file; `from a import b` counts as a.b, as b may be a module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports are absolute"
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def wrong_arrows(room: str, source: str) -> list[str]:
    """Sentences for every import that `room` may not have."""
    wrong = []
    for line, name in imports(source):
        top, _, rest = name.partition(".")
        if top == "mulo_ray":
            other = rest.partition(".")[0]
            if other in ROOMS and other != room and other not in _allowed(room):
                wrong.append(f"line {line}: {room} must not import {other}")
        elif top in LIBRARIES and room not in LIBRARIES[top]:
            wrong.append(f"line {line}: {room} must not import {top}")
        elif room in TORCH_ONLY and top != "torch" and top not in sys.stdlib_module_names:
            wrong.append(f"line {line}: {room} knows torch only, not {top}")
    return wrong


def _allowed(room: str) -> set[str]:
    return NOUN_ARROWS[room] if room in NOUNS else ROOMS[room] | NOUNS


@pytest.mark.parametrize(
    "path", sorted((ROOT / "mulo_ray").rglob("*.py")), ids=lambda p: p.relative_to(ROOT).as_posix()
)
def test_arrows_point_the_right_way(path: Path) -> None:
    room = room_of(path)
    assert room in ROOMS, f"{room} is a new room: give it a line in the tables above"
    assert wrong_arrows(room, path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("decoding", "import ray"),
        ("decoding", "import ray.data"),
        ("decoding", "from mulo_ray.models import vq"),
        ("decoding", "from mulo_ray import models"),
        ("decoding", "import numpy"),
        ("prompts", "import torch.nn as nn"),
        ("storage", "def f():\n    from ray import data"),
        ("models", "import mulo_ray.workers.group"),
        ("workers", "from mulo_ray.models.family import load"),
        ("workers", "from mulo_ray.storage import Store"),
        ("evaluation", "from mulo_ray.job import run"),
        ("types", "from mulo_ray.config import JobConfig"),
        ("job", "from mulo_ray.training import tokenizer"),
    ],
)
def test_a_wrong_arrow_is_caught(room: str, source: str) -> None:
    assert len(wrong_arrows(room, source)) == 1


def test_a_right_arrow_is_left_alone() -> None:
    assert wrong_arrows("decoding", "import torch\nimport math\nfrom mulo_ray.errors import RunError") == []
    assert wrong_arrows("job", "import ray\nfrom mulo_ray.workers import stage") == []


@pytest.mark.parametrize("path", sorted((ROOT / "jobs").glob("*.py")), ids=lambda p: p.name)
def test_recipes_hold_no_mechanics(path: Path) -> None:
    """A job is a recipe of 60 lines at most, without a tensor or a call of Ray's."""
    source = path.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= 60
    assert {name.partition(".")[0] for _, name in imports(source)}.isdisjoint({"ray", "torch"})


def test_importing_the_package_loads_neither_ray_nor_torch() -> None:
    code = "import sys, mulo_ray, mulo_ray.config, mulo_ray.types; print(sorted({'ray', 'torch'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
