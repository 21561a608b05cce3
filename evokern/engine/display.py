"""Display: whoever shows a run while it is on."""

from __future__ import annotations

from typing import Any, Protocol

from evokern.event import Event


class Display(Protocol):
    """Whoever shows a run; all calls are quick and none may fail the run."""

    def started(self, info: dict[str, Any]) -> None:
        """The run begins, or says what it is preparing (`say`)."""
        ...

    def event(self, event: Event) -> None:
        """Something was written to the journal."""
        ...

    def tick(self, status: dict[str, Any]) -> None:
        """About once a second, with the document of `evokern status`."""
        ...

    def say(self, text: str) -> None:
        """Something takes time."""
        ...

    def ended(self, summary: dict[str, Any]) -> None:
        """The run is over."""
        ...


class Silent:
    """A display that shows nothing."""

    def started(self, info: dict[str, Any]) -> None:
        """See `Display`."""

    def event(self, event: Event) -> None:
        """See `Display`."""

    def tick(self, status: dict[str, Any]) -> None:
        """See `Display`."""

    def say(self, text: str) -> None:
        """See `Display`."""

    def ended(self, summary: dict[str, Any]) -> None:
        """See `Display`."""
