"""Profiled layers from a file: units, order, and every mistake named at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from muster.problems import BadInput
from muster.speed.parameter_server.layer_file import read_layers

HEADER = "model,source_file,layer_index,layer,fwd_ns,input_grad_ns,weight_grad_ns,allreduce_bytes,update_ns\n"


def written(folder: Path, *rows: str) -> Path:
    path = folder / "layers.csv"
    path.write_text(HEADER + "".join(f"{row}\n" for row in rows))
    return path


def test_units_and_order(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "Net,net_B10_run.csv,1,b,2000000000,3000000000,1000000000,8000000000,0",
        "Other,other_B7.csv,0,x,1,1,1,1,0",
        "Net,net_B10_run.csv,0,a,1000000000,0,500000000,4000000,0",
    )
    layers = read_layers(path, "net")
    np.testing.assert_allclose(layers.forward_seconds_per_sample, [0.1, 0.2])
    np.testing.assert_allclose(layers.backward_seconds, [0.5, 4.0])
    np.testing.assert_allclose(layers.gradient_gb, [0.004, 8.0])
    np.testing.assert_allclose(read_layers(path, "Net", 100).forward_seconds_per_sample, [0.01, 0.02])


def test_every_mistake_is_named(tmp_path: Path) -> None:
    path = written(
        tmp_path, "Net,net.csv,0,a,-1,0,x,4,0", "Net,net.csv,1,a,1,inf,1", "Net,net.csv,2,a,1,1,1,1,0"
    )
    with pytest.raises(BadInput) as raised:
        read_layers(path, "Net")
    told = str(raised.value)
    for part in (
        "line 2, column fwd_ns: found '-1'",
        "line 2, column weight_grad_ns: found 'x'",
        "line 3, column input_grad_ns: found 'inf'",
        "line 3, column allreduce_bytes",
        "--profile-batch",
    ):
        assert part in told


def test_missing_columns_models_and_layers(tmp_path: Path) -> None:
    path = tmp_path / "layers.csv"
    path.write_text("model,fwd_ns\nNet,1\n")
    with pytest.raises(BadInput, match="column input_grad_ns"):
        read_layers(path, "Net")
    path.write_text("")
    with pytest.raises(BadInput, match="column model: there is no such column"):
        read_layers(path, "Net")
    with pytest.raises(BadInput, match="there is no layer"):
        read_layers(written(tmp_path), "Net")
    with pytest.raises(BadInput, match="found 'Nut'; there is no such model; it holds Net"):
        read_layers(written(tmp_path, "Net,net_B4.csv,0,a,1,1,1,1,0"), "Nut")
    with pytest.raises(BadInput, match="from 1 on"):
        read_layers(written(tmp_path, "Net,net_B4.csv,0,a,1,1,1,1,0"), "Net", 0)


def test_the_reference_profiles_are_read(reference: Path) -> None:
    path = reference / "parity" / "dally" / "layers.csv"
    counts = {"BERT": 66, "VGG": 11, "AlexNet": 8, "MobileNetV3": 52, "ResNet18": 21, "ResNet50": 54}
    for model, count in counts.items():
        layers = read_layers(path, model)
        assert len(layers) == count
        assert layers.backward_seconds.sum() > 0
