"""A fault of each kind while jobs train on a real Slurm; `python -m tests.slurm.faults` has more of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.slurm.cluster import missing_programs
from tests.slurm.faults import FAULTS, FaultySite, faulty_site

pytestmark = pytest.mark.needs_slurm


@pytest.fixture
def site() -> Iterator[FaultySite]:
    if missing := missing_programs():
        pytest.skip(missing)
    with faulty_site() as site:
        yield site


SEEDS = (19, 2, 3, 4, 5, 6)
"""One for each kind of fault; of the first two such that Slurm gives the node up."""


@pytest.mark.parametrize("seed", SEEDS, ids=FAULTS)
def test_a_fault_loses_no_job_and_runs_none_twice(site: FaultySite, seed: int) -> None:
    site.run(seed)
