"""How fast a job goes on what it holds: the stages composed, for the worlds and for whoever plans with them.

A pipelined loader hides the shorter of input and the rest: an iteration takes max(input, compute +
communication). Communication is what the network leaves exposed (`speed.network`), told as seconds for each
second of compute, because that ratio carries over to GPUs that compute at another speed.
"""

from __future__ import annotations

from numba import njit

from muster.cluster.books import Books, Floats
from muster.speed.input_pipeline import ModelTable, input_stage_seconds


@njit(cache=True)
def stage_seconds(
    books: Books, chain: int, models: ModelTable, model: int, exposed: float
) -> tuple[float, float, float, float, int]:
    """Input, compute and communication seconds an iteration, the GPUs held, and how many take turns on them.

    The slowest node's input stage holds the gang up. Rows without a GPU (parameter servers) do not count.
    `exposed` is the communication that nothing hides, in seconds for each second of compute.
    """
    slowest = 0.0
    gpus = 0.0
    turns = 1
    row = chain
    while row >= 0:
        record = books.rows[row]
        here = record["amount"][0] / 1e6
        if here > 0:
            gpus += here
            seconds = input_stage_seconds(
                models,
                model,
                record["amount"][1] / 1e6 / here,
                record["amount"][2] / 1e6 / here,
                record["amount"][3] / 1e6 / here,
            )
            slowest = max(slowest, seconds)
            if record["group"] >= 0:
                for gpu in range(books.nodes[record["node"]]["gpus"]):
                    if record["mask"] >> gpu & 1:
                        turns = max(turns, books.devices[record["node"], gpu]["holders"])
        row = record["next"]
    compute = models[model]["compute_seconds"]
    return slowest, compute, compute * exposed, gpus, turns


@njit(cache=True)
def iteration_seconds(input_seconds: float, compute_seconds: float, communication_seconds: float) -> float:
    """Seconds an iteration of a gang that holds the GPUs it asked for."""
    return max(input_seconds, compute_seconds + communication_seconds)


def reference_seconds(models: ModelTable, model: int, share: Floats) -> float:
    """Seconds an iteration with this share (cores, GB, GB/s) a GPU."""
    cpus, memory_gb, storage_gb_per_s = (float(amount) for amount in share)
    seconds = input_stage_seconds(models, model, cpus, memory_gb, storage_gb_per_s)
    return float(iteration_seconds(seconds, models[model]["compute_seconds"], 0.0))
