"""A job's run: its steps, resumed where they stopped, stopped when the scheduler asks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from muster.problems import InputError, Problem
from muster.training.batches import Batches, Epoch, batches_of
from muster.training.cache import caches_in
from muster.training.environment import Environment, read_environment
from muster.training.link import Place, Saved, SchedulerLink
from muster.training.randomness import begin_rank, set_random_state, undisturbed
from muster.training.ranks import Ranks
from muster.training.repeated import RepeatedBatch
from muster.training.run_folder import RunFolder
from muster.training.shares import Division
from muster.training.states import check_states, restore_states


def join(*, seed: int = 0) -> TrainingRun:
    """Joins the scheduler that started this process, if one did; `seed` fixes the order and the samples.

    From here to the last step SIGTERM means: stop at the next agreed step.
    """
    problem = _not_whole("training.join", "seed", seed)
    if problem:
        raise InputError(problem)
    environment = read_environment()
    if environment.run_dir is None:
        return TrainingRun(seed, None, environment)
    folder = RunFolder(environment.run_dir, environment.epoch)
    link = SchedulerLink(folder, environment.checkpoint_seconds)
    return TrainingRun(seed, link, environment)


class TrainingRun:
    """One start of a job. Made by `join`."""

    def __init__(self, seed: int, link: SchedulerLink | None, environment: Environment) -> None:
        self.step = 0
        """Steps done since the job's first start."""
        self.epoch = 0
        """The pass over the data that the present batch belongs to, from 0 on."""
        self.ends_epoch = False
        """Whether the present batch is the last one of its epoch."""
        self.ends_update = False
        """Whether the optimizer is to step with the present batch: always, unless gradients are accumulated."""
        self.weight = 1.0
        """What to multiply the mean loss of the present batch with: 1, unless an elastic job's batch is divided."""
        self._seed = seed
        self._link = link
        self._environment = environment
        self._position = 0
        self._now = Epoch(0, "")
        self._apart: bool | None = None
        self._accumulate = 1
        self._elastic = False
        self._local_batch: int | None = None
        self._state: Mapping[str, Any] | None = None
        self._finished = False

    def steps(
        self,
        loader: Any,
        *,
        state: Mapping[str, Any],
        epochs: int = 1,
        accumulate: int = 1,
        elastic: bool = False,
        local_batch: int | None = None,
    ) -> Iterator[Any]:
        """The batches of all epochs that are still to do.

        `state` is all that training changes: what has state_dict and load_state_dict (model, optimizer,
        schedule, scaler), and plain dicts, which are refilled. With `accumulate` the optimizer steps only where
        `ends_update` says so, and the run is saved and stopped only there: gradients are not part of a checkpoint.

        With `elastic` each start may have another number of ranks. The loader, the same on every rank, has the total
        batches; a rank gets its share of each, in parts of at most `local_batch` samples. `weight` is the part's, and
        a step is a total batch. Samples, their order and the batches of all updates are those of one rank.
        """
        if self._state is not None:
            what = "these can be walked through once a run; say how many with epochs="
            raise InputError(Problem("run.steps", what))
        problems = [
            _not_whole("run.steps", "epochs", epochs),
            _not_whole("run.steps", "accumulate", accumulate, least=1),
            *_wrong_parts(accumulate, elastic, local_batch),
        ]
        if found := [problem for problem in problems if problem]:
            raise InputError(*found)
        check_states(state)
        self._state, self._accumulate = state, accumulate
        self._elastic, self._local_batch = elastic, local_batch
        batches = batches_of(loader, self._seed)
        repeated = None
        if self._environment.profiled_share and not self._environment.cached_only:
            repeated = RepeatedBatch(batches, self._environment.profiled_share)
        if self._link is not None:
            self._link.walked, self._link.elastic = caches_in(loader), elastic
            self._link.repeated = repeated
            if self._environment.profiled:
                self._link.loader_workers = (repeated or batches).loader_workers
        return self._steps(repeated or batches, state, epochs)

    def finish(self) -> None:
        """Training is over with the present batch, though there are more; all processes have to say so.

        For early stopping: saves and reports the end, which leaving the loop alone does not. The loop gives no more.
        """
        if self._state is None:
            raise InputError(Problem("run.finish", "there is nothing to end before run.steps"))
        if not self._finished:
            self._finished = True
            self.step += 1
            self._position += 1
            if self._link is not None:
                self._link.after_last_step(self._place(), self._state, early=True)

    def _steps(self, batches: Batches, state: Mapping[str, Any], epochs: int) -> Iterator[Any]:
        try:
            yield from self._walk(batches, state, epochs)
        except (Exception, GeneratorExit):
            if self._link is not None:
                self._link.leave()
            raise

    def _walk(self, batches: Batches, state: Mapping[str, Any], epochs: int) -> Iterator[Any]:
        ranks = Ranks(alone=self._link is None and not self._elastic)
        if self._elastic:
            division = Division(ranks.rank, ranks.count, self._local_batch)
            if self._environment.cached_only:
                division = division.shared_among(max(self._environment.profiled_share, 1))
            batches.divide(division)
        had_finished = self._resume(batches, ranks, state, epochs)
        place = self._place()
        begun = True
        while self.epoch < epochs and not self._is_over():
            if not begun:
                self._begin(batches, ranks)
            yield from self._walk_epoch(batches, state, is_last=self.epoch + 1 == epochs)
            if self._is_over():
                return
            # Reported as the end of its epoch, not as the start of one that may have another length or never come.
            place = self._place()
            self.epoch, self._position, begun = self.epoch + 1, 0, False
        self._finished = True
        if self._link is not None:
            self._link.after_last_step(place, state, early=had_finished)

    def _resume(self, batches: Batches, ranks: Ranks, state: Mapping[str, Any], epochs: int) -> bool:
        """Begins where the newest checkpoint is; whether the job has said there that it is done."""
        saved = None if self._link is None else self._link.load(ranks)
        if saved is None:
            if self.epoch < epochs:
                self._begin_first(batches, ranks, saved)
            return False
        self.step, self.epoch, self._position = saved.place.step, saved.place.epoch, saved.place.position
        self._begin_first(batches, ranks, saved)
        restore_states(state, saved.state, saved.devices)
        if saved.random is None:
            begin_rank(self._seed, self.step, ranks.rank)
        else:
            set_random_state(saved.random)
        self._finished = saved.finished
        return saved.finished

    def _walk_epoch(self, batches: Batches, state: Mapping[str, Any], *, is_last: bool) -> Iterator[Any]:
        """What is left of the present epoch."""
        with undisturbed():
            rest = batches.rest(self._position)
        while self._position < self._now.batches:
            with undisturbed():
                share = next(rest)
            self.weight = share.weight
            self.ends_epoch = share.is_last and self._position + 1 == self._now.batches
            self.ends_update = self.ends_epoch or (
                share.is_last and (self._position + 1) % self._accumulate == 0
            )
            yield share.samples
            if self._is_over():
                return
            if share.is_last:
                self.step += 1
                self._position += 1
                if self._link is not None and self.ends_update and not (self.ends_epoch and is_last):
                    self._link.between_steps(self._place(), state)
                if self._link is not None and self._link.discards_prepared():
                    with undisturbed():
                        rest.close()
                        rest = batches.rest(self._position)

    def _is_over(self) -> bool:
        """Whether the job has said so meanwhile."""
        return self._finished

    def _place(self) -> Place:
        return Place(
            self.step,
            self.epoch,
            self._position,
            self._now.batches,
            self._seed,
            self._now.order,
            self._apart,
            self._accumulate,
            self._elastic,
        )

    def _begin_first(self, batches: Batches, ranks: Ranks, saved: Saved | None) -> None:
        """The first epoch of this start: the one begun before, from which nothing may differ."""
        self._apart = False if saved is None or self._elastic else saved.place.apart
        self._begin(batches, ranks)
        problems = [] if saved is None else self._differences(saved, ranks)
        if self._elastic and len(set(ranks.gathered((self._now, self._seed)))) > 1:
            what = (
                "the processes have different batches, but elastic=True divides each batch itself; give all the same "
                "loader, without DistributedSampler, and the same join(seed=...)"
            )
            problems.append(Problem("run.steps", what, column="loader"))
        if saved is None and self._link is not None and batches.begin(self.epoch) != self._now:
            what = (
                "its sampler gives another order each time it is asked, so the run could not go on where it stopped; "
                "draw from PyTorch's, NumPy's or python's own random numbers, or from a torch.Generator that is an "
                "attribute of the sampler"
            )
            problems.append(Problem("run.steps", what, column="loader"))
        ranks.all_refuse(problems)
        if ranks.count > 1 and not self._elastic and not self._apart and self._all_the_same(ranks):
            self._draw_apart(batches, ranks, saved)

    def _begin(self, batches: Batches, ranks: Ranks) -> None:
        self._now = batches.begin(self.epoch, ranks.rank if self._apart else 0)
        if self._link is not None:
            counts = ranks.gathered(self._now.batches)
            if len(set(counts)) > 1:
                what = (
                    "the processes have different numbers of batches an epoch, so the first to end would wait for "
                    "ever; give each as many (DistributedSampler does, or drop_last=True)"
                )
                raise InputError(Problem("run.steps", what, column="loader", found=counts))

    def _draw_apart(self, batches: Batches, ranks: Ranks, saved: Saved | None) -> None:
        """Processes that would all train on the same samples each draw an order of their own, where it is drawn."""
        before = self._now
        self._apart = True
        self._begin(batches, ranks)
        drawn = not self._all_the_same(ranks)
        if drawn and saved is not None:
            what = (
                "the checkpoint was made when all processes walked through the same batches, which now draw their "
                "own; start as a new job"
            )
            raise InputError(Problem("resume", what))
        if not drawn:
            self._apart, self._now = False, before
            if self._link is not None and before.order:
                what = (
                    "all processes walk through their data in the same order; if they have the same data, each needs "
                    "a part of its own (DistributedSampler)"
                )
                self._link.say(what)

    def _all_the_same(self, ranks: Ranks) -> bool:
        return len(set(ranks.gathered(self._now.order))) == 1

    def _differences(self, saved: Saved, ranks: Ranks) -> list[Problem]:
        then = saved.place
        same: dict[str, tuple[object, object]] = {
            "seed": (then.seed, self._seed),
            "batches an epoch": (then.batches, self._now.batches),
        }
        if then.accumulate is not None:
            same["accumulate"] = (then.accumulate, self._accumulate)
        # One process walks through whole batches, so its place is an elastic job's too.
        divided = {
            was for was, count in ((then.elastic, saved.processes), (self._elastic, ranks.count)) if count > 1
        }
        if False in divided:
            same["processes"] = (saved.processes, ranks.count)
        if divided == {False, True}:
            same["elastic"] = (then.elastic, self._elastic)
        problems = [
            Problem(
                "resume",
                f"the checkpoint was made with {before}; start with the same, or as a new job",
                column=name,
                found=now,
            )
            for name, (before, now) in same.items()
            if before != now
        ]
        if not problems and then.order and then.order != self._now.order:
            what = (
                "the samples of this epoch come in another order than when the checkpoint was made, so some would be "
                "repeated and some left out; its data set or sampler is another one, or keeps a state of its own"
            )
            problems.append(Problem("resume", what))
        return problems


def _wrong_parts(accumulate: int, elastic: bool, local_batch: int | None) -> list[Problem]:
    """What cannot be combined with the division of batches among ranks."""
    if elastic:
        problems = [
            None if local_batch is None else _not_whole("run.steps", "local_batch", local_batch, least=1)
        ]
        if accumulate != 1:
            what = "an elastic job's gradients are accumulated by local_batch; allowed: 1"
            problems.append(Problem("run.steps", what, column="accumulate", found=accumulate))
        return [problem for problem in problems if problem]
    if local_batch is None:
        return []
    what = "only an elastic job's batches are divided; add elastic=True, or leave it out"
    return [Problem("run.steps", what, column="local_batch", found=local_batch)]


def _not_whole(where: str, name: str, value: object, *, least: int = 0) -> Problem | None:
    if isinstance(value, int) and not isinstance(value, bool) and value >= least:
        return None
    return Problem(where, f"allowed: a whole number from {least} on", column=name, found=value)
