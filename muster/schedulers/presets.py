"""Named schedulers: systems from the literature as the parts that they are made of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Preset:
    """A name for a combination of parts."""

    name: str
    parts: str
    sentence: str


PRESETS = {
    preset.name: preset
    for preset in (
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
            "dally",
            "network-sensitivity+proportional+delay-timers",
            "Dally (arXiv 2401.16492): whom the network hurt most goes first, delay timers tuned by themselves.",
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
    )
}
