"""A sealed kernel's file: refused, or what another journey leaves as it is."""

from __future__ import annotations

from evokern_gpu.bundle import Bundle, bundle


def once(data: bytes) -> None:
    try:
        found = Bundle.decode(data)
    except ValueError:
        return
    again = bundle(found.images, found.calls, instruments=found.instruments, arguments=found.arguments)
    assert Bundle.decode(again) == found
