"""What `jobs/evaluate.py emoji` does: pictures of the evaluation captions, made by the job itself, and their figures.

Whoever calls hands in how a run is made and where results go. Knows no Ray, no storage backend and no decoder.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mulo_ray.config import (
    DecoderName,
    DecoderOptions,
    JobConfig,
    ModelOptions,
    OutputOptions,
    RunOptions,
    SamplingOptions,
)
from mulo_ray.evaluation.emoji.figures import Figure, distance_figures, figure, judge_figures, markdown
from mulo_ray.evaluation.emoji.held_out_figures import scale_figures, tokenizer_figures
from mulo_ray.evaluation.emoji.kit import load_kit
from mulo_ray.evaluation.emoji.prompts import EvalPrompt, read_eval_prompts
from mulo_ray.evaluation.emoji.real import real_rates
from mulo_ray.evaluation.emoji.scoring import Scores, pictures_of_run, score
from mulo_ray.evaluation.finished import RunStore
from mulo_ray.evaluation.summary import summarise
from mulo_ray.models.catalog import FamilyCard, read_card
from mulo_ray.models.emoji.tokenizer import load_vq
from mulo_ray.models.lite0 import load_network
from mulo_ray.types import LedgerRow, Prompt

PAIRS = ((64, 128), (32, 128))
TARGET_PX = 128
EMOJI_JSON, EMOJI_MD = "emoji.json", "emoji.md"

Rows = Mapping[tuple[str, int], LedgerRow]
Make = Callable[[JobConfig, Sequence[Prompt]], tuple[RunStore, Rows]]
"""Makes what a config's output lacks; the output and its effective ledger rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmojiOptions:
    """What is evaluated, and on how many captions."""

    output: str = "out/emoji"
    """Local directory or URI: the runs, emoji.json and emoji.md. The same command continues."""
    limit: int | None = None
    """Only the first LIMIT of the evaluation captions."""
    decoder: DecoderName = "ar"
    """Decoder of the pictures that are judged."""
    weights: str | None = None
    """Folder of other weights of the emoji family."""
    data: Path | None = None
    """Picture set (train/data): adds PSNR, codes used and likelihoods, and round trips with these very weights."""
    guidance: float | None = None
    temperature: float | None = None
    seed: int = 0
    acceptance: int = 48
    """Captions on which drafts are offered to the 128 px scale; 0 leaves that out."""
    nll: int = 200
    """Pictures per split for likelihoods; 200 are all that is held out."""
    batch_size: int = 16
    device: Literal["auto", "cpu", "cuda"] = "auto"

    def config(self, folder: str, decoder: DecoderName, drafter_px: int | None = None) -> JobConfig:
        """The run of one decoder."""
        return JobConfig(
            model=ModelOptions(weights=self.weights, drafter_px=drafter_px, target_px=TARGET_PX),
            sampling=SamplingOptions(guidance=self.guidance, temperature=self.temperature, seed=self.seed),
            decoding=DecoderOptions(decoder=decoder),
            run=RunOptions(batch_size=self.batch_size, device=self.device),
            output=OutputOptions(output=f"{self.output.rstrip('/')}/{folder}"),
        )


def evaluate(options: EmojiOptions, make: Make, out: RunStore, command: str) -> list[Figure]:
    """Make, score and write emoji.json and emoji.md; the figures, those with goals first.

    Raises UsageError where the extra `eval` is missing, before anything is made, and whatever `make` raises.
    """
    load_network()
    kit, card = load_kit(), read_card("emoji", options.weights)
    prompts = read_eval_prompts(options.limit)
    vq = load_vq(card.folder)
    store, rows = make(options.config(options.decoder, options.decoder), _job_prompts(prompts))
    scores = score(kit, pictures_of_run(store, rows, prompts), prompts)
    real, note = real_rates(kit, prompts, vq, options.data)
    figures = judge_figures(scores, real, note) + distance_figures(scores, kit.figures)
    figures += _acceptance(options, card, make, prompts[: options.acceptance])
    if options.data is not None:
        figures += _held_out(options, card, options.data)
    figures.sort(key=lambda one: one.goal is None)
    _write(out, options, card, figures, scores, prompts, command)
    return figures


def _acceptance(options: EmojiOptions, card: FamilyCard, make: Make, prompts: Sequence[EvalPrompt]) -> list[Figure]:
    found = []
    for low, high in PAIRS:
        if low in card.scales and prompts:
            config = options.config(f"mulo-{low}-{high}", "mulo", drafter_px=low)
            _, rows = make(config, _job_prompts(prompts))
            wanted = {(prompt.key, 0) for prompt in prompts}
            shares = summarise(row for key, row in rows.items() if key in wanted).shares
            tau = card.defaults_for(low, high)["tau"]
            note = f"{len(prompts)} captions, tau {tau}"
            found.append(figure(f"{low} -> {high} px: draft cells accepted", shares.get("accepted"), "share", note))
    return found


def _held_out(options: EmojiOptions, card: FamilyCard, data: Path) -> list[Figure]:
    vq = load_vq(card.folder)
    measured = tokenizer_figures(vq, data)
    found = [figure(f"tokenizer: PSNR at {px} px", measured[f"held_out_psnr_{px}px"], "dB") for px in (128, 64, 32)]
    found.append(figure("tokenizer: codes used", measured["codes_used"], "share", "by held-out pictures"))
    note = f"at most {options.nll} pictures of each split"
    for name, value in scale_figures(card, vq, data, options.nll).items():
        found.append(figure(name.replace("_", " "), value, "nats/token", note))
    return found


def _job_prompts(prompts: Sequence[EvalPrompt]) -> list[Prompt]:
    return [Prompt(key=prompt.key, text=prompt.text, source="eval_prompts.jsonl") for prompt in prompts]


def _write(
    out: RunStore,
    options: EmojiOptions,
    card: FamilyCard,
    figures: Sequence[Figure],
    scores: Scores,
    prompts: Sequence[EvalPrompt],
    command: str,
) -> None:
    page: dict[str, Any] = {
        "command": command,
        "weights": card.weights_fingerprint,
        "decoder": options.decoder,
        "captions": len(prompts),
        "missing": scores.missing,
        "figures": [one.as_dict(command) for one in figures],
        "ranks": {prompt.key: int(rank) for prompt, rank in zip(prompts, scores.ranks, strict=True)},
    }
    out.put(EMOJI_JSON, (json.dumps(page, indent=1) + "\n").encode())
    head = f"# The emoji family by {options.decoder}, {len(prompts)} captions\n\n`{command}`\n\n"
    head += f"Weights {card.weights_fingerprint}; {scores.missing} captions without a picture count as misses.\n\n"
    out.put(EMOJI_MD, (head + markdown(figures)).encode())
