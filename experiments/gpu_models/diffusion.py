"""A diffusion transformer of DiT-B's size (Peebles and Xie 2023), on pictures and not on codes of them."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import nn
from torchvision import transforms

SIDE, PATCH = 256, 8
TIMES = 1000


class Prepare:
    """Decodes a large picture, resizes it, takes its centre and flips it."""

    def __init__(self, folder: Path) -> None:
        self._change = transforms.Compose(
            [
                transforms.Resize(SIDE),
                transforms.CenterCrop(SIDE),
                transforms.RandomHorizontalFlip(),
                transforms.PILToTensor(),
            ]
        )

    def __call__(self, stored: bytes) -> tuple[torch.Tensor]:
        """The picture, in bytes."""
        return (self._change(Image.open(io.BytesIO(stored)).convert("RGB")),)


class _Block(nn.Module):  # type: ignore[misc]  # PyTorch's types are not everywhere
    """Attention and a network, both shifted, scaled and gated by the time (adaLN)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.inward, self.outward = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.network = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)
        )
        self.by_time = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def forward(self, tokens: Any, time: Any) -> Any:
        shift, scale, gate, shift_2, scale_2, gate_2 = self.by_time(time)[:, None].chunk(6, dim=-1)
        tokens = tokens + gate * self._attend(self.norm(tokens) * (1 + scale) + shift)
        return tokens + gate_2 * self.network(self.norm(tokens) * (1 + scale_2) + shift_2)

    def _attend(self, tokens: Any) -> Any:
        parts = self.inward(tokens).unflatten(-1, (3, self.heads, -1)).transpose(1, 3).unbind(2)
        seen = nn.functional.scaled_dot_product_attention(*parts)
        return self.outward(seen.transpose(1, 2).flatten(2))


class _Dit(nn.Module):  # type: ignore[misc]
    """Pictures in patches, with learned places."""

    def __init__(self, width: int, depth: int, heads: int) -> None:
        super().__init__()
        self.width = width
        self.patches = nn.Conv2d(3, width, PATCH, stride=PATCH)
        self.places = nn.Parameter(0.02 * torch.randn(1, (SIDE // PATCH) ** 2, width))
        self.time = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.blocks = nn.ModuleList(_Block(width, heads) for _ in range(depth))
        self.noise = nn.Linear(width, 3 * PATCH**2)

    def forward(self, pictures: Any, times: Any) -> Any:
        tokens = self.patches(pictures).flatten(2).transpose(1, 2) + self.places
        half = self.width // 2
        steps = torch.arange(half, device=times.device) / half
        angles = times[:, None] * torch.exp(-math.log(10_000) * steps)
        time = self.time(torch.cat([angles.cos(), angles.sin()], dim=-1))
        for block in self.blocks:
            tokens = block(tokens, time)
        rows = SIDE // PATCH
        patches = self.noise(tokens).unflatten(1, (rows, rows)).unflatten(-1, (3, PATCH, PATCH))
        return patches.permute(0, 3, 1, 4, 2, 5).reshape(-1, 3, SIDE, SIDE)


def network(*, tiny: bool) -> Any:
    """With random weights."""
    return _Dit(width=64, depth=2, heads=2) if tiny else _Dit(width=768, depth=12, heads=12)


def loss(net: Any, batch: Any) -> Any:
    """Of predicting the noise of a random time."""
    (pictures,) = batch
    clean = pictures.float() / 127.5 - 1
    times = torch.randint(TIMES, (len(clean),), device=clean.device).float()
    noise = torch.randn_like(clean)
    angle = (times / TIMES * math.pi / 2).view(-1, 1, 1, 1)
    return nn.functional.mse_loss(net(clean * angle.cos() + noise * angle.sin(), times).float(), noise)
