"""Layer facts against the published sizes of the models, and against a profile's gradient bytes."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from muster.problems import InputError
from muster.speed.parameter_server.architectures import architecture, estimated_layers, names

# Parameters as the reference implementations count them; 10^9 multiply-adds forward as commonly published.
PUBLISHED = {
    "alexnet": (61_100_840, 0.71),
    "vgg11": (132_863_336, 7.61),
    "vgg16": (138_357_544, 15.47),
    "vgg19": (143_667_240, 19.63),
    "resnet18": (11_689_512, 1.81),
    "resnet34": (21_797_672, 3.66),
    "resnet50": (25_557_032, 4.09),
    "resnet101": (44_549_160, 7.80),
    "resnet152": (60_192_808, 11.51),
    "bert-base": (109_482_240, 11.2),
    "bert-large": (335_141_888, 39.5),
}


@pytest.mark.parametrize("name", names())
def test_sizes_are_the_published_ones(name: str) -> None:
    parameters, giga_multiply_adds = PUBLISHED[name]
    layers = architecture(name)
    assert sum(layer.parameters for layer in layers) == parameters
    assert sum(layer.multiply_adds for layer in layers) / 1e9 == pytest.approx(giga_multiply_adds, rel=0.01)


def test_gradient_bytes_are_those_of_a_profile(unshipped_reference: Path) -> None:
    with (unshipped_reference / "parity" / "dally" / "layers.csv").open() as file:
        profile = list(csv.DictReader(file))
    names = {"alexnet": "AlexNet", "vgg11": "VGG", "resnet18": "ResNet18", "resnet50": "ResNet50"}
    for name, profiled in names.items():
        rows = [int(row["allreduce_bytes"]) for row in profile if row["model"] == profiled]
        ours = [layer.parameters * 4 for layer in architecture(name)]
        # The profile has no biases and scales, and shortcuts stand elsewhere in its order.
        for our_bytes, profiled_bytes in zip(sorted(ours), sorted(rows), strict=False):
            assert profiled_bytes <= our_bytes, name
        assert sum(rows) == pytest.approx(sum(ours), rel=0.01), name


def test_seconds_follow_from_the_speed_of_the_gpu() -> None:
    slow, fast = estimated_layers("resnet50", 5.0), estimated_layers("resnet50", 10.0)
    # 2 x 4.089e9 operations at 10^13 a second.
    assert fast.forward_seconds_per_sample.sum() == pytest.approx(8.178e-4, rel=1e-3)
    np.testing.assert_allclose(slow.backward_seconds, 2 * fast.backward_seconds)


def test_an_unknown_model_is_refused_with_the_known_ones() -> None:
    with pytest.raises(
        InputError, match=r"found 'resnet51'; allowed: alexnet, .*--layers.*did you mean resnet50"
    ):
        estimated_layers("resnet51", 1.0)
    with pytest.raises(InputError, match=r"--gpu-tflops: found 0\.0"):
        estimated_layers("resnet50", 0.0)
