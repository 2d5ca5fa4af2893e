"""Turns an output URI into a backend, inside the process that uses it.

The part after the scheme is literal: blanks, # and ? are characters of the key (docs/reports.md C7). Credentials
come from the environment of each process or from explicit options. Knows no object names.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fsspec

from mulo_ray.errors import UsageError
from mulo_ray.storage.local_files import LocalFiles
from mulo_ray.storage.remote_objects import RemoteObjects

_USUAL = "a local path, file://, s3://, gs://, abfs://, hdfs://, sftp://"
_LOCAL = ("file", "local")
_S3 = ("s3", "s3a")


def normal_uri(uri: str) -> str:
    """The URI every process understands alike: an absolute path, or scheme://rest without a trailing slash.

    Raises UsageError for an unknown scheme, a missing package, no bucket, and credentials inside the URI.
    """
    scheme, separator, rest = uri.partition("://")
    if not separator or scheme in _LOCAL:
        return os.path.abspath(os.path.expanduser(rest if separator else uri))
    _filesystem_class(scheme, uri)
    authority = rest.partition("/")[0]
    if scheme != "memory" and not authority:
        raise UsageError(f"output {uri!r} names no bucket or host; write {scheme}://bucket/prefix")
    if scheme in _S3 and "@" in authority:
        raise UsageError(
            f"output {scheme}://...@{authority.rpartition('@')[2]} carries credentials, which would end up in logs; "
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY instead"
        )
    return uri.rstrip("/") if rest.strip("/") else uri


def open_backend(uri: str, options: Mapping[str, Any]) -> LocalFiles | RemoteObjects:
    """The backend of a normal URI. fsspec keeps one connected filesystem per process and options."""
    scheme, separator, _ = uri.partition("://")
    if not separator:
        return LocalFiles(uri)
    cls = _filesystem_class(scheme, uri)
    settings: dict[str, Any] = {"use_listings_cache": False, **cls._get_kwargs_from_urls(uri)}
    if scheme in _S3:
        settings |= _s3_settings()
    filesystem = cls(**{**settings, **options})
    if scheme in _S3:
        filesystem.retries = 1  # retry.py is the only retry layer
    return RemoteObjects(filesystem, filesystem._strip_protocol(uri))


def bucket_of(uri: str) -> str:
    """What a person must create or open up: the bucket, or the directory."""
    scheme, separator, rest = uri.partition("://")
    return f"bucket {scheme}://{rest.partition('/')[0]}" if separator else f"directory {Path(uri)}"


def _filesystem_class(scheme: str, uri: str) -> Any:
    if scheme not in fsspec.available_protocols():
        raise UsageError(f"output {uri!r} has the unknown scheme {scheme!r}; usual ones are {_USUAL}")
    try:
        return fsspec.get_filesystem_class(scheme)
    except ImportError as error:
        advice = "pip install s3fs==2026.9.0" if scheme in _S3 else str(error)
        raise UsageError(f"output {uri!r} needs a package that is not installed: {advice}") from error


def _s3_settings() -> dict[str, Any]:
    """One attempt per call, finite timeouts; the endpoint by name, so that another one means another connection."""
    settings: dict[str, Any] = {
        "config_kwargs": {
            "connect_timeout": 10,
            "read_timeout": 30,
            "retries": {"mode": "standard", "total_max_attempts": 1},
        }
    }
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if endpoint:
        settings["endpoint_url"] = endpoint
    return settings
