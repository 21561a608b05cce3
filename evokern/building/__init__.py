"""What backends of compiled dialects share: products on disk, and what a product asks of the system.

batch     several builds side by side
product   the cache of built libraries and device binaries
linkage   what a library asks of the system, from its headers
"""

from __future__ import annotations

__all__ = ["DATELESS"]

DATELESS = tuple(f"-D{macro}=a_kernel_knows_no_date" for macro in ("__DATE__", "__TIME__", "__TIMESTAMP__"))
"""One source has one product: a kernel that asks when it was built would be another one at every build, so it does not compile."""
