"""How fast a job runs on what it holds: the stages composed, for simulations and schedulers.

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

import numpy as np

from muster.cluster.ledger_arrays import PACKED, SERVER, Books, Floats, Ints
from muster.compiling import njit
from muster.speed.input_pipeline import ModelTable
from muster.speed.input_stage import input_stage_seconds
from muster.speed.parameter_server.compiled import sized_step
from muster.workload.jobs import AskedArray, FactArray
from muster.workload.sized import RIGID, RING


@njit(cache=True)
def stage_seconds(
    books: Books, chain: int, models: ModelTable, asked: AskedArray, job: int, exposed: float
) -> tuple[float, float, float, float, float]:
    """Input, compute and communication seconds of a step, the GPUs held, and iterations made in a step.

    Those are as many as the gang holds of what it asked for, over those who share its GPUs. The slowest node's
    input stage and GPUs hold the gang up. Rows without a GPU (parameter servers) do not count there.
    A job without GPUs goes at the speed of its reference wherever it is. `exposed` is the communication that nothing
    hides, in seconds for each second of compute.
    """
    ask = asked[job]
    rigid = ask["sync"] == RIGID
    slowest = 0.0
    gpus = 0.0
    server_cpus = 0.0
    crowd = 1.0
    compute = 0.0
    row = chain
    while row >= 0:
        record = books.rows[row]
        here = record["amount"][0] / 1e6
        if here > 0:
            gpus += here
            turns, busy = _sharing(books, row)
            crowd = max(crowd, turns, busy)
            if rigid:
                here_model = models[ask["model"]]["on_type"][books.nodes[record["node"]]["gpu_type"]]
                compute_here: float = models[here_model]["compute_seconds"]
                compute = max(compute, compute_here)
                seconds = input_stage_seconds(
                    models,
                    here_model,
                    record["amount"][1] * turns / 1e6 / here,
                    record["amount"][2] * turns / 1e6 / here,
                    record["amount"][3] * turns / 1e6 / here,
                )
                slowest = max(slowest, seconds)
        if record["role"] == SERVER:
            server_cpus += record["amount"][1]
        row = record["next"]
    if rigid:
        if ask["gpus"] == 0:
            return 0.0, models[ask["model"]]["compute_seconds"], 0.0, 0.0, 1.0
        whole = ask["gpus"] * ask["milli"] / 1000
        return slowest, compute, compute * exposed, gpus, gpus / whole / crowd
    workers = np.rint(gpus * 1e6 / ask["worker_gpus"])
    servers = np.rint(server_cpus / ask["server_cpu"]) if server_cpus > 0 else workers
    compute, communication = sized_step(ask["terms"], workers, servers)
    if ask["sync"] == RING:
        communication = compute * exposed
    return 0.0, compute, communication, gpus, 1.0 / crowd


@njit(cache=True)
def _sharing(books: Books, row: int) -> tuple[float, float]:
    """How many jobs take turns on a row's GPUs, and how many GPUs packed jobs would keep busy there; at least 1."""
    record = books.rows[row]
    turns, busy = 1.0, 1.0
    if record["group"] >= 0:
        for gpu in range(books.nodes[record["node"]]["gpus"]):
            if record["mask"] >> gpu & 1:
                device = books.devices[record["node"], gpu]
                if record["group"] < PACKED:
                    holders: int = device["holders"]
                    turns = max(turns, holders)
                else:
                    packed: float = device["busy"]
                    busy = max(busy, packed)
    return turns, busy


@njit(cache=True)
def iteration_seconds(input_seconds: float, compute_seconds: float, communication_seconds: float) -> float:
    """Seconds an iteration of a gang that holds the GPUs it asked for."""
    return max(input_seconds, compute_seconds + communication_seconds)


@njit(cache=True)
def note_busy(books: Books, asked: AskedArray, facts: FactArray, active: Ints, models: ModelTable) -> None:
    """Write down how busy packed jobs would keep each GPU: of each, compute seconds over those of an iteration."""
    for adding in (False, True):
        for job in active:
            row = books.heads[job]
            if row < 0 or books.rows[row]["group"] < PACKED:
                continue
            busy = 0.0
            if adding:
                input_seconds, compute, communication, _, _ = stage_seconds(
                    books, row, models, asked, job, facts[job]["exposed"]
                )
                busy = compute / iteration_seconds(input_seconds, compute, communication)
            while row >= 0:
                record = books.rows[row]
                for gpu in range(books.nodes[record["node"]]["gpus"]):
                    if record["mask"] >> gpu & 1:
                        before = books.devices[record["node"], gpu]["busy"] if adding else 0.0
                        books.devices[record["node"], gpu]["busy"] = before + busy
                row = record["next"]


def reference_seconds(models: ModelTable, model: int, share: Floats) -> float:
    """Seconds an iteration with this share (cores, GB, GB/s) a GPU."""
    cpus, memory_gb, storage_gb_per_s = (float(amount) for amount in share)
    seconds = input_stage_seconds(models, model, cpus, memory_gb, storage_gb_per_s)
    return float(iteration_seconds(seconds, models[model]["compute_seconds"], 0.0))
