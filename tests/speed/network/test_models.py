"""Layer files, model files and the compact form."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.fitting.compact import fit_compact
from muster.cluster.shipped import parse_cluster
from muster.problems import InputError
from muster.speed.network.layers import read_layers
from muster.speed.network.model_file import (
    NetworkModelFile,
    find,
    network_models,
    read_model_file,
    shipped,
    write_model_file,
)
from muster.speed.network.models import CompactModel, LayeredModel, MeasuredModel
from muster.speed.network.placement import place, shapes_of
from muster.speed.network.speed import NetworkSpeed
from muster.workload.models import read_model

HEADER = "model,layer,fwd_ns,input_grad_ns,weight_grad_ns,allreduce_bytes,update_ns"
COMPACT = CompactModel("made", 0.004, 20, 0.3, 0.3, 1.5, 0.6, 0.4, 0.1, 0.0, 0.0)


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def problems_of(path: Path) -> list[str]:
    with pytest.raises(InputError) as refused:
        read_layers(path)
    return [str(problem).removeprefix(str(path)) for problem in refused.value.problems]


def test_layers_become_messages_in_backward_order(tmp_path: Path) -> None:
    """Forward 1 + 2 + 3; backward from the last: weight 6, input 5, weight 4, input 3, weight 2, no input."""
    text = f"{HEADER}\nm,a,1,1,2,10,0\nm,b,2,3,4,20,7\nm,c,3,5,6,30,0\n"
    messages = read_layers(written(tmp_path / "l.csv", text))["m"].messages()
    assert messages.ready_seconds * 1e9 == pytest.approx([12, 21, 26])
    assert messages.compute_seconds * 1e9 == pytest.approx(26)
    assert messages.gradient_gb * 1e9 == pytest.approx([30, 20, 10])
    assert messages.update_seconds * 1e9 == pytest.approx([0, 7, 0])


def test_scaling_leaves_updates_alone(tmp_path: Path) -> None:
    text = f"{HEADER}\nm,a,1,1,2,10,5\nm,b,2,3,4,20,7\n"
    model = read_layers(written(tmp_path / "l.csv", text))["m"]
    scaled = model.scaled(10.0).messages()
    assert scaled.ready_seconds == pytest.approx(10 * model.messages().ready_seconds)
    assert scaled.update_seconds == pytest.approx(model.messages().update_seconds)


def test_a_layer_file_is_refused_with_every_problem_it_has(tmp_path: Path) -> None:
    text = f"{HEADER}\nm,a,1,1,-2,10,0\nm,b,x,1,2,nan,0\n,c,1,1,1,1,1\nm,d,1,1\n"
    assert problems_of(written(tmp_path / "l.csv", text)) == [
        ":2: weight_grad_ns: found '-2'; allowed: a number of 0 or more",
        ":3: fwd_ns: found 'x'; allowed: a number of 0 or more",
        ":3: allreduce_bytes: found 'nan'; allowed: a number of 0 or more",
        ":4: model: found ''; allowed: a name",
        ":5: found 4; allowed: 7 fields",
    ]


def test_missing_columns_are_named(tmp_path: Path) -> None:
    path = written(tmp_path / "l.csv", "model,fwd_ns,weight_grad_ns\nm,1,1\n")
    assert problems_of(path) == [
        ":1: input_grad_ns: this column is missing from the header",
        ":1: allreduce_bytes: this column is missing from the header",
    ]


@pytest.mark.parametrize("text", ["", HEADER, f"{HEADER}\nm,a,0,0,0,10,0\n", "\x00\x01"])
def test_files_without_a_usable_layer_are_refused(tmp_path: Path, text: str) -> None:
    assert problems_of(written(tmp_path / "l.csv", text))


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: f"{HEADER}\n{text}".encode()))
def test_any_bytes_are_layers_or_problems(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "l.csv"
    path.write_bytes(data)
    try:
        models = read_layers(path)
    except InputError:
        return
    assert all(model.messages().compute_seconds > 0.0 for model in models.values())


def test_compact_messages_keep_the_totals() -> None:
    for count in (1, 2, 3, 50):
        messages = replace(COMPACT, messages_per_iteration=count, largest_at=1.0).messages()
        assert messages.gradient_gb.size == messages.ready_seconds.size == count
        assert (np.diff(messages.ready_seconds) >= 0.0).all()
        assert messages.ready_seconds[-1] == messages.compute_seconds
        assert messages.gradient_gb.sum() == pytest.approx(0.3)
        if count > 1:
            assert messages.gradient_gb[-1] == pytest.approx(0.4 * 0.3)


def test_the_fit_is_as_good_as_the_model_that_made_the_layers() -> None:
    messages = COMPACT.messages()
    backward = np.diff(messages.ready_seconds, prepend=messages.ready_seconds[0])[::-1]
    forward = np.full(20, messages.ready_seconds[0] / 20)
    nothing = np.zeros(20)
    layered = LayeredModel("made", forward, nothing, backward, messages.gradient_gb[::-1], nothing)
    fit = fit_compact(layered)
    assert fit.worst_error < 1e-4
    assert fit.model.first_ready_share == pytest.approx(0.3, rel=1e-3)
    assert fit.model.largest_share == pytest.approx(0.4)
    assert fit.model.gradient_gb == pytest.approx(0.3)


def test_every_shipped_model_reads_and_states_its_source() -> None:
    assert len(shipped()) == 17
    for file in shipped().values():
        assert file.licence.startswith("Apache-2.0")
        assert file.source.startswith("own fit")
    assert find("VGG") is find("vgg11")
    assert find("BERT") is find("bert-large")
    names = [word for name, file in shipped().items() for word in (name, *file.aliases)]
    assert len(set(names)) == len(names)


def test_unknown_models_are_insensitive_with_one_note() -> None:
    models, notes = network_models(["vgg11", "gnmt", "", "gnmt", "m5"])
    assert [model is None for model in models] == [False, True, True, True, True]
    assert notes == ("no network model for gnmt, m5: taken as insensitive to the network",)


MEASURED = MeasuredModel("mine", 0.5, 0.1, 0.01, 0.4, 0.02, 2.5, 12.5)


ONE_MACHINE = replace(MEASURED, uplink_seconds=None, uplink_seconds_per_gpu=None, nic_gb_per_s=None)


@pytest.mark.parametrize("model", [COMPACT, MEASURED, ONE_MACHINE])
def test_a_model_file_reads_back(tmp_path: Path, model: CompactModel | MeasuredModel) -> None:
    file = NetworkModelFile(model, ("other",), 'a "quoted" source', "own", "none")
    write_model_file(file, tmp_path / "m.toml")
    assert read_model_file(tmp_path / "m.toml") == file


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("overlap", "0.5"),
        ("overlap", "nan"),
        ("compute_seconds", "0"),
        ("uplink_seconds", "-1"),
        ("nic_gb_per_s", "0"),
        ("nic_gb_per_s", '"fast"'),
        ("speed", "1"),
    ],
)
def test_a_model_file_names_the_field_that_is_wrong(tmp_path: Path, field: str, value: str) -> None:
    numbers = {key: str(number) for key, number in asdict(MEASURED).items() if key != "name"} | {field: value}
    table = "\n".join(f"{key} = {number}" for key, number in numbers.items())
    words = 'name = "m"\nsource = "s"\nlicence = "l"\n[network]\nsource = "s"\nlicence = "l"\nerror = "e"'
    with pytest.raises(InputError, match=f"measured.{field}"):
        read_model_file(written(tmp_path / "m.toml", f"{words}\n[network.measured]\n{table}\n"))


def test_of_one_machine_nothing_is_known_beyond_it(tmp_path: Path) -> None:
    """A gang on two machines goes as one of as many GPUs on one, uses no uplink, and a run says so."""
    write_model_file(NetworkModelFile(ONE_MACHINE, (), "s", "l", "e"), tmp_path / "m.toml")
    (note,) = read_model(tmp_path / "m.toml").notes
    assert (
        note == "m.toml: nothing is known of its network between machines: taken to be as fast as within one"
    )
    cluster = parse_cluster("dally-2x8x8")
    speed = NetworkSpeed([ONE_MACHINE], cluster)
    seconds = []
    for gpus in ([[4]], [[2, 2]], [[2], [2]]):
        placements = place(gpus, cluster)
        assert placements is not None
        shapes = shapes_of(placements, speed.tree)
        seconds.append(float(speed.exposed_seconds(np.zeros(1, np.int64), shapes)[0]))
    assert seconds == [seconds[0]] * 3
    assert seconds[0] > 0


@pytest.mark.parametrize("missing", ["uplink_seconds", "uplink_seconds_per_gpu", "nic_gb_per_s"])
def test_a_file_has_all_of_several_machines_or_none(tmp_path: Path, missing: str) -> None:
    model = MeasuredModel(**(asdict(MEASURED) | {missing: None}))
    write_model_file(NetworkModelFile(model, (), "s", "l", "e"), tmp_path / "m.toml")
    with pytest.raises(
        InputError, match=rf"measured\.{missing}: missing beside the others of .*; allowed: all"
    ):
        read_model_file(tmp_path / "m.toml")


def test_a_file_that_is_no_toml_or_has_no_form_is_refused(tmp_path: Path) -> None:
    words = 'name = "m"\nsource = "s"\nlicence = "l"\n'
    for text in ("name = ", words, f'{words}[network]\nsource = "s"\nlicence = "l"\nerror = "e"\n'):
        with pytest.raises(InputError):
            read_model_file(written(tmp_path / "m.toml", text))
