"""Named schedulers: systems from the literature as the parts that they are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points

ENTRY_POINTS = "muster.presets"
"""The group of entry points of other packages, each of which names a sequence of presets."""
DEFAULT_SCHEDULER = "gittins+joint"
"""What `serve` and `simulate` run without --scheduler: no knowledge of durations is needed, few jobs are
interrupted, and which jobs run, their sizes, CPU, memory and places are one decision."""


@dataclass(frozen=True)
class Preset:
    """A name for a combination of parts."""

    name: str
    parts: str
    sentence: str
    settings: Mapping[str, str] = field(default_factory=dict)
    """What differs from the parts' defaults."""


_DOUBLING = ",".join(str(7200 * 2**queue) for queue in range(16))
"""GPU-seconds, from two hours of a GPU to 27 years."""

_SHIPPED = (
    Preset(
        "muster",
        "gittins+joint",
        "Muster's unified scheduler: which jobs run, how many GPUs, CPU, memory and the place in one decision.",
    ),
    Preset(
        "yarn-cs",
        "fifo-strict+proportional+consolidate",
        "YARN's capacity scheduler, the papers' baseline: the head of the line blocks, gangs stay together.",
    ),
    Preset(
        "fjf",
        "fifo+proportional+consolidate",
        "First job first: as yarn-cs, but what does not fit is passed (Tiresias' simulator, fjf).",
    ),
    Preset(
        "slurm-like",
        "priority+requested+consolidate",
        "As a common Slurm set-up: by priority and arrival, resources as requested, what does not fit is passed.",
        {"preemptive": "false"},
    ),
    Preset(
        "slurm",
        "multifactor+slurm-cycles",
        "Slurm as it is: main loop and backfill cycles; multifactor priority, whose weights are 0 as Slurm's are.",
        {f"weight_{name}": "0" for name in ("age", "fair_share", "job_size", "partition")},
    ),
    Preset(
        "synergy",
        "srtf-speed+tune",
        "Synergy: shortest remaining time at its speed, CPU and memory by sensitivity (tune).",
    ),
    Preset(
        "dally",
        "network-sensitivity+proportional+delay-timers",
        "Dally (arXiv 2401.16492): the job that the network hurt most goes first, delay timers tuned by themselves.",
    ),
    Preset(
        "dally-manual",
        "network-sensitivity+proportional+manual-timers",
        "Dally with delay timers set by hand.",
    ),
    Preset(
        "dally-nowait",
        "network-sensitivity+proportional+no-wait",
        "Dally without delay timers: the best place there is, at once.",
    ),
    Preset(
        "dally-consolidated",
        "network-sensitivity+proportional+fully-consolidated",
        "Dally that always waits for one machine, or one rack where no machine is large enough.",
    ),
    Preset(
        "dally-tune",
        "network-sensitivity+tune+delay-timers",
        "Dally's places and leases with Synergy's CPU, memory and storage beside each GPU.",
    ),
    Preset(
        "dally-plus",
        "2d-las+least-loss",
        "Ours, no durations: doubling queues by attained service, each gang where the network costs it least.",
        {"thresholds": _DOUBLING, "quantum_seconds": "300"},
    ),
    Preset(
        "dally-plus-oracle",
        "srsf-placed+least-loss",
        "Ours, with durations: least work left first, each gang where the network costs it least.",
    ),
    Preset(
        "tiresias",
        "2d-las+proportional+skew",
        "Tiresias (NSDI'19): queues by attained GPU time; only models with one large tensor are kept together.",
        {"quantum_seconds": "300"},
    ),
    Preset(
        "tiresias-gittins",
        "2d-gittins+proportional+skew",
        "Tiresias with 2D-Gittins, learned from the jobs completed so far.",
        {"quantum_seconds": "300"},
    ),
    Preset(
        "themis",
        "ftf+proportional+no-wait",
        "Themis (NSDI'20): at the end of each lease the most unfairly treated jobs bid first.",
    ),
)


@cache
def known_presets() -> Mapping[str, Preset]:
    """The presets of installed packages and of Muster, by name."""
    installed: list[Preset] = [
        preset for point in entry_points(group=ENTRY_POINTS) for preset in point.load()
    ]
    return {preset.name: preset for preset in (*installed, *_SHIPPED)}
