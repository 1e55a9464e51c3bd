"""How fast a job runs on what it holds, for compiled code: the laws of `rates`."""

from libc.stdint cimport int64_t

from muster.cluster.arrays cimport Ints
from muster.cluster.ledger_core cimport Books
from muster.speed.input_core cimport ModelSpeed
from muster.workload.jobs_core cimport Asked, Fact

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

cdef Stages stage_seconds(
    Books* books, int64_t chain, ModelSpeed* models, Asked* asked, Fact* fact
) noexcept nogil
cdef void note_busy(Books* books, Asked* asked, Fact* facts, Ints active, ModelSpeed* models) noexcept nogil
