"""The threshold rule of MuLo-SD (docs/method.md section 2).

An approximation for every tau up to 1: it trades the target's exact distribution for speed; only tau above 1 (reject
everything) with raster redraw gives plain decoding's tokens.

Pure functions of tensors. Shape letters: M cells, V codebook entries, K neighbours, D code size.
"""

import torch
from torch import Tensor
from torch.nn import functional as F


def neighbour_table(codebook_VD: Tensor, neighbours: int) -> Tensor:
    """B_k: the `neighbours` nearest entries of each entry by l2-normalised distance, itself first. (V, K) int64."""
    codes_VD = F.normalize(codebook_VD.float(), dim=-1)
    similarity_VV = codes_VD @ codes_VD.T
    similarity_VV.fill_diagonal_(torch.inf)  # itself first, also when two entries are equal
    return similarity_VV.topk(min(neighbours, len(codes_VD)), dim=-1).indices


def accept(log_probabilities_MV: Tensor, candidates_M: Tensor, neighbours_VK: Tensor, tau: float) -> Tensor:
    """Whether the target's mass on the candidate's neighbourhood reaches tau; ties count as accepted. (M,) bool."""
    mass_M = log_probabilities_MV.gather(-1, neighbours_VK[candidates_M]).exp().sum(-1)
    return mass_M >= tau
