"""What the network sees of placements: their shapes, the uplinks that they cross, and what those carry."""

from libc.math cimport INFINITY
from libcpp.vector cimport vector

from muster.cluster.arrays cimport Floats, Ints, floats, ints, records
from muster.cluster.ledger_core cimport count_bits

import numpy as np


# What a job uses of each rack.
cdef struct InRack:
    int64_t gpus
    int64_t machines


cdef struct Placement:
    int64_t rows
    int64_t* nodes
    int64_t* gpu_bits


cdef struct Tree:
    int64_t nodes
    int64_t* rack_of
    int64_t* gpus_per_island
    double* uplink


cdef bint _even_over_racks(Shape* shape, Placement* placement, Tree* tree, InRack* racks) noexcept nogil:
    """Whether each rack of these nodes has the same number of the job's GPUs and machines."""
    cdef int64_t row
    cdef InRack* rack
    for row in range(placement.rows):
        rack = &racks[tree.rack_of[placement.nodes[row]]]
        if rack.gpus * shape.racks != shape.gpus or rack.machines * shape.racks != shape.machines:
            return False
    return True


cdef int64_t _count_islands(Shape* shape, int64_t bits, int64_t size, int64_t* per_island, bint* even) noexcept nogil:
    """Add the islands of a row to a shape; the GPUs of the row. `per_island` is the first island's, 0 before it."""
    cdef int64_t in_island, in_machine = 0, island = (<int64_t> 1 << size) - 1
    while bits:
        in_island = count_bits(bits & island)
        bits >>= size
        if in_island == 0:
            continue
        shape.islands += 1
        in_machine += in_island
        if per_island[0] == 0:
            per_island[0] = in_island
        even[0] = even[0] and in_island == per_island[0]
    return in_machine


cdef void _fill_shape(Shape* shape, Placement* placement, Tree* tree, InRack* racks) noexcept nogil:
    """Write the shape of a placement; `racks` is scratch, all 0 before and after."""
    cdef bint even_islands = True, even_machines = True
    cdef int64_t row, node, rack, in_machine, per_island = 0, per_machine = 0
    shape.machine_gb_per_s = shape.rack_gb_per_s = INFINITY
    for row in range(placement.rows):
        node = placement.nodes[row]
        in_machine = _count_islands(
            shape, placement.gpu_bits[row], tree.gpus_per_island[node], &per_island, &even_islands
        )
        if row == 0:
            per_machine = in_machine
        even_machines = even_machines and in_machine == per_machine
        shape.gpus += in_machine
        rack = tree.rack_of[node]
        shape.racks += racks[rack].machines == 0
        racks[rack].gpus += in_machine
        racks[rack].machines += 1
        shape.machine_gb_per_s = min(shape.machine_gb_per_s, tree.uplink[node])
        shape.rack_gb_per_s = min(shape.rack_gb_per_s, tree.uplink[tree.nodes + rack])
    shape.machines = placement.rows
    shape.even = even_islands * EVEN_ISLANDS + even_machines * EVEN_MACHINES
    shape.even += _even_over_racks(shape, placement, tree, racks) * EVEN_RACKS
    for row in range(placement.rows):
        rack = tree.rack_of[placement.nodes[row]]
        racks[rack].gpus = racks[rack].machines = 0
    if shape.machines == 1:
        shape.machine_gb_per_s = INFINITY
    if shape.racks == 1:
        shape.rack_gb_per_s = INFINITY


def fill_shapes(first, nodes, gpu_bits, rack_of, gpus_per_island, uplink, shapes):
    """Write the shape of every placement into `shapes`, which are all 0."""
    cdef Shape* shape = <Shape*> records(shapes, sizeof(Shape))
    cdef int64_t* begins = ints(first).at
    cdef int64_t* of_rows = ints(nodes).at
    cdef int64_t* bits = ints(gpu_bits).at
    cdef Floats uplinks = floats(uplink)
    cdef Tree tree
    cdef Placement placement
    cdef vector[InRack] racks
    cdef int64_t job
    tree.rack_of, tree.nodes, tree.gpus_per_island = ints(rack_of).at, len(rack_of), ints(gpus_per_island).at
    tree.uplink = uplinks.at
    racks.resize(uplinks.size - tree.nodes)
    for job in range(len(shapes)):
        placement.rows = begins[job + 1] - begins[job]
        placement.nodes, placement.gpu_bits = of_rows + begins[job], bits + begins[job]
        _fill_shape(&shape[job], &placement, &tree, racks.data())


def crossings(first, nodes, rack_of, int64_t uplinks):
    """Which uplinks every job crosses: `first` and `links` of `contention.Neighbourhood`."""
    cdef Ints begins = ints(first), of_rows = ints(nodes), rack_of_node = ints(rack_of)
    cdef int64_t* firsts
    cdef int64_t* crossed
    cdef vector[int64_t] last_job_of
    cdef int64_t job, row, rack, start, stop, filled = 0
    cdef bint several_racks
    link_first, links = np.zeros(begins.size, np.int64), np.empty(2 * of_rows.size, np.int64)
    firsts, crossed = ints(link_first).at, ints(links).at
    last_job_of.resize(uplinks - rack_of_node.size, -1)
    for job in range(begins.size - 1):
        start, stop = begins.at[job], begins.at[job + 1]
        several_racks = False
        for row in range(start, stop):
            several_racks = several_racks or (
                rack_of_node.at[of_rows.at[row]] != rack_of_node.at[of_rows.at[start]]
            )
        if stop - start > 1:
            for row in range(start, stop):
                crossed[filled] = of_rows.at[row]
                filled += 1
                rack = rack_of_node.at[of_rows.at[row]]
                if several_racks and last_job_of[rack] != job:
                    last_job_of[rack] = job
                    crossed[filled] = rack_of_node.size + rack
                    filled += 1
        firsts[job + 1] = filled
    return link_first, links[:filled]


def loads(first, nodes, gpu_bits, shapes, rack_of):
    """GB on each of the `crossings` for each GB of gradient, in their order."""
    cdef Ints begins = ints(first), of_rows = ints(nodes), rack_of_node = ints(rack_of)
    cdef int64_t* bits = ints(gpu_bits).at
    cdef Shape* all_shapes = <Shape*> records(shapes, sizeof(Shape))
    cdef Shape* shape
    cdef vector[int64_t] last_job_of
    cdef double* on_link
    cdef double between_racks, within, share
    cdef int64_t job, row, rack, ring, in_rack, machines, filled = 0
    cdef bint flat_over_racks
    carried = np.empty(2 * of_rows.size)
    on_link = floats(carried).at
    last_job_of.resize(rack_of.max() + 1, -1)
    for job in range(begins.size - 1):
        shape = &all_shapes[job]
        if shape.machines < 2:
            continue
        flat_over_racks = shape.racks > 1 and not shape.even & EVEN_RACKS
        ring = shape.gpus if flat_over_racks else shape.racks
        between_racks = 2.0 * (ring - 1) / ring
        in_rack = shape.gpus // shape.racks
        machines = shape.machines // shape.racks
        within = 0.0
        if machines > 1 and not flat_over_racks:
            ring = machines if shape.even & EVEN_MACHINES else in_rack
            within = 2.0 * (ring - 1) / ring
        for row in range(begins.at[job], begins.at[job + 1]):
            share = 1.0 if flat_over_racks else count_bits(bits[row]) / <double> in_rack
            on_link[filled] = within + between_racks * share
            filled += 1
            rack = rack_of_node.at[of_rows.at[row]]
            if shape.racks > 1 and last_job_of[rack] != job:
                last_job_of[rack] = job
                on_link[filled] = between_racks
                filled += 1
    return carried[:filled]
