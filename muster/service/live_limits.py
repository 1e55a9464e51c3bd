"""The limits that hold now: read when the daemon starts, and again on request."""

from __future__ import annotations

from pathlib import Path
from queue import SimpleQueue

import structlog

from muster.problems import InputError
from muster.service.limits import Limits, read_limits

log = structlog.get_logger()


class LiveLimits:
    """Written by one thread, that of `reload_on_request`; read by all."""

    def __init__(self, named: Path | None, home: Path) -> None:
        """Reads the named file, else the home's. InputError names what is wrong with it."""
        self._named, self._home = named, home
        self._requests: SimpleQueue[None] = SimpleQueue()
        self.current: Limits = read_limits(named, home)
        self.error = ""
        """Empty, or that the file could not be used at the last reload. It names no user: any client may read it."""

    def request_reload(self) -> None:
        """Safe in a signal handler: it waits for no lock."""
        self._requests.put(None)

    def reload_on_request(self) -> None:
        """Reloads at each request; never returns."""
        while True:
            self._requests.get()
            self.reload()

    def reload(self) -> None:
        """Replaces the limits as a whole; a file with an error changes none, and the log has the error."""
        try:
            self.current = read_limits(self._named, self._home)
        except (InputError, OSError) as error:
            self.error = (
                "the limits file has errors: the limits read before it stay; the daemon's log has the errors"
            )
            log.error("limits not reloaded, the former ones stay", error=str(error))
        else:
            self.error = ""
            log.info("limits reloaded")
