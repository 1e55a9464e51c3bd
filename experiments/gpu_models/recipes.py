"""The four models that are profiled: what their data is and how they are trained by default.

The data is made, not downloaded (`experiments.gpu_models.data`). Samples are stored bytes of the size that public data
sets have; there are fewer different ones than samples, because making them takes longer than reading them.
"""

from __future__ import annotations

from dataclasses import dataclass

STORE_MB_PER_S = 62.5
"""What one of eight GPUs has of a server's 500 MB/s (Synergy, OSDI 2022)."""


@dataclass(frozen=True)
class Recipe:
    """What is made and trained of one model."""

    name: str
    """Of the model file, before the type of GPU."""
    family: str
    what: str
    """The model, its data and how a sample is prepared, for the model file."""
    batch: int
    samples: int
    """Of an epoch."""
    loader_workers: int
    """Processes that prepare samples: more than keep the GPU busy."""
    files: int
    """Different ones; sample i is file i modulo this."""


RECIPES = {
    "image": Recipe(
        name="vit-b16",
        family="image",
        what="ViT-B/16 (timm) at 224 pixels; JPEGs of 500 x 375 pixels, about 100 kB, decoded, cropped at random, "
        "flipped, RandAugment",
        batch=64,
        samples=6400,
        loader_workers=16,
        files=960,
    ),
    "language": Recipe(
        name="gpt2-124m",
        family="language",
        what="GPT-2 with 124 million parameters (transformers) on 1,024 tokens; gzipped documents of 8,000 words, "
        "unpacked and split into tokens by BPE with dropout 0.1, of which a random part is taken",
        batch=16,
        samples=1200,
        loader_workers=8,
        files=600,
    ),
    "diffusion": Recipe(
        name="dit-b8",
        family="image",
        what="a diffusion transformer of DiT-B's size on 256 x 256 pixels in patches of 8; JPEGs of 1280 x 960 pixels, "
        "about 450 kB, decoded, resized, cropped at the centre, flipped",
        batch=16,
        samples=1600,
        loader_workers=16,
        files=160,
    ),
    "speech": Recipe(
        name="whisper-small",
        family="speech",
        what="Whisper small (transformers) on 30 s; 8 to 24 s of 16-bit sound at 16 kHz, its speed, loudness and noise "
        "changed at random, log-mel spectrum, SpecAugment",
        batch=16,
        samples=1280,
        loader_workers=8,
        files=192,
    ),
}
"""By the module of `experiments.gpu_models` that has its network and how a sample is prepared."""
TINY_SAMPLES = 96
"""In an epoch of the tiny versions, which show on any machine that all of it works."""
TINY_BATCH = 2
