"""Tetris: the same jobs are chosen while nothing changes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.workload.generators.synergy import generate
from tests.building import run
from tests.schedulers.synergy_cases import servers
from tests.schedulers.test_synergy_interruptions import stretches


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000), allocation=st.sampled_from(["proportional", "tune", "tune-plus"]))
def test_tetris_does_not_flip(seed: int, allocation: str) -> None:
    """All jobs are there from the start: one that is stopped comes back only once another has ended.

    It may be stopped before, once: as running jobs have less left, how alike demands are counts less beside that.
    """
    trace = generate(16, split=(40, 30, 30), multi_gpu=True, static=True, seed=seed)
    result = run(trace, servers(2), f"tetris+{allocation}")
    finish = result.record.jobs["finish_seconds"].to_numpy()
    for entries in stretches(result):
        for (_, end, *_), following in pairwise([*entries, (np.inf, np.inf, frozenset(), 0.0)]):
            assert following[0] == end or ((finish >= end) & (finish <= following[0])).any()
