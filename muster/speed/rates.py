"""How fast a job goes on what it holds: the stages composed, for the worlds and for whoever plans with them.

A pipelined loader hides the shorter of input and the rest: an iteration takes max(input, compute +
communication). Communication is what the network leaves exposed (`speed.network`), told as seconds for each
second of compute, because that ratio carries over to GPUs that compute at another speed.

A job whose workers and servers are counted (`sync`) goes by the layered step of its own record instead; what it
reads is not looked at. Without servers of its own it keeps its parameters on its workers: as many servers as those.
"""

from __future__ import annotations

import numpy as np

from muster.cluster.books import SERVER, Books, Floats, Rows
from muster.compiling import njit
from muster.speed.input_pipeline import ModelTable, input_stage_seconds
from muster.speed.parameter_server.compiled import sized_step
from muster.workload.sized import RIGID


@njit(cache=True)
def stage_seconds(
    books: Books, chain: int, models: ModelTable, asked: Rows, job: int, exposed: float
) -> tuple[float, float, float, float, float]:
    """Input, compute and communication seconds of a step, the GPUs held, and iterations made in a step.

    Those are as many as the gang holds of what it asked for, over those who take turns on its GPUs. The slowest
    node's input stage holds the gang up. Rows without a GPU (parameter servers) do not count there.
    `exposed` is the communication that nothing hides, in seconds for each second of compute.
    """
    ask = asked[job]
    rigid = ask["sync"] == RIGID
    slowest = 0.0
    gpus = 0.0
    server_cpus = 0.0
    turns = 1
    row = chain
    while row >= 0:
        record = books.rows[row]
        here = record["amount"][0] / 1e6
        if here > 0:
            gpus += here
            if rigid:
                seconds = input_stage_seconds(
                    models,
                    ask["model"],
                    record["amount"][1] / 1e6 / here,
                    record["amount"][2] / 1e6 / here,
                    record["amount"][3] / 1e6 / here,
                )
                slowest = max(slowest, seconds)
            if record["group"] >= 0:
                for gpu in range(books.nodes[record["node"]]["gpus"]):
                    if record["mask"] >> gpu & 1:
                        turns = max(turns, books.devices[record["node"], gpu]["holders"])
        if record["role"] == SERVER:
            server_cpus += record["amount"][1]
        row = record["next"]
    if rigid:
        compute = models[ask["model"]]["compute_seconds"]
        whole = ask["gpus"] * ask["milli"] / 1000
        return slowest, compute, compute * exposed, gpus, gpus / whole / turns
    workers = np.rint(gpus * 1e6 / ask["worker_gpus"])
    servers = np.rint(server_cpus / ask["server_cpu"]) if server_cpus > 0 else workers
    compute, communication = sized_step(ask["terms"], ask["sync"], workers, servers)
    return 0.0, compute, communication, gpus, 1.0 / turns


@njit(cache=True)
def iteration_seconds(input_seconds: float, compute_seconds: float, communication_seconds: float) -> float:
    """Seconds an iteration of a gang that holds the GPUs it asked for."""
    return max(input_seconds, compute_seconds + communication_seconds)


def reference_seconds(models: ModelTable, model: int, share: Floats) -> float:
    """Seconds an iteration with this share (cores, GB, GB/s) a GPU."""
    cpus, memory_gb, storage_gb_per_s = (float(amount) for amount in share)
    seconds = input_stage_seconds(models, model, cpus, memory_gb, storage_gb_per_s)
    return float(iteration_seconds(seconds, models[model]["compute_seconds"], 0.0))
