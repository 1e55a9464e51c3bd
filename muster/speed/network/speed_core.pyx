"""The network stage of jobs that are alone, by model and shape; `speed` says what the stage is."""

from libc.math cimport pow
from libc.stdint cimport int64_t
from libcpp.vector cimport vector

from muster.cluster.arrays cimport floats, ints, records
from muster.speed.network.collectives cimport Links, stacked
from muster.speed.network.dimensions cimport links_of
from muster.speed.network.contention cimport Neighbourhood
from muster.speed.network.overlap cimport Beyond, Costs, Messages, beyond_compute
from muster.speed.network.placement_core cimport Shape


cdef int64_t _TRIALS = 100
cdef double _NEARLY = 1e-4  # change of a slowdown, relatively, that ends the search
cdef double _INSTANT = 1e-300


cdef struct Model:
    double compute_seconds
    double gradient_gb
    int64_t first
    int64_t messages
    int64_t measured
    double local_seconds
    double local_seconds_per_gpu
    double uplink_seconds
    double uplink_seconds_per_gpu
    double overlap
    double nic_gb_per_s  # 0: nothing is known of several machines


cdef struct Stage:
    double exposed_seconds
    double all_reduce_seconds
    double volume_gb
    double busy_seconds


# How all-reduces run on the links of a cluster.
cdef struct AllReduce:
    int64_t flavour
    int64_t algorithm
    int64_t hierarchy
    double* level_gb_per_s
    double* hop_seconds


# What the stages of some jobs follow from.
cdef struct Question:
    Model* table
    double* messages
    int64_t width
    int64_t* models
    Shape* shapes
    double* stretched
    AllReduce how


cdef void _fill_measured(Model* model, double stretched, double slowed, Shape* shape, Stage* stage) noexcept nogil:
    """The stage of a model that is known by measurements.

    Its volume are the GB whose all-reduce keeps the uplinks busy as long as the communication takes.
    """
    cdef int64_t further = max(shape.gpus - 2, <int64_t> 0)
    cdef double machines = shape.machines, racks = shape.racks
    cdef double net, uplink_gb, between_racks, longer, compute = model.compute_seconds * stretched
    if shape.machines == 1 or model.nic_gb_per_s == 0:
        net, stage.volume_gb = model.local_seconds + model.local_seconds_per_gpu * further, 0.0
    else:
        uplink_gb = model.uplink_seconds + model.uplink_seconds_per_gpu * further
        uplink_gb *= model.nic_gb_per_s
        stage.volume_gb = uplink_gb / (2.0 * (machines - 1) / machines)
        between_racks = stage.volume_gb * 2.0 * (racks - 1) / racks / shape.rack_gb_per_s
        net = max(uplink_gb / shape.machine_gb_per_s, between_racks) * slowed
        stage.busy_seconds = net
    longer = max(compute, net)
    stage.exposed_seconds = longer * pow(
        pow(compute / longer, model.overlap) + pow(net / longer, model.overlap), 1.0 / model.overlap
    ) - compute
    stage.all_reduce_seconds = net


cdef void _fill_layered(
    Model* model, Messages messages, double stretched, double slowed, AllReduce* all_reduce, Shape* shape, Stage* stage
) noexcept nogil:
    """The stage of a model whose messages are known."""
    cdef Links links = links_of(all_reduce.flavour, shape, all_reduce.level_gb_per_s, all_reduce.hop_seconds)
    cdef Costs costs = stacked(all_reduce.algorithm, all_reduce.hierarchy, &links)
    cdef double latency = 0.0, per_gb = 0.0
    cdef Beyond beyond = beyond_compute(model.compute_seconds, messages, stretched, slowed, &costs)
    cdef int64_t d
    for d in range(costs.dimensions):
        latency += costs.latency_seconds[d]
        per_gb += costs.seconds_per_gb[d]
    stage.exposed_seconds, stage.busy_seconds = beyond.seconds, beyond.busy
    stage.all_reduce_seconds = latency * model.messages + per_gb * model.gradient_gb
    stage.volume_gb = model.gradient_gb


cdef void _fill(Question* question, int64_t at, double slowed, Stage* stage) noexcept nogil:
    """Write one stage, which is all 0, of a job that sends over uplinks in `slowed` times the seconds."""
    cdef Model* model = &question.table[question.models[at]]
    cdef Messages messages
    if question.shapes[at].gpus <= 1:
        return
    if model.measured:
        _fill_measured(model, question.stretched[at], slowed, &question.shapes[at], stage)
        return
    messages.count, messages.ready_seconds = model.messages, question.messages + model.first
    messages.gradient_gb = messages.ready_seconds + question.width
    messages.update_seconds = messages.gradient_gb + question.width
    _fill_layered(model, messages, question.stretched[at], slowed, &question.how, &question.shapes[at], stage)


cdef Question _question(object arrays, object how, object models, object shapes, object stretched) except *:
    cdef Question question
    question.table = <Model*> records(arrays[0], sizeof(Model))
    question.messages, question.width = floats(arrays[1]).at, arrays[1].shape[1]
    question.models, question.shapes = ints(models).at, <Shape*> records(shapes, sizeof(Shape))
    question.stretched = floats(stretched).at
    question.how.flavour, question.how.algorithm, question.how.hierarchy = how[0], how[1], how[2]
    question.how.level_gb_per_s, question.how.hop_seconds = floats(how[3]).at, floats(how[4]).at
    return question


def fill_stages(arrays, how, models, shapes, stretched, stages):
    """Write the stage of every model, shape and length of compute into `stages`, which are all 0.

    `arrays` and `how` are those of `speed`: what the models send, and how all-reduces run.
    """
    cdef Question question = _question(arrays, how, models, shapes, stretched)
    cdef Stage* all_stages = <Stage*> records(stages, sizeof(Stage))
    cdef int64_t at
    for at in range(len(stages)):
        _fill(&question, at, 1.0, &all_stages[at])


def fill_contended(arrays, how, models, shapes, stretched, compute_seconds, uplinks, stages):
    """Write the stage of every job, all of them running side by side, over those of each alone.

    `uplinks` are the links that jobs cross (`first`, `links`), the GB/s of each that a job uses while it sends
    undisturbed, and their capacities. An iteration computes for `compute_seconds`, and overlap is solved again for the
    seconds that sending takes, until these and the parts of the time in which jobs send agree.
    """
    cdef Question question = _question(arrays, how, models, shapes, stretched)
    cdef Stage* all_stages = <Stage*> records(stages, sizeof(Stage))
    cdef Neighbourhood around = Neighbourhood(uplinks[0], uplinks[1], uplinks[2], uplinks[3])
    cdef double* compute = floats(compute_seconds).at
    cdef int64_t job, trial, count = len(stages)
    cdef vector[double] slowed, busy
    cdef Stage stage
    cdef double longer, change
    slowed.assign(count, 1.0)
    busy.resize(count)
    for trial in range(_TRIALS):
        for job in range(count):
            stage = all_stages[job]
            busy[job] = min(1.0, stage.busy_seconds / max(compute[job] + stage.exposed_seconds, _INSTANT))
        around.set_busy(busy.data())
        change = 0.0
        for job in range(count):
            longer = 1.0 / around.speed(job)
            change = max(change, abs(longer - slowed[job]) / slowed[job])
            if longer != slowed[job]:
                slowed[job] = longer
                stage.exposed_seconds = stage.busy_seconds = stage.all_reduce_seconds = stage.volume_gb = 0.0
                _fill(&question, job, slowed[job], &stage)
                all_stages[job] = stage
        if change < _NEARLY:
            break
