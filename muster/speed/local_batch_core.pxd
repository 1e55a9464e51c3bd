"""What each GPU of a gang computes in an iteration, for compiled code; `worker_options` says what the law is."""

from libc.math cimport ceil

from muster.speed.input_core cimport ModelSpeed

cdef struct LocalBatch:
    double samples  # of each GPU an iteration, in batches of the model
    double passes  # forward and backward passes over them
    double last_pass  # compute of one pass, in those over a batch of the model


cdef inline double whole_samples(double samples) noexcept nogil:
    """Rounded up, but for what a division leaves."""
    return ceil(samples * (1 - 1e-12))


cdef inline LocalBatch local_batch(ModelSpeed* model, double asked_per_held) noexcept nogil:
    """The part of the total batch of a gang that each GPU takes; the total is that of the GPUs that it asked for.

    The GPU with most samples holds the others up. Of a model without a batch any part of a sample is possible.
    """
    cdef LocalBatch local
    cdef double samples, in_a_pass
    local.samples, local.passes, local.last_pass = asked_per_held, 1.0, asked_per_held
    if asked_per_held == 1 or model.batch == 0:
        return local
    samples = whole_samples(model.batch * asked_per_held)
    local.passes = max(1.0, ceil(samples / model.largest_batch))
    in_a_pass = ceil(samples / local.passes)
    local.samples = samples / model.batch
    local.last_pass = 1 + (1 - model.fixed_share) * (in_a_pass / model.batch - 1)
    return local
