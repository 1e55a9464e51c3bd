"""A scheduler that plans more than is free fails with the job's number; it neither hangs nor leaves the job waiting."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.cluster import books as b
from muster.cluster.ledger import DoesNotFit
from muster.schedulers import leased
from muster.schedulers.allocation.seats import Seats, open_seats, write_seats
from muster.schedulers.allocation.tune import Tune
from muster.schedulers.catalogue import build
from muster.schedulers.placement.kernels import NOT_FREE, pick_from, put_share
from muster.schedulers.reasons import PLACED
from muster.schedulers.time_sharing.floor import Floor
from tests.building import cluster_of, job, jobs_of, run
from tests.schedulers.synergy_cases import Round, allot, round_of, servers


@given(st.integers(0, 2**8 - 1), st.integers(1, 8), st.integers(1, 8), st.integers(0, 9))
def test_picked_gpus_are_free_or_too_few_are(free: int, gpus: int, island: int, count: int) -> None:
    free &= (1 << gpus) - 1
    picked = pick_from(free, gpus, island, count)
    if count > free.bit_count():
        assert picked == NOT_FREE
    else:
        assert picked & ~free == 0
        assert picked.bit_count() == count


def test_the_ledger_refuses_gpus_that_are_not_free() -> None:
    case = round_of(servers(1), [("alexnet", 1)])
    books = case.view.ledger.reserve(8, 8)
    before = books.nodes.copy(), books.devices.copy()
    row = put_share(books, -1, 0, NOT_FREE, 1000, np.zeros(4, np.int64))
    assert b.put_chain(books, 0, row) == b.UNFIT_GPU
    assert np.array_equal(before[0], books.nodes)
    assert np.array_equal(before[1], books.devices)
    assert books.heads[0] < 0


def one_gpu_too_many(case: Round, seats: Seats) -> None:
    seats.seats["gpus"][0] = case.view.cluster.nodes[0].gpus + 1


def more_memory_than_there_is(case: Round, seats: Seats) -> None:
    seats.seats["amount"][0, b.MEMORY] = 10**15


def on_another_jobs_machine(case: Round, seats: Seats) -> None:
    seats.seats["node"][:2] = 0


@pytest.mark.parametrize("wrong", [one_gpu_too_many, more_memory_than_there_is, on_another_jobs_machine])
def test_a_plan_above_what_is_free_names_the_job(
    monkeypatch: pytest.MonkeyPatch, wrong: Callable[[Round, Seats], None]
) -> None:
    case = round_of(servers(2), [("alexnet", 8), ("alexnet", 8)])

    def write(view: object, transaction: object, seats: Seats, *rest: object) -> None:
        wrong(case, seats)
        write_seats(view, transaction, seats, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr("muster.schedulers.allocation.tune.write_seats", write)
    with pytest.raises(DoesNotFit, match=r"job [01] does not fit where the plan places it"):
        allot(Tune(), case)


def test_a_machine_reserved_without_room_names_the_job() -> None:
    case = round_of(servers(1), [("alexnet", 1)])
    codes, nothing = np.zeros(1, np.int64), np.zeros(1)
    with case.view.transaction() as transaction:
        seats = open_seats(case.view, transaction, case.ranked, case.chosen)
        seats.reserved[0] = 7
        with pytest.raises(DoesNotFit, match=r"job 0 does not fit"):
            write_seats(case.view, transaction, seats, case.ranked, case.chosen, codes, nothing, nothing)


def test_an_accepted_offer_that_was_not_put_names_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel answers that all jobs are placed, and placed none."""

    def place_none(*arguments: object) -> tuple[int, float]:
        ranked, codes = arguments[4], arguments[18]
        assert isinstance(ranked, np.ndarray)
        assert isinstance(codes, np.ndarray)
        codes[ranked] = PLACED
        return len(ranked), np.inf

    monkeypatch.setattr(leased, "bid", place_none)
    with pytest.raises(DoesNotFit, match=r"job 0 does not fit"):
        run(jobs_of(job(0, 10)), cluster_of(1), build("dally"))


def test_turns_on_more_gpus_than_are_free_are_refused() -> None:
    case = round_of(servers(1), [("alexnet", 1)])
    floor = Floor(case.view, np.zeros(1, np.bool_))
    with pytest.raises(DoesNotFit, match=r"node 0: 8 GPUs to choose 9 from"):
        floor.pick(0, 9)
