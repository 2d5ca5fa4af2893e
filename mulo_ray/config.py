"""Every option of a job, one narrow frozen dataclass per layer; the CLI is generated from them.

A field marked `pixels` changes image bytes: exactly these enter the pixel hash that guards a resume.
Options left None are filled from the family's metadata by `mulo_ray.job`, then hashed.
"""

import dataclasses
import hashlib
import json
from dataclasses import dataclass, field
from typing import Any, Literal

from mulo_ray.errors import UsageError

PIXELS = {"pixels": True}
DecoderName = Literal["ar", "zipar", "mulo", "exact", "speculative", "eagle2", "lantern"]
GroupName = Literal["1:1", "1:2", "1:3", "shared", "auto"]
PAIRS = frozenset({"mulo", "exact"})
"""Decoders whose drafter is a role of its own, on a device of its own."""


def _pixel_field(default: Any) -> Any:
    return field(default=default, metadata=PIXELS)


def _require(ok: bool, option: str, got: object, allowed: str) -> None:
    if not ok:
        raise UsageError(f"--{option} must be {allowed}, got {got!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class InputOptions:
    """Which prompts, and how many images of each."""

    captions_file: str | None = None
    """Captions file or fsspec URI; none: the job's own default."""
    captions: Literal["longest", "first", "all"] = "longest"
    """Which captions of an image a COCO file contributes."""
    limit: int | None = None
    """Use only the first LIMIT prompts."""
    samples_per_prompt: int = 1
    """Images per prompt, numbered from 0."""

    def __post_init__(self) -> None:
        _require(self.limit is None or self.limit >= 1, "limit", self.limit, "1 or more")
        _require(self.samples_per_prompt >= 1, "samples-per-prompt", self.samples_per_prompt, "1 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """Which family, at which sizes."""

    family: str = _pixel_field("emoji")
    """Model family."""
    weights: str | None = None
    """Directory, fsspec URI or hub id of the weights; none: the family's own."""
    drafter_px: int | None = _pixel_field(None)
    """Drafter image side in pixels (None: family default)."""
    target_px: int | None = _pixel_field(None)
    """Target image side in pixels, an integer multiple of the drafter's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingOptions:
    """guidance -> temperature -> top-k -> top-p -> softmax (one function for all: docs/method.md section 1)."""

    guidance: float | None = _pixel_field(None)
    """Classifier-free guidance scale s in u + s(c - u); 1 is off."""
    temperature: float | None = _pixel_field(None)
    """0 is greedy."""
    top_k: int | None = _pixel_field(None)
    """Keep the K likeliest codes; 0 keeps all."""
    top_p: float | None = _pixel_field(None)
    """Keep the smallest set of codes with this mass."""
    seed: int = _pixel_field(0)
    """Run seed; with the prompt key and sample number it decides every draw."""

    def __post_init__(self) -> None:
        _require(self.guidance is None or 0 <= self.guidance <= 100, "guidance", self.guidance, "between 0 and 100")
        heat = self.temperature
        _require(heat is None or 0 <= heat <= 100, "temperature", heat, "between 0 (greedy) and 100")
        _require(self.top_k is None or self.top_k >= 0, "top-k", self.top_k, "0 (off) or more")
        _require(self.top_p is None or 0 < self.top_p <= 1, "top-p", self.top_p, "in (0, 1]")


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderOptions:
    """How tokens are made: docs/method.md, 2 to 5. `exact`, `eagle2` and tau > 1 with raster redraw equal `ar`,
    `speculative` draws from the same distribution; the rest is relaxed."""

    decoder: DecoderName = _pixel_field("mulo")
    """Decoding method."""
    tau: float | None = _pixel_field(None)
    """Accept a draft cell when the target's mass on its neighbourhood reaches tau."""
    neighbours: int | None = _pixel_field(None)
    """k: codes in a neighbourhood, the code itself included; 1 is no pooling."""
    radius: int | None = _pixel_field(None)
    """l: cells around a rejected one that are resampled with it."""
    redraw: Literal["raster", "serial", "islands"] | None = _pixel_field(None)
    """Order of resampling."""
    rows_per_cycle: int | None = _pixel_field(None)
    """d: drafter rows per cycle; 0 is the whole image."""
    zipar_window: int | None = _pixel_field(None)
    """s: ZipAR window of drafting, islands and the zipar decoder; 0 is plain raster order."""
    upsampler: Literal["pixel", "nearest", "latent"] | None = _pixel_field(None)
    """How draft tokens are lifted to the target's grid."""
    refresh_cache: bool | None = _pixel_field(None)
    """One more target forward per cycle, so that later rows see final tokens."""
    verify_window: int | None = _pixel_field(None)
    """Cells of an image that `exact` looks at in one forward; 0 is the whole block."""
    chain: int | None = _pixel_field(None)
    """Tokens that the drafter of `speculative` draws between two forwards of the target."""
    tree: Literal["dynamic", "static"] | None = _pixel_field(None)
    """Shape of draft trees: by the head's probabilities (EAGLE-2), or always the same (LANTERN++)."""
    tree_depth: int | None = _pixel_field(None)
    """Levels of a draft tree."""
    tree_top_k: int | None = _pixel_field(None)
    """Nodes expanded per level, and tokens each is expanded by."""
    tree_nodes: int | None = _pixel_field(None)
    """Nodes of a draft tree that the target looks at."""
    lantern_k: int | None = _pixel_field(None)
    """Codes in a neighbourhood of `lantern`, the code itself included."""
    lantern_delta: float | None = _pixel_field(None)
    """LANTERN: neighbours count while their mass stays at or below delta; 0 is exact."""
    lantern_lambda: float | None = _pixel_field(None)
    """LANTERN++ in place of delta: neighbours count while their mass stays within (lambda - 1) times the code's own."""

    def __post_init__(self) -> None:
        for option, value, least in (
            ("verify-window", self.verify_window, 0),
            ("chain", self.chain, 1),
            ("tree-depth", self.tree_depth, 1),
            ("tree-top-k", self.tree_top_k, 1),
            ("tree-nodes", self.tree_nodes, 1),
            ("lantern-k", self.lantern_k, 1),
            ("lantern-lambda", self.lantern_lambda, 1),
        ):
            _require(value is None or value >= least, option, value, f"{least} or more")
        delta = self.lantern_delta
        _require(delta is None or 0 <= delta <= 1, "lantern-delta", delta, "between 0 (exact) and 1")
        _require(
            delta is None or self.lantern_lambda is None,
            "lantern-lambda",
            self.lantern_lambda,
            "left out where --lantern-delta is given: they are two rules",
        )
        _require(self.tau is None or self.tau >= 0, "tau", self.tau, "0 or more (above 1 rejects everything)")
        _require(self.neighbours is None or self.neighbours >= 1, "neighbours", self.neighbours, "1 or more")
        _require(self.radius is None or self.radius >= 0, "radius", self.radius, "0 or more")
        _require(
            self.rows_per_cycle is None or self.rows_per_cycle >= 0,
            "rows-per-cycle",
            self.rows_per_cycle,
            "0 (whole image) or more",
        )
        _require(
            self.zipar_window is None or self.zipar_window >= 0, "zipar-window", self.zipar_window, "0 (off) or more"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Where it runs: nothing here changes a pixel, but `batch_invariant` (and the batch size when that is off) and
    more than one thread."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """auto takes GPUs when Ray sees any, else CPUs."""
    batch_size: int = 8
    """Prompts per micro-batch: the unit of work, retry and resume."""
    in_flight: int = 3
    """Micro-batches in flight per target; 1 turns pipelining off."""
    group: GroupName = "1:1"
    """Drafters to targets of a group; shared: both in one process; auto measures, chooses and says why."""
    groups: int | None = None
    """Worker groups (None: what the cluster holds)."""
    min_groups: int = 1
    """Refuse to start below this many groups."""
    wait_for_gpus: float = 0.0
    """Seconds to wait for devices of a cluster that is still scaling up."""
    span_nodes: bool = False
    """A group that no node is large enough for may take GPUs of several."""
    threads: int = 1
    """Torch threads per role process on CPUs; part of the pixel hash where it is not 1."""
    batch_invariant: bool = _pixel_field(True)
    """Bytes do not depend on batch size, groups or retries."""

    def __post_init__(self) -> None:
        for option, value in (
            ("batch-size", self.batch_size),
            ("in-flight", self.in_flight),
            ("min-groups", self.min_groups),
            ("threads", self.threads),
        ):
            _require(value >= 1, option, value, "1 or more")
        _require(self.groups is None or self.groups >= 1, "groups", self.groups, "1 or more")
        _require(self.wait_for_gpus >= 0, "wait-for-gpus", self.wait_for_gpus, "0 or more seconds")

    @property
    def targets(self) -> int:
        """Targets of one group."""
        return {"1:2": 2, "1:3": 3}.get(self.group, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputOptions:
    """Where images, ledger and report go."""

    output: str = "out/run"
    """Local directory or fsspec URI (s3://bucket/prefix)."""
    max_failed: int = 0
    """Failed rows the exit code forgives."""
    verbose: bool = False
    """More log lines."""

    def __post_init__(self) -> None:
        _require(bool(self.output.strip()), "output", self.output, "a directory or a URI")
        _require(self.max_failed >= 0, "max-failed", self.max_failed, "0 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobConfig:
    """A whole job: what a recipe in jobs/ hands to `mulo_ray.job.run`."""

    input: InputOptions = InputOptions()
    model: ModelOptions = ModelOptions()
    sampling: SamplingOptions = SamplingOptions()
    decoding: DecoderOptions = DecoderOptions()
    run: RunOptions = RunOptions()
    output: OutputOptions = OutputOptions()

    def pixel_fields(self) -> dict[str, Any]:
        """Exactly the resolved fields that change pixels (the batch size only when invariance is off)."""
        fields = {
            f.name: getattr(section, f.name)
            for section in (self.model, self.sampling, self.decoding, self.run)
            for f in dataclasses.fields(section)
            if f.metadata.get("pixels")
        }
        if not self.run.batch_invariant:
            fields["batch_size"] = self.run.batch_size
        if self.run.threads != 1:  # sums may then be taken in another order
            fields["threads"] = self.run.threads
        return fields


def pixel_hash(fields: dict[str, Any]) -> str:
    """Sixteen hex digits over canonical JSON of `fields` (pixel fields plus what the job adds: weights, format)."""
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:16]
