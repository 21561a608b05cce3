"""The cpu backend: C++17 with OpenMP, built by g++ or clang++ as a plain shared library, called through ctypes.

    backend    CpuBackend: probe, build, loader, read
    compiler   which compiler, and what it is exactly
    flags      fixed flags and those that a kernel chose
    reading    reads a built library in a slot: traits and linkage
    traits     what a library does, from its disassembly and its source
    loader     what a runner imports: a library's descriptor -> a callable kernel

Products on disk and what a library asks of the system: `evokern.building`.

A plain library and not a torch extension, because it builds about fifty times faster and needs no torch in the runner.
"""
