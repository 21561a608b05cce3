"""A call's launches, noted instead of run: the stream is captured, and the graph that comes of it is read.

Runs in the sandbox beside candidate code: what it answers is a claim, and `evokern_gpu.relocation` reads it as one.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evokern_gpu import fields
from evokern_gpu import structures as cuda
from evokern_gpu.driver import Driver, DriverError
from evokern_gpu.launches import ABSOLUTE, WORD, Copy, Fill, Item, Launch, Spot, to_json

SCHEMA = "evokern.capture/1"

MOST_BYTES = 1 << 14
"""Of a record (`evokern.evaluator.call.protocol.MAX_RECORD`)."""

_LONGEST_REASON = 300
_EXTRA = 4
_WHY = {
    900: "does what no stream that is noted may do, such as waiting for the device",
    901: "does what no stream that is noted may do, such as waiting for the device or using the default stream",
    904: "leaves work on a stream of its own that it does not join again",
    905: "lets streams depend on each other that are noted apart",
    906: "uses the default stream",
}


class Unsealable(ValueError):
    """Launches that cannot be run without the host code that made them; the text says why, in words after "it"."""


@dataclass(frozen=True, slots=True)
class Noted:
    """What a call launches, on the addresses that it had.

    Attributes:
        items: In order; addresses are absolute, and a kernel's `addresses` are those of memory that is no window's.
        reason: Why there is nothing to be had, in words after "it"; empty otherwise.
    """

    items: tuple[Item, ...] = ()
    reason: str = ""

    def encode(self, *, places: Sequence[int], workspace: int, windows: Sequence[tuple[int, int]]) -> bytes:
        """The record of it.

        Args:
            places: Address of each argument's first element; 0 for scalars.
            workspace: Address of the workspace; 0 where there is none.
            windows: (address, bytes) of each argument's window and of the workspace's; (0, 0) where there is none.
        """
        told = {
            "schema": SCHEMA,
            "reason": self.reason[:_LONGEST_REASON],
            "places": [*places, workspace],
            "windows": [list(window) for window in windows],
            "items": [to_json(item) for item in self.items],
        }
        record = json.dumps(told, separators=(",", ":")).encode()
        if len(record) <= MOST_BYTES:
            return record
        return json.dumps({**told, "reason": f"launches too much for one record ({len(self.items)} items)", "items": []}).encode()


def noted(driver: Driver, stream: int, invoke: Callable[[], int], windows: Sequence[tuple[int, int]]) -> Noted:
    """Run a call, then note it.

    Args:
        driver: The device.
        stream: The call's.
        invoke: Enqueues the call; its status.
        windows: (address, bytes) of all windows.

    Raises:
        DriverError: The device failed; what only keeps the call from being noted is a reason instead.
    """
    # The first call of a shape may load, compile or tune.
    status = invoke()
    driver.synchronise()
    if status:
        return Noted(reason=f"returns {status}")
    try:
        graph = _captured(driver, stream, invoke)
        try:
            return Noted(tuple(_items(driver, graph, windows)))
        finally:
            driver.call("cuGraphDestroy", graph)
    except Unsealable as error:
        return Noted(reason=str(error))


def _captured(driver: Driver, stream: int, invoke: Callable[[], int]) -> ctypes.c_void_p:
    graph, status, raised = ctypes.c_void_p(), 0, ""
    driver.call("cuStreamBeginCapture_v2", ctypes.c_void_p(stream), cuda.RELAXED)
    try:
        status = invoke()
    except DriverError as error:
        if error.is_fatal:
            raise
        raised = str(error)
    except Exception as error:  # whatever candidate code raises, the capture must end
        raised = f"{type(error).__name__}: {error}"
    try:
        driver.call("cuStreamEndCapture", ctypes.c_void_p(stream), ctypes.byref(graph))
    except DriverError as error:
        if error.is_fatal:
            raise
        raise Unsealable(_WHY.get(error.code, f"cannot be noted ({error})")) from error
    if status or raised:
        if graph.value:
            driver.call("cuGraphDestroy", graph)
        raise Unsealable(f"fails while it is noted: {raised or f'returns {status}'}")
    if not graph.value:
        raise Unsealable("launches nothing on its stream")
    return graph


def _items(driver: Driver, graph: ctypes.c_void_p, windows: Sequence[tuple[int, int]]) -> list[Item]:
    found: list[Item] = []
    overlapping = False
    for node, overlaps in _in_order(driver, graph):
        kind = ctypes.c_int()
        driver.call("cuGraphNodeGetType", ctypes.c_void_p(node), ctypes.byref(kind))
        if kind.value == cuda.EMPTY_NODE:
            overlapping |= overlaps
        elif kind.value == cuda.KERNEL_NODE:
            found.append(_kernel(driver, node, windows, overlaps=overlaps))
        elif kind.value == cuda.FILL_NODE:
            found.append(_fill(driver, node))
        elif kind.value == cuda.COPY_NODE:
            found.append(_copy(driver, node))
        else:
            raise Unsealable(f"enqueues {cuda.NODES.get(kind.value, 'something unknown')}, which only its host code can")
    if overlapping:
        raise Unsealable("lets a kernel begin early in a way that is not known here")
    if not found:
        raise Unsealable("launches nothing on its stream")
    if len(found) > fields.MOST_ITEMS:
        raise Unsealable(f"launches more than {fields.MOST_ITEMS} kernels")
    return found


def _in_order(driver: Driver, graph: ctypes.c_void_p) -> list[tuple[int, bool]]:
    """(node, whether it may begin before the one before it has ended) along the one chain that they are."""
    count = ctypes.c_size_t()
    driver.call("cuGraphGetNodes", graph, None, ctypes.byref(count))
    nodes = (ctypes.c_void_p * count.value)()
    if count.value:
        driver.call("cuGraphGetNodes", graph, nodes, ctypes.byref(count))
    return chained([node or 0 for node in nodes], _edges(driver, graph))


def _edges(driver: Driver, graph: ctypes.c_void_p) -> list[tuple[int, int, int, int]]:
    """(from, to, type, port) of each edge."""
    count = ctypes.c_size_t()
    driver.call("cuGraphGetEdges_v2", graph, None, None, None, ctypes.byref(count))
    if not count.value:
        return []
    sources, to, told = (ctypes.c_void_p * count.value)(), (ctypes.c_void_p * count.value)(), (cuda.Edge * count.value)()
    driver.call("cuGraphGetEdges_v2", graph, sources, to, told, ctypes.byref(count))
    return [(source or 0, end or 0, edge.type, edge.from_port) for source, end, edge in zip(sources, to, told, strict=True)]


def chained(nodes: Sequence[int], edges: Sequence[tuple[int, int, int, int]]) -> list[tuple[int, bool]]:
    """The nodes of a graph in their order, and whether each may begin before the one before it has ended.

    Args:
        nodes: All of them.
        edges: (from, to, type, port) as the driver tells them; more than a chain needs are let be.

    Raises:
        Unsealable: Their order is not the only one, or they hang together in a way that a stream cannot.
    """
    following: dict[int, list[int]] = {node: [] for node in nodes}
    waiting = dict.fromkeys(nodes, 0)
    early = set()
    for source, end, kind, port in edges:
        if kind not in (0, cuda.PROGRAMMATIC_EDGE) or port == cuda.LAUNCH_ORDER_PORT:
            raise Unsealable("lets a kernel begin early in a way that is not known here")
        following[source].append(end)
        waiting[end] += 1
        if kind == cuda.PROGRAMMATIC_EDGE:
            early.add((source, end))
    found: list[tuple[int, bool]] = []
    ready, last = [node for node in nodes if not waiting[node]], 0
    while ready:
        if len(ready) > 1:
            raise Unsealable("runs kernels beside each other on several streams")
        (node,) = ready
        found.append((node, (last, node) in early))
        for end in following[node]:
            waiting[end] -= 1
        ready, last = [end for end in dict.fromkeys(following[node]) if not waiting[end]], node
    if len(found) != len(nodes):
        raise Unsealable("runs kernels in a circle")
    return found


def _kernel(driver: Driver, node: int, windows: Sequence[tuple[int, int]], *, overlaps: bool) -> Launch:
    held, name = cuda.KernelNode(), ctypes.c_char_p()
    driver.call("cuGraphKernelNodeGetParams_v2", ctypes.c_void_p(node), ctypes.byref(held))
    function = ctypes.c_void_p(held.function)
    if not held.function:
        driver.call("cuKernelGetFunction", ctypes.byref(function), ctypes.c_void_p(held.kernel))
    driver.call("cuFuncGetName", ctypes.byref(name), function)
    packed = _packed(held, driver.parameters_of(function.value or 0))
    cluster, cooperative = _attributes(driver, node)
    return Launch(
        name=(name.value or b"").decode("utf-8", "replace"),
        grid=_three(held.grid),
        block=_three(held.block),
        shared_bytes=held.shared,
        parameters=packed,
        addresses=tuple((at, Spot(ABSOLUTE, value)) for at, value in words(packed) if _is_own(driver, value, windows)),
        cluster=cluster,
        cooperative=cooperative,
        overlaps=overlaps,
    )


def words(packed: bytes) -> list[tuple[int, int]]:
    """(offset, value) of each whole word of parameters."""
    return [(at, int.from_bytes(packed[at : at + WORD], "little")) for at in range(0, len(packed) - WORD + 1, WORD)]


def _is_own(driver: Driver, value: int, windows: Sequence[tuple[int, int]]) -> bool:
    return value != 0 and not any(start <= value <= start + size for start, size in windows) and driver.is_memory(value)


def _packed(held: cuda.KernelNode, layout: Sequence[tuple[int, int]]) -> bytes:
    if layout and not held.parameters:
        return _from_buffer(held)
    packed = bytearray()
    for index, (offset, size) in enumerate(layout):
        packed.extend(bytes(offset - len(packed)))
        packed.extend(ctypes.string_at(held.parameters[index] or 0, size))
    return bytes(packed)


def _from_buffer(held: cuda.KernelNode) -> bytes:
    """Parameters that were handed over in one piece."""
    told: dict[int, int] = {}
    at = 0
    while held.extra and at < _EXTRA and held.extra[at]:
        told[held.extra[at] or 0] = held.extra[at + 1] or 0
        at += 2
    if not {cuda.BUFFER_POINTER, cuda.BUFFER_SIZE} <= told.keys():
        raise Unsealable("hands parameters over in a way that is not known here")
    size = ctypes.c_size_t.from_address(told[cuda.BUFFER_SIZE]).value
    return ctypes.string_at(told[cuda.BUFFER_POINTER], min(size, fields.MOST_PARAMETER_BYTES))


def _attributes(driver: Driver, node: int) -> tuple[tuple[int, int, int] | None, bool]:
    """Cluster and cooperation of a launch."""
    told = {
        number: _attribute(driver, node, number) for number in (cuda.ACCESS_POLICY, cuda.CLUSTER, cuda.COOPERATIVE, cuda.PREFERRED_CLUSTER)
    }
    if told[cuda.ACCESS_POLICY].policy.bytes:
        raise Unsealable("asks for data to stay in the cache")
    cluster, preferred = _three(told[cuda.CLUSTER].axes), _three(told[cuda.PREFERRED_CLUSTER].axes)
    if any(preferred) and preferred != cluster:
        raise Unsealable("asks for clusters of several sizes")
    return (cluster if all(cluster) and cluster != (1, 1, 1) else None), bool(told[cuda.COOPERATIVE].number)


def _attribute(driver: Driver, node: int, number: int) -> cuda.AttributeValue:
    """An attribute of a node; zeros where the driver does not know it."""
    value = cuda.AttributeValue()
    try:
        driver.call("cuGraphKernelNodeGetAttribute", ctypes.c_void_p(node), number, ctypes.byref(value))
    except DriverError as error:
        if error.is_fatal:
            raise
        return cuda.AttributeValue()
    return value


def _fill(driver: Driver, node: int) -> Fill:
    held = cuda.FillNode()
    driver.call("cuGraphMemsetNodeGetParams", ctypes.c_void_p(node), ctypes.byref(held))
    pitch = held.pitch if held.height > 1 else 0
    return Fill(Spot(ABSOLUTE, held.to), held.value, held.element_bytes, held.width, max(held.height, 1), pitch)


def _copy(driver: Driver, node: int) -> Copy:
    held = cuda.CopyNode()
    driver.call("cuGraphMemcpyNodeGetParams", ctypes.c_void_p(node), ctypes.byref(held))
    kinds = {held.source_type, held.to_type}
    if not kinds <= {cuda.DEVICE_MEMORY, cuda.UNIFIED_MEMORY}:
        raise Unsealable("copies from or to the host")
    if held.depth > 1:
        raise Unsealable("copies a block of three dimensions")
    source, to = (
        start + (z * height + y) * pitch + x
        for start, x, y, z, height, pitch in (
            (held.source_device, held.source_x, held.source_y, held.source_z, held.source_height, held.source_pitch),
            (held.to_device, held.to_x, held.to_y, held.to_z, held.to_height, held.to_pitch),
        )
    )
    rows = max(held.height, 1)
    pitches = (held.source_pitch, held.to_pitch) if rows > 1 else (0, 0)
    return Copy(Spot(ABSOLUTE, source), Spot(ABSOLUTE, to), held.width, rows, *pitches)


def _three(axes: Sequence[int]) -> tuple[int, int, int]:
    x, y, z = axes
    return x, y, z
