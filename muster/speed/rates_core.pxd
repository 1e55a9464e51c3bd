"""How fast a job runs on what it holds, for compiled code: the layout of `input_pipeline` and the laws of `rates`."""

from libc.stdint cimport int64_t

from muster.cluster.arrays cimport Ints
from muster.cluster.ledger_core cimport Books
from muster.workload.jobs_core cimport Asked, Fact

cdef enum:
    MOST_CPU_POINTS = 16
    MOST_MEMORY_POINTS = 8
    MOST_GPU_TYPES = 32

cdef struct ModelSpeed:
    int64_t n_cpus
    int64_t n_memory
    double cpus[MOST_CPU_POINTS]
    double memory[MOST_MEMORY_POINTS]
    double input_seconds[MOST_CPU_POINTS][MOST_MEMORY_POINTS]
    double reference_seconds
    double compute_seconds
    double batch_gb
    double dataset_gb
    double memory_gb_per_s
    int64_t on_type[MOST_GPU_TYPES]

# Of a step: seconds by stage, the GPUs held, and the iterations made.
cdef struct Stages:
    double input_seconds
    double compute
    double communication
    double gpus
    double iterations

cdef inline double iteration_seconds(Stages stages) noexcept nogil:
    """Seconds of a step: the loader is hidden by the rest, or hides it."""
    return max(stages.input_seconds, stages.compute + stages.communication)

cdef double input_stage_seconds(ModelSpeed* model, double cpus, double memory_gb, double storage_gb_per_s) noexcept nogil
cdef Stages stage_seconds(
    Books* books, int64_t chain, ModelSpeed* models, Asked* asked, double exposed
) noexcept nogil
cdef void note_busy(Books* books, Asked* asked, Fact* facts, Ints active, ModelSpeed* models) noexcept nogil
