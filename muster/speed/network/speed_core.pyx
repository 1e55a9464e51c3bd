"""The network stage of jobs that are alone, by model and shape; `speed` says what the stage is."""

from libc.math cimport pow
from libc.stdint cimport int64_t

from muster.cluster.arrays cimport Ints, floats, ints, records
from muster.speed.network.collectives cimport Links, stacked
from muster.speed.network.dimensions cimport links_of
from muster.speed.network.overlap cimport Costs, Messages, seconds_beyond_compute
from muster.speed.network.placement_core cimport Shape


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
    double nic_gb_per_s


cdef struct Stage:
    double exposed_seconds
    double all_reduce_seconds
    double volume_gb


# How all-reduces run on the links of a cluster.
cdef struct AllReduce:
    int64_t flavour
    int64_t algorithm
    int64_t hierarchy
    double* level_gb_per_s
    double* hop_seconds


cdef void _fill_measured(Model* model, double stretched, Shape* shape, Stage* stage) noexcept nogil:
    """The stage of a model that is known by measurements.

    Its volume are the GB whose all-reduce keeps the uplinks busy as long as the communication takes.
    """
    cdef int64_t further = max(shape.gpus - 2, <int64_t> 0)
    cdef double machines = shape.machines, racks = shape.racks
    cdef double net, uplink_gb, between_racks, longer, compute = model.compute_seconds * stretched
    if shape.machines == 1:
        net, stage.volume_gb = model.local_seconds + model.local_seconds_per_gpu * further, 0.0
    else:
        uplink_gb = model.uplink_seconds + model.uplink_seconds_per_gpu * further
        uplink_gb *= model.nic_gb_per_s
        stage.volume_gb = uplink_gb / (2.0 * (machines - 1) / machines)
        between_racks = stage.volume_gb * 2.0 * (racks - 1) / racks / shape.rack_gb_per_s
        net = max(uplink_gb / shape.machine_gb_per_s, between_racks)
    longer = max(compute, net)
    stage.exposed_seconds = longer * pow(
        pow(compute / longer, model.overlap) + pow(net / longer, model.overlap), 1.0 / model.overlap
    ) - compute
    stage.all_reduce_seconds = net


cdef void _fill_layered(
    Model* model, Messages messages, double stretched, AllReduce* all_reduce, Shape* shape, Stage* stage
) noexcept nogil:
    """The stage of a model whose messages are known."""
    cdef Links links = links_of(all_reduce.flavour, shape, all_reduce.level_gb_per_s, all_reduce.hop_seconds)
    cdef Costs costs = stacked(all_reduce.algorithm, all_reduce.hierarchy, &links)
    cdef double latency = 0.0, per_gb = 0.0
    cdef int64_t d
    for d in range(costs.dimensions):
        latency += costs.latency_seconds[d]
        per_gb += costs.seconds_per_gb[d]
    stage.exposed_seconds = seconds_beyond_compute(model.compute_seconds, messages, stretched, &costs)
    stage.all_reduce_seconds = latency * model.messages + per_gb * model.gradient_gb
    stage.volume_gb = model.gradient_gb


def fill_stages(arrays, how, models, shapes, stretched, stages):
    """Write the stage of every model, shape and length of compute into `stages`, which are all 0.

    `arrays` and `how` are those of `speed`: what the models send, and how all-reduces run.
    """
    cdef Model* table = <Model*> records(arrays[0], sizeof(Model))
    cdef double* of_messages = floats(arrays[1]).at
    cdef int64_t width = arrays[1].shape[1]
    cdef Shape* all_shapes = <Shape*> records(shapes, sizeof(Shape))
    cdef Stage* all_stages = <Stage*> records(stages, sizeof(Stage))
    cdef Ints numbers = ints(models)
    cdef double* times = floats(stretched).at
    cdef AllReduce all_reduce
    cdef Messages messages
    cdef Model* model
    cdef int64_t at
    all_reduce.flavour, all_reduce.algorithm, all_reduce.hierarchy = how[0], how[1], how[2]
    all_reduce.level_gb_per_s, all_reduce.hop_seconds = floats(how[3]).at, floats(how[4]).at
    for at in range(numbers.size):
        model = &table[numbers.at[at]]
        if all_shapes[at].gpus <= 1:
            continue
        if model.measured:
            _fill_measured(model, times[at], &all_shapes[at], &all_stages[at])
            continue
        messages.count, messages.ready_seconds = model.messages, of_messages + model.first
        messages.gradient_gb = messages.ready_seconds + width
        messages.update_seconds = messages.gradient_gb + width
        _fill_layered(model, messages, times[at], &all_reduce, &all_shapes[at], &all_stages[at])
