"""ViT-B/16 on ImageNet's kind of pictures, prepared as such models are trained."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import timm
import torch
from PIL import Image
from torchvision import transforms

CLASSES, SIDE = 1000, 224
_MEAN, _DEVIATION = 118.0, 58.0
"""Of a pixel; one for all colours."""


class Prepare:
    """Decodes, crops and flips a picture and changes it by two random operations; the GPU gets bytes."""

    def __init__(self, folder: Path) -> None:
        self._change = transforms.Compose(
            [
                transforms.RandomResizedCrop(SIDE),
                transforms.RandomHorizontalFlip(),
                transforms.RandAugment(),
                transforms.PILToTensor(),
            ]
        )

    def __call__(self, stored: bytes) -> tuple[torch.Tensor, int]:
        """The picture and its class."""
        picture = Image.open(io.BytesIO(stored)).convert("RGB")
        return self._change(picture), len(stored) % CLASSES


def network(*, tiny: bool) -> Any:
    """With random weights."""
    if tiny:
        return timm.create_model("vit_tiny_patch16_224", num_classes=CLASSES, depth=2)
    return timm.create_model("vit_base_patch16_224", num_classes=CLASSES)


def loss(net: Any, batch: Any) -> Any:
    """Of classifying a batch."""
    pictures, classes = batch
    scores = net((pictures.float() - _MEAN) / _DEVIATION)
    return torch.nn.functional.cross_entropy(scores, classes, label_smoothing=0.1)
