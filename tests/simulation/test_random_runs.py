"""The records of 100 small random runs stay the same."""

from __future__ import annotations

import json

import pytest

from tests.simulation.random_runs import DIGESTS, NUMBERS, case_of, digest_of


@pytest.mark.parametrize("number", NUMBERS)
def test_a_random_runs_record_is_as_it_was(number: int) -> None:
    assert digest_of(number) == json.loads(DIGESTS.read_text())[str(number)]


def test_a_number_makes_the_same_run_every_time() -> None:
    for number in NUMBERS:
        assert case_of(number) == case_of(number)
