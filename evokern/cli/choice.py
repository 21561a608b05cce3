"""Which backend `auto` stands for."""

from __future__ import annotations


def chosen_backend(name: str, dialect: str = "") -> str:
    """The backend of a name; for `auto` the one that is preferred among those that work here.

    Args:
        name: As it was given.
        dialect: What it must take; any where empty.

    Raises:
        Unavailable: None that takes the dialect works here; the cause is that of the last one, which asks for least.
        UsageError: None takes it.
    """
    from evokern import plugins
    from evokern.errors import Unavailable, UsageError

    if name != "auto":
        return name
    causes: list[Unavailable] = []
    for candidate in sorted(plugins.names("backend"), key=_preference, reverse=True):
        try:
            backend = plugins.load("backend", candidate)()
            if dialect in ("", *backend.dialects):
                backend.probe()
                return candidate
        except Unavailable as error:
            causes.append(error)
    if causes:
        raise causes[-1]
    raise UsageError(f"no backend takes {dialect}", where="--backend", mend="`evokern plugins` lists them")


def _preference(name: str) -> int:
    from evokern import plugins
    from evokern.errors import Unavailable

    try:
        return int(getattr(plugins.load("backend", name), "preference", 0))
    except Unavailable:
        return 0
