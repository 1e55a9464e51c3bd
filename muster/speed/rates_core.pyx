"""How fast a job runs on what it holds, for compiled code; `rates` says what the laws are."""

from libc.math cimport rint

from muster.cluster.ledger_core cimport PACKED, SERVER, Device, Row, device_of
from muster.speed.input_core cimport input_stage_seconds
from muster.speed.local_batch_core cimport LocalBatch, local_batch
from muster.speed.parameter_server.step_core cimport longest_term
from muster.workload.jobs_core cimport MOST_TERMS, RIGID, RING


cdef void _note_sharing(Books* books, Row* row, double* turns, double* busy) noexcept nogil:
    """How many jobs take turns on a row's GPUs, and how many GPUs packed jobs would keep busy there; at least 1."""
    cdef Device* device
    cdef int64_t gpu
    turns[0], busy[0] = 1.0, 1.0
    if row.group < 0:
        return
    for gpu in range(books.nodes[row.node].gpus):
        if row.mask >> gpu & 1:
            device = device_of(books, row.node, gpu)
            if row.group < PACKED:
                turns[0] = max(turns[0], <double> device.holders)
            else:
                busy[0] = max(busy[0], device.busy)


cdef Stages _sized_stages(Asked* asked, double gpus, double server_cpus, double exposed, double crowd) noexcept nogil:
    """The step of a job whose workers and servers are counted (SMD's layered model); a ring goes by its place."""
    cdef Stages stages
    cdef double workers = rint(gpus * 1e6 / asked.worker_gpus)
    cdef double servers = rint(server_cpus / asked.server_cpu) if server_cpus > 0 else workers
    cdef double longest = longest_term(&asked.terms[0][0], MOST_TERMS, workers, workers / servers)
    stages.compute = asked.terms[0][0] / workers + asked.terms[0][1]
    stages.communication = stages.compute * exposed if asked.sync == RING else longest - stages.compute
    stages.input_seconds, stages.gpus, stages.iterations = 0.0, gpus, 1.0 / crowd
    return stages


cdef Stages stage_seconds(
    Books* books, int64_t chain, ModelSpeed* models, Asked* asked, Fact* fact
) noexcept nogil:
    """Input, compute and communication seconds of a step, the GPUs held, and iterations made in a step.

    Jobs that share its GPUs take their part of the iterations. The slowest node's input stage and GPUs hold the gang
    up; a gang on other than the GPUs that it asked for keeps its total batch, of which each GPU takes its part. A
    batch that has doubled counts its progress in iterations of the initial one. Rows without a GPU (parameter servers)
    do not count there. A job without GPUs goes at the speed of its reference wherever it is. `exposed` is the
    communication that nothing hides, in seconds for each second of compute of a gang with the GPUs that it asked for.
    """
    cdef Stages stages
    cdef LocalBatch local
    cdef Row* row
    cdef ModelSpeed* model
    cdef double here, turns, busy, samples_of, server_cpus = 0.0, crowd = 1.0, gpus = 0.0, slowest = 0.0, compute = 0.0
    while chain >= 0:
        row = &books.rows[chain]
        here = row.amount[0] / 1e6
        if here > 0:
            gpus += here
            _note_sharing(books, row, &turns, &busy)
            crowd = max(crowd, turns, busy)
            if asked.sync == RIGID:
                model = &models[models[asked.model].on_type[books.nodes[row.node].gpu_type]]
                compute = max(compute, model.compute_seconds)
                slowest = max(slowest, input_stage_seconds(
                    model,
                    row.amount[1] * turns / 1e6 / here,
                    row.amount[2] * turns / 1e6 / here,
                    row.amount[3] * turns / 1e6 / here,
                ))
        if row.role == SERVER:
            server_cpus += row.amount[1]
        chain = row.next
    if asked.sync != RIGID:
        return _sized_stages(asked, gpus, server_cpus, fact.exposed, crowd)
    if asked.gpus == 0:
        stages.input_seconds, stages.compute, stages.communication = 0.0, models[asked.model].compute_seconds, 0.0
        stages.gpus, stages.iterations = 0.0, 1.0
        return stages
    samples_of = (asked.gpus << fact.doublings) * asked.milli / 1000.0
    local = local_batch(&models[asked.model], samples_of / gpus if gpus > 0 else 1.0)
    stages.input_seconds, stages.compute = slowest * local.samples, compute * (local.passes * local.last_pass)
    stages.communication, stages.gpus = compute * fact.exposed, gpus
    stages.iterations = (1.0 + fact.extra_progress) / crowd
    return stages


cdef void note_busy(Books* books, Asked* asked, Fact* facts, Ints active, ModelSpeed* models) noexcept nogil:
    """Write down how busy packed jobs would keep each GPU: of each, compute seconds over those of an iteration."""
    cdef int64_t at, job, chain, gpu
    cdef double busy, before
    cdef Stages stages
    cdef Row* row
    cdef bint adding
    for adding in range(2):
        for at in range(active.size):
            job = active.at[at]
            chain = books.heads[job]
            if chain < 0 or books.rows[chain].group < PACKED:
                continue
            busy = 0.0
            if adding:
                stages = stage_seconds(books, chain, models, &asked[job], &facts[job])
                busy = stages.compute / iteration_seconds(stages)
            while chain >= 0:
                row = &books.rows[chain]
                for gpu in range(books.nodes[row.node].gpus):
                    if row.mask >> gpu & 1:
                        before = device_of(books, row.node, gpu).busy if adding else 0.0
                        device_of(books, row.node, gpu).busy = before + busy
                chain = row.next
