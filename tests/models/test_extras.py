"""Libraries of the big families: named when they are missing, never loaded by who does not use them."""

import subprocess
import sys
from pathlib import Path

import pytest

from mulo_ray.errors import UsageError
from mulo_ray.models.extras import need
from mulo_ray.models.janus_vq import janus_vq
from mulo_ray.models.vq_sizes import VQ_16

ROOT = Path(__file__).parents[2]


def test_a_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/reports.md C9: a missing package is an error that names the remedy."""
    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.setitem(sys.modules, "transformers.models.janus.modeling_janus", None)
    with pytest.raises(UsageError, match=r'image tokenizer needs transformers, .* pip install "mulo-ray\[families\]"'):
        janus_vq(VQ_16, None)


def test_a_library_that_is_there_is_handed_over() -> None:
    assert need("json", "nothing").loads("1") == 1


def test_the_embedded_family_loads_none_of_them() -> None:
    code = (
        "import sys\n"
        "from mulo_ray.models.catalog import read_card\n"
        "from mulo_ray.models.family import load_family\n"
        "from mulo_ray.models import roles\n"
        "load_family(read_card('emoji'), 'cpu').scale(32, batch_invariant=True)\n"
        "print(sorted({'transformers', 'huggingface_hub', 'ftfy', 'tokenizers'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
