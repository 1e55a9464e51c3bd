"""`muster cluster`: the cluster file of a cluster that exists."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli import flags

if TYPE_CHECKING:
    from muster.cluster.slurm_nodes import SlurmSite

_SLURM = "slurm"


def cluster(
    source: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="SOURCE",
            help="Source: slurm asks the Slurm of this machine; else a file of scontrol show node or sinfo --json.",
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Cluster file to write, .toml.")
    ],
    as_json: flags.Json = False,
) -> None:
    """Write the cluster file of a Slurm site: its nodes, GPUs, partitions and racks.

    Example: muster cluster --from slurm -o cluster.toml
    """
    from muster.cluster.cluster_file import write_cluster_file
    from muster.formatting import as_json_text, counted
    from muster.problems import InputError, Problem

    if output.suffix != ".toml":
        raise InputError(Problem("--output", "allowed: a name that ends in .toml", found=output))
    site = _running_site() if source == _SLURM else _site_of_file(Path(source))
    write_cluster_file(site.cluster, output)
    if as_json:
        content = {"output": str(output), "nodes": len(site.cluster.nodes), "gpus": site.cluster.total_gpus}
        print(as_json_text({**content, "notes": site.notes}), end="")
        return
    for note in site.notes:
        print(f"{source}: {note}", file=sys.stderr)
    nodes, gpus = len(site.cluster.nodes), site.cluster.total_gpus
    print(f"{counted(nodes, 'node')} with {counted(gpus, 'GPU')} in {output}")


def _running_site() -> SlurmSite:
    from muster.cluster.slurm_nodes import read_slurm_site
    from muster.problems import Unable
    from muster.slurm_commands import SlurmCommands, SlurmError

    commands = SlurmCommands()
    try:
        nodes = commands.ask(["scontrol", "--oneliner", "show", "node"])
        topology = commands.ask(["scontrol", "--oneliner", "show", "topology"])
        config = commands.ask(["scontrol", "show", "config"])
    except SlurmError as error:
        raise Unable(str(error)) from error
    names = [line.partition("=")[2].strip() for line in config.splitlines() if line.startswith("ClusterName")]
    return read_slurm_site(f"{nodes}\n{topology}", "scontrol show node", (names or [_SLURM])[0])


def _site_of_file(path: Path) -> SlurmSite:
    from muster.cluster.slurm_nodes import read_slurm_site
    from muster.files import read_text

    return read_slurm_site(read_text(path), str(path), path.stem)
