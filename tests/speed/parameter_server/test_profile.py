"""Profiled layers from a file: units, order, mistakes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from muster.problems import InputError
from muster.speed.parameter_server.profile import profiled_layers


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    path = tmp_path / "layers.csv"
    path.write_text(
        "model,fwd_ns,input_grad_ns,weight_grad_ns,allreduce_bytes\n"
        "Net,1000000000,0,500000000,4000000\n"
        "Net,2000000000,3000000000,1000000000,8000000000\n"
    )
    return path


def test_units_and_order(profile: Path) -> None:
    layers = profiled_layers(profile, "Net", 10)
    np.testing.assert_allclose(layers.forward_seconds_per_sample, [0.1, 0.2])
    np.testing.assert_allclose(layers.backward_seconds, [0.5, 4.0])
    np.testing.assert_allclose(layers.gradient_gb, [0.004, 8.0])


def test_both_mistakes_are_named(profile: Path) -> None:
    with pytest.raises(
        InputError, match=r"found 'Nut'; has no such model; allowed: Net\n.*found 0; allowed: a whole number"
    ):
        profiled_layers(profile, "Nut", 0)


def test_the_reference_profiles_are_read(unshipped_reference: Path) -> None:
    path = unshipped_reference / "parity" / "dally" / "layers.csv"
    for model, count in {"BERT": 66, "VGG": 11, "AlexNet": 8, "ResNet50": 54}.items():
        assert len(profiled_layers(path, model, 256)) == count
