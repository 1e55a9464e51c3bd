"""`muster cluster`: the cluster file of a cluster that exists."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli import flags

if TYPE_CHECKING:
    from muster.cluster import Cluster
    from muster.cluster.slurm_nodes import SlurmSite

_SLURM, _RAY = "slurm", "ray"


def cluster(
    source: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="SOURCE",
            help="Source: slurm asks the Slurm of this machine, ray the cluster at --address; else a file of scontrol "
            "show node or sinfo --json.",
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Cluster file to write, .toml.")
    ],
    address: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Head of the Ray cluster (default: none; required with --from ray)."
        ),
    ] = None,
    overwrite: flags.Overwrite = False,
    as_json: flags.Json = False,
) -> None:
    """Write the cluster file of a Slurm site or a Ray cluster: its nodes, GPUs, labels and racks.

    Example: muster cluster --from slurm -o cluster.toml
    """
    from muster.cli.outputs import check_other_file, check_output
    from muster.cluster.cluster_file import write_cluster_file
    from muster.formatting import as_json_text, counted
    from muster.problems import InputError, Problem

    if output.suffix != ".toml":
        raise InputError(Problem("--output", "allowed: a name that ends in .toml", found=str(output)))
    if address is not None and source != _RAY:
        raise InputError(Problem("--address", "allowed: with --from ray", found=address))
    if source not in (_SLURM, _RAY):
        check_other_file(output, Path(source), "this is the file that --from reads")
    check_output(output, overwrite=overwrite)
    found, notes = _found(source, address)
    write_cluster_file(found, output)
    if as_json:
        content = {"output": str(output), "nodes": len(found.nodes), "gpus": found.total_gpus}
        print(as_json_text({**content, "notes": notes}), end="")
        return
    for note in notes:
        print(f"{source}: {note}", file=sys.stderr)
    nodes, gpus = len(found.nodes), found.total_gpus
    print(f"{counted(nodes, 'node')} with {counted(gpus, 'GPU')} in {output}")


def _found(source: str, address: str | None) -> tuple[Cluster, tuple[str, ...]]:
    """The cluster of a source, and what a reader of it should know."""
    if source == _RAY:
        from muster.cli.progress import noted_if_slow
        from muster.service.engines.factory import EngineOptions
        from muster.service.engines.registry import configured_engine

        with noted_if_slow(f"Waiting for engine {source} at {address} to answer."):
            found = configured_engine(source, EngineOptions(address=address)).cluster
        return found, found.notes
    site = _running_site() if source == _SLURM else _site_of_file(Path(source))
    return site.cluster, site.notes


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
