"""Syntax: trees of kernel sources, their tunables, flags, normal form and edits.

Nothing here runs or compiles a source; everything is read off its text. `evokern.syntax.cpp` holds the C++ tree and is the
only module that imports tree-sitter, when it is first used.
"""

from __future__ import annotations

from evokern.syntax.flags import ALLOWED_FLAGS, flags_of
from evokern.syntax.normal import normal_form
from evokern.syntax.tunables import Tunable, tunables_of, with_values

__all__ = ["ALLOWED_FLAGS", "Tunable", "flags_of", "normal_form", "tunables_of", "with_values"]
