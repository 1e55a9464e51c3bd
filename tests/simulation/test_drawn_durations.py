"""What is drawn for jobs, against closed forms and against how often it holds what comes."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from muster.simulation.drawn_durations import DurationUrns, PastDurations

LIMIT = 100.0


def jobs(*users: str, limit: float | None = LIMIT, gpus: int = 1) -> pl.DataFrame:
    columns = {"user": users, "gpus": [gpus] * len(users), "time_limit_seconds": [limit] * len(users)}
    return pl.DataFrame(
        columns, schema={"user": pl.String, "gpus": pl.Int64, "time_limit_seconds": pl.Float64}
    )


def ended(users: list[str], seconds: list[float], limit: float | None = LIMIT) -> pl.DataFrame:
    took = [pl.lit(0.0).alias("start_seconds"), pl.Series("end_seconds", seconds, pl.Float64)]
    return jobs(*users, limit=limit).with_columns(took)


def draw(past: pl.DataFrame, asked: pl.DataFrame, ran: list[float], *seed: int) -> list[float]:
    urns = DurationUrns(PastDurations(past), np.random.default_rng(seed))
    return urns.draw(asked, np.array(ran))


@pytest.mark.parametrize("limit", [LIMIT, None])
def test_intervals_of_sums_hold_most_sums_to_come(limit: float | None) -> None:
    """Of twenty jobs after twenty that ended. Drawn each for itself, 63 % would be inside."""
    inside = 0
    for seed in range(300):
        random = np.random.default_rng([1, seed])
        past, real = np.split(np.clip(random.lognormal(3.0, 0.5, 40), 1, LIMIT), 2)
        asked = jobs(*["ann"] * 20, limit=limit)
        sums = [
            sum(draw(ended(["ann"] * 20, past.tolist(), limit), asked, [0.0] * 20, seed, again))
            for again in range(9)
        ]
        inside += min(sums) < real.sum() < max(sums)
    assert 0.69 < inside / 300 < 0.87


def test_running_jobs_make_those_to_come_longer() -> None:
    """Half of the jobs that began ended at once; as many still run, longer than any that ended."""
    past = ended(["ann"] * 10, [10.0] * 10)
    asked = jobs(*["ann"] * 11)
    last = [draw(past, asked, [60.0] * 10 + [0.0], seed)[-1] for seed in range(400)]
    assert np.mean(np.array(last) > 60.0) == pytest.approx(0.5, abs=0.08)


def test_running_jobs_last_longer_than_they_have_run() -> None:
    past = ended(["ann"] * 4, [10.0, 20.0, 30.0, 40.0])
    assert min(draw(past, jobs(*["ann"] * 40), [20.0] * 40)) > 20.0
    assert draw(past, jobs("ann"), [40.0])[0] > 40.0
    assert draw(past, jobs("ann"), [99.0])[0] <= LIMIT
    unlimited = ended(["ann"] * 2, [10.0, 20.0], limit=None)
    assert 50.0 < draw(unlimited, jobs("ann", limit=None), [50.0])[0] <= 100.0


def test_a_user_is_drawn_from_its_own_jobs() -> None:
    """Two of his own jobs against the weights 2 of his others and 10 of all, where half are of each."""
    past = ended(["ann", "ann", "ben", "ben"], [10.0, 10.0, 50.0, 50.0])
    drawn = np.array([draw(past, jobs("ben"), [0.0], seed)[0] for seed in range(2000)])
    of_all = 0.5
    of_the_user = (2 + 10 * of_all) / (2 + 10)
    assert np.mean(drawn == 50.0) == pytest.approx((2 + 2 * of_the_user) / (2 + 2), abs=0.03)


def test_jobs_of_an_unknown_user_resemble_each_other() -> None:
    """The second takes the first one's with a chance of 1/3, else as the urns above have it."""
    past = ended(["ann"] * 2, [10.0, 50.0])
    same = [len(set(draw(past, jobs("new", "new"), [0.0, 0.0], seed))) == 1 for seed in range(2000)]
    of_all = 2 / 3
    of_the_user = (1 + 10 * of_all) / 11
    assert np.mean(same) == pytest.approx((1 + 2 * of_the_user) / 3, abs=0.03)
