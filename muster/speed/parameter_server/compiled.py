"""The step of one job from the terms in its record, compiled for simulations and schedulers."""

from __future__ import annotations

from muster.cluster.ledger_arrays import Floats
from muster.compiling import njit


@njit(cache=True)
def sized_step(terms: Floats, workers: float, servers: float) -> tuple[float, float]:
    """Compute seconds of a step, and the communication that it does not hide (SMD's layered model).

    The first term is the input layer's: its a and b are all of forward and backward. A ring has no communication
    here: what it has goes by its place.
    """
    load = workers / servers
    longest = 0.0
    for term in range(len(terms)):
        longest = max(longest, terms[term, 0] / workers + terms[term, 1] + terms[term, 2] * load)
    compute = terms[0, 0] / workers + terms[0, 1]
    return compute, longest - compute
