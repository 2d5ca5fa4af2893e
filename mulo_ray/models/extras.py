"""Libraries that only some families need, imported when one of them is used. Knows no family."""

import importlib
from typing import Any

from mulo_ray.errors import UsageError


def need(module: str, what: str) -> Any:
    """The imported `module`; UsageError that names the extra when it is not installed. `what` needs it: "T5"."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UsageError(
            f"{what} needs {module.partition('.')[0]}, which cannot be imported here ({error}); install it with "
            'pip install "mulo-ray[families]", or pip install -e ".[families]" in a checkout'
        ) from error
