"""From options and a run's report to a plan in words: what `jobs/plan.py` does. Reads no file itself."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mulo_ray.errors import UsageError
from mulo_ray.planning.cluster import Cluster
from mulo_ray.planning.phases import Measured, Phases, read_report
from mulo_ray.planning.plan import Question, check_text, choices, plan_text


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """Phase times, from a report or by hand, and the cluster that is asked about."""

    report: str | None = None
    """Output of a run, or its report.json: a path or URI. Phase times given as options replace the report's."""
    drafter_s: float | None = None
    """Busy seconds of a drafter per micro-batch; none without a report: a decoder that needs no drafter."""
    target_s: float | None = None
    """Busy seconds of a target per micro-batch."""
    render_s: float | None = None
    """Seconds from tokens to files per micro-batch, beside the target."""
    put_s: float | None = None
    """Seconds to store one image."""
    batch_size: int | None = None
    """Images per micro-batch (none: the report's, else 8)."""
    cycles: int | None = None
    """Hand-overs of drafts per micro-batch (none: the report's, else 1)."""
    nodes: int = 1
    """Nodes of the cluster, all alike."""
    gpus_per_node: int = 0
    """GPUs of a node."""
    cores: int = 0
    """Cores of a node, for runs on CPUs."""
    threads: int = 1
    """Cores that a role keeps busy."""
    prompts: int | None = None
    """Images to make (none: as many as the report's job has)."""
    in_flight: int | None = None
    """Micro-batches in flight per target (none: the fewest that are as fast as any)."""
    group: str | None = None
    """Only this shape of group."""
    start_s: float = 60.0
    """Start-up before the first micro-batch."""
    store_puts_per_s: float = 0.0
    """Most images per second that the store takes; 0: no limit."""


def plan(options: PlanOptions, report: Mapping[str, Any] | None) -> str:
    """The plan, and how near the model comes to the measured run. Raises UsageError for what cannot be planned."""
    cluster = Cluster(
        nodes=options.nodes, gpus_per_node=options.gpus_per_node, cores=options.cores, threads=options.threads
    )
    measured = None if report is None else read_report(report)
    images = options.prompts if options.prompts is not None else measured.images if measured else 0
    question = Question(
        phases=_phases(options, measured),
        cluster=cluster,
        images=images,
        in_flight=options.in_flight,
        group=options.group,
        start_s=options.start_s,
        store_puts_per_s=options.store_puts_per_s,
    )
    text = plan_text(question, choices(question))
    return text if measured is None else f"{text}\n{check_text(measured, cluster)}"


def _phases(options: PlanOptions, measured: Measured | None) -> Phases:
    names = ("drafter_s", "target_s", "render_s", "put_s", "batch_size", "cycles")
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    if measured is not None:
        return dataclasses.replace(measured.phases, **given)
    if options.target_s is None:
        raise UsageError(
            "a plan needs measured phase times: give --report OUTPUT of a run, or --target-s (and --drafter-s) in "
            "seconds per micro-batch"
        )
    return Phases(**given)
