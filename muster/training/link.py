"""A start's link to its scheduler: looks for notices, saves, reports, stops; all ranks at the same step."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from typing import Any

from muster.problems import InputError
from muster.training.cache import CachedDataset, cache_report, grant
from muster.training.checkpoints import Checkpoints, load_checkpoint
from muster.training.randomness import random_state
from muster.training.ranks import Ranks
from muster.training.repeated import RepeatedBatch
from muster.training.run_folder import EXIT_STOPPED, RunFolder, Stale
from muster.training.states import devices_of, states_of
from muster.training.stopping import StopSignal

REPORT_SECONDS = 1.0
LONGEST_ROUND_SECONDS = 30.0
"""For which a profiled job waits with a report."""
AGREE_SECONDS = 1.0
"""Between the moments at which several ranks ask each other; one alone looks after every step."""
_PROBLEMS_KEPT = 10


@dataclass(slots=True)
class Place:
    """Where a run is, between two steps. Made at each of them, so as cheap as can be; never changed."""

    step: int
    epoch: int
    position: int
    """Batches of the epoch that are done."""
    batches: int
    """Of the epoch."""
    seed: int
    """Of this process."""
    order: str = ""
    """Identifies the epoch's order."""
    apart: bool | None = None
    """Whether each process has drawn an order of its own, as they would all have had the same."""
    accumulate: int | None = None
    """Batches an update."""
    elastic: bool = False
    """Whether the ranks share the batches of one order, so that another number of them can go on here."""


@dataclass(frozen=True)
class Saved:
    """What a checkpoint holds for this process."""

    place: Place
    processes: int
    state: Mapping[str, Any]
    devices: Mapping[str, Any]
    random: dict[str, Any] | None
    """None: there was no such rank."""
    finished: bool
    """The job has said that it is done, whatever batches there may be."""


class SchedulerLink:
    """One process's side of the protocol; the first rank writes for all."""

    def __init__(self, folder: RunFolder, checkpoint_seconds: float) -> None:
        self._folder = folder
        self._checkpoints = Checkpoints(folder)
        self._checkpoint_seconds = checkpoint_seconds
        self._problems: list[str] = []
        self._checkpoint_step = 0
        self.walked: tuple[CachedDataset, ...] = ()
        """The cached data sets that the steps go through; none: not known."""
        self.elastic = False
        """Whether the next start may have another number of ranks."""
        self.repeated: RepeatedBatch | None = None
        """In a profile of compute, the batch that comes again and again."""
        self._wanted_share = 0
        self.loader_workers = 0
        """In a profile, processes that prepare batches while steps are done."""
        self._discard = self._discarded = 0
        """How often a profile has asked that prepared batches be discarded, and how often they were."""
        with self._unless_stale():
            folder.check_newest()
        self._stop = StopSignal()

    def load(self, ranks: Ranks) -> Saved | None:
        """What the newest whole checkpoint holds, None where there is none."""
        self.ranks = ranks
        # The first grant may be over already, and samples are cached from the first batch on.
        self._read_notice()
        path = None
        if self.ranks.is_first:
            with self._unless_stale():
                path = self._checkpoints.newest_whole(self.say)
        path = self.ranks.of_first(path)
        saved = None if path is None else _of_rank(load_checkpoint(path), ranks.rank)
        self._checkpoint_step = self._looked_step = self._reported_step = saved.place.step if saved else 0
        self._next_look = self._checkpoint_step + 1
        self._looked_at = self._reported_at = self._saved_at = time.monotonic()
        return saved

    def between_steps(self, place: Place, state: Mapping[str, Any]) -> None:
        """After each step but the last; ends the process at the step at which all ranks agree to stop."""
        if place.step < self._next_look:
            return
        self._read_notice()
        now = time.monotonic()
        save_due = self.ranks.is_first and now - self._saved_at >= self._checkpoint_seconds
        next_look = self._step_of_next_look(place.step, now) if self.ranks.is_first else 0
        # The first rank's, as another may not have read the notice yet.
        share = self._wanted_share if self.ranks.is_first else 0
        agreed = self.ranks.largest([self._stop.asked, save_due, next_look, share])
        stop, save, self._next_look, share = agreed
        if self.repeated is not None and share:
            self.repeated.share_among(share)
        if stop or save:
            self._save(place, state)
        if stop:
            self._report("stopped", place)
            self.ranks.part()
            sys.exit(EXIT_STOPPED)
        if now - self._reported_at >= REPORT_SECONDS and self._ends_round(place, now):
            self._report("running", place)

    def discards_prepared(self) -> bool:
        """Whether the batches prepared so far are not wanted; asked after each step, and met by the caller."""
        wanted = self._discarded < self._discard
        self._discarded = self._discard
        return wanted

    def after_last_step(self, place: Place, state: Mapping[str, Any], *, early: bool = False) -> None:
        """Saves the end, so that a start that was killed after it has no step to do again."""
        if early or self._checkpoint_step < place.step:
            self._save(place, state, finished=early)
        self._report("trained", place)
        self.leave()

    def leave(self) -> None:
        """The steps are over, whatever of them is done: SIGTERM means again what it meant before."""
        self._stop.give_back()

    def _ends_round(self, place: Place, now: float) -> bool:
        """Whether each of the loader's workers has given as many batches as the others since the last report.

        Workers that share few CPUs come to be done at about the same time: many steps at once, then none. Between whole
        rounds that is alike.
        """
        if not self.loader_workers or now - self._reported_at >= LONGEST_ROUND_SECONDS:
            return True
        return (place.step - self._reported_step) % self.loader_workers == 0

    def _step_of_next_look(self, step: int, now: float) -> int:
        """The next step for one process; for several the one about `AGREE_SECONDS` away.

        At most twice as far as the last time: the first steps say little about the later ones.
        """
        if self.ranks.count == 1:
            return step + 1
        since = step - self._looked_step
        ahead = int(since * AGREE_SECONDS / max(now - self._looked_at, 1e-9))
        self._looked_step, self._looked_at = step, now
        return step + min(max(1, ahead), 2 * since)

    def _read_notice(self) -> None:
        try:
            notice = self._folder.new_notice()
        except InputError as error:
            self.say(str(error))
            return
        if notice is not None:
            self._stop.asked |= notice.stop
            if notice.cache_gb is not None:
                grant(notice.cache_gb)
            self._wanted_share = notice.profiled_share or self._wanted_share
            self._discard = notice.discard or self._discard

    def _save(self, place: Place, state: Mapping[str, Any], *, finished: bool = False) -> None:
        ranks = self.ranks.gathered({"place": asdict(place), "random": random_state()})
        if self.ranks.is_first:
            states = states_of(state)
            content = {
                "places": [each["place"] for each in ranks],
                "random": [each["random"] for each in ranks],
                "processes": self.ranks.count,
                "state": states,
                "devices": devices_of(state, states),
                "finished": finished,
            }
            with self._unless_stale():
                try:
                    self._checkpoints.save(place.step, content)
                    self._checkpoint_step = place.step
                except OSError as error:
                    self.say(f"no checkpoint at step {place.step}: {error.strerror or error}")
        # No rank leaves while the first still writes: a launcher may end all ranks when one has ended.
        self.ranks.gathered(None)
        self._saved_at = time.monotonic()

    def _report(self, state: str, place: Place) -> None:
        if not self.ranks.is_first:
            return
        now = time.monotonic()
        seconds = now - self._reported_at
        progress = {
            "state": state,
            "step": place.step,
            "at": now,
            "data_epoch": place.epoch,
            "batches_per_epoch": place.batches,
            "steps_per_second": (place.step - self._reported_step) / seconds if seconds else 0.0,
            "checkpoint_step": self._checkpoint_step,
            "ranks": self.ranks.count,
            "elastic": self.elastic,
            **cache_report(self.walked),
            **self._share_report(),
            "loader_workers": self.loader_workers,
            "discarded": self._discarded,
            "problems": self._problems,
        }
        with self._unless_stale():
            try:
                self._folder.report(progress)
            except OSError as error:
                self.say(f"no report at step {place.step}: {error.strerror or error}")
        self._reported_step, self._reported_at = place.step, now

    def _share_report(self) -> dict[str, int]:
        batch = self.repeated
        if batch is None:
            return {}
        return {
            "profiled_share": batch.workers,
            "share_samples": batch.samples,
            "share_passes": batch.passes,
        }

    def say(self, what: str) -> None:
        """In the job's output, and in its reports."""
        with suppress(OSError):  # The output may lie on the very disk that is full.
            print(f"muster: {what}", file=sys.stderr, flush=True)
        self._problems = [*self._problems, what][-_PROBLEMS_KEPT:]

    @contextmanager
    def _unless_stale(self) -> Iterator[None]:
        try:
            yield
        except Stale as stale:
            sys.exit(f"muster: {stale}; this process ends without saving")


def _of_rank(content: dict[str, Any], rank: int) -> Saved:
    """This process's part; where there were fewer processes, the last one's place, for its words of refusal."""
    # In the first format one place stood for all, without what has come since.
    places = content.get("places") or [content["place"]]
    known = {field.name for field in fields(Place)}
    place = places[min(rank, len(places) - 1)]
    random = content["random"]
    return Saved(
        place=Place(**{name: value for name, value in place.items() if name in known}),
        processes=content["processes"],
        state=content["state"],
        devices=content.get("devices", {}),
        random=random[rank] if rank < len(random) else None,
        finished=content.get("finished", False),
    )
