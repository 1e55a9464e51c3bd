"""Synergy (OSDI 2022, arXiv 2110.06073): allocation of CPU and memory by what jobs are sensitive to."""

from __future__ import annotations

from experiments.papers.experiment import Paper
from experiments.papers.synergy.gangs_together import GANGS_TOGETHER
from experiments.papers.synergy.low_load import LOW_LOAD
from experiments.papers.synergy.one_round import ONE_ROUND
from experiments.papers.synergy.philly import PHILLY
from experiments.papers.synergy.random_mixes import RANDOM_MIXES
from experiments.papers.synergy.running_jobs_stay import RUNNING_JOBS_STAY
from experiments.papers.synergy.same_input import SAME_INPUT
from experiments.papers.synergy.shapes import SHAPES

PAPER = Paper(
    "synergy",
    "Synergy: looking beyond GPUs",
    "Mohan et al., OSDI 2022, arXiv 2110.06073; authors' program msr-fiddle/synergy (MIT), run by us",
    (SAME_INPUT, *SHAPES, PHILLY, LOW_LOAD, ONE_ROUND, RANDOM_MIXES, GANGS_TOGETHER, RUNNING_JOBS_STAY),
    (
        "Reported: by the paper. Published program: what the authors' simulator gives. Reached: as much as claimed, "
        "or more; other setting: the two figures cannot be held against each other.",
        "Simulated: rounds of 300 s, nothing charged for stopping and moving, all jobs compete again each round "
        "(except in running-jobs-stay), durations known. The paper measures jobs 4000 to 4999 of a stream; here "
        "jobs 2000 to 2999 of 4000 (--quick: 400 to 799 of 1000), which matters above the load that the cluster can "
        "bear.",
    ),
)
