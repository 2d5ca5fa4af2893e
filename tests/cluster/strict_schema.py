"""The structural schema of a Kubernetes CRD as a strict JSON Schema: what the server would prune is an error."""

from pathlib import Path
from typing import Any

import jsonschema
import yaml

KUBERNETES_OWN = {"metadata": {"type": "object", "required": ["name"]}}


def crd_validator(crd_file: Path, version: str = "v1") -> jsonschema.Draft7Validator:
    """A validator of one version of a custom resource."""
    crd = yaml.load(crd_file.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    names = [one["name"] for one in crd["spec"]["versions"]]
    schema = crd["spec"]["versions"][names.index(version)]["schema"]["openAPIV3Schema"]
    strict = _strict(schema)
    strict["properties"] |= KUBERNETES_OWN  # the CRD leaves metadata to the server
    return jsonschema.Draft7Validator(strict)


def faults(validator: jsonschema.Draft7Validator, document: Any) -> list[str]:
    """Every violation as "path: message"."""
    found = validator.iter_errors(document)
    return sorted(f"{'/'.join(map(str, error.absolute_path))}: {error.message[:160]}" for error in found)


def _strict(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    strict = dict(schema)
    # Only these hold schemas; a property that happens to be called "properties" must not be mistaken for one.
    for key in ("properties", "patternProperties"):
        if isinstance(strict.get(key), dict):
            strict[key] = {name: _strict(inner) for name, inner in strict[key].items()}
    for key in ("items", "additionalProperties", "not"):
        if isinstance(strict.get(key), dict):
            strict[key] = _strict(strict[key])
    for key in ("allOf", "anyOf", "oneOf"):
        if isinstance(strict.get(key), list):
            strict[key] = [_strict(inner) for inner in strict[key]]
    if strict.pop("x-kubernetes-int-or-string", False):
        strict.pop("type", None)
        strict.setdefault("anyOf", [{"type": "integer"}, {"type": "string"}])
    if strict.pop("nullable", False) and isinstance(strict.get("type"), str):
        strict["type"] = [strict["type"], "null"]
    closed = "properties" in strict and "additionalProperties" not in strict
    if closed and not strict.get("x-kubernetes-preserve-unknown-fields"):
        strict["additionalProperties"] = False
    return strict
