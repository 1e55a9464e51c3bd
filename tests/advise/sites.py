"""Sites made by hand: a log of sacct and two nodes of scontrol."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from muster.advise import Site, read_site

HEADER = (
    "JobID|User|Partition|State|Submit|Start|End|Elapsed|Timelimit|NNodes|NodeList|ReqTRES|TotalCPU|TRESUsageInTot|"
    "TRESUsageInAve"
)


def clock(minutes: float) -> str:
    seconds = round(minutes * 60)
    return f"2024-01-01T{seconds // 3600:02}:{seconds % 3600 // 60:02}:{seconds % 60:02}"


def job(
    name: str, times: Sequence[float | None], nodes: str, gpus: int, cpus: int, **more: str | float
) -> str:
    """A line of sacct: submission, start and end in minutes.

    `more` has memory_gb, user, partition, limit in minutes (or UNLIMITED), type of GPU and usage.
    """
    count = 2 if "," in nodes else 1
    submit, start, end = times
    state = "PENDING" if start is None else "RUNNING" if end is None else "COMPLETED"
    elapsed = "00:00:00" if start is None or end is None else clock(end - start)[-8:]
    gres = f"gres/gpu:{more['type']}" if "type" in more else "gres/gpu"
    tres = f"cpu={cpus},{f'{gres}={gpus},' if gpus else ''}mem={more.get('memory_gb', 1)}G,node={count}"
    limit = more.get("limit", 60)
    cells = [
        *(name, more.get("user", "ann"), more.get("partition", "a"), state),
        *("Unknown" if one is None else clock(one) for one in (submit, start, end)),
        *(elapsed, limit if isinstance(limit, str) else clock(limit)[-8:], str(count), nodes, tres),
        *(more.get("total_cpu", ""), "", more.get("average", "")),
    ]
    return "|".join(map(str, cells))


def node(name: str, *, gpus: int | str = 4, cpus: int = 8, partitions: str = "a") -> str:
    """A node of scontrol; `gpus` may name their type, as `h100:4`."""
    return (
        f"NodeName={name} CPUTot={cpus} Gres=gpu:{gpus} RealMemory=100000 State=IDLE Partitions={partitions}"
    )


def site(folder: Path, jobs: Sequence[str], nodes: Sequence[str]) -> Site:
    return site_and_notes(folder, jobs, nodes)[0]


def site_and_notes(
    folder: Path, jobs: Sequence[str], nodes: Sequence[str]
) -> tuple[Site, list[tuple[str, str]]]:
    log, cluster = folder / "sacct.txt", folder / "scontrol.txt"
    log.write_text("\n".join([HEADER, *jobs]) + "\n")
    cluster.write_text(
        "ClusterName = hand\nSchedulerParameters = bf_interval=5\n\n" + "\n\n".join(nodes) + "\n"
    )
    return read_site(log, str(cluster))
