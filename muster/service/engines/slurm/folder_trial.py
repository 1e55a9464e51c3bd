"""Nodes of a partition try the jobs' folder, as one short job beside others."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from muster.cluster.slurm_nodes import RESERVED, UNUSABLE, read_fields
from muster.launcher.folder_trial import TRIAL_SECONDS
from muster.service.engines.folder_trial import NODES_AT_MOST
from muster.slurm_commands import SlurmCommands, SlurmError, explained

TRIAL_JOB = "muster-folder-trial"
"""Its name in Slurm."""
_ALLOCATION_SECONDS = 5
"""For which Slurm may look for a place."""
_ANSWER_SECONDS = _ALLOCATION_SECONDS + TRIAL_SECONDS + 20.0
"""For all of it; Python starts slowly on a busy node."""
_MEMORY_MIB = 128
_REFUSED = "allocate"
"""In what srun says where Slurm gives it no place."""


def ask_nodes(
    commands: SlurmCommands, partition: str, nodes: Sequence[str], folder: Path, token: str
) -> Mapping[str, str]:
    """Return what is wrong with a folder, by node. SlurmError if no node is free for it now.

    `nodes` are lines of `scontrol --oneliner show node`.
    """
    chosen = [fields["NodeName"] for fields in map(read_fields, nodes) if _is_free(fields)][:NODES_AT_MOST]
    if not chosen:
        raise SlurmError("none has a free CPU")
    command = [
        "srun",
        f"--partition={partition}",
        f"--job-name={TRIAL_JOB}",
        f"--nodelist={','.join(chosen)}",
        f"--nodes={len(chosen)}",
        "--ntasks-per-node=1",
        "--cpus-per-task=1",
        f"--mem={_MEMORY_MIB}M",
        "--time=2",
        f"--immediate={_ALLOCATION_SECONDS}",
        "--kill-on-bad-exit=1",
        "--mpi=none",
        "--export=NONE",
        "--chdir=/",
        *(sys.executable, "-P", "-m", "muster.launcher.folder_trial", str(folder), token, str(len(chosen))),
    ]
    both = " and ".join(chosen)
    try:
        done = replace(commands, patience_seconds=_ANSWER_SECONDS).done(command)
    except SlurmError as error:
        return {both: f"does not answer: {error}"}
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode and not answers and _REFUSED in done.stderr:
        raise SlurmError(f"srun: {explained(done.stderr)}")
    found = {answer["node"]: answer["problem"] for answer in answers}
    if any(found.values()):  # the others were ended then
        return found
    if missing := [name for name in chosen if name not in found]:
        found[" and ".join(missing)] = f"cannot run {sys.executable}: {explained(done.stderr)}"
    return found


def _is_free(fields: Mapping[str, str]) -> bool:
    """Whether a node can take one process more now."""
    state = fields.get("State", "").upper()
    cpus = int(fields.get("CPUTot") or 0) - int(fields.get("CPUAlloc") or 0)
    memory_mib = int(fields.get("RealMemory") or 0) - int(fields.get("AllocMem") or 0)
    return (
        not any(word in state for word in (*UNUSABLE, *RESERVED)) and cpus > 0 and memory_mib >= _MEMORY_MIB
    )
