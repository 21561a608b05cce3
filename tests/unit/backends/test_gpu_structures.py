"""The driver's structures, held against cuda.h where a toolkit is installed."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from evokern_gpu import structures as cuda
from evokern_gpu import toolkit

from evokern.errors import Unavailable

FIELDS = {
    "CUmemLocation": (cuda.Location, {"type": "type", "id": "id"}),
    "CUmemAllocationProp": (
        cuda.Allocation,
        {"type": "type", "handle_types": "requestedHandleTypes", "location": "location", "compression": "allocFlags"},
    ),
    "CUmemAccessDesc": (cuda.Access, {"location": "location", "flags": "flags"}),
    "CUDA_KERNEL_NODE_PARAMS_v2": (
        cuda.KernelNode,
        {
            "function": "func",
            "grid": "gridDimX",
            "block": "blockDimX",
            "shared": "sharedMemBytes",
            "parameters": "kernelParams",
            "extra": "extra",
            "kernel": "kern",
            "context": "ctx",
        },
    ),
    "CUDA_MEMSET_NODE_PARAMS": (
        cuda.FillNode,
        {"to": "dst", "pitch": "pitch", "value": "value", "element_bytes": "elementSize", "width": "width", "height": "height"},
    ),
    "CUDA_MEMCPY3D": (
        cuda.CopyNode,
        {
            "source_x": "srcXInBytes",
            "source_type": "srcMemoryType",
            "source_device": "srcDevice",
            "source_pitch": "srcPitch",
            "source_height": "srcHeight",
            "to_x": "dstXInBytes",
            "to_y": "dstY",
            "to_z": "dstZ",
            "to_type": "dstMemoryType",
            "to_device": "dstDevice",
            "to_pitch": "dstPitch",
            "to_height": "dstHeight",
            "width": "WidthInBytes",
            "height": "Height",
            "depth": "Depth",
        },
    ),
    "CUDA_MEMCPY2D": (
        cuda.Copy2D,
        {
            "source_type": "srcMemoryType",
            "source_device": "srcDevice",
            "source_pitch": "srcPitch",
            "to_x": "dstXInBytes",
            "to_type": "dstMemoryType",
            "to_device": "dstDevice",
            "to_pitch": "dstPitch",
            "width": "WidthInBytes",
            "height": "Height",
        },
    ),
    "CUgraphEdgeData": (cuda.Edge, {"from_port": "from_port", "to_port": "to_port", "type": "type"}),
    "CUaccessPolicyWindow": (
        cuda.AccessPolicy,
        {"start": "base_ptr", "bytes": "num_bytes", "ratio": "hitRatio", "hit": "hitProp", "miss": "missProp"},
    ),
    "CUlaunchAttributeValue": (cuda.AttributeValue, {"policy": "accessPolicyWindow", "number": "cooperative", "axes": "clusterDim"}),
    "CUlaunchAttribute": (cuda.Attribute, {"id": "id", "value": "value"}),
    "CUlaunchConfig": (
        cuda.LaunchConfiguration,
        {
            "grid": "gridDimX",
            "block": "blockDimX",
            "shared": "sharedMemBytes",
            "stream": "hStream",
            "attributes": "attrs",
            "count": "numAttrs",
        },
    ),
}

NUMBERS = {
    "CU_MEM_ALLOCATION_TYPE_PINNED": cuda.PINNED,
    "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR": cuda.POSIX_FD,
    "CU_MEM_LOCATION_TYPE_DEVICE": cuda.ON_DEVICE,
    "CU_MEM_ACCESS_FLAGS_PROT_READ": cuda.READ,
    "CU_MEM_ACCESS_FLAGS_PROT_READWRITE": cuda.READ_WRITE,
    "CU_STREAM_CAPTURE_MODE_RELAXED": cuda.RELAXED,
    "CU_STREAM_DEFAULT": cuda.BLOCKING_STREAM,
    "CU_STREAM_NON_BLOCKING": cuda.FREE_STREAM,
    "(long)CU_LAUNCH_PARAM_END": cuda.BUFFER_END,
    "(long)CU_LAUNCH_PARAM_BUFFER_POINTER": cuda.BUFFER_POINTER,
    "(long)CU_LAUNCH_PARAM_BUFFER_SIZE": cuda.BUFFER_SIZE,
    "CU_GRAPH_NODE_TYPE_KERNEL": cuda.KERNEL_NODE,
    "CU_GRAPH_NODE_TYPE_MEMCPY": cuda.COPY_NODE,
    "CU_GRAPH_NODE_TYPE_MEMSET": cuda.FILL_NODE,
    "CU_GRAPH_NODE_TYPE_HOST": cuda.HOST_NODE,
    "CU_GRAPH_NODE_TYPE_GRAPH": cuda.GRAPH_NODE,
    "CU_GRAPH_NODE_TYPE_EMPTY": cuda.EMPTY_NODE,
    "CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC": cuda.PROGRAMMATIC_EDGE,
    "CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER": cuda.LAUNCH_ORDER_PORT,
    "CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW": cuda.ACCESS_POLICY,
    "CU_LAUNCH_ATTRIBUTE_COOPERATIVE": cuda.COOPERATIVE,
    "CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION": cuda.CLUSTER,
    "CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION": cuda.OVERLAP,
    "CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION": cuda.PREFERRED_CLUSTER,
    "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT": cuda.MULTIPROCESSORS,
    "CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE": cuda.L2_BYTES,
    "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR": cuda.MAJOR,
    "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR": cuda.MINOR,
    "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": cuda.SHARED_BYTES,
    "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES": cuda.DYNAMIC_SHARED,
    "CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED": cuda.ANY_CLUSTER,
    "CU_POINTER_ATTRIBUTE_MEMORY_TYPE": cuda.MEMORY_TYPE,
    "CU_MEMORYTYPE_DEVICE": cuda.DEVICE_MEMORY,
    "CU_MEMORYTYPE_UNIFIED": cuda.UNIFIED_MEMORY,
}


def header() -> Path:
    try:
        root = toolkit.find().root
    except Unavailable as error:
        pytest.skip(str(error))
    found = next((path for path in (root / "include" / "cuda.h", *root.glob("targets/*/include/cuda.h")) if path.exists()), None)
    if found is None or shutil.which("g++") is None:
        pytest.skip("no cuda.h or no g++")
    if not re.search(r"#define CUDA_VERSION 1[3-9]", found.read_text()):
        pytest.skip("a cuda.h of another generation")
    return found


def test_structures_and_numbers_are_those_of_the_header(tmp_path: Path) -> None:
    asked = []
    for name, (_, fields) in FIELDS.items():
        asked.append(f"sizeof({name})")
        asked += [f"offsetof({name}, {field})" for field in fields.values()]
    asked += list(NUMBERS)
    lines = "\n".join(f'std::printf("%lld\\n", (long long)({one}));' for one in asked)
    source = tmp_path / "layout.cpp"
    source.write_text(f"#include <cstddef>\n#include <cstdio>\n#include <cuda.h>\nint main() {{\n{lines}\n}}\n")
    program = tmp_path / "layout"
    subprocess.run(["g++", f"-I{header().parent}", "-w", "-o", str(program), str(source)], check=True, timeout=120)
    told = [int(line) for line in subprocess.run([str(program)], check=True, capture_output=True, text=True, timeout=10).stdout.split()]

    mine: list[int] = []
    for structure, fields in FIELDS.values():
        mine.append(ctypes.sizeof(structure))
        mine += [getattr(structure, field).offset for field in fields]
    mine += NUMBERS.values()
    assert dict(zip(asked, mine, strict=True)) == dict(zip(asked, told, strict=True))
