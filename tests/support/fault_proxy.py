"""An HTTP proxy before a real S3 server that fails requests on demand and counts them.

The Host header passes unchanged, so signatures stay valid. Knows no S3: faults are chosen by method and path.
"""

import http.client
import socket
import struct
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

STATUS_TEXT = {403: "AccessDenied", 429: "TooManyRequests", 500: "InternalError", 503: "SlowDown"}


@dataclass(slots=True, kw_only=True)
class Fault:
    """What befalls the next `times` requests of `method` whose path contains `path`.

    kind: an HTTP status as text; "reset" (no answer); "lost" (done, then no answer); "truncate" (half the answer's
    body); "slow" (half a second late).
    """

    kind: str
    method: str = "PUT"
    path: str = ""
    times: int = 1


class FaultProxy:
    """Context manager; `endpoint` is its address, `requests` what came in, `faults` what is still to happen."""

    def __init__(self, upstream: str, *faults: Fault) -> None:
        self.upstream = upstream.removeprefix("http://")
        self.faults = list(faults)
        self.requests: list[tuple[str, str]] = []
        self._lock = threading.Lock()
        proxy = self

        class Handler(_Handler):
            owner = proxy

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    def count(self, method: str) -> int:
        return sum(m == method for m, _ in self.requests)

    def next_fault(self, method: str, path: str) -> str:
        with self._lock:
            self.requests.append((method, path))
            for fault in self.faults:
                if fault.times > 0 and fault.method == method and fault.path in path:
                    fault.times -= 1
                    return fault.kind
        return ""

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner: FaultProxy

    def _handle(self) -> None:
        body = self._body()
        fault = self.owner.next_fault(self.command, self.path)
        if fault == "reset":
            return self._reset()
        if fault.isdigit():
            code = STATUS_TEXT.get(int(fault), "Error")
            text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>injected {fault}</Message></Error>"
            return self._answer(int(fault), [("Content-Type", "application/xml")], text.encode())
        if fault == "slow":
            time.sleep(0.5)
        status, headers, answer = self._forward(body)
        if fault == "lost":
            return self._reset()
        return self._answer(status, headers, answer, truncate=fault == "truncate")

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _handle

    def _body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection(self.owner.upstream, timeout=30)
        try:
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in ("connection", "expect", "transfer-encoding", "content-length"):
                    connection.putheader(name, value)
            connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            response = connection.getresponse()
            return response.status, response.getheaders(), response.read()
        finally:
            connection.close()

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes, truncate: bool = False) -> None:
        self.send_response_only(status)
        length = None
        for name, value in headers:
            if name.lower() == "content-length":
                length = value  # a HEAD answer tells the length of a body it does not have
            elif name.lower() not in ("connection", "transfer-encoding"):
                self.send_header(name, value)
        self.send_header("Content-Length", length if self.command == "HEAD" and length else str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: len(body) // 2] if truncate else body)
        if truncate:
            self._reset()

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *_: object) -> None:
        """Stay silent."""
