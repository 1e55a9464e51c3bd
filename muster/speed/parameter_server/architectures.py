"""The layers of well-known models, computed from their published definitions: parameters and multiply-adds.

Sources of the definitions: Krizhevsky 2014 (AlexNet, the one-GPU form), Simonyan and Zisserman 2015 (VGG),
He et al. 2016 (ResNet, with the stride in the 3 x 3 convolution), Devlin et al. 2019 (BERT). Seconds follow
from a stated speed of the GPU: they are an estimate to start from; a profile of one's own model is better.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from muster.problems import InputError, Problem, did_you_mean, with_hint
from muster.speed.parameter_server.layers import Layers

BYTES_A_PARAMETER = 4
SAMPLES_A_BACKWARD_PASS = 32
"""The backward pass has a fixed length in SMD's model; here that of a worker's batch of so many samples."""


@dataclass(frozen=True)
class Layer:
    """What one layer holds and computes."""

    parameters: int
    multiply_adds: float
    """Of one sample, forward."""


def names() -> list[str]:
    """The models that need no profile."""
    return sorted(_ARCHITECTURES)


def architecture(name: str) -> list[Layer]:
    """The layers of a model by name, from the input on."""
    if name not in _ARCHITECTURES:
        hint = did_you_mean(name, names())
        what = f"allowed: {', '.join(names())}, or a model of a layer file (--layers)"
        raise InputError(Problem("MODEL", with_hint(what, hint), found=name))
    return list(_ARCHITECTURES[name]())


def estimated_layers(name: str, gpu_tflops: float) -> Layers:
    """Layers of a known model on a GPU that sustains `gpu_tflops` x 10^12 operations a second on it."""
    if not (np.isfinite(gpu_tflops) and gpu_tflops > 0):
        raise InputError(Problem("--gpu-tflops", "allowed: a finite number above 0", found=gpu_tflops))
    layers = architecture(name)
    forward = np.array([2 * layer.multiply_adds for layer in layers]) / (gpu_tflops * 1e12)
    # Backward computes two gradients, of the input and of the weights: twice the work of forward.
    return Layers.checked(
        forward,
        2 * SAMPLES_A_BACKWARD_PASS * forward,
        [layer.parameters * BYTES_A_PARAMETER / 1e9 for layer in layers],
        where=name,
    )


def _convolution(inputs: int, outputs: int, kernel: int, side: int, bias: int) -> Layer:
    """`side`: of the square it makes; `bias`: 1, or 2 for a batch normalisation's scale and shift."""
    weights = inputs * outputs * kernel * kernel
    return Layer(weights + bias * outputs, weights * side * side)


def _dense(inputs: int, outputs: int, positions: int = 1) -> Layer:
    return Layer(inputs * outputs + outputs, inputs * outputs * positions)


def _alexnet() -> Iterator[Layer]:
    for inputs, outputs, kernel, side in (
        (3, 64, 11, 55),
        (64, 192, 5, 27),
        (192, 384, 3, 13),
        (384, 256, 3, 13),
        (256, 256, 3, 13),
    ):
        yield _convolution(inputs, outputs, kernel, side, bias=1)
    yield from (_dense(256 * 6 * 6, 4096), _dense(4096, 4096), _dense(4096, 1000))


def _vgg(convolutions_a_stage: tuple[int, ...]) -> Iterator[Layer]:
    inputs, side = 3, 224
    for convolutions, outputs in zip(convolutions_a_stage, (64, 128, 256, 512, 512), strict=True):
        for _ in range(convolutions):
            yield _convolution(inputs, outputs, 3, side, bias=1)
            inputs = outputs
        side //= 2
    yield from (_dense(512 * side * side, 4096), _dense(4096, 4096), _dense(4096, 1000))


def _resnet(blocks_a_stage: tuple[int, ...], bottleneck: bool) -> Iterator[Layer]:
    yield _convolution(3, 64, 7, 112, bias=2)
    inputs, side = 64, 56
    for stage, (blocks, width) in enumerate(zip(blocks_a_stage, (64, 128, 256, 512), strict=True)):
        outputs = width * 4 if bottleneck else width
        for block in range(blocks):
            halves = block == 0 and stage > 0
            side_before, side = side, side // 2 if halves else side
            if bottleneck:
                yield _convolution(inputs, width, 1, side_before, bias=2)
                yield _convolution(width, width, 3, side, bias=2)
                yield _convolution(width, outputs, 1, side, bias=2)
            else:
                yield _convolution(inputs, width, 3, side, bias=2)
                yield _convolution(width, outputs, 3, side, bias=2)
            if inputs != outputs:
                yield _convolution(inputs, outputs, 1, side, bias=2)
            inputs = outputs
    yield _dense(inputs, 1000)


def _bert(blocks: int, width: int, tokens: int = 128) -> Iterator[Layer]:
    """On sequences of 128 tokens, with the pooler, without a task's head."""
    scale_and_shift = 2 * width
    # Word, position and segment tables are looked up, not multiplied.
    yield Layer((30522 + 512 + 2) * width + scale_and_shift, 0.0)
    for _ in range(blocks):
        projections = [_dense(width, width, tokens) for _ in range(4)]
        attention = 2 * tokens * tokens * width
        yield Layer(
            sum(part.parameters for part in projections) + scale_and_shift,
            sum(part.multiply_adds for part in projections) + attention,
        )
        wider, back = _dense(width, 4 * width, tokens), _dense(4 * width, width, tokens)
        yield Layer(
            wider.parameters + back.parameters + scale_and_shift, wider.multiply_adds + back.multiply_adds
        )
    yield _dense(width, width)


_ARCHITECTURES: dict[str, Callable[[], Iterator[Layer]]] = {
    "alexnet": _alexnet,
    "vgg11": lambda: _vgg((1, 1, 2, 2, 2)),
    "vgg16": lambda: _vgg((2, 2, 3, 3, 3)),
    "vgg19": lambda: _vgg((2, 2, 4, 4, 4)),
    "resnet18": lambda: _resnet((2, 2, 2, 2), bottleneck=False),
    "resnet34": lambda: _resnet((3, 4, 6, 3), bottleneck=False),
    "resnet50": lambda: _resnet((3, 4, 6, 3), bottleneck=True),
    "resnet101": lambda: _resnet((3, 4, 23, 3), bottleneck=True),
    "resnet152": lambda: _resnet((3, 8, 36, 3), bottleneck=True),
    "bert-base": lambda: _bert(12, 768),
    "bert-large": lambda: _bert(24, 1024),
}
