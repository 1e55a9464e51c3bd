"""Where joint shares nodes again with gangs on several of them, the jobs there do nearly the most that they can."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.cluster.ledger_arrays import MICRO
from muster.schedulers.allocation.gangs import Gangs, gangs_of
from muster.schedulers.allocation.placement_draft import PlacementDraft, open_draft
from muster.schedulers.allocation.worth import SPEED_ALONE
from muster.schedulers.allocation.worth_core import worth_of
from muster.schedulers.joint.for_running import for_running
from muster.schedulers.joint.gang_shares import share_with_gangs
from muster.schedulers.joint.joint_core import place_jointly
from tests.building import cluster_of
from tests.schedulers.synergy_cases import Round, round_of
from tests.schedulers.test_node_amounts import cpu_models

NODES, NAMES = 2, ("one", "two", "gang")
CORES = 12
"""Of each node, beside four GPUs."""


@st.composite
def cases(draw: st.DrawFn) -> tuple[Round, Gangs]:
    """Two nodes with a job of three GPUs on each, and a gang that has the last GPU of both; any weights."""
    models = {name: draw(cpu_models(name)) for name in NAMES}
    cluster = cluster_of(*[4] * NODES, cpus_per_gpu=CORES / 4)
    case = round_of(cluster, [("one", 3), ("two", 3), ("gang", NODES)], models)
    profiles, jobs = case.snapshot.resource_profiles.below_share, case.snapshot.jobs
    classes, demands = profiles.of(jobs.model, jobs.gpus, jobs.requested_per_gpu)
    weight = np.array(draw(st.lists(st.sampled_from([1.0, 2.0, 4.0, 8.0]), min_size=3, max_size=3)))
    return case, gangs_of(case.snapshot)._replace(classes=classes, demands=demands, weight=weight)


def speed_of_all(case: Round, gangs: Gangs, draft: PlacementDraft) -> float:
    """The speeds of the jobs, each times its weight."""
    nothing = np.zeros(len(gangs.gpus))
    books = case.snapshot.ledger.books
    return worth_of(books, np.arange(len(nothing)), gangs, draft, nothing, True, SPEED_ALONE)


def best_of_all(gangs: Gangs) -> float:
    """The most that any choices make that both nodes have the cores for."""
    choices = []
    for at in range(len(NAMES)):
        first, last = gangs.demands.first_choice[gangs.classes[at] : gangs.classes[at] + 2]
        cores = gangs.demands.choice[first:last, 1] / MICRO
        choices.append(
            list(zip(cores, gangs.weight[at] * gangs.demands.choice_speed[first:last], strict=True))
        )
    one, two, gang = choices
    return max(
        float(first[1] + second[1] + both[1])
        for first, second, both in product(one, two, gang)
        if 3 * max(first[0], second[0]) + both[0] <= CORES + 1e-9
    )


@given(cases())
@settings(deadline=None, max_examples=200)
def test_a_gang_and_jobs_beside_it_do_nearly_the_most(given_case: tuple[Round, Gangs]) -> None:
    case, gangs = given_case
    with case.snapshot.transaction() as transaction:
        draft = open_draft(case.snapshot, transaction, case.ranked, case.chosen)
    place_jointly(draft, gangs, np.arange(NODES), np.zeros(len(NAMES)), for_running(False), False)
    draft.movable[:NODES] = False
    place_jointly(draft, gangs, np.arange(len(NAMES)), np.zeros(len(NAMES)), for_running(False), False)
    before, places = speed_of_all(case, gangs, draft), draft.node_parts[["at", "node", "gpus"]].copy()
    share_with_gangs(draft, gangs)
    assert (draft.node_parts[["at", "node", "gpus"]] == places).all()
    assert (draft.free >= 0).all()
    after = speed_of_all(case, gangs, draft)
    assert after >= before - 1e-9
    if (draft.first >= 0).all():
        assert after >= best_of_all(gangs) - 1e-9
