"""What the allotments ask about the jobs of a view, as plain arrays for compiled code."""

from __future__ import annotations

from typing import NamedTuple

from muster.cluster.books import Bools, Ints, Rows
from muster.compiling import njit
from muster.schedulers.allocation.seats import Seats, furnish, sit
from muster.schedulers.contract import View
from muster.speed.demands import Demands
from muster.speed.input_pipeline import ModelTable


class Gangs(NamedTuple):
    """Jobs by position, their demands by class and kind of machine."""

    gpus: Ints
    classes: Ints
    model: Ints
    constraint: Ints
    node_allowed: Bools
    """By constraint and machine."""
    demands: Demands
    kinds: Rows
    """One machine of each kind."""
    kind_of_node: Ints
    models: ModelTable


def gangs_of(view: View) -> Gangs:
    """The jobs of a view."""
    jobs, wants = view.jobs, view.wants
    gpus, model = jobs.gpus, jobs.model
    classes, demands = wants.of(model, gpus)
    return Gangs(
        gpus,
        classes,
        model,
        jobs.constraint,
        view.table.node_allowed,
        demands,
        wants.kinds,
        wants.kind_of_node,
        wants.models,
    )


@njit(cache=True)
def seat_gang(seats: Seats, gangs: Gangs, at: int, need: Ints, take: Ints) -> None:
    """Seat a job on the machines that were chosen for it; `need` is by kind of machine and resource."""
    for node in range(len(take)):
        if take[node] > 0:
            furnish(seats, sit(seats, at, node, take[node]), need[gangs.kind_of_node[node]])


@njit(cache=True)
def model_on(gangs: Gangs, at: int, kind: int) -> int:
    """The record of a job's model that holds on a kind of machine."""
    number: int = gangs.models[gangs.model[at]]["on_type"][gangs.kinds[kind]["gpu_type"]]
    return number
