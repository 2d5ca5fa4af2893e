"""A local Ray of a run: started again when it fails; its folder goes also when the driver is killed."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from mulo_ray.workers.ray_folder import MARK, PREFIX, RayFolder

ROOT = Path(__file__).parents[2]
ENV = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"} | {"PYTHONPATH": str(ROOT)}
# Ray cannot get its port and gives up waiting for its servers, as it does on a machine that is too busy.
PORT_TAKEN = """
    import os, pathlib, socket, sys
    from mulo_ray.errors import RunError
    from mulo_ray.workers import ray_folder, session
    busy = socket.create_server(("0.0.0.0", 0))
    os.environ["RAY_GCS_SERVER_PORT"] = str(busy.getsockname()[1])
    os.environ["RAY_py_gcs_connect_timeout_s"] = "1"
    removed, paths = ray_folder.RayFolder.remove, []
    def remove(folder):
        removed(folder)
        paths.append(folder.path)
        if sys.argv[1] == "once":
            busy.close()
    ray_folder.RayFolder.remove = remove
    try:
        with session.session():
            print("up after", len(paths))
    except RunError as error:
        print(error)
    commands = [path.read_bytes() for path in pathlib.Path("/proc").glob("[0-9]*/cmdline")]
    print(len(paths), [p for p in paths if os.path.exists(p) or any(p.encode() in c for c in commands)])
"""


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("how_often", "words"), [("once", "up after 1"), ("always", "Ray did not start on this machine, tried 2 times (")]
)
def test_a_failed_start_is_cleaned_up_and_tried_once_more(how_often: str, words: str) -> None:
    """docs/reports.md D3: a sentence, no folder and no process left of either try."""
    command = [sys.executable, "-c", textwrap.dedent(PORT_TAKEN), how_often]
    done = subprocess.run(command, env=ENV, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[0].startswith(words)
    assert done.stdout.splitlines()[1] == "2 []"
    assert "Traceback" not in done.stderr


def test_folders_of_killed_drivers_go_and_no_others(tmp_path: Path) -> None:
    """reports D8: kill -9 leaves no chance to tidy; the next start does it."""
    code = (
        "import pathlib, sys, time; from mulo_ray.workers.ray_folder import RayFolder\n"
        "folder = RayFolder(pathlib.Path(sys.argv[1])); print(folder.path, flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, env=ENV, stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        theirs = Path(driver.stdout.readline().strip())
        (theirs / "session").mkdir()
        foreign = tmp_path / f"{PREFIX}-of-somebody-else"
        foreign.mkdir()
        mine = RayFolder(tmp_path)
        assert (theirs / MARK).read_text() == f"{driver.pid}\n"
        driver.send_signal(signal.SIGKILL)
        driver.wait()
    next_one = RayFolder(tmp_path)
    assert not theirs.exists()
    assert {str(path) for path in tmp_path.iterdir()} == {str(foreign), mine.path, next_one.path}
    mine.remove()
    next_one.remove()
    assert list(tmp_path.iterdir()) == [foreign]
