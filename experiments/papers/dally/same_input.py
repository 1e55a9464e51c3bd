"""The authors' inputs under their rules, start by start beside their repaired program (needs the reference folder)."""

from __future__ import annotations

import csv
import lzma
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from experiments.papers.experiment import Effort, Experiment, Findings, Result, Row, Verdict
from muster.cluster import Cluster
from muster.runtime.records import Record
from muster.simulation import Options, rules_named
from muster.sweep.page import Table
from muster.sweep.pieces import Piece

CLUSTER = "dally-2x8x8"
RULES = "dally-published"
SCALES = {
    "VGG": 0.01549,
    "AlexNet": 0.0199,
    "MobileNetV3": 0.00639,
    "ResNet18": 0.001223,
    "ResNet50": 0.03395,
    "BERT": 0.0001121,
}
"""The compute scales of Dally's authors."""
TRACES = {
    "batch500": "sense_500jobs_0start0arrival-withBert.csv",
    "poisson411": "sense_500jobs_poisson_1proc-week.csv",
    "poisson500": "sense_500jobs_poisson-100jobsPday.csv",
}
RIVALS = {"Tiresias": "tiresias-dally", "Gandiva": "gandiva-dally"}
"""Theirs are further from the papers than ours; for information."""
SAME_SECONDS = 1e-6

Start = tuple[float, str, tuple[str, ...]]
"""Seconds, job, and its places as `rack.machine:mask`."""


def scheduler_of(policy: str) -> tuple[str, Mapping[str, str]]:
    """Preset and settings of a policy by the authors' name: auto24, noWait, manual6-12, fullyConsolidated, Tiresias."""
    name = policy.removeprefix("Dally-")
    if name.startswith("auto"):
        return "dally", {"history_leases": name.removeprefix("auto")}
    if name.startswith("manual"):
        machine, _, rack = name.removeprefix("manual").partition("-")
        return "dally-manual", {"machine_leases": machine, "rack_leases": rack}
    presets = {"noWait": "dally-nowait", "fullyConsolidated": "dally-consolidated", **RIVALS}
    return presets[name], {}


@dataclass(frozen=True)
class Twin:
    """One of the authors' runs, done by Muster."""

    folder: Path
    trace: str
    """`batch500_x10`: which jobs, and how many times the authors' compute scale."""
    policy: str
    makespan: float = 0.0
    jct: float = 0.0
    """Of a run without a start log."""

    @property
    def log(self) -> Path:
        """The starts of their run."""
        return self.folder / f"starts_{self.trace}_{self.policy}.csv.xz"

    def inputs(self) -> Mapping[str, Any]:
        """All that the result depends on."""
        return {**asdict(self), "folder": str(self.folder)}

    def record(self) -> Record:
        """What Muster makes of the run."""
        from muster.cluster.shipped import parse_cluster
        from muster.schedulers.registry import build
        from muster.simulation import simulate
        from muster.speed.network.layers import read_layers
        from muster.workload.trace import read_trace

        jobs, _, times = self.trace.partition("_x")
        layers = read_layers(self.folder / "layers.csv")
        scaled = {name: layers[name].scaled(float(times) * scale) for name, scale in SCALES.items()}
        mapping = {"submit_seconds": "arrival_s", "gpu_work_seconds": "trace_duration_s"}
        trace = read_trace(self.folder / TRACES[jobs], kind="csv", mapping=mapping)
        rules = rules_named(RULES)
        preset, settings = scheduler_of(self.policy)
        scheduler = build(preset, {**rules.settings_for(preset), **settings})
        # Their jobs have no input stage: no models of CPU and memory.
        options = Options(rules=rules)
        return simulate(trace, parse_cluster(CLUSTER), scheduler, options, models={}, layers=scaled).record

    def run(self) -> Mapping[str, Any]:
        """Makespan and mean completion time in seconds, and where the start log has the first difference."""
        from muster.cluster.shipped import parse_cluster

        record = self.record()
        done = record.jobs
        makespan = float(done["finish_seconds"].to_numpy().max() - done["submit_seconds"].to_numpy().min())
        figures = {"makespan": makespan, "jct": done["jct_seconds"].mean()}
        if not self.log.exists():
            return figures
        ours, theirs = starts_of(record, parse_cluster(CLUSTER)), read_starts(self.log)
        return {**figures, "starts": len(theirs), "same": same_starts(ours, theirs)}


def read_starts(path: Path) -> list[Start]:
    """The starts of a log, in order of time and job."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["event"] == "start"]
    return sorted((float(row["time_s"]), row["job_id"], _places(row["places"].split())) for row in rows)


def starts_of(record: Record, cluster: Cluster) -> list[Start]:
    """The starts of a run, likewise."""
    place = {
        cluster.nodes[node].name: f"{rack}.{machine}"
        for rack, nodes in enumerate(cluster.nodes_by_rack)
        for machine, node in enumerate(nodes)
    }
    held: dict[tuple[float, str], list[str]] = {}
    columns = ("from_seconds", "job_id", "node", "gpu_ids")
    for seconds, job, node, gpus in record.allocations.select(columns).rows():
        held.setdefault((seconds, job), []).append(f"{place[node]}:{sum(1 << gpu for gpu in gpus):x}")
    return sorted((seconds, job, _places(places)) for (seconds, job), places in held.items())


def same_starts(ours: Sequence[Start], theirs: Sequence[Start]) -> int:
    """How many starts agree in time, job and places before the first that does not; a missing one does not."""
    for at, (one, other) in enumerate(zip(ours, theirs, strict=False)):
        if abs(one[0] - other[0]) > SAME_SECONDS or one[1:] != other[1:]:
            return at
    return min(len(ours), len(theirs)) - (len(ours) > len(theirs))


def _places(places: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted(places))


def twins(folder: Path) -> list[Twin]:
    """The runs whose start logs are in the folder."""
    names = sorted(path.name.removesuffix(".csv.xz") for path in folder.glob("starts_*.csv.xz"))
    parts = [name.removeprefix("starts_").rpartition("_") for name in names]
    return [Twin(folder, trace, policy) for trace, _, policy in parts]


def rivals(folder: Path) -> list[Twin]:
    """The authors' runs of their Tiresias and Gandiva, of which there is no start log."""
    with (folder / "authors_program_runs.csv").open(encoding="utf-8") as file:
        return [
            Twin(folder, row["trace"], row["policy"], float(row["makespan_s"]), float(row["avg_jct_s"]))
            for row in csv.DictReader(file)
            if row["policy"] in RIVALS
        ]


def _pieces(effort: Effort) -> Sequence[Piece]:
    if not effort.reference:
        return []
    folder = effort.reference / "parity" / "dally"
    return [*twins(folder), *rivals(folder)]


def _read(effort: Effort, results: Sequence[Result]) -> Findings:
    if not effort.reference:
        remark = "the authors' inputs are not on this machine; MUSTER_REFERENCE names their folder"
        return Findings([Row("the authors' program on the same input", "", "", "", Verdict.NOT_RUN, remark)])
    folder = effort.reference / "parity" / "dally"
    logged, others = twins(folder), rivals(folder)
    found = list(zip(logged, results, strict=False))
    equal = [twin for twin, result in found if result["same"] == result["starts"]]
    lines = [
        (
            twin.policy,
            twin.trace,
            f"{result['starts']:,}",
            f"{result['same']:,}",
            f"{result['makespan']:,.0f}",
            f"{result['jct']:,.0f}",
        )
        for twin, result in found
    ]
    row = Row(
        "same input: runs whose starts all agree in time and place",
        "",
        f"{len(logged)} start logs",
        f"{len(equal)} of {len(logged)}",
        Verdict.REACHED if len(equal) == len(logged) else Verdict.NOT_REACHED,
        "; ".join(f"{twin.policy} on {twin.trace}" for twin in logged if twin not in equal),
    )
    header = ("Policy", "Trace", "Starts, theirs", "same before a difference", "Makespan (s)", "Mean JCT (s)")
    note = f"Under `--rules {RULES}`; x1 and x10 are times the authors' compute scales."
    far = [_beside(twin, result) for twin, result in zip(others, results[len(logged) :], strict=True)]
    wide = ("Policy", "Trace", "Makespan, theirs (s)", "ours", "off", "Mean JCT, theirs (s)", "ours", "off")
    remark = "`tiresias-dally` and `gandiva-dally`, for information: no start log of theirs is known."
    tables = [Table("Start by start", header, lines, note), Table("Their rivals", wide, far, remark)]
    return Findings([row], tables=tables)


def _beside(twin: Twin, result: Result) -> tuple[str, ...]:
    """Their figures and ours, and by how many per cent ours is off."""
    cells = [twin.policy, twin.trace]
    for theirs, ours in ((twin.makespan, result["makespan"]), (twin.jct, result["jct"])):
        cells += [f"{theirs:,.0f}", f"{ours:,.0f}", f"{100 * (ours / theirs - 1):+.1f} %"]
    return tuple(cells)


SAME_INPUT = Experiment(
    "same-input",
    "Same input as the authors' program",
    "The authors' simulator, its leak repaired and its network model replaced by the closed form, and Muster under its "
    "rules, on the same jobs.",
    _pieces,
    _read,
)
