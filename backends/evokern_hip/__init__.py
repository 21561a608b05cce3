"""The hip backend: HIP C++ by the contract of C dialects, on one of two platforms.

    backend   HipBackend: probe, build, loader, read, instruments, device
    platforms which platform: amd, or nvidia through the shim
    amd       clang with AMD's device libraries: which one, commands, what its remarks say
    gate      compile for several AMD GPUs and read what the kernels need, without any GPU
    shim/hip  HIP's headers over CUDA, for nvcc

What was built through the shim ran as CUDA on an NVIDIA GPU and says so wherever it is named: "hip-nvidia (shim)", never AMD.
"""
