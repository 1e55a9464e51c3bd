"""A scheduler that plans more than is free fails with the job's number; it neither hangs nor leaves the job waiting."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.cluster import ledger_arrays as b
from muster.cluster.ledger import DoesNotFit
from muster.cluster.ledger_steps import new_row, put_chain
from muster.schedulers import leased
from muster.schedulers.allocation.placement_draft import PlacementDraft, open_draft, write_draft
from muster.schedulers.allocation.tune import Tune
from muster.schedulers.contract import Proposal
from muster.schedulers.placement.delay_scheduling import NOWHERE
from muster.schedulers.placement.job_columns import NOT_FREE, ReasonColumns
from muster.schedulers.placement.serving import pick_from
from muster.schedulers.reasons import PLACED
from muster.schedulers.registry import build
from muster.schedulers.time_sharing.gpu_occupancy import GpuOccupancy
from tests.building import cluster_of, job, jobs_of, run
from tests.schedulers.synergy_cases import Round, allocate, round_of, servers


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
    books = case.snapshot.ledger.reserve(8, 8)
    before = books.nodes.copy(), books.devices.copy()
    row = new_row(books)
    books.rows[row]["node"], books.rows[row]["mask"] = 0, NOT_FREE
    assert put_chain(books, 0, row) == b.UNFIT_GPU
    assert np.array_equal(before[0], books.nodes)
    assert np.array_equal(before[1], books.devices)
    assert books.heads[0] < 0


def one_gpu_too_many(case: Round, draft: PlacementDraft) -> None:
    draft.node_parts["gpus"][0] = case.snapshot.cluster.nodes[0].gpus + 1


def more_memory_than_there_is(case: Round, draft: PlacementDraft) -> None:
    draft.node_parts["amount"][0, b.MEMORY] = 10**15


def on_another_jobs_machine(case: Round, draft: PlacementDraft) -> None:
    draft.node_parts["node"][:2] = 0


@pytest.mark.parametrize("wrong", [one_gpu_too_many, more_memory_than_there_is, on_another_jobs_machine])
def test_a_plan_above_what_is_free_names_the_job(
    monkeypatch: pytest.MonkeyPatch, wrong: Callable[[Round, PlacementDraft], None]
) -> None:
    case = round_of(servers(2), [("alexnet", 8), ("alexnet", 8)])

    def write(snapshot: object, proposal: object, draft: PlacementDraft, *rest: object) -> None:
        wrong(case, draft)
        write_draft(snapshot, proposal, draft, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr("muster.schedulers.allocation.draft_allocator.write_draft", write)
    with pytest.raises(DoesNotFit, match=r"job [01] does not fit where the plan places it"):
        allocate(Tune(), case)


def test_a_machine_reserved_without_room_names_the_job() -> None:
    case = round_of(servers(1), [("alexnet", 1)])
    with case.snapshot.transaction() as transaction:
        proposal = Proposal.blank(transaction, 1)
        draft = open_draft(case.snapshot, transaction, case.ranked, case.chosen)
        draft.reserved[0] = 7
        with pytest.raises(DoesNotFit, match=r"job 0 does not fit"):
            write_draft(case.snapshot, proposal, draft, case.ranked, case.chosen, ~case.chosen, {})


def test_an_accepted_offer_that_was_not_put_names_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel answers that all jobs are placed, and placed none."""

    def place_none(*arguments: object) -> tuple[int, int, float]:
        ranked, reasons = arguments[2], arguments[7]
        assert isinstance(ranked, np.ndarray)
        assert isinstance(reasons, ReasonColumns)
        reasons.codes[ranked] = PLACED
        return len(ranked), NOWHERE, np.inf

    monkeypatch.setattr(leased, "allocate_by_locality", place_none)
    with pytest.raises(DoesNotFit, match=r"job 0 does not fit"):
        run(jobs_of(job(0, 10)), cluster_of(1), build("dally"))


def test_turns_on_more_gpus_than_are_free_are_refused() -> None:
    case = round_of(servers(1), [("alexnet", 1)])
    floor = GpuOccupancy(case.snapshot, np.zeros(1, np.bool_))
    with pytest.raises(DoesNotFit, match=r"node 0: 8 GPUs to choose 9 from"):
        floor.pick(0, 9)
