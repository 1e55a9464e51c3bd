"""A job's run: its steps, resumed where they stopped, stopped when the scheduler asks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from muster.problems import BadInput, Problem
from muster.training.batches import Batches, batches_of
from muster.training.environment import read_environment
from muster.training.link import Link, Place
from muster.training.randomness import set_random_state, undisturbed
from muster.training.run_folder import RunFolder
from muster.training.states import check_states, restore_states


def join(*, seed: int = 0) -> Run:
    """Joins the scheduler that started this process, or nobody; `seed` fixes the order and the samples.

    From here to the last step SIGTERM means: stop at the next agreed step.
    """
    problem = _not_whole("training.join", "seed", seed)
    if problem:
        raise BadInput(problem)
    environment = read_environment()
    if environment.run_dir is None:
        return Run(seed, None)
    folder = RunFolder(environment.run_dir, environment.epoch)
    return Run(seed, Link(folder, environment.checkpoint_seconds))


class Run:
    """One start of a job. Made by `join`."""

    def __init__(self, seed: int, link: Link | None) -> None:
        self.step = 0
        """Steps done since the job's first start."""
        self.epoch = 0
        """The pass over the data that the present batch belongs to, from 0 on."""
        self.ends_epoch = False
        """Whether the present batch is the last one of its epoch."""
        self._seed = seed
        self._link = link
        self._position = 0
        self._batches = 0
        self._walked = False

    def steps(self, loader: Any, *, state: Mapping[str, Any], epochs: int = 1) -> Iterator[Any]:
        """The batches of all epochs that are still to do.

        `state` is all that training changes: what has state_dict and load_state_dict (model, optimizer,
        schedule, scaler), and plain dicts, which are refilled.
        """
        if self._walked:
            what = "these can be walked through once a run; say how many with epochs="
            raise BadInput(Problem("run.steps", what))
        problem = _not_whole("run.steps", "epochs", epochs)
        if problem:
            raise BadInput(problem)
        check_states(state)
        self._walked = True
        return self._steps(batches_of(loader, self._seed), state, epochs)

    def _steps(self, batches: Batches, state: Mapping[str, Any], epochs: int) -> Iterator[Any]:
        if self._link is not None:
            self._resume(self._link, batches, state)
        place = self._place()
        while self.epoch < epochs:
            self._batches = batches.start(self.epoch, self._position)
            with undisturbed():
                rest = batches.rest()
            while self._position < self._batches:
                with undisturbed():
                    batch = next(rest)
                self.ends_epoch = self._position + 1 == self._batches
                yield batch
                self.step += 1
                self._position += 1
                is_last = self.ends_epoch and self.epoch + 1 == epochs
                if self._link is not None and not is_last:
                    self._link.between_steps(self._place(), state)
            # Told as the end of its epoch, not as the start of one that may have another length or never come.
            place = self._place()
            self.epoch, self._position = self.epoch + 1, 0
        if self._link is not None:
            self._link.after_last_step(place, state)

    def _place(self) -> Place:
        return Place(self.step, self.epoch, self._position, self._batches, self._seed)

    def _resume(self, link: Link, batches: Batches, state: Mapping[str, Any]) -> None:
        saved = link.load()
        if saved is None:
            return
        place = Place(**saved["place"])
        self._batches = batches.start(place.epoch, place.position)
        same = {
            "seed": (place.seed, self._seed),
            "processes": (saved["processes"], link.ranks.count),
            "batches an epoch": (place.batches, self._batches),
        }
        problems = [
            Problem(
                "resume",
                f"the checkpoint was made with {then}; start with the same, or as a new job",
                column=name,
                found=now,
            )
            for name, (then, now) in same.items()
            if then != now
        ]
        if problems:
            raise BadInput(*problems)
        restore_states(state, saved["state"])
        self.step, self.epoch, self._position = place.step, place.epoch, place.position
        set_random_state(saved["random"][link.ranks.rank])


def _not_whole(where: str, name: str, value: object) -> Problem | None:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return None
    return Problem(where, "a whole number from 0 on is needed", column=name, found=value)
