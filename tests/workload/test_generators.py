"""Made traces against the laws they are made after: closed forms, published sequences, the real trace."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chisquare, expon, kstest

from muster.problems import InputError
from muster.workload.generators import mixed, philly_like, smd, synergy
from muster.workload.generators.draws import drawn, mean_of_two_ranges, streams, two_range_durations
from muster.workload.models import synergy_models
from muster.workload.trace import Trace, read_trace, write_trace

# A law is kept where a fixed seed gives a p-value above this; a wrong law gives 1e-20 at these sizes.
LEAST_P = 0.01

CLASS_OF = {model: number for number, models in enumerate(synergy.CLASSES) for model in models}
SPLITS = st.lists(st.integers(0, 100), min_size=3, max_size=3).filter(any)


def two_range_law(law: synergy.Durations, seconds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Share of durations up to these, from the definition."""
    power = np.log10(seconds / 60.0)
    parts = [np.clip((power - low) / (high - low), 0, 1) for low, high in law]
    share: NDArray[np.float64] = 0.8 * parts[0] + 0.2 * parts[1]
    return share


def gpu_seconds(jobs: pl.DataFrame) -> float:
    return float((jobs["gpus"] * jobs["duration_seconds"]).to_numpy().sum())


def p_value(shares: NDArray[np.float64]) -> float:
    """Kolmogorov and Smirnov: a law's own distribution function makes its draws uniform."""
    return float(kstest(shares, "uniform").pvalue)


def seconds_of(trace: Trace) -> NDArray[np.float64]:
    each = [synergy_models()[model].seconds_per_iteration for model in trace.jobs["model"]]
    seconds: NDArray[np.float64] = trace.jobs["iterations"].to_numpy() * np.array(each)
    return seconds


@given(SPLITS, st.integers(1, 300))
def test_every_prefix_is_as_near_the_split_as_whole_jobs_allow(split: list[int], jobs: int) -> None:
    counts = Counter(CLASS_OF[model] for model in islice(synergy.models_in_turn(split), jobs))
    for number, share in enumerate(split):
        assert abs(counts[number] - jobs * share / sum(split)) < len(split)
        assert share or not counts[number]


def test_the_split_is_met_exactly_at_every_full_turn() -> None:
    for split, turn in (((20, 70, 10), 10), ((33, 33, 33), 3), ((60, 30, 10), 10), ((0, 1, 1), 2)):
        classes = [CLASS_OF[model] for model in islice(synergy.models_in_turn(split), turn * 50)]
        for begin in range(0, len(classes), turn):
            counts = Counter(classes[begin : begin + turn])
            assert [counts[number] * sum(split) for number in range(3)] == [share * turn for share in split]


def test_models_of_a_class_take_turns() -> None:
    made = list(islice(synergy.models_in_turn((20, 70, 10)), 1000))
    for models in synergy.CLASSES:
        own = [model for model in made if model in models]
        assert own == [models[at % len(models)] for at in range(len(own))]


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("single_9perhour_20-70-10_12000", (20, 70, 10)),
        ("philly-sizes_5perhour_20-70-10_1000", (20, 70, 10)),
        ("multi_4perhour_33-33-33_1000", (33, 33, 33)),
    ],
)
def test_models_come_in_the_published_order(reference: Path, name: str, split: tuple[int, ...]) -> None:
    published = read_trace(reference / "parity" / "synergy" / f"{name}.csv").jobs["model"].to_list()
    assert list(islice(synergy.models_in_turn(split), len(published))) == published


def test_published_durations_follow_the_law_that_ours_follow(reference: Path) -> None:
    for name, law in (
        ("single_9perhour_20-70-10_12000", synergy.DYNAMIC),
        ("static_60-30-10_100", synergy.STATIC),
    ):
        published = seconds_of(read_trace(reference / "parity" / "synergy" / f"{name}.csv"))
        assert p_value(two_range_law(law, published)) > LEAST_P


@pytest.mark.parametrize("static", [False, True])
def test_synergy_durations_follow_their_law(static: bool) -> None:
    law = synergy.STATIC if static else synergy.DYNAMIC
    other = synergy.DYNAMIC if static else synergy.STATIC
    seconds = seconds_of(synergy.generate(20_000, static=static, seed=3))
    assert p_value(two_range_law(law, seconds)) > LEAST_P
    assert p_value(two_range_law(other, seconds)) < 1e-20


def test_synergy_arrivals_are_poisson_at_the_load() -> None:
    submit = synergy.generate(20_000, load_per_hour=9, seed=5).jobs["submit_seconds"].to_numpy()
    gaps = np.diff(submit, prepend=0.0)
    assert kstest(gaps, expon(scale=400).cdf).pvalue > LEAST_P
    # Independent of one another: no correlation between neighbours beyond chance.
    assert abs(np.corrcoef(gaps[:-1], gaps[1:])[0, 1]) < 4 / math.sqrt(len(gaps))


def test_a_static_trace_is_there_at_once_and_keeps_durations() -> None:
    assert synergy.generate(50, static=True).jobs["submit_seconds"].unique().to_list() == [0.0]
    slow, fast = (synergy.generate(500, load_per_hour=load, seed=1).jobs for load in (1, 8))
    assert slow["iterations"].equals(fast["iterations"])
    np.testing.assert_allclose(slow["submit_seconds"], 8 * fast["submit_seconds"].to_numpy(), atol=0.01)


def test_sizes_follow_the_philly_mix() -> None:
    assert synergy.generate(100).jobs["gpus"].unique().to_list() == [1]
    gpus = synergy.generate(20_000, multi_gpu=True, seed=2).jobs["gpus"].to_list()
    assert_shares(gpus, synergy.PHILLY_SIZES)


def assert_shares(found: list[int], expected: dict[int, int]) -> None:
    counts = Counter(found)
    assert set(counts) <= set(expected)
    total = sum(expected.values())
    wanted = [len(found) * share / total for share in expected.values()]
    assert chisquare([counts[value] for value in expected], wanted).pvalue > LEAST_P


def test_the_mixed_kind_offers_its_load() -> None:
    # The published figure for this kind is 60,364 s.
    assert mean_of_two_ranges(*synergy.DYNAMIC) == pytest.approx(60_364, rel=1e-4)
    assert pytest.approx(1.9) == mixed.MEAN_GPUS
    [generator] = streams(1, 1)
    drawn_mean = two_range_durations(generator, 400_000, *synergy.DYNAMIC).mean()
    assert drawn_mean == pytest.approx(mean_of_two_ranges(*synergy.DYNAMIC), rel=0.01)
    jobs = mixed.generate(50_000, gpus=512, load=0.8, seed=4).jobs
    offered = gpu_seconds(jobs) / (512 * float(jobs["submit_seconds"][-1]))
    assert offered == pytest.approx(0.8, rel=0.03)
    assert_shares(jobs["gpus"].to_list(), mixed.SIZES)
    assert p_value(two_range_law(synergy.DYNAMIC, jobs["duration_seconds"].to_numpy())) > LEAST_P


def test_the_reference_list_of_the_mixed_kind_fits_our_law(reference: Path) -> None:
    jobs = read_trace(reference / "parity" / "fifo" / "mixed_512gpus_1000.csv").jobs
    ours = mixed.generate(20_000, gpus=512, load=0.8).jobs
    for column in ("duration_seconds", "gpus"):
        assert kstest(jobs[column].to_numpy(), ours[column].to_numpy()).pvalue > LEAST_P
    gaps = jobs["submit_seconds"].diff().drop_nulls().to_numpy()
    assert kstest(gaps, expon(scale=3600 / mixed.arrivals_per_hour(512, 0.8)).cdf).pvalue > LEAST_P


def test_philly_like_durations_meet_their_quantiles() -> None:
    gpus = np.repeat(np.array([1, 2, 4, 8, 16, 128], dtype=np.int64), 20_000)
    [generator] = streams(6, 1)
    seconds = philly_like.durations_by_size(generator, gpus)
    levels, *classes = np.array(philly_like.DURATION_QUANTILES).T
    for size, column in zip((1, 2, 4, 8, 16, 128), (0, 1, 1, 2, 3, 3), strict=True):
        known = np.log(classes[column])
        assert p_value(np.interp(np.log(seconds[gpus == size]), known, levels)) > LEAST_P


def test_philly_like_arrivals_keep_the_rhythm() -> None:
    jobs = philly_like.generate(60_000, per_hour=50, seed=7).jobs
    hours = (jobs["submit_seconds"] // 3600).cast(pl.Int64).to_numpy()
    weeks = int(hours[-1]) // 168
    assert weeks >= 6
    counts = np.bincount(hours[hours < weeks * 168] % 168, minlength=168)
    rate = np.outer(philly_like.DAY_FACTORS, philly_like.HOUR_FACTORS).ravel()
    assert chisquare(counts, rate / rate.sum() * counts.sum()).pvalue > LEAST_P
    assert counts.sum() == pytest.approx(50 * 168 * weeks, rel=4 / math.sqrt(60_000))
    # Within an hour: uniform.
    assert kstest(jobs["submit_seconds"].to_numpy() % 3600 / 3600, "uniform").pvalue > LEAST_P


def test_philly_like_tenants_and_sizes() -> None:
    jobs = philly_like.generate(30_000, tenants=5, seed=8).jobs
    assert_shares(jobs["gpus"].to_list(), philly_like.SIZES)
    counts = Counter(jobs["tenant"].to_list())
    weights = {f"vc{rank}": rank**-1.5 for rank in range(1, 6)}
    wanted = [30_000 * weight / sum(weights.values()) for weight in weights.values()]
    assert chisquare([counts[name] for name in weights], wanted).pvalue > LEAST_P


def test_philly_like_stands_for_the_real_trace(reference: Path) -> None:
    real = read_trace(reference / "data" / "traces" / "philly.csv.xz").jobs
    made = philly_like.generate(real.height, seed=0).jobs
    for low, high in ((1, 1), (2, 7), (8, 8), (16, 128)):
        within = pl.col("gpus").is_between(low, high)
        ours, theirs = (jobs.filter(within)["duration_seconds"].to_numpy() for jobs in (made, real))
        # Largest distance of the two distributions; linear interpolation between known levels leaves some.
        assert kstest(ours, theirs).statistic < 0.06
        assert len(ours) == pytest.approx(len(theirs), rel=0.1)
        many = philly_like.durations_by_size(np.random.default_rng(1), np.full(100_000, low, dtype=np.int64))
        assert many.mean() == pytest.approx(theirs.mean(), rel=0.1)
    assert gpu_seconds(made) == pytest.approx(gpu_seconds(real), rel=0.1)


@pytest.mark.parametrize(
    ("trace", "digest"),
    [
        (synergy.generate(200, multi_gpu=True, seed=42), "114fe45aef5755ce"),
        (synergy.generate(200, split=(60, 30, 10), static=True, seed=42), "d5eea31354d18c02"),
        (mixed.generate(200, gpus=128, seed=42), "eb12c05d96c5beeb"),
        (philly_like.generate(200, seed=42), "b106fce8e0040c94"),
    ],
    ids=["synergy", "static", "mixed", "philly-like"],
)
def test_a_seed_gives_the_same_bytes_for_ever(tmp_path: Path, trace: Trace, digest: str) -> None:
    write_trace(trace, tmp_path / "trace.csv")
    assert hashlib.sha256((tmp_path / "trace.csv").read_bytes()).hexdigest()[:16] == digest


def test_another_seed_gives_another_trace_and_provenance() -> None:
    assert not mixed.generate(20, gpus=8, seed=1).jobs.equals(mixed.generate(20, gpus=8, seed=2).jobs)
    assert (
        synergy.generate(5, seed=9).source
        == "synergy generator: load 9 per hour, split 20,70,10, 1 GPU, seed 9"
    )


@given(st.lists(st.integers(0, 50), min_size=1, max_size=6).filter(any), st.integers(0, 5))
def test_what_has_no_weight_is_never_drawn(weights: list[int], seed: int) -> None:
    [generator] = streams(seed, 1)
    found = drawn(generator, range(len(weights)), weights, 200)
    assert {weights[value] > 0 for value in found} == {True}


def test_settings_that_make_no_trace_are_refused_together() -> None:
    with pytest.raises(InputError) as refused:
        mixed.generate(0, gpus=0, load=math.nan, seed=-1)
    assert [problem.where for problem in refused.value.problems] == ["--jobs", "--gpus", "--load", "--seed"]
    for split in ((1, 2), (0, 0, 0), (-1, 1, 1)):
        with pytest.raises(InputError, match="--split"):
            synergy.generate(5, split=split)
    with pytest.raises(InputError, match="--tenants"):
        philly_like.generate(5, tenants=0)


@pytest.mark.parametrize(
    ("flag", "make"),
    [
        ("--load", partial(synergy.generate, load_per_hour=1e-300)),
        ("--load", partial(mixed.generate, gpus=8, load=1e-300)),
        ("--per-hour", partial(philly_like.generate, per_hour=1e-300)),
        ("--per-hour", partial(smd.generate, per_hour=1e-300)),
    ],
    ids=["synergy", "mixed", "philly-like", "smd"],
)
def test_a_rate_too_small_for_a_trace_is_refused(flag: str, make: Callable[[int], Trace]) -> None:
    said = f"{flag}: found 1e-300; the last job arrives after 1e12 seconds; allowed: a larger number"
    with pytest.raises(InputError, match=f"^{said}$"):
        make(5)
