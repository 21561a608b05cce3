"""The journal: what every run did, in one file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from evokern.errors import Unavailable, UsageError
from evokern.event import Event
from evokern.store.location import DATABASE, require_writable
from evokern.store.queries import Queries
from evokern.store.schema import FIRST_RUN, open_database
from evokern.store.writer import Writer


class Journal(Queries):
    """Append, replay and queries over one home's database.

    Appending costs the same at the first event and the millionth: rows are added, nothing is rewritten. Any number of
    processes may hold a journal on the same home; each transaction takes milliseconds.

    Args:
        home: The home folder; made where it is missing.
        read_only: Look only: nothing is made, and `append` refuses.

    Raises:
        Unavailable: The home cannot be written, or has no journal yet (read-only); the file is damaged, another
            program's, or a newer version's.
    """

    def __init__(self, home: Path, *, read_only: bool = False) -> None:
        path = home / DATABASE
        if read_only and not path.is_file():
            raise Unavailable("no run has been made here yet", where=str(home), mend=FIRST_RUN)
        if not read_only:
            require_writable(home)
        database = open_database(path, read_only=read_only)
        super().__init__(database, path)
        self._writer = None if read_only else Writer(database, path)

    @property
    def path(self) -> Path:
        """The database's file."""
        return self._path

    async def append(self, events: Iterable[Event]) -> None:
        """Write events and return once they are durable.

        Events whose (run, kind, key) is there already are dropped: writing twice is writing once. Concurrent calls share a
        transaction, one call is never split over two, and callers of one loop wake in the order of their rows.

        Args:
            events: Any number, of any runs; `at` of 0.0 becomes the present.

        Raises:
            UsageError: A payload is not that of its kind, or the journal is read-only or closed.
            Unavailable: The file cannot be written (full disk, lost mount, another process's lock); none of the call's
                events is in it and a later call may work.
        """
        if self._writer is None:
            raise UsageError("the journal was opened to be read only", where=str(self._path))
        await self._writer.append(events)

    def close(self) -> None:
        """Write what still waits and let go of the file; a second call does nothing."""
        if self._writer is not None:
            self._writer.close()
        self._database.dispose()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
