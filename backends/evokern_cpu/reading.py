"""Reading a built library: the toolchain's own readers, in a slot, because a library's bytes are a candidate's.

What they print is text of known form, and `found` makes descriptors of it: traits of the code (`evokern_cpu.traits`) and facts
about what it asks of the system (`evokern.building.linkage`).
"""

from __future__ import annotations

import shutil

from evokern.building import linkage
from evokern_cpu import traits


def able() -> bool:
    """Whether the readers are here; they come with every toolchain that has GNU binutils."""
    return all(shutil.which(command[0]) is not None for command in (linkage.READ, traits.DISASSEMBLE))


def script(library: str, printed: str) -> str:
    """Shell command that reads a library.

    Args:
        library: File name, nothing that a shell would read otherwise.
        printed: File for what is printed; likewise.
    """
    # Headers first: a listing that grows past every limit then still leaves what the library asks of the system.
    return f"for read in '{' '.join(linkage.READ)}' '{' '.join(traits.DISASSEMBLE)}'; do $read {library} 2>/dev/null; done >{printed}"


def found(printed: str) -> dict[str, str]:
    """Descriptors of a library.

    Args:
        printed: What `script` left; may be cut anywhere.

    Returns:
        Traits and facts; empty where nothing could be read.
    """
    return {**traits.from_disassembly(printed), **linkage.from_headers(printed)}
