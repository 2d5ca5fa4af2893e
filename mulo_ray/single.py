"""One picture in this process, without Ray, output folder or ledger. Knows no storage."""

from mulo_ray.config import JobConfig
from mulo_ray.engine import Engine, family_engine
from mulo_ray.resolve import resolve
from mulo_ray.seeding import image_seed

KEY = "single"
"""The prompt key of every single picture: text and --seed decide it."""


def generate_one(text: str, config: JobConfig, *, engine: Engine | None = None) -> bytes:
    """PNG bytes of `text`. Raises PromptError for a text the family cannot use, UsageError and CheckpointError."""
    from mulo_ray.decoding.interfaces import generate
    from mulo_ray.workers.threads import limit_threads

    engine = engine or family_engine(config.model)
    config = resolve(config, engine.card)
    engine.check(config)
    device = _device(config.run.device)
    limit_threads(device)
    roles = engine.roles(config)
    target = roles.target(device)
    drafter = None if roles.drafter is None else roles.drafter(device)
    seeds = [image_seed(config.sampling.seed, KEY, 0)]
    if roles.conditioner is None:
        request = target.request([target.prompt_used(text)], seeds)
    else:
        conditioner = roles.conditioner(device)
        request = target.request_from(conditioner.encode([conditioner.prompt_used(text)], seeds), seeds)
    generation = generate(target.decoder, None if drafter is None else drafter.decoder, request)
    [png] = target.render(generation.tokens_BHW, [text])
    return png


def _device(wanted: str) -> str:
    import torch

    from mulo_ray.errors import PlacementError

    if wanted == "cuda" and not torch.cuda.is_available():
        raise PlacementError("--device cuda needs a GPU that torch can use; this machine has none: use --device cpu")
    return "cuda" if wanted != "cpu" and torch.cuda.is_available() else "cpu"
