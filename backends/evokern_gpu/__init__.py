"""What the backends of GPUs share: device memory, windows, launches, capture, sealed replay, ceilings. NVIDIA's driver, by ctypes.

    driver       the driver: calls, memory, launches; `structures` has its structures and numbers
    device       Gpu, the judge's side: windows, tensors on them, eviction, probe
    ceilings     what the device can do at best, measured once and kept; clock  what NVML says of it now
    instruments  our own device code: blocker, eviction, probe, what ceilings are measured with
    kernel       DeviceKernel, what a runner holds; loader  the one of C dialects; tensors  the arguments as these get them
    capture      a call's launches, noted instead of run; relocation  two of those -> a launch list
    launches     the items of a launch list; bundle  binaries and launch lists in one file
    profiling    counters of a sealed kernel, by ncu; replayed  the process that ncu looks at
    sealed       SealedKernel: runs launch lists in a process without host code of a candidate, so that its device time counts

Why ctypes: a runner then holds no torch and no binding that a candidate could use or change, and starts in the time that CUDA
itself takes.
"""
