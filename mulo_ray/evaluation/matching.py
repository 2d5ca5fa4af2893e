"""Blind matching: can a picture be told from its caption? Trials for a person (or a model) that sees nothing else.

From a finished run, each picture is put beside its own caption and seven others of the run, all shuffled; the answers
lie in a file of their own. Knows no metric and makes no image.
"""

import json
import random
from collections.abc import Mapping

from mulo_ray.errors import UsageError
from mulo_ray.evaluation.finished import RunStore, object_name
from mulo_ray.types import LedgerRow

CHOICES = 8


def write_trials(run: RunStore, rows: Mapping[tuple[str, int], LedgerRow], out: RunStore, seed: int = 0) -> int:
    """Write `pictures/NN.png`, `trials.json` (choices of each) and `answers.json`; returns the number of trials.

    Pictures are renumbered in random order. Raises UsageError for a run of fewer than eight different captions.
    """
    done = [row for _, row in sorted(rows.items()) if row.status == "ok"]
    captions = sorted({row.prompt for row in done})
    if len(captions) < CHOICES:
        raise UsageError(f"blind matching needs {CHOICES} different captions or more, got {len(captions)}")
    rng = random.Random(seed)
    rng.shuffle(done)
    trials, answers = {}, {}
    for number, row in enumerate(done):
        choices = [row.prompt, *rng.sample([text for text in captions if text != row.prompt], CHOICES - 1)]
        rng.shuffle(choices)
        name = f"{number:02d}"
        out.put(f"pictures/{name}.png", run.get(object_name(run, row)))
        trials[name], answers[name] = choices, choices.index(row.prompt)
    out.put("trials.json", (json.dumps(trials, indent=1) + "\n").encode())
    out.put("answers.json", (json.dumps(answers, indent=1) + "\n").encode())
    return len(trials)


def score(answers: Mapping[str, int], given: Mapping[str, int]) -> int:
    """How many pictures were matched to their own caption; a picture without a reply is a miss."""
    return sum(given.get(name) == index for name, index in answers.items())
