"""The Model Context Protocol over the tools: standard input and output, or HTTP on this machine.

Only this module needs the official SDK, the package `mcp`. The tools are told as they are, with the SDK's low-level server: it lets
arguments through unchecked, so that a malformed call gets the same typed answer as on every other way in.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any

import evokern
from evokern import record
from evokern.errors import Unavailable
from evokern.printable import block, line
from evokern.serve.tools import Tools

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server

LOOPBACK = "127.0.0.1"
PATH = "/mcp"

HEARTBEAT_SECONDS = 3.0
"""A client that hears nothing for long may give up."""

LONGEST_TEXT = 1 << 20

INSTRUCTIONS = """\
Write fast, correct compute kernels for one task and have them judged. Call `task` first. `evaluate` judges a source: what counts is a \
verdict `passed` that is confirmed, and the lower bound of the speed-up. Kernels are checked on secret shapes, of which you learn only \
whether the kernel passed. The budget is told in every answer."""


def require_mcp() -> None:
    """See that the SDK is here.

    Raises:
        Unavailable: It is not, or is too old.
    """
    try:
        from mcp.server.lowlevel import Server
    except ImportError as error:
        raise Unavailable(f"the package mcp cannot be imported: {error}", mend="Install it with `pip install 'evokern[serve]'`") from error
    if not hasattr(Server, "streamable_http_app"):
        raise Unavailable("the package mcp is too old", mend="Install 2.0 or newer with `pip install 'evokern[serve]'`")


def server(tools: Tools) -> Server[Any]:
    """The SDK's server over the tools.

    Args:
        tools: What it offers.
    """
    import mcp_types as types
    from mcp.server.lowlevel import Server

    async def list_tools(context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        listed = [
            types.Tool(
                name=tool.name,
                title=tool.title,
                description=tool.description,
                input_schema=tool.schema,
                annotations=types.ToolAnnotations(read_only_hint=tool.reads, destructive_hint=False, open_world_hint=False),
            )
            for tool in tools.tools.values()
        ]
        return types.ListToolsResult(tools=listed)

    async def call_tool(context: ServerRequestContext[Any], params: types.CallToolRequestParams) -> types.CallToolResult:
        async with _progress(context.session.report_progress) as say:
            told = await tools.call(params.name, params.arguments, say)
        # Kernels, compilers and models wrote parts of the text; the document carries them exactly.
        text = types.TextContent(type="text", text=block(told.text, LONGEST_TEXT))
        return types.CallToolResult(content=[text], structured_content=_sendable(told.document), is_error=told.failed)

    return Server("evokern", version=evokern.__version__, instructions=INSTRUCTIONS, on_list_tools=list_tools, on_call_tool=call_tool)


def _sendable(document: Any) -> Any:
    """The document as JSON can carry it: the halves of characters that a model may have written become question marks."""
    return json.loads(json.dumps(record.finite(document), ensure_ascii=False).encode("utf-8", "replace"))


@contextlib.asynccontextmanager
async def _progress(report: Callable[..., Any]) -> AsyncIterator[Callable[[str], None]]:
    """What is said while a call lasts, as notifications of progress in seconds; at least one every `HEARTBEAT_SECONDS`."""
    start, said = time.monotonic(), asyncio.Queue[str]()

    async def tell() -> None:
        last = "at work"
        while True:
            with contextlib.suppress(TimeoutError):
                last = await asyncio.wait_for(said.get(), HEARTBEAT_SECONDS)
            await report(time.monotonic() - start, None, line(last))

    telling = asyncio.create_task(tell())
    try:
        yield said.put_nowait
    finally:
        telling.cancel()
        # A client that has left cannot be told; its call is answered or cancelled all the same.
        await asyncio.gather(telling, return_exceptions=True)


async def serve_stdio(tools: Tools) -> None:
    """Serve one client over standard input and output until it hangs up."""
    from mcp.server.stdio import stdio_server

    serving = server(tools)
    try:
        async with stdio_server() as (reading, writing):
            await serving.run(reading, writing, serving.create_initialization_options())
    except* BrokenPipeError:
        pass  # the client has left without a word


async def serve_http(tools: Tools, port: int, say: Callable[[str], None]) -> None:
    """Serve any number of clients on the loopback until cancelled.

    Args:
        tools: What is offered.
        port: Where to listen; 0 for any free one.
        say: Told the address.

    Raises:
        Unavailable: The port is taken, or may not be listened on.
    """
    import socket

    import uvicorn

    class Quiet(uvicorn.Server):
        """Leaves signals to whoever started it."""

        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((LOOPBACK, port))
    except OSError as error:
        listening.close()
        raise Unavailable(f"cannot listen: {error.strerror}", where=f"{LOOPBACK}:{port}", mend="Give another --http port") from error
    app = server(tools).streamable_http_app(host=LOOPBACK, streamable_http_path=PATH)
    web = Quiet(uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=1))
    say(f"listening on http://{LOOPBACK}:{listening.getsockname()[1]}{PATH}")
    try:
        await web.serve(sockets=[listening])
    finally:
        listening.close()


async def until_stopped(serving: Any) -> bool:
    """Serve to the end, or until SIGINT or SIGTERM.

    Returns:
        Whether it came to its own end. Where it did not, a thread may still wait for standard input, which nothing can interrupt.
    """
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    working, waiting = asyncio.ensure_future(serving), asyncio.ensure_future(stopped.wait())
    await asyncio.wait((working, waiting), return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if working.done():
        working.result()
        return True
    working.cancel()
    return False
