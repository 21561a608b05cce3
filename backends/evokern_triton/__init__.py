"""The triton backend: Triton kernels, compiled in a slot for what visible workloads ask for, and launched without PyTorch or a compiler.

    backend       TritonBackend: probe, build, loader, read
    target        what code is made for, and what a kernel may use there
    calls         the calls of `run` that a build stands for, from a task's visible workloads
    building      the program of the build slot: source and calls -> artefact and report
    compiling     one specialisation through Triton's stages
    specialising  Triton's own launch path, with a store of specialisations in place of its cache
    artefact      source, specialisations and binaries as one file
    product       the cache of artefacts, with the binaries beside them
    module        a source as a module
    tensor        the light tensor that `run` is called with
    stand_in      the module that `import torch` finds
    packing       the parameters of a launch as bytes
    loader        what a runner imports: an artefact's descriptor -> a callable kernel
    traits        what a binary does, from its disassembly
    lifting       configurations of `@triton.autotune` as tunables
    gates         compiles for every target, with no GPU
    interpreting  runs kernels in Triton's interpreter, with no GPU

Nothing here uses Triton's file cache: it is keyed by a hash of half a gigabyte of compiler and holds paths, while a specialisation is
known by the text that Triton itself looks it up by. So an artefact is one file that a runner reads from a descriptor.
"""
