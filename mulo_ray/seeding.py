"""Where all randomness comes from: (run seed, prompt key, sample number), and nothing else.

Knows no worker, batch, device or clock. decoding/sampling.py turns the seed into noise.
"""

import hashlib


def image_seed(run_seed: int, prompt_key: str, sample: int) -> int:
    """The signed 64-bit seed of one image (docs/method.md section 1, keyed noise).

    Two images of one run share a seed with probability 2**-64.
    """
    text = f"{run_seed}\x1f{prompt_key}\x1f{sample}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big", signed=True)
