"""Write a logged run as the files that an administrator has: sacct.txt, and scontrol.txt with settings and nodes.

python -m experiments.slurm.site_files run1 FOLDER
"""

from __future__ import annotations

import argparse
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl

from experiments.slurm.log import GPUS, NODES

_ZERO = datetime(2024, 1, 1, tzinfo=UTC)
_HEADER = (
    "JobID|User|Account|Partition|Priority|State|Submit|Start|End|Elapsed|Timelimit|NNodes|NodeList|ReqTRES"
)


def sacct_text(jobs: pl.DataFrame) -> str:
    """The jobs of a run as `sacct -P` prints them, times to the millisecond in place of seconds."""
    lines = [_HEADER]
    for number, row in enumerate(jobs.iter_rows(named=True), 1):
        memory = row["mem_gb_per_node"] * row["nodes"]
        tres = f"cpu={row['cpus']},gres/gpu={row['gpus']},mem={memory}G,node={row['nodes']}"
        times = [_moment(row[name]) for name in ("accepted", "allocated", "completed")]
        cells = [
            str(number),
            row["user"],
            "lab",
            "one",
            str(row["priority_at_submit"]),
            row["state"],
            *times,
            f"{row['completed'] - row['allocated']:.3f}",
            _clock(row["limit_s"]),
            str(row["nodes"]),
            row["node_list"],
            tres,
        ]
        lines.append("|".join(cells))
    return "\n".join(lines) + "\n"


def scontrol_text(settings: pl.DataFrame, run: str) -> str:
    """Settings and nodes of a run, as `scontrol show config; scontrol show node` prints them."""
    lines = ["ClusterName             = logged"]
    for name, value in settings.select("setting", run).iter_rows():
        if name.isalnum() and value:
            lines.append(f"{name:<23} = {value}")
    for number in range(1, NODES + 1):
        lines += [
            "",
            f"NodeName=node{number} Arch=x86_64 CoresPerSocket=48",
            "   CPUAlloc=0 CPUEfctv=48 CPUTot=48 CPULoad=0.00",
            f"   Gres=gpu:{GPUS}",
            "   RealMemory=500000 AllocMem=0 Sockets=1 Boards=1",
            "   State=IDLE ThreadsPerCore=1 TmpDisk=0 Weight=1",
            "   Partitions=one",
        ]
    return "\n".join(lines) + "\n"


def write_site(reference: Path, run: str, folder: Path) -> None:
    """Both files of a run."""
    source = reference / "parity/slurm"
    folder.mkdir(parents=True, exist_ok=True)
    jobs = pl.read_csv(source / f"{run}_jobs.csv")
    settings = pl.read_csv(source / "scheduling_settings.csv")
    (folder / "sacct.txt").write_text(sacct_text(jobs), encoding="utf-8")
    (folder / "scontrol.txt").write_text(scontrol_text(settings, run), encoding="utf-8")


def _moment(seconds: float) -> str:
    return (_ZERO + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]


def _clock(seconds: int) -> str:
    return f"{seconds // 3600:02}:{seconds % 3600 // 60:02}:{seconds % 60:02}"


def main() -> None:
    """Write the files of one run."""
    parser = argparse.ArgumentParser(prog="python -m experiments.slurm.site_files", description=__doc__)
    parser.add_argument("run", choices=("run1", "run3_multifactor"), help="The logged run.")
    parser.add_argument("folder", type=Path, help="Folder for sacct.txt and scontrol.txt.")
    arguments = parser.parse_args()
    write_site(Path(os.environ["MUSTER_REFERENCE"]), arguments.run, arguments.folder)


if __name__ == "__main__":
    main()
