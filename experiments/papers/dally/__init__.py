"""Dally (arXiv 2401.16492): placement by what the network costs each job, delay timers that tune themselves."""

from __future__ import annotations

from experiments.papers.dally.field import FIELD
from experiments.papers.dally.same_input import SAME_INPUT
from experiments.papers.experiment import Paper

PAPER = Paper(
    "dally",
    "Dally: GPU cluster scheduling for network-sensitive deep learning",
    "arXiv 2401.16492; the authors' simulator, repaired and run by us (it leaks GPUs as published)",
    (FIELD, SAME_INPUT),
    (
        "The paper's claims are those of its abstract; its figures, cluster sizes, lease and history are not known "
        "to us. Ours: 128 GPUs, 2 racks of 8 machines of 8, physical links, leases of an hour, 30 s for a restart. "
        "Policies that use no durations get none.",
        "Jobs are drawn like the authors' (SenseTime) inputs: 1 to 48 GPUs, two hours of one GPU or more, six models. "
        "Authors' scales: their models, made faster than they are so that communication counts. Measured fits: six "
        "applications that Pollux measured. Congested: half of every link above the machines is gone, and jobs on "
        "one link share it.",
    ),
)
