"""Structures and numbers of cuda.h (CUDA 12 and 13), as ctypes lays them out. Names say what a thing is; its name there is beside it."""

from __future__ import annotations

import ctypes

Address = ctypes.c_uint64
"""CUdeviceptr."""

PINNED, POSIX_FD, ON_DEVICE = 1, 1, 1
"""CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, CU_MEM_LOCATION_TYPE_DEVICE."""

READ, READ_WRITE = 1, 3
"""CU_MEM_ACCESS_FLAGS_PROT_*."""

RELAXED = 2
"""CU_STREAM_CAPTURE_MODE_RELAXED: what the host does meanwhile is its own affair."""

BLOCKING_STREAM, FREE_STREAM = 0, 1
"""CU_STREAM_DEFAULT and CU_STREAM_NON_BLOCKING."""

BUFFER_END, BUFFER_POINTER, BUFFER_SIZE = 0, 1, 2
"""CU_LAUNCH_PARAM_*."""

KERNEL_NODE, COPY_NODE, FILL_NODE, HOST_NODE, GRAPH_NODE, EMPTY_NODE = range(6)
"""CU_GRAPH_NODE_TYPE_KERNEL to _EMPTY."""

NODES = {
    HOST_NODE: "a call back to the host",
    GRAPH_NODE: "a graph of its own",
    6: "a wait for an event outside",
    7: "a record of an event outside",
    8: "a semaphore of another device",
    9: "a wait for another device",
    10: "an allocation",
    11: "a release of memory",
    12: "an operation on memory by the stream",
    13: "a condition",
}
"""Words for the types of nodes that cannot be replayed."""

PROGRAMMATIC_EDGE, LAUNCH_ORDER_PORT = 1, 2
"""CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC and CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER."""

ACCESS_POLICY, COOPERATIVE, CLUSTER, OVERLAP, PREFERRED_CLUSTER, UPDATABLE = 1, 2, 4, 6, 11, 13
"""CU_LAUNCH_ATTRIBUTE_*; OVERLAP is PROGRAMMATIC_STREAM_SERIALIZATION."""

MULTIPROCESSORS, L2_BYTES, MAJOR, MINOR, SHARED_BYTES = 16, 38, 75, 76, 97
"""CU_DEVICE_ATTRIBUTE_*; SHARED_BYTES is what a block may ask for."""

DYNAMIC_SHARED, ANY_CLUSTER = 8, 14
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES and _NON_PORTABLE_CLUSTER_SIZE_ALLOWED."""

MEMORY_TYPE = 2
"""CU_POINTER_ATTRIBUTE_MEMORY_TYPE."""

DEVICE_MEMORY, UNIFIED_MEMORY = 2, 4
"""CU_MEMORYTYPE_*."""


class Location(ctypes.Structure):
    """CUmemLocation."""

    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class Allocation(ctypes.Structure):
    """CUmemAllocationProp."""

    _fields_ = [
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", Location),
        ("win32", ctypes.c_void_p),
        ("compression", ctypes.c_ubyte),
        ("rdma", ctypes.c_ubyte),
        ("usage", ctypes.c_ushort),
        ("reserved", ctypes.c_ubyte * 4),
    ]


class Access(ctypes.Structure):
    """CUmemAccessDesc."""

    _fields_ = [("location", Location), ("flags", ctypes.c_int)]


class KernelNode(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS, version 2."""

    _fields_ = [
        ("function", ctypes.c_void_p),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("parameters", ctypes.POINTER(ctypes.c_void_p)),
        ("extra", ctypes.POINTER(ctypes.c_void_p)),
        ("kernel", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    ]


class FillNode(ctypes.Structure):
    """CUDA_MEMSET_NODE_PARAMS."""

    _fields_ = [
        ("to", Address),
        ("pitch", ctypes.c_size_t),
        ("value", ctypes.c_uint),
        ("element_bytes", ctypes.c_uint),
        ("width", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
    ]


def _side(name: str) -> list[tuple[str, type]]:
    """One side of CUDA_MEMCPY3D."""
    return [
        (f"{name}_x", ctypes.c_size_t),
        (f"{name}_y", ctypes.c_size_t),
        (f"{name}_z", ctypes.c_size_t),
        (f"{name}_lod", ctypes.c_size_t),
        (f"{name}_type", ctypes.c_int),
        (f"{name}_host", ctypes.c_void_p),
        (f"{name}_device", Address),
        (f"{name}_array", ctypes.c_void_p),
        (f"{name}_reserved", ctypes.c_void_p),
        (f"{name}_pitch", ctypes.c_size_t),
        (f"{name}_height", ctypes.c_size_t),
    ]


class CopyNode(ctypes.Structure):
    """CUDA_MEMCPY3D."""

    _fields_ = [
        *_side("source"),
        *_side("to"),
        ("width", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
        ("depth", ctypes.c_size_t),
    ]


class Copy2D(ctypes.Structure):
    """CUDA_MEMCPY2D."""

    _fields_ = [
        ("source_x", ctypes.c_size_t),
        ("source_y", ctypes.c_size_t),
        ("source_type", ctypes.c_int),
        ("source_host", ctypes.c_void_p),
        ("source_device", Address),
        ("source_array", ctypes.c_void_p),
        ("source_pitch", ctypes.c_size_t),
        ("to_x", ctypes.c_size_t),
        ("to_y", ctypes.c_size_t),
        ("to_type", ctypes.c_int),
        ("to_host", ctypes.c_void_p),
        ("to_device", Address),
        ("to_array", ctypes.c_void_p),
        ("to_pitch", ctypes.c_size_t),
        ("width", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
    ]


class Edge(ctypes.Structure):
    """CUgraphEdgeData."""

    _fields_ = [("from_port", ctypes.c_ubyte), ("to_port", ctypes.c_ubyte), ("type", ctypes.c_ubyte), ("reserved", ctypes.c_ubyte * 5)]


class AccessPolicy(ctypes.Structure):
    """CUaccessPolicyWindow."""

    _fields_ = [
        ("start", ctypes.c_void_p),
        ("bytes", ctypes.c_size_t),
        ("ratio", ctypes.c_float),
        ("hit", ctypes.c_int),
        ("miss", ctypes.c_int),
    ]


class AttributeValue(ctypes.Union):
    """CUlaunchAttributeValue: 64 bytes."""

    _fields_ = [
        ("padding", ctypes.c_char * 64),
        ("policy", AccessPolicy),
        ("number", ctypes.c_int),
        ("axes", ctypes.c_uint * 3),
        ("_aligned", ctypes.c_uint64),
    ]


class Attribute(ctypes.Structure):
    """CUlaunchAttribute."""

    _fields_ = [("id", ctypes.c_int), ("padding", ctypes.c_char * 4), ("value", AttributeValue)]


class LaunchConfiguration(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(Attribute)),
        ("count", ctypes.c_uint),
    ]
