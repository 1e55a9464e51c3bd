"""The engine's thread: makes all calls of an engine, so that none of them holds up the controller.

The thread takes turns: it carries out all commands that were sent since its last turn as one batch, publishes how each
of them ended, polls, and publishes the view. Where commands were carried out, an older view that was not taken yet is
withdrawn. So the controller, which takes the ends of commands before the view, never sees a view from before these
commands.

The thread also reads what starts report: of those that have ended after the poll that shows it, so that their last
words are there with the view; of the others where it is asked to. A disk that does not answer holds up the thread, not
the controller.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

import structlog

from muster.problems import InputError, Unable
from muster.service.engines.interface import Command, Engine, EngineView, ReportRequest
from muster.service.engines.report_watch import Heard, ReportWatch, StartKey

_LONGEST_RETRY_SECONDS = 30.0
"""Between two polls of an engine that cannot be reached."""

log = structlog.get_logger()


@dataclass(frozen=True)
class CommandResult:
    """How a command ended."""

    command: Command
    error: Exception | None
    """None: it was carried out."""


class EngineThread:
    """An engine behind calls that return at once.

    Before `start` the caller does the thread's work: `send` carries out, `newest_view` polls.
    """

    def __init__(self, engine: Engine, wake: Callable[[], None] = lambda: None) -> None:
        """`wake` is called, from the thread, when there is something to take."""
        self._engine, self._wake = engine, wake
        self.capabilities = engine.capabilities
        self._changed = threading.Condition()
        self._commands: list[Command] = []
        self._results: list[CommandResult] = []
        self._view: EngineView | None = None
        self._poll_error: Exception | None = None
        self._polled_at = -inf
        self._failed_polls = 0
        self._watch = ReportWatch(engine)
        self._watched: Mapping[StartKey, ReportRequest] = {}
        self._reports_due = False
        self._heard: dict[StartKey, Heard] = {}
        self._heard_at = -inf
        self._thread: threading.Thread | None = None
        self._stopping = False

    def start(self) -> None:
        """Begin to poll in a thread of its own."""
        self._thread = threading.Thread(target=self._work, name="engine", daemon=True)
        self._thread.start()

    def stop(self, within_seconds: float = 10.0) -> None:
        """End the thread after what it is doing; a call that hangs is left behind."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(within_seconds)
            self._thread = None

    def send(self, commands: Sequence[Command]) -> None:
        """Have commands carried out, in their order; `results` reports each of them."""
        if not commands:
            return
        with self._changed:
            self._commands += commands
            self._changed.notify()
        if self._thread is None:
            self._carry_out()

    def watch(self, requests: Sequence[ReportRequest]) -> None:
        """Read the reports of these starts from now on; before they are launched, so that nothing is missed."""
        watched = {(one.job, one.epoch): one for one in requests}
        with self._changed:
            if watched.keys() - self._watched.keys():
                self._view = None  # It has no last words of those that it shows to have ended.
            self._watched = watched

    def ask_for_reports(self) -> None:
        """Read the reports of living starts too, once."""
        with self._changed:
            self._reports_due = True

    def reports(self) -> dict[StartKey, Heard]:
        """What was heard of starts that were looked at, once. To be taken after the view, whose last words are here."""
        with self._changed:
            heard, self._heard = self._heard, {}
            return heard

    @property
    def reports_age_seconds(self) -> float:
        """Seconds since the newest reports were read; 0 without the thread."""
        return 0.0 if self._thread is None else time.monotonic() - self._heard_at

    def results(self) -> list[CommandResult]:
        """How commands ended, each once. To be taken before the view."""
        with self._changed:
            results, self._results = self._results, []
            return results

    def newest_view(self) -> EngineView | None:
        """What the last poll found, once; None if there is nothing new. Its error, if it failed."""
        if self._thread is None:
            self._poll()
        with self._changed:
            if self._poll_error is not None:
                raise self._poll_error
            view, self._view = self._view, None
            return view

    @property
    def age_seconds(self) -> float:
        """Seconds since the last poll that succeeded began; infinite before the first one, 0 without the thread."""
        return 0.0 if self._thread is None else time.monotonic() - self._polled_at

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._commands or self._stopping, self._pause_seconds)
                if self._stopping:
                    return
            sent, first = bool(self._commands), self._polled_at == -inf
            if sent:
                self._carry_out()
            self._poll()
            if sent or first:
                self._wake()

    @property
    def _pause_seconds(self) -> float:
        """Until the next poll."""
        seconds = self.capabilities.poll_seconds * 2.0 ** min(self._failed_polls, 10)
        return min(seconds, max(_LONGEST_RETRY_SECONDS, self.capabilities.poll_seconds))

    def _carry_out(self) -> None:
        with self._changed:
            commands, self._commands = self._commands, []
            watched = self._watched
        self._watch.begin(watched)
        try:
            errors = self._engine.carry_out(commands)
            ends = [
                CommandResult(command, error and _os_error_behind(error))
                for command, error in zip(commands, errors, strict=True)
            ]
        except Exception as error:
            ends = [CommandResult(command, _os_error_behind(error)) for command in commands]
        with self._changed:
            self._results += ends
            self._view = None

    def _poll(self) -> None:
        began = time.monotonic()
        view, error = None, None
        try:
            view = self._engine.poll()
        except Exception as failure:
            error = _os_error_behind(failure)
        with self._changed:
            watched, living, self._reports_due = self._watched, self._reports_due, False
        heard = self._watch.read(watched, _over(watched, view), living=living)
        with self._changed:
            misses_some = self._watched.keys() - watched.keys()  # as in `watch`
            self._view, self._poll_error = None if misses_some else view, error
            self._heard |= {
                key: self._heard[key].before(one) if key in self._heard else one for key, one in heard.items()
            }
            self._heard_at = time.monotonic() if heard else self._heard_at
            if error is None:
                self._polled_at, self._failed_polls = began, 0
            else:
                self._failed_polls += 1


def _os_error_behind(error: Exception) -> Exception:
    """Return the error of the machine behind what `files.write_aside` raises; any other one as it is."""
    behind = error.__context__
    return behind if isinstance(error, Unable | InputError) and isinstance(behind, OSError) else error


def _over(watched: Mapping[StartKey, ReportRequest], view: EngineView | None) -> list[StartKey]:
    """The starts that have ended or are not there, as far as the poll knows."""
    if view is None:
        return []
    living = {(one.job, one.epoch) for one in view.starts if one.ended is None}
    return [key for key in watched if key not in living]
