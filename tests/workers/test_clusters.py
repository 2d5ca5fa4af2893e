"""Groups on clusters of several nodes: across nodes, and on nodes that come later."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(420)]


def told(scene: str, folder: Path) -> dict[str, Any]:
    script = Path(__file__).with_name("cluster_script.py")
    command = [sys.executable, str(script), scene, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=410)
    assert done.returncode == 0, done.stderr[-3000:]
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def test_a_pair_over_two_nodes_survives_a_death_and_leaves_no_placement_group(tmp_path: Path) -> None:
    """ray#64035: the placement group is adopted by the group that Ray restarts, and gone after success and an abandoned
    run alike."""
    answer = told("spread", tmp_path)
    assert answer["sentence"] == "1 group of 2 roles, each on 2 GPU across nodes"
    assert answer["ok"] == 6
    assert answer["retried"] >= 1
    assert answer["lanes"] == ["group 1 drafter", "group 1 target"]
    assert (answer["after_success"], answer["held"], answer["after_close"]) == ([], 1, [])


def test_a_group_on_a_node_that_comes_later_joins(tmp_path: Path) -> None:
    answer = told("grow", tmp_path)
    assert (answer["started"], answer["done"]) == (1, 40)
    assert answer["lanes"] == ["group 1 drafter", "group 1 target", "group 2 drafter", "group 2 target"]
