"""Random models for the tests of speed: any increasing axes, any monotone matrix."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from muster.workload.models import Dataset, Model


def axis(most_points: int, least: float, widest_gap: float) -> st.SearchStrategy[tuple[float, ...]]:
    """Increasing points, the first at least `least`, gaps of at least a quarter."""
    gaps = st.lists(st.floats(0.25, widest_gap), min_size=1, max_size=most_points)
    return gaps.map(lambda steps: tuple(float(point) for point in least + np.cumsum(steps)))


@st.composite
def monotone_models(draw: st.DrawFn) -> Model:
    """A model whose speed never falls along either axis; its reference is one of its points."""
    cpus = draw(axis(8, 0.25, 5.0))
    memory = draw(axis(5, 1.0, 80.0))
    steps = st.one_of(st.just(0.0), st.floats(0.01, 2.0))
    rises = draw(st.lists(steps, min_size=len(cpus) * len(memory), max_size=len(cpus) * len(memory)))
    grid = np.array(rises).reshape(len(cpus), len(memory))
    grid[0, 0] += 0.05
    speed = grid.cumsum(axis=0).cumsum(axis=1)
    row = draw(st.integers(0, len(cpus) - 1))
    column = draw(st.integers(0, len(memory) - 1))
    speed /= speed[row, column]
    return Model(
        name="random",
        family="image",
        batch=32,
        seconds_per_iteration=draw(st.floats(0.01, 10)),
        reference_cpus_per_gpu=cpus[row],
        reference_memory_gb_per_gpu=memory[column],
        cpus_per_gpu=cpus,
        memory_gb_per_gpu=memory,
        speed=tuple(tuple(map(float, values)) for values in speed),
        source="a test",
        licence="none",
    )


def datasets() -> st.SearchStrategy[Dataset]:
    """Data sets of which a batch takes between nothing and much longer than an iteration."""
    return st.builds(
        Dataset,
        size_gb=st.floats(1, 400),
        sample_gb=st.floats(1e-6, 1e-2),
        storage_gb_per_s=st.floats(0.01, 2),
        memory_gb_per_s=st.floats(2, 20),
    )
