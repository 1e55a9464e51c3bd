"""Random layers and settings for the tests of this folder."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from muster.speed.parameter_server import Layers


@dataclass(frozen=True)
class Case:
    layers: Layers
    batch: float
    nic_gb_per_s: float
    workers: float
    servers: float


def _numbers(lowest: float, highest: float) -> st.SearchStrategy[float]:
    return st.floats(lowest, highest, allow_nan=False)


@st.composite
def layers(draw: st.DrawFn, most: int = 30) -> Layers:
    count = draw(st.integers(1, most))
    # Zeros and repeated values are where envelopes and ties go wrong.
    seconds = st.one_of(st.just(0.0), st.just(0.01), _numbers(1e-6, 0.2))
    gigabytes = st.one_of(st.just(0.0), st.just(0.05), _numbers(1e-6, 0.5))
    return Layers.checked(
        draw(st.lists(_numbers(0, 1e-3), min_size=count, max_size=count)),
        draw(st.lists(seconds, min_size=count, max_size=count)),
        draw(st.lists(gigabytes, min_size=count, max_size=count)),
    )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    return Case(
        draw(layers()),
        draw(_numbers(1, 4096)),
        draw(_numbers(0.1, 25)),
        draw(st.integers(1, 64)),
        draw(st.integers(1, 64)),
    )
