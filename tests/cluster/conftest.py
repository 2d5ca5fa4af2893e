"""The upload of a job, as Ray's own packaging makes it from this tree."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the working tree (what git does not ignore) as a user's folder looks after weeks of use."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("not a git checkout: what belongs to the tree cannot be told")
    copy = tmp_path_factory.mktemp("tree")
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, copy / name)
    for big in ("checkpoints/llamagen.safetensors", ".git/objects/pack", "out/coco5k/images/all", ".venv/lib/torch"):
        (copy / big).parent.mkdir(parents=True, exist_ok=True)
        with (copy / big).open("wb") as sparse:
            sparse.truncate(300 << 20)
    return copy


@pytest.fixture(scope="session")
def excludes() -> list[str]:
    """What cluster/runtime_env.yaml leaves out."""
    found: list[str] = yaml.safe_load((ROOT / "cluster" / "runtime_env.yaml").read_text(encoding="utf-8"))["excludes"]
    return found


@pytest.fixture(scope="session")
def upload(tree: Path, excludes: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The zip that `ray job submit --runtime-env cluster/runtime_env.yaml --working-dir .` sends."""
    packaging = pytest.importorskip("ray._private.runtime_env.packaging", reason="needs ray")
    target = tmp_path_factory.mktemp("upload") / "package.zip"
    packaging.create_package(str(tree), target, include_gitignore=True, excludes=excludes)
    yield target
    target.unlink()
