"""Each job's slowest moment against the GPU-proportional share: what Synergy's allocations promise, measured.

Speed is that of CPU, memory and storage alone (`speed.points`). There are two measures: the share of the machines
that a job was on, and the share of the slowest machines that it may use. Jobs of a share of a GPU, in turns on one or
with workers and servers have neither.
"""

from libc.math cimport INFINITY, NAN, fmin, isnan
from libc.stdint cimport int64_t, uint8_t

from muster.cluster.arrays cimport Floats, bools, floats, records
from muster.cluster.ledger_core cimport SLOTS, WHOLE, Node, count_bits
from muster.runtime.lifecycle cimport Held, held_at, held_size
from muster.speed.input_core cimport ModelSpeed
from muster.speed.points_core cimport speed_at
from muster.workload.jobs_core cimport RIGID, Asked

import numpy as np

from muster.cluster.resources import RESOURCE_COUNT

cdef int64_t _RESOURCES = RESOURCE_COUNT

# The machines, and how fast models are with the share of the slowest of them that a constraint allows.
cdef struct Machines:
    Node* nodes
    int64_t node_count
    uint8_t* allowed
    int64_t constraints
    ModelSpeed* models
    double* with_slowest_share  # by model and constraint; NaN: not known yet
    double* with_share  # by model and node, likewise
    int64_t resources

# The speed of a gang with what it has and with its share; NaN where it has none.
cdef struct Moment:
    double speed
    double fair


cdef double _with_slowest_share(Machines* machines, int64_t model, int64_t constraint) noexcept nogil:
    """Speed with the share of the slowest of the machines that a constraint allows."""
    cdef double* known = &machines.with_slowest_share[model * machines.constraints + constraint]
    cdef int64_t node, here
    if isnan(known[0]):
        known[0] = INFINITY
        for node in range(machines.node_count):
            if machines.allowed[constraint * machines.node_count + node] and machines.nodes[node].gpus > 0:
                here = machines.models[model].on_type[machines.nodes[node].gpu_type]
                known[0] = min(known[0], speed_at(&machines.models[here], machines.nodes[node].share))
    return known[0]


cdef void _add_row(Machines* machines, Held* row, int64_t model, Moment* moment) noexcept nogil:
    """Count what a gang has on one machine: the slowest machine holds it up."""
    cdef int64_t per_gpu[SLOTS]
    cdef int64_t resource
    cdef int64_t gpus = count_bits(row.mask)
    cdef bint has_share = True
    cdef double* fair
    cdef Node* node
    cdef ModelSpeed* here
    if row.milli != WHOLE or row.group >= 0 or row.mask == 0:
        moment.speed = NAN
    if isnan(moment.speed):
        return
    node = &machines.nodes[row.node]
    here = &machines.models[machines.models[model].on_type[node.gpu_type]]
    fair = &machines.with_share[model * machines.node_count + row.node]
    if isnan(fair[0]):
        fair[0] = speed_at(here, node.share)
    for resource in range(SLOTS):
        per_gpu[resource] = row.amount[resource] // gpus if resource < machines.resources else 0
        has_share = has_share and per_gpu[resource] == node.share[resource]
    moment.speed = min(moment.speed, fair[0] if has_share else speed_at(here, per_gpu))
    moment.fair = min(moment.fair, fair[0])


def slowest_by_job(held, asked, node_allowed, models, nodes):
    """By job and measure the least of its speed over that with the share; NaN where there is none.

    Rows of one job and interval are adjacent, as they are recorded.
    """
    cdef Held* rows = <Held*> records(held, held_size(_RESOURCES))
    cdef Asked* all_asked = <Asked*> records(asked, sizeof(Asked))
    cdef Asked* ask
    cdef Held* first
    cdef Held* row
    cdef Machines machines
    cdef Moment moment
    cdef Floats least
    cdef int64_t at = 0, count = len(held)
    cdef double slowest
    shares = np.full((len(models), len(node_allowed)), np.nan)
    with_share = np.full((len(models), len(nodes)), np.nan)
    result = np.full((len(asked), 2), np.nan)
    least = floats(result)
    machines.nodes, machines.node_count = <Node*> records(nodes, sizeof(Node)), len(nodes)
    machines.allowed, machines.constraints = bools(node_allowed).at, len(node_allowed)
    machines.models, machines.with_slowest_share = <ModelSpeed*> records(models, sizeof(ModelSpeed)), floats(shares).at
    machines.with_share = floats(with_share).at
    machines.resources = _RESOURCES
    while at < count:
        first = held_at(rows, at, _RESOURCES)
        ask = &all_asked[first.job]
        moment.speed = INFINITY if ask.sync == RIGID else NAN
        moment.fair = INFINITY
        while at < count:
            row = held_at(rows, at, _RESOURCES)
            if row.job != first.job or row.begin != first.begin:
                break
            _add_row(&machines, row, ask.model, &moment)
            at += 1
        if isnan(moment.speed):
            continue
        slowest = _with_slowest_share(&machines, ask.model, ask.constraint)
        if moment.fair > 0:
            least.at[2 * first.job] = fmin(least.at[2 * first.job], moment.speed / moment.fair)
        if slowest > 0:
            least.at[2 * first.job + 1] = fmin(least.at[2 * first.job + 1], moment.speed / slowest)
    return result
