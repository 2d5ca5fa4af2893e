"""The EAGLE head of one scale as a stage of training: to guess the scale's next hidden state, and so its next token.

On the scale's own hidden states under teacher forcing (arXiv 2401.15077): smooth L1 between hidden states, and a tenth
of the cross-entropy to the scale's own distribution. The scale is frozen. Shape letters: B pictures, P condition slots,
N cells, E width. Knows no file.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from mulo_ray.models.eagle import EagleHead, head_rotary
from mulo_ray.models.transformer import causal
from mulo_ray.training.optimizers import split_optimizers
from mulo_ray.training.scales import ScaleStage
from mulo_ray.training.stages import Average, Measured, Share

_TOKEN_WEIGHT = 0.1


class EagleStage:
    """`scale` holds the trained scale under its averaged weights, and makes the batches."""

    def __init__(self, px: int, scale: ScaleStage, *, lr: float = 1e-3) -> None:
        self.name = f"head-{px}"
        self.tokenizer = scale.tokenizer
        self._scale = scale
        self._model = scale.average.network
        self.network = EagleHead(self._model.body.config)
        self.average = Average(self.network)
        self.optimizers = split_optimizers(self.network, self.network.parameters(), lr=lr)

    def to(self, device: str) -> None:
        """See `stages.Stage.to`."""
        self._scale.to(device)
        self.network.to(device)
        self.average.network.to(device)

    def loss(self, step: int, share: Share) -> Measured:
        """See `stages.Stage.loss`."""
        ids, tokens, pictures = self._scale.batch(step, share)
        hidden_loss, token_loss, agreement = self._measure(self.network, ids, tokens)
        values = {"hidden_loss": hidden_loss.item(), "token_loss": token_loss.item(), "agreement": agreement.item()}
        return Measured(loss=hidden_loss + _TOKEN_WEIGHT * token_loss, pictures=pictures, values=values)

    def after_step(self, step: int) -> None:
        """Nothing."""

    def extra(self) -> dict[str, Any]:
        return {}

    def restore(self, extra: dict[str, Any]) -> None:
        del extra

    @torch.inference_mode()
    def evaluate(self) -> dict[str, float]:
        """On held-out pictures: both losses, and how often head and scale hold the same token likeliest."""
        hidden_loss, token_loss, agreement = self._measure(self.average.network, *self._scale.seen())
        return {
            "held_out_hidden_loss": float(hidden_loss),
            "held_out_token_loss": float(token_loss),
            "held_out_agreement": float(agreement),
        }

    def sheet(self) -> np.ndarray | None:
        """A head draws nothing of its own."""
        return None

    def _measure(self, head: EagleHead, ids_BPG: Tensor, tokens_BN: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(smooth L1, cross-entropy in nats, agreement). At cell j the head sees token j and the hidden state that drew
        it, and guesses the one that draws cell j + 1."""
        body = self._model.body
        with torch.no_grad():
            hidden_BNE = body.hidden(self._model.text(ids_BPG), tokens_BN)
            truth_BNV = body.logits(hidden_BNE[:, 1:])
            embedded_BNE = body.tok_embeddings(tokens_BN[:, :-1])
        cells_N = torch.arange(embedded_BNE.shape[1], device=tokens_BN.device)
        guessed_BNE = head(embedded_BNE, hidden_BNE[:, :-1], head_rotary(body, cells_N), causal)
        guess_BNV = body.logits(guessed_BNE)
        hidden_loss = F.smooth_l1_loss(guessed_BNE, hidden_BNE[:, 1:])
        token_loss = -(truth_BNV.softmax(-1) * guess_BNV.log_softmax(-1)).sum(-1).mean()
        agreement = (truth_BNV.argmax(-1) == guess_BNV.argmax(-1)).float().mean()
        return hidden_loss, token_loss, agreement
