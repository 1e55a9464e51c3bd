"""SMD (INFOCOM 2021, arXiv 2105.13855) and Optimus (EuroSys 2018): sizes by a knapsack, against the field.

SMD's own figures are not known to us, so nothing here repeats one: its claim is a direction (more utility than
Optimus and ESW), and every number is ours.
"""

from __future__ import annotations

from experiments.papers.experiment import Paper
from experiments.papers.smd.fits import FITS
from experiments.papers.smd.gap import CERTIFIED, DECISIONS
from experiments.papers.smd.layers import LAYERS
from experiments.papers.smd.optimus import OPTIMUS
from experiments.papers.smd.utility import accounting
from experiments.papers.smd.whole_run import WHOLE_RUN

PAPER = Paper(
    "smd",
    "SMD: sum-of-ratios multi-dimensional knapsack",
    "Yu et al., INFOCOM 2021, arXiv 2105.13855; Optimus: Peng et al., EuroSys 2018; equations and workload are ours",
    (accounting("usage"), LAYERS, DECISIONS, CERTIFIED, WHOLE_RUN, OPTIMUS, FITS, accounting("reservation")),
    (
        "`equal-1to1` stands for ESW: the mapping is a guess. OASiS turns jobs away for good; they count as worth "
        "nothing and are left out of its mean JCT.",
        "Decisions every 600 s, restarts cost 30 s, durations known, true speeds layered (M1).",
    ),
)
