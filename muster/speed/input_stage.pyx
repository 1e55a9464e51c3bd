"""Seconds and speed of the input stage by CPUs, memory and storage, for Python; `input_pipeline` says what they are."""

from libc.stdint cimport int64_t

from muster.cluster.arrays cimport records
from muster.speed.input_core cimport ModelSpeed
from muster.speed.input_core cimport input_stage_seconds as stage_seconds
from muster.speed.input_core cimport read_seconds as seconds_to_read
from muster.speed.input_core cimport relative_speed as speed_of
from muster.speed.input_core cimport storage_needed_gb_per_s as storage_of


cdef ModelSpeed* _record(object models, int64_t model) except NULL:
    return <ModelSpeed*> records(models, sizeof(ModelSpeed)) + model


def input_stage_seconds(models, int64_t model, double cpus, double memory_gb, double storage_gb_per_s):
    """Seconds an iteration that the input stage takes, by amounts a GPU; 0 without a profile, infinite without CPUs."""
    return stage_seconds(_record(models, model), cpus, memory_gb, storage_gb_per_s)


def relative_speed(models, int64_t model, double cpus, double memory_gb, double storage_gb_per_s):
    """Speed against the reference point (Synergy's W): 1 at the GPU-proportional share."""
    return speed_of(_record(models, model), cpus, memory_gb, storage_gb_per_s)


def storage_needed_gb_per_s(models, int64_t model, double cpus, double memory_gb):
    """Storage bandwidth per GPU above which more makes no difference (Synergy, optimistic profiling)."""
    return storage_of(_record(models, model), cpus, memory_gb)


def read_seconds(record, double memory_gb, double storage_gb_per_s):
    """Seconds to get one batch of a model from cache and storage; 0 where the data set is unknown."""
    return seconds_to_read(_record(record, 0), memory_gb, storage_gb_per_s)
