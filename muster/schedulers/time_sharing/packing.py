"""Packing by trial (Gandiva §4.3): two jobs in turns run together for a while, and stay so if both gain by it.

Nothing is assumed about how well jobs go together: the pair's progress in turns is measured, then its progress
side by side, and what was learned is kept by what the jobs train.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from muster.schedulers.contract import Snapshot, State
from muster.schedulers.time_sharing.gpu_occupancy import GpuOccupancy, Place, gpus_of

SETTLING, IN_TURNS, TOGETHER = 0, 1, 2
"""Phases of a trial: letting restarts pass, measuring turns, measuring the jobs side by side."""

NOTHING_LEARNED: State = {"trials": {}, "pays": {}}
"""Trials by the numbers of the pair's jobs; what was learned by what they train."""


class Trial(NamedTuple):
    """How far the trial of a pair is."""

    place: Place
    phase: int
    since: float
    work: tuple[float, float]
    """Iterations of both when the phase began."""
    paces: tuple[float, float] = (0.0, 0.0)
    """Iterations a second in turns."""


def pairs_in_turns(floor: GpuOccupancy) -> list[tuple[int, int, Place]]:
    """Positions of two jobs that have the same GPUs, and these for themselves."""
    found = [
        (min(members), max(members), place)
        for stacks in floor.stacks.values()
        for place, members in stacks.items()
        if len(members) == 2 and floor.height(place) == 2
    ]
    return sorted(found)


def step(
    snapshot: Snapshot, floor: GpuOccupancy, state: State, trial_seconds: float, least_gain: float
) -> tuple[set[int], float, State]:
    """The positions to be packed from now on, when to look again, and what is known by then."""
    pairs = pairs_in_turns(floor)
    if not pairs:
        return set(), inf, {**state, "trials": {}}
    index, now, done = snapshot.jobs.index.tolist(), snapshot.now, snapshot.jobs.work_done.tolist()
    packed: set[int] = set()
    trials: dict[str, Trial] = {}
    pays = dict(state["pays"])
    for one, other, place in pairs:
        label = _label(snapshot, (index[one], index[other]), gpus_of(place))
        if label not in pays:
            key = f"{index[one]},{index[other]}"
            work = (done[one], done[other])
            before, *rest = state["trials"].get(key, [()])
            trial = Trial(place, *rest) if tuple(map(tuple, before)) == place else None
            if trial is None:
                trial = Trial(place, SETTLING, now, work)
            elif now >= trial.since + trial_seconds:
                paces = _paces(trial, now, work)
                if trial.phase == TOGETHER:
                    pays[label] = _gain(trial.paces, paces) >= least_gain
                elif trial.phase == SETTLING or min(paces) > 0:
                    trial = Trial(place, trial.phase + 1, now, work, paces)
                else:  # Restarting all the while: nothing to compare with.
                    trial = Trial(place, IN_TURNS, now, work)
            if label not in pays:
                trials[key] = trial
        if pays.get(label, False) or (label not in pays and trials[key].phase == TOGETHER):
            packed |= {one, other}
    wake = min((trial.since + trial_seconds for trial in trials.values()), default=inf)
    return packed, wake, {"trials": trials, "pays": pays}


def _paces(trial: Trial, now: float, work: tuple[float, float]) -> tuple[float, float]:
    seconds = now - trial.since
    return (work[0] - trial.work[0]) / seconds, (work[1] - trial.work[1]) / seconds


def _gain(in_turns: tuple[float, float], together: tuple[float, float]) -> float:
    """Of both on average, relative to turns."""
    return (together[0] / in_turns[0] + together[1] / in_turns[1]) / 2 - 1


def _label(snapshot: Snapshot, pair: tuple[int, int], gpus: int) -> str:
    """What a lesson is about: the two models and their gang; of a job that does not say its model, the job."""
    table = snapshot.table
    names = sorted(table.model_names[table.asked["model"][job]] or f"job {table.ids[job]}" for job in pair)
    return f"{names[0]} with {names[1]} on {gpus}"
