"""Files that cannot be read are one sentence each; URIs; the packaged captions; the COCO download."""

import http.server
import io
import socket
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from mulo_ray.errors import UsageError
from mulo_ray.prompts import SUFFIXES, coco_val2017, embedded_captions, read_prompts


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("prompts.docx", b"x", r"unknown suffix; allowed are \.json, \.jsonl"),
        ("empty.jsonl", b"", "is empty"),
        ("blank.txt", b" \n\n", "is empty"),
        ("latin.txt", "caf\u00e9".encode("latin-1"), "not UTF-8 text: byte 0xe9 on line 1"),
        ("broken.json", b'{"annotations": [', "not valid JSON"),
        ("number.json", b"3", "COCO captions object or an array"),
        ("broken.jsonl", b"nonsense\n", "no row of it can be parsed"),
        ("fake.jsonl.gz", b"plain", "not a whole gzip file"),
        ("fake.zip", b"plain", "not a whole zip file"),
        ("fake.parquet", b"plain", "not a readable Parquet file"),
    ],
)
def test_a_bad_file_is_one_sentence(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match=words):
        read_prompts(str(tmp_path / name))


def test_every_listed_suffix_is_read(tmp_path: Path) -> None:
    """docs/reports.md D9: no suffix is promised whose branch cannot run (bad content is refused by its reader)."""
    for suffix in SUFFIXES:
        (tmp_path / f"f{suffix}").write_bytes(b"\xff")
        with pytest.raises(UsageError) as caught:
            read_prompts(str(tmp_path / f"f{suffix}"))
        assert "unknown suffix" not in str(caught.value)


def test_no_such_file_names_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "captions_val2017.json").write_text("{}")
    with pytest.raises(UsageError, match=r"does not exist; did you mean '.*captions_val2017\.json'"):
        read_prompts(str(tmp_path / "caption_val2017.json"))
    with pytest.raises(UsageError, match="nor does its folder"):
        read_prompts(str(tmp_path / "no" / "where.json"))
    with pytest.raises(UsageError, match="is a directory"):
        read_prompts(str(tmp_path))


def test_uris_are_read_and_unknown_schemes_refused(tmp_path: Path) -> None:
    odd = tmp_path / "my file#1?.txt"
    odd.write_text("one\n")
    assert read_prompts(f"file://{odd}")[0].text == "one"
    fsspec.filesystem("memory").pipe_file("/prompt tests/a#1.txt", b"two\n")
    assert read_prompts("memory://prompt tests/a#1.txt")[0].text == "two"
    with pytest.raises(UsageError, match=r"nope://x/a\.txt"):
        read_prompts("nope://x/a.txt")


def test_the_packaged_captions() -> None:
    prompts = embedded_captions()
    assert len(prompts) == 64
    assert [p.key for p in prompts] == [f"{n:03d}" for n in range(1, 65)]
    assert len({p.text for p in prompts}) == 64
    assert not any(p.error for p in prompts)
    assert embedded_captions(3) == prompts[:3]


@pytest.fixture
def web() -> Iterator[tuple[str, list[str]]]:
    """A web server that answers /good.zip with a zip and all else with a page; and the paths asked for."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("annotations/captions_val2017.json", '{"annotations": [{"image_id": 1, "caption": "a"}]}')
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            body = packed.getvalue() if self.path == "/good.zip" else b"<html>please log in</html>"
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()


def test_the_coco_zip_is_fetched_once(tmp_path: Path, web: tuple[str, list[str]]) -> None:
    url, asked = web
    path = coco_val2017(tmp_path, f"{url}/good.zip")
    assert [p.key for p in read_prompts(path)] == ["000000000001"]
    fetched = len(asked)
    assert coco_val2017(tmp_path, f"{url}/good.zip") == path
    assert len(asked) == fetched
    with pytest.raises(UsageError, match="did not answer with a whole zip"):
        coco_val2017(tmp_path, f"{url}/bad.zip")
    assert [p.name for p in tmp_path.iterdir()] == ["good.zip"]


def test_offline_says_what_to_pass(tmp_path: Path) -> None:
    with socket.socket() as taken:  # bound and never listening: every connection is refused
        taken.bind(("127.0.0.1", 0))
        began = time.monotonic()
        with pytest.raises(UsageError, match="pass --captions-file"):
            coco_val2017(tmp_path, f"http://127.0.0.1:{taken.getsockname()[1]}/a.zip")
        assert time.monotonic() - began < 20
    assert list(tmp_path.iterdir()) == []
