"""What `ray job submit --working-dir .` sends: small, complete, and enough to run from.

docs/reports.md D11: the whole repository is uploaded, "Request Entity Too Large"; here the limit is 45 MB with weights.
"""

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from ray_head import ray_environment

MAX_MB = 45


def test_upload_is_small_and_complete(upload: Path, tree: Path) -> None:
    assert upload.stat().st_size < MAX_MB * 10**6
    names = set(zipfile.ZipFile(upload).namelist())
    package = {path.relative_to(tree).as_posix() for path in (tree / "mulo_ray").rglob("*") if path.is_file()}
    recipes = {path.relative_to(tree).as_posix() for path in (tree / "jobs").glob("*.py")}
    assert "jobs/coco5k.py" in recipes
    assert (package | recipes) - names == set(), "left behind: weights, captions and templates must travel"
    assert {name.partition("/")[0] for name in names}.isdisjoint(
        {"checkpoints", ".git", "out", ".venv", "tests", "docs"}
    )


def test_rayignore_alone_is_enough(tree: Path, tmp_path: Path) -> None:
    """A submitter that forgets --runtime-env must not ship 300 MB either."""
    packaging = pytest.importorskip("ray._private.runtime_env.packaging", reason="needs ray")
    target = tmp_path / "package.zip"
    packaging.create_package(str(tree), target, include_gitignore=False, excludes=[])
    assert target.stat().st_size < MAX_MB * 10**6


def test_the_measure_sees_a_big_file(tree: Path, tmp_path: Path) -> None:
    """Without excludes the sparse files are in: the test above can fail."""
    packaging = pytest.importorskip("ray._private.runtime_env.packaging", reason="needs ray")
    (bare := tmp_path / "bare").mkdir()
    (bare / "checkpoints").symlink_to(tree / "checkpoints")
    packaging.create_package(str(bare), tmp_path / "package.zip", include_gitignore=True, excludes=[])
    info = zipfile.ZipFile(tmp_path / "package.zip").infolist()
    assert sum(member.file_size for member in info) >= 300 << 20


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_job_runs_from_the_upload_alone(upload: Path, tmp_path: Path) -> None:
    """The package is not installed: -S leaves out what an editable install adds; libraries come by PYTHONPATH."""
    (unpacked := tmp_path / "unpacked").mkdir()
    zipfile.ZipFile(upload).extractall(unpacked)
    libraries = dict.fromkeys((sysconfig.get_path("purelib"), sysconfig.get_path("platlib")))
    (home := tmp_path / "home").mkdir()
    environment = ray_environment(home) | {"PYTHONPATH": os.pathsep.join([str(unpacked), *libraries])}
    del environment["RAY_TMPDIR"]  # its path would be too long for Ray's sockets
    probe = [sys.executable, "-S", "-c", "import mulo_ray; print(mulo_ray.__file__)"]
    found = subprocess.run(probe, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert found.stdout.strip().startswith(str(unpacked))
    out = tmp_path / "out"
    command = [sys.executable, "-S", "jobs/coco5k.py", "--limit", "2", "--output", str(out)]
    run = subprocess.run(command, env=environment, cwd=unpacked, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    assert json.loads((out / "report.json").read_text())["made"] == 2
    assert len([path for path in (out / "images").rglob("*") if path.is_file()]) == 2
