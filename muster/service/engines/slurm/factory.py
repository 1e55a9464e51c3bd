"""`muster serve --engine slurm --partition NAME`."""

from __future__ import annotations

from functools import partial

from muster.cluster import Cluster
from muster.cluster.cluster_file import cluster_from_toml
from muster.cluster.slurm_nodes import read_fields, read_slurm_site
from muster.files import read_text
from muster.problems import InputError, Problem, Unable, did_you_mean
from muster.service.engines.factory import ConfiguredEngine, EngineContext, EngineFactory, EngineOptions
from muster.service.engines.folder_trial import check_shared_folder
from muster.service.engines.slurm.engine import SlurmEngine
from muster.service.engines.slurm.folder_trial import ask_nodes
from muster.slurm_commands import SlurmCommands, SlurmError
from muster.slurm_queries import SlurmQueries

_OPTION, _LINKS = "--partition", "--links"


def _configure(options: EngineOptions) -> ConfiguredEngine:
    commands = SlurmCommands()
    try:
        partition, cluster = _cluster_of(commands, options.partition)
    except SlurmError as error:
        raise Unable(str(error)) from error
    if options.links is not None:
        text = read_text(options.links)
        cluster = cluster.linked_as(cluster_from_toml(text, str(options.links), options.links.stem))

    def open_engine(context: EngineContext) -> SlurmEngine:
        if context.jobs is not None:
            _, nodes = partition_nodes(commands, partition)
            ask = partial(ask_nodes, commands, partition, nodes)
            if untried := check_shared_folder(context.jobs, ask):
                context.warn(untried)
        return SlurmEngine(context.folder, partition, cluster, commands, context.is_job)

    return ConfiguredEngine(cluster, open_engine)


def partition_nodes(commands: SlurmQueries, wanted: str | None) -> tuple[str, list[str]]:
    """Return the partition of this name, and a line of scontrol for each node. InputError if there is none."""
    printed = commands.ask(["scontrol", "--oneliner", "show", "partition"])
    names = [read_fields(line)["PartitionName"] for line in printed.splitlines() if line.strip()]
    if wanted is None or wanted not in names:
        hint = did_you_mean(wanted or "", names)
        what = f"allowed: {', '.join(names)}" + (f". Hint: {hint}" if hint else "")
        raise InputError(Problem(_OPTION, what, found=wanted))
    nodes = commands.ask(["scontrol", "--oneliner", "show", "node"]).splitlines()
    return wanted, [line for line in nodes if wanted in read_fields(line).get("Partitions", "").split(",")]


def _cluster_of(commands: SlurmQueries, wanted: str | None) -> tuple[str, Cluster]:
    """Return the partition and its nodes."""
    partition, within = partition_nodes(commands, wanted)
    topology = commands.ask(["scontrol", "--oneliner", "show", "topology"])
    text = "\n".join([*within, topology])
    return partition, read_slurm_site(text, f"partition {partition}", partition, by_type=False).cluster


FACTORY = EngineFactory(SlurmEngine.capabilities, frozenset({_OPTION, _LINKS}), _configure)
