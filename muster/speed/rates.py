"""How fast a job runs on what it holds: the stages composed (in `rates_core`, for simulations and schedulers).

A pipelined loader hides the shorter of input and the rest: an iteration takes max(input, compute +
communication). Communication is what the network leaves exposed (`speed.network`), given as seconds for each
second of compute, because that ratio carries over to GPUs that compute at another speed.

A job whose workers and servers are counted (`sync`) goes by the layered step of its own record instead; what it
reads is not looked at. Without servers of its own it keeps its parameters on its workers: as many servers as those.
A ring of workers has its communication from the network, as a gang has.

Jobs in turns on the same GPUs each run at full speed in their part of the time, with the CPU and memory of all
of them. Packed jobs run at the same time, each with its own: one computes while another waits for its input or
its network, and where together they ask for more than all of the GPU's time, they are slowed alike.
"""

from __future__ import annotations

from muster.cluster.ledger_arrays import Floats
from muster.speed.input_pipeline import ModelTable
from muster.speed.input_stage import input_stage_seconds


def reference_seconds(models: ModelTable, model: int, share: Floats) -> float:
    """Seconds an iteration with this share (cores, GB, GB/s) a GPU."""
    cpus, memory_gb, storage_gb_per_s = (float(amount) for amount in share)
    seconds = input_stage_seconds(models, model, cpus, memory_gb, storage_gb_per_s)
    return max(seconds, float(models[model]["compute_seconds"]))
