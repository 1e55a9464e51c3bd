"""Dally's ground: 24 settings in which the network decides, each against the best scheduler that knows no more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from experiments.joint.ground import Case, Figures, Make, figures
from experiments.papers.dally.settings import GPUS, MODELS, work_seconds
from muster.cluster import Cluster
from muster.cluster.cluster_file import cluster_from_toml
from muster.cluster.ledger_arrays import Floats
from muster.schedulers.presets import known_presets
from muster.schedulers.registry import build
from muster.simulation import Options, simulate
from muster.workload.generators.draws import drawn, poisson_arrivals, streams
from muster.workload.trace import Trace, trace_of

RIVALS = ("las", "las+consolidate", "themis", "fjf", "gandiva", "dally", "dally-plus")
RIVALS_WITH_DURATIONS = ("srtf", "srtf+consolidate", "srsf+consolidate")
JOINT = ("las+joint", "2d-las+joint", "gittins+joint", "network-sensitivity+joint")
JOINT_WITH_DURATIONS = ("srtf+joint", "srsf-placed+joint")
SETTINGS: Mapping[str, Mapping[str, str]] = {"2d-las+joint": known_presets()["dally-plus"].settings}
"""The same order: queues that double, and jobs that fall to another at most every 300 s."""
BARS = {"mean JCT": 1.01, "makespan": 1.03, "p99 JCT": 1.05}
FIRST_SEED, FIRST_TUNING_SEED = 41, 71

_DAY = 86_400.0
_AUTHORS, _MEASURED = MODELS["authors' scales"], MODELS["measured fits"]
_SMALL = {1: 70, 2: 20, 4: 10}
_LARGE = {16: 40, 24: 30, 32: 15, 48: 15}


@dataclass(frozen=True)
class Shape:
    """Racks, machines of a rack and GPUs of a machine, and what of the links differs from Dally's simulator."""

    racks: int = 2
    machines: int = 8
    gpus: int = 8
    nic: str = ""
    rack: str = "gb_per_s = 200"
    core: str = "gb_per_s = 400"

    def cluster(self) -> Cluster:
        """The machines and links."""
        text = f"""
machines_per_rack = {self.machines}
[types.machine]
gpus = {self.gpus}
gpus_per_island = 4
{self.nic}
[[nodes]]
type = "machine"
count = {self.racks * self.machines}
[links.island]
gb_per_s = 600
latency_seconds = 0
[links.node]
gb_per_s = 600
latency_seconds = "500ns"
[links.rack]
{self.rack}
latency_seconds = "5us"
[links.cluster]
{self.core}
latency_seconds = "50us"
"""
        name = f"dally-{self.racks}x{self.machines}x{self.gpus}"
        return cluster_from_toml(text, where=name, name=name)


@dataclass(frozen=True)
class Setting:
    """One of the 24; arrivals are all at once where none a day are stated."""

    jobs: int
    models: Mapping[str, int]
    a_day: float = 0.0
    bursts: int = 0
    """Jobs of each day's burst; 0: no bursts."""
    congestion: float = 0.0
    contention: bool = False
    sizes: Mapping[int, int] = field(default_factory=lambda: GPUS)
    work: tuple[float, float, float] = (50_000.0, 7_200.0, 1_200_000.0)
    """Median, least and most seconds of one GPU."""
    shape: Shape = Shape()
    restart_seconds: float = 30.0

    def trace(self, jobs: int, seed: int) -> Trace:
        """So many jobs of this kind."""
        arrivals, sizes, work, models = streams(seed, 4)
        submit: Floats = np.zeros(jobs)
        if self.a_day:
            submit = poisson_arrivals(arrivals, jobs, self.a_day / 24)
        if self.bursts:
            submit = (np.arange(jobs) // self.bursts * _DAY).astype(np.float64)
        names = list(self.models)
        columns = {
            "job_id": np.arange(jobs),
            "submit_seconds": submit,
            "gpus": drawn(sizes, list(self.sizes), list(self.sizes.values()), jobs),
            "gpu_work_seconds": work_seconds(work, jobs, *self.work),
            "model": [names[at] for at in drawn(models, range(len(names)), list(self.models.values()), jobs)],
        }
        return trace_of(columns, f"Dally's ground, seed {seed}")

    def run(self, scheduler: str, jobs: int, seed: int, make: Make = build) -> Figures:
        """The figures of a scheduler; it knows durations where its class does."""
        options = Options(
            restart_cost_seconds=self.restart_seconds,
            congestion=self.congestion,
            contention=self.contention,
            knowledge="oracle" if scheduler in (*RIVALS_WITH_DURATIONS, *JOINT_WITH_DURATIONS) else "none",
            seed=seed,
        )
        made = make(scheduler, SETTINGS.get(scheduler, {}))
        ran = simulate(self.trace(jobs, seed), self.shape.cluster(), made, options).record.jobs
        restarts = float(np.mean(ran["preemptions"].to_numpy() + ran["moves"].to_numpy()))
        submit, finish = ran["submit_seconds"].to_numpy(), ran["finish_seconds"].to_numpy()
        return figures(scheduler, submit, finish, restarts)


_CONGESTED = {"congestion": 0.5, "contention": True}
_ETHERNET = Shape(4, 4, 8, "nic_gb_per_s = 1.25", "gb_per_s = 1.25", "gb_per_s = 2.5\noversubscription = 2")
_NARROW = Shape(2, 8, 8, "", "gb_per_s = 25", "gb_per_s = 10\noversubscription = 8")
_SHORT = (3_000.0, 60.0, 40_000.0)
_LONG = (400_000.0, 7_200.0, 1_200_000.0)
GROUND: tuple[Setting, ...] = (
    Setting(500, _AUTHORS),
    Setting(500, _MEASURED, 0.0, 0, 0.5, True),
    Setting(500, _AUTHORS, 100, 0, 0.5, True),
    Setting(500, _MEASURED, 100),
    Setting(400, _AUTHORS, 25, 0, 0.5, True),
    Setting(500, _MEASURED, 300, 0, 0.5, True),
    Setting(500, _AUTHORS, 300),
    Setting(600, _MEASURED, 8_000, contention=True, work=_SHORT),
    Setting(600, _AUTHORS, 8_000, work=_SHORT),
    Setting(800, _AUTHORS, sizes=_SMALL),
    Setting(800, _MEASURED, 600, contention=True, sizes=_SMALL),
    Setting(150, _AUTHORS, sizes=_LARGE, work=_LONG),
    Setting(150, _MEASURED, contention=True, sizes=_LARGE, work=_LONG),
    Setting(150, _AUTHORS, 40, 0, 0.5, True, sizes=_LARGE, work=_LONG),
    Setting(400, {"vgg11": 60, "alexnet": 40}),
    Setting(400, {"mobilenetv3-small": 50, "bert-large": 25, "resnet18": 25}, 100, 0, 0.5, True),
    Setting(400, _MEASURED, 150, 0, 0.5, True, shape=Shape(1, 16, 8)),
    Setting(500, _MEASURED, 0.0, 100, 0.5, True),
    Setting(500, _AUTHORS, 250, shape=Shape(16, 4, 4)),
    Setting(500, _AUTHORS, 100, 0, 0.5, True, shape=Shape(4, 4, 8)),
    Setting(500, _MEASURED, 130, contention=True, shape=_ETHERNET),
    Setting(500, _MEASURED, 100, contention=True, shape=_NARROW),
    Setting(900, _AUTHORS, 450, shape=Shape(8, 8, 8)),
    Setting(400, _AUTHORS, 100, 0, 0.5, True, restart_seconds=300.0),
)
"""By number, from 1; see the table of the reference folder, parity/dally/grid.md."""
_THREE_RACKS, _TWO_RACKS = Shape(3, 4, 8), Shape(2, 6, 8)
TUNING: tuple[Setting, ...] = (
    Setting(400, _AUTHORS, 6_000, work=_SHORT, shape=_THREE_RACKS),
    Setting(400, _MEASURED, 6_000, contention=True, work=_SHORT, shape=_TWO_RACKS),
    Setting(250, _MEASURED, 90, 0, 0.5, True, shape=_TWO_RACKS),
    Setting(90, _AUTHORS, sizes=_LARGE, work=_LONG, shape=_TWO_RACKS),
    Setting(500, _AUTHORS, sizes=_SMALL, shape=_THREE_RACKS),
    Setting(300, _AUTHORS, shape=_THREE_RACKS),
    Setting(300, _AUTHORS, 200, 0, 0.5, True, shape=_TWO_RACKS),
    Setting(90, _MEASURED, 30, contention=True, sizes=_LARGE, work=_LONG, shape=_THREE_RACKS),
    Setting(300, {"resnet50": 30, "alexnet": 30, "bert-large": 40}, 200, shape=_TWO_RACKS),
    Setting(300, {"resnet50": 30, "alexnet": 30, "resnet18": 40}, 2_000, work=_SHORT, shape=_THREE_RACKS),
)
"""On which was decided what jobs count on a network; with seeds from `FIRST_TUNING_SEED` on."""


def cases(order: str, share: float) -> Iterator[Case]:
    """All settings with this share of their jobs; schedulers that use durations know them."""
    rivals = RIVALS_WITH_DURATIONS if f"{order}+joint" in JOINT_WITH_DURATIONS else RIVALS
    for number, setting in enumerate(GROUND, 1):
        figure = partial(_figure, setting, max(round(setting.jobs * share), 1))
        yield Case(str(number), f"{order}+joint", rivals, figure, FIRST_SEED)


def _figure(setting: Setting, jobs: int, scheduler: str, seed: int, make: Make) -> float:
    return setting.run(scheduler, jobs, seed, make).mean_jct


def table(number: int, setting: Setting, share: float, seeds: range) -> Iterator[str]:
    """The lines of a setting: of each scheduler of ours the ratios to the best of its class, and which that is."""
    jobs = max(round(setting.jobs * share), 1)
    means: dict[str, dict[str, float]] = {}
    for name in (*RIVALS, *RIVALS_WITH_DURATIONS, *JOINT, *JOINT_WITH_DURATIONS):
        runs = [setting.run(name, jobs, seed) for seed in seeds]
        means[name] = {
            "mean JCT": float(np.mean([run.mean_jct for run in runs])),
            "makespan": float(np.mean([run.makespan for run in runs])),
            "p99 JCT": float(np.mean([run.p99_jct for run in runs])),
        }
    for ours in (*JOINT, *JOINT_WITH_DURATIONS):
        rivals = (*RIVALS, *RIVALS_WITH_DURATIONS) if ours in JOINT_WITH_DURATIONS else RIVALS
        yield f"| {number} | {ours} | " + " | ".join(_ratios(means, ours, rivals)) + " |"


def _ratios(means: Mapping[str, Mapping[str, float]], ours: str, rivals: Sequence[str]) -> Iterator[str]:
    """Each figure over that of the best rival, in bold where that misses the bar."""
    for what, bar in BARS.items():
        best = min(rivals, key=lambda name: means[name][what])
        ratio = means[ours][what] / means[best][what]
        yield f"**{ratio:.3f}** {best}" if ratio > bar else f"{ratio:.3f} {best}"


def lines(only: str, share: float, seeds: int, *, tuning: bool = False) -> Iterator[str]:
    """The lines of all settings, or of the one with this number; `tuning`: of those on which was decided."""
    first = FIRST_TUNING_SEED if tuning else FIRST_SEED
    for number, setting in enumerate(TUNING if tuning else GROUND, 1):
        if only in ("", str(number)):
            yield from table(number, setting, share, range(first, first + seeds))
