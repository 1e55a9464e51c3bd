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
    )
}
