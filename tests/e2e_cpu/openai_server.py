"""A small OpenAI-compatible chat endpoint on the loopback, whose answers misbehave on request.

It speaks real HTTP over a real socket, so that the client under test is the one a user runs. Every mode is one way in which
an endpoint in the field answers; a mode is set for the whole server, or per call by a script that is consumed call by call.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections import deque
from collections.abc import Iterable
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ONE_MEGABYTE = 1_000_000


class Mode(StrEnum):
    """What the endpoint does with a call."""

    GOOD = "good"
    PROSE = "prose"
    CUT_OFF = "cut_off"
    NO_CLOSE = "no_close"
    TWO_BLOCKS = "two_blocks"
    EMPTY = "empty"
    NO_CHOICES = "no_choices"
    NO_USAGE = "no_usage"
    RATE_LIMITED = "rate_limited"
    RATE_LIMITED_RETRY_AFTER = "rate_limited_retry_after"
    SERVER_ERROR = "server_error"
    UNAUTHORISED = "unauthorised"
    BAD_REQUEST = "bad_request"
    NOT_FOUND = "not_found"
    NEVER = "never"
    INVALID_JSON = "invalid_json"
    ONE_MEGABYTE = "one_megabyte"
    HANG_UP = "hang_up"


class OpenAIServer:
    """The endpoint, listening on a free port of 127.0.0.1 between `__enter__` and `__exit__`.

    Attributes:
        mode: What every call gets once the script is used up.
        script: Modes for the next calls, first in, first out.
        good_source: The source inside the fenced block of a good answer.
        retry_after_s: Value of the Retry-After header in `rate_limited_retry_after`.
        requests: Bodies of the calls received, in order of arrival.
        arrived: Set as soon as a call has arrived.
        most_in_flight: The largest number of calls that were open at the same time.
    """

    def __init__(self, mode: Mode = Mode.GOOD, script: Iterable[Mode] = (), good_source: str = "int answer;\n", port: int = 0) -> None:
        """Bind to the port, a free one if it is 0; nothing is served before `__enter__`."""
        self.mode = mode
        self.script = deque(script)
        self.good_source = good_source
        self.retry_after_s: float | str = 0.05
        self.requests: list[dict[str, Any]] = []
        self.most_in_flight = 0
        self.arrived = threading.Event()
        self.closing = threading.Event()
        self._in_flight = 0
        self._barrier: threading.Barrier | None = None
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        self._http = ThreadingHTTPServer(("127.0.0.1", port), self._request_class())
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def port(self) -> int:
        """The port that was bound."""
        return int(self._http.server_address[1])

    @property
    def api_base(self) -> str:
        """The address to give as EVOKERN_API_BASE."""
        return f"http://127.0.0.1:{self.port}/v1"

    def wait_for_company(self, calls: int) -> None:
        """Answer no call before this many are open at once (or 20 s have passed)."""
        self._barrier = threading.Barrier(calls)

    def __enter__(self) -> OpenAIServer:
        """Start to serve."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Go away as a killed process does: the port is free, open connections are cut, calls never answered are released."""
        self.closing.set()
        self._http.shutdown()
        with self._lock:
            for connection in self._connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        self._http.server_close()
        self._thread.join()

    def _arrive(self, body: dict[str, Any]) -> Mode:
        with self._lock:
            self.requests.append(body)
            self._in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self._in_flight)
            self.arrived.set()
            return self.script.popleft() if self.script else self.mode

    def _leave(self) -> None:
        with self._lock:
            self._in_flight -= 1

    def _request_class(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class ChatRequest(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                with server._lock:
                    server._connections.add(self.connection)

            def finish(self) -> None:
                with server._lock:
                    server._connections.discard(self.connection)
                super().finish()

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing: the tests read `requests`."""

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                mode = server._arrive(body)
                try:
                    if server._barrier is not None:
                        server._barrier.wait(timeout=20.0)
                    self._answer(mode, body)
                except OSError:
                    pass  # the client gave up first, as it does in the never-answering mode
                finally:
                    server._leave()

            def _answer(self, mode: Mode, body: dict[str, Any]) -> None:
                if mode is Mode.NEVER:
                    server.closing.wait()
                    self.close_connection = True
                elif mode is Mode.HANG_UP:
                    self.close_connection = True
                elif mode in ERRORS:
                    headers = {"Retry-After": str(server.retry_after_s)} if mode is Mode.RATE_LIMITED_RETRY_AFTER else {}
                    status, message = ERRORS[mode]
                    key = self.headers.get("Authorization", "").removeprefix("Bearer ")
                    message = message.replace("KEY", key)
                    self._send(status, json.dumps({"error": {"message": message, "type": mode.value, "code": None}}), headers)
                elif mode is Mode.INVALID_JSON:
                    self._send(200, '{"id": "chatcmpl-1", "choices": [', {})
                else:
                    self._send(200, json.dumps(completion(mode, body, server.good_source)), {})

            def _send(self, status: int, text: str, headers: dict[str, str]) -> None:
                data = text.encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

        return ChatRequest


ERRORS: dict[Mode, tuple[int, str]] = {
    Mode.RATE_LIMITED: (429, "Too many requests."),
    Mode.RATE_LIMITED_RETRY_AFTER: (429, "Too many requests."),
    Mode.SERVER_ERROR: (500, "The server had an error."),
    Mode.UNAUTHORISED: (401, "Incorrect API key provided: KEY."),
    Mode.BAD_REQUEST: (400, "max_tokens is too large."),
    Mode.NOT_FOUND: (404, "The model does not exist."),
}


def completion(mode: Mode, body: dict[str, Any], good_source: str) -> dict[str, Any]:
    """The JSON body of a chat completion in one of the answering modes."""
    block = f"```cpp\n{good_source}```\n"
    text, finish = {
        Mode.GOOD: (f"Vectorised the inner loop.\n\n{block}", "stop"),
        Mode.NO_USAGE: (block, "stop"),
        Mode.PROSE: ("I would fuse the two passes over the row and then use several accumulators.", "stop"),
        Mode.CUT_OFF: (block[: max(8, len(block) // 2)], "length"),
        Mode.NO_CLOSE: (block[: max(8, len(block) // 2)], "stop"),
        Mode.TWO_BLOCKS: (f"First:\n{block}\nor else:\n{block.replace('answer', 'other')}", "stop"),
        Mode.EMPTY: ("", "stop"),
        Mode.NO_CHOICES: ("", "stop"),
        Mode.ONE_MEGABYTE: ("word " * (ONE_MEGABYTE // 5), "stop"),
    }[mode]
    answer: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": body.get("model", "local"),
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}],
        "usage": {"prompt_tokens": 123, "completion_tokens": 45, "total_tokens": 168},
    }
    if mode is Mode.NO_CHOICES:
        answer["choices"] = []
    if mode is Mode.NO_USAGE:
        del answer["usage"]
    return answer
