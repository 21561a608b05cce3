"""The cuda backend: CUDA C++ by the contract of C dialects, built by nvcc as a plain shared library and a cubin.

    backend  CudaBackend: probe, build, loader, read, instruments, device
    gate     compile for several architectures and hold the result against what they have, without any GPU

What HIP on an NVIDIA GPU needs too is in `evokern_gpu`: building, nvcc, toolkit, card, resources, sass, measuring.

A plain library and not a torch extension: torch's header alone takes nvcc two minutes. The static runtime is linked in, so that a
runner needs no toolkit; the cubin is the very one that is in the library, kept from the same run of ptxas.
"""
