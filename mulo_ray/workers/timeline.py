"""What the devices of a run did, second by second, in a fixed amount of memory per device; and medians per micro-batch.

Lives in the driver, which hands it the timing of every micro-batch as it arrives. Knows no Ray and no model.
"""

from array import array
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mulo_ray.workers.role_clock import Lap

BINS = 256
"""Stretches of equal length that a lane is cut into; the length doubles when the run outgrows them."""
FIRST_BIN_S = 0.05
SAMPLES = 4096
EARLIER_S = 2.0
"""The lanes begin so long before the first lap that arrives: one that began earlier may arrive later."""
MIDDLE = 0.1, 0.9
"""The completions between which a rate is taken: start-up and the last stragglers left out."""


class Sample:
    """Evenly thinned values of a stream, for a median in bounded memory."""

    def __init__(self) -> None:
        self._values: list[float] = []
        self._seen, self._every = 0, 1

    def add(self, value: float) -> None:
        if self._seen % self._every == 0:
            self._values.append(value)
            if len(self._values) == SAMPLES:
                self._values, self._every = self._values[::2], 2 * self._every
        self._seen += 1

    def median(self) -> float | None:
        return float(np.median(self._values)) if self._values else None


class _Lane:
    """Busy and waiting seconds of one role per bin, and in all."""

    def __init__(self, label: str, device: str) -> None:
        self.label, self.device = label, device
        self.bins = np.zeros((2, BINS), np.float32)
        self.total = np.zeros(2)


class Timeline:
    """Built when the stage starts; `add` takes what a group says of one micro-batch."""

    def __init__(self) -> None:
        self._origin: float | None = None
        self._bin_s = FIRST_BIN_S
        self._lanes: dict[tuple[str, str], _Lane] = {}
        self._groups: dict[str, int] = {}
        self._first, self._last = float("inf"), 0.0
        self._finished = array("d")
        self._images = array("l")
        self._samples: dict[str, Sample] = {}

    def add(self, timing: Mapping[str, Any]) -> None:
        """`timing` is what `crew.Decoded` says of one micro-batch."""
        group = self._groups.setdefault(timing["group"], len(self._groups) + 1)
        self._finished.append(timing["finished"])
        self._images.append(timing["images"])
        for lane in timing["lanes"]:
            key = timing["group"], lane["role"]
            if key not in self._lanes:
                self._lanes[key] = _Lane(f"group {group} {lane['role']}", lane["device"])
            for lap in lane["laps"]:
                self._add_lap(self._lanes[key], lap)
        for name, seconds in timing["seconds"].items():
            self._samples.setdefault(name, Sample()).add(seconds)

    def add_put(self, seconds: float) -> None:
        """Storing one image took so long."""
        self._samples.setdefault("put_s", Sample()).add(seconds)

    def phases(self) -> dict[str, Any]:
        """Medians per micro-batch (`put_s`: per image) and the rate over the middle of the run, in seconds and
        images per second; None where nothing was measured."""
        medians = {name: sample.median() for name, sample in self._samples.items()}
        known = ("drafter_s", "target_s", "render_s", "put_s")
        return {name: medians.get(name) for name in known} | {
            "micro_batches": len(self._finished),
            "images_per_s": self._rate(),
        }

    def lanes(self) -> dict[str, Any]:
        """{seconds, bin_s, lanes}: what each device did from the first work of the run to its last; shares sum to 1,
        `busy` and `wait` are shares of each bin."""
        if self._origin is None:
            return {"seconds": 0.0, "bin_s": 0.0, "lanes": []}
        seconds = self._last - self._first
        first = int(max(0.0, self._first - self._origin) / self._bin_s)
        stop = min(BINS, int(max(0.0, self._last - self._origin) / self._bin_s) + 1)
        lanes = []
        for lane in sorted(self._lanes.values(), key=lambda lane: _natural(lane.label)):
            busy, wait = (float(total) / seconds if seconds else 0.0 for total in lane.total)
            shares = np.minimum(1.0, lane.bins[:, first:stop] / self._bin_s)
            lanes.append(
                {
                    "label": lane.label,
                    "device": lane.device,
                    "busy_share": round(busy, 4),
                    "wait_share": round(wait, 4),
                    "idle_share": round(max(0.0, 1 - busy - wait), 4),
                    "busy": np.round(shares[0], 2).tolist(),
                    "wait": np.round(shares[1], 2).tolist(),
                }
            )
        return {"seconds": round(seconds, 3), "bin_s": self._bin_s, "lanes": lanes}

    def _add_lap(self, lane: _Lane, lap: Lap | Sequence[float]) -> None:
        start, end, waited = lap
        origin = self._origin = start - EARLIER_S if self._origin is None else self._origin
        self._first, self._last = min(self._first, start), max(self._last, end)
        while end - origin >= BINS * self._bin_s:
            self._bin_s *= 2
            for one in self._lanes.values():
                one.bins = np.hstack([one.bins.reshape(2, -1, 2).sum(2), np.zeros((2, BINS // 2), np.float32)])
        for kind, (low, high) in enumerate(((start, end), (start - waited, start))):
            lane.total[kind] += high - low
            # Clocks of two nodes may differ: what seems to lie before the run counts at its beginning.
            low, high = (max(0.0, moment - origin) / self._bin_s for moment in (low, high))
            for index in range(int(low), min(BINS - 1, int(high)) + 1):
                lane.bins[kind, index] += max(0.0, min(high, index + 1) - max(low, index)) * self._bin_s

    def _rate(self) -> float | None:
        if len(self._finished) < 3:
            return None
        order = np.argsort(self._finished)
        moments, images = np.array(self._finished)[order], np.cumsum(np.array(self._images)[order])
        low, high = (min(len(images) - 1, int(np.searchsorted(images, share * images[-1]))) for share in MIDDLE)
        seconds = moments[high] - moments[low]
        return float((images[high] - images[low]) / seconds) if high > low and seconds > 0 else None


def _natural(label: str) -> tuple[int, str]:
    """Group 10 comes after group 2."""
    _, number, role = label.split(" ", 2)
    return int(number), role
