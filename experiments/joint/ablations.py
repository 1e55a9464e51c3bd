"""What each thing that joint sees is worth, and what wrong beliefs cost: the same runs with another view of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from experiments.joint.ground import Case, Make
from experiments.joint.seeing import ABLATIONS, NoisySpeeds, See, Seeing, UnknownAtFirst
from muster.cluster.ledger_arrays import Floats
from muster.schedulers.contract import Scheduler
from muster.schedulers.registry import build
from muster.sweep.statistics import estimate

NOISE = 0.3
BELIEFS: Mapping[str, Callable[[int], See] | None] = {
    "true speeds": None,
    f"speeds with noise {NOISE}": lambda seed: NoisySpeeds(NOISE, seed),
    "models unknown at first": lambda _: UnknownAtFirst(),
}
"""What schedulers believe of speeds, from the seed of a run; None: what is true."""


def ablations(case: Case, seeds: int) -> Iterator[str]:
    """A line for joint and one for each thing that it does not see: the figure, and that over joint's own."""
    whole = _over_seeds(case, case.joint, seeds, None)
    yield f"{case.name:45} {case.joint:35} {_shown(case, whole)}"
    for name, see in ABLATIONS.items():
        blind = _over_seeds(case, case.joint, seeds, lambda _, see=see: see())  # type: ignore[misc]
        yield f"{case.name:45} {'without ' + name:35} {_shown(case, blind)}  {_ratio(blind, whole)}"


def beliefs(case: Case, seeds: int) -> Iterator[str]:
    """For each belief of speeds joint's figure, that of the best rival with the same belief, and their ratio."""
    for name, see in BELIEFS.items():
        ours = _over_seeds(case, case.joint, seeds, see)
        rivals = {rival: _over_seeds(case, rival, seeds, see) for rival in case.rivals}
        better = max if case.what == "utility" else min
        best = better(rivals, key=lambda rival: float(rivals[rival].mean()))
        shown = f"{_shown(case, ours)}, {best} {_shown(case, rivals[best])}"
        yield f"{case.name:45} {case.joint:15} {name:25} {shown}  {_ratio(ours, rivals[best])}"


def _over_seeds(case: Case, scheduler: str, seeds: int, see: Callable[[int], See] | None) -> Floats:
    """The figure of each seed."""

    def made_for(seed: int) -> Make:
        def make(name: str, settings: Mapping[str, str]) -> Scheduler:
            made = build(name, settings)
            return made if see is None else Seeing(made, see(seed))

        return make

    every = range(case.first_seed, case.first_seed + seeds)
    return np.array([case.figure(scheduler, seed, made_for(seed)) for seed in every])


def _shown(case: Case, figures: Floats) -> str:
    mean = float(figures.mean())
    return f"{mean:9.3f}" if case.what == "utility" else f"{mean / 3600:8.2f} h"


def _ratio(figures: Floats, others: Floats) -> str:
    """The ratio of the means, with the 95 % interval of the ratio of each seed."""
    width = estimate((figures / others).tolist()).half_width
    return f"{figures.mean() / others.mean():.3f}" + ("" if width is None else f" ± {width:.3f}")
