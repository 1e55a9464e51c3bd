"""The shipped models against the published table, and every way a model file can be wrong."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.problems import InputError
from muster.workload.models import Dataset, Model, model, read_model, read_models, synergy_models

GOOD = """\
name = "mine"
aliases = ["my-net"]
family = "image"
batch = 64
seconds_per_iteration = 0.5
source = "own measurement"
licence = "own"
reference_cpus_per_gpu = 2
reference_memory_gb_per_gpu = 50
cpus_per_gpu = [1, 2, 4]
memory_gb_per_gpu = [25, 50]
speed = [
  [0.2, 0.6],
  [0.2, 1.0],
  [0.2, 1.5],
]
"""
DATASET = "[dataset]\nsize_gb = 60\nsample_gb = 0.0003\nstorage_gb_per_s = 0.0625\nmemory_gb_per_s = 10\n"


def read(folder: Path, text: str | bytes) -> Model:
    path = folder / "model.toml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_model(path)


def refused(folder: Path, text: str | bytes) -> list[str]:
    """What is said of the file, a line a problem, without the folder."""
    with pytest.raises(InputError) as caught:
        read(folder, text)
    return [str(problem).removeprefix(f"{folder}/") for problem in caught.value.problems]


def test_synergys_ten_models_ship() -> None:
    families = {name: entry.family for name, entry in synergy_models().items()}
    assert families == {
        "alexnet": "image",
        "resnet18": "image",
        "resnet50": "image",
        "mobilenetv2": "image",
        "shufflenetv2": "image",
        "gnmt": "language",
        "transformer-xl": "language",
        "lstm": "language",
        "m5": "speech",
        "deepspeech": "speech",
    }
    for entry in synergy_models().values():
        assert entry.notes == ()
        assert entry.licence == "MIT"


@pytest.mark.reference
def test_synergys_models_are_the_published_ones(reference: Path) -> None:
    published = json.loads((reference / "parity/synergy/profiles.json").read_text())
    names = {
        name: model(name).name
        for name in published["ratio3"]
        if "_" not in name and name not in ("bert", "vae")
    }
    assert sorted(names.values()) == sorted(synergy_models())
    for theirs, ours in names.items():
        entry, wanted = synergy_models()[ours], published["ratio3"][theirs]
        assert entry.cpus_per_gpu == tuple(published["axes"]["cpus_per_gpu"])
        assert entry.memory_gb_per_gpu == tuple(published["axes"]["mem_gb_per_gpu"])
        assert [list(row) for row in entry.speed] == wanted["tput"]
        assert (entry.batch, entry.seconds_per_iteration) == (wanted["batch"], wanted["iter_time_s"])
        assert entry.family == wanted["cls"]
        assert entry.best_speed == wanted["speedup"]


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("res18", "resnet18"),
        ("res50", "resnet50"),
        ("mobilenet", "mobilenetv2"),
        ("shufflenet", "shufflenetv2"),
        ("transformer", "transformer-xl"),
        (" AlexNet ", "alexnet"),
    ],
)
def test_aliases_and_spelling(asked: str, name: str) -> None:
    assert model(asked).name == name


def test_an_unknown_model_names_the_closest() -> None:
    with pytest.raises(
        InputError, match=r"found 'resnet81'; allowed: alexnet, .*Hint: did you mean .*resnet18"
    ):
        model("resnet81")
    with pytest.raises(InputError, match="found 'qqq'; allowed: alexnet"):
        model("qqq")


def test_a_users_own_models(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(GOOD + DATASET)
    (tmp_path / "b.toml").write_text(GOOD.replace("mine", "another").replace("my-net", "other"))
    (tmp_path / "notes.txt").write_text("not a model")
    models = read_models(tmp_path)
    assert list(models) == ["another", "mine"]
    assert models["mine"].dataset == Dataset(60, 0.0003, 0.0625, 10)
    assert models["mine"].speed == ((0.2, 0.6), (0.2, 1.0), (0.2, 1.5))
    assert model("MY-NET", models).name == "mine"


def test_the_example_in_the_documentation_is_a_model(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "models.md").read_text()
    example = page.split("```toml\n")[1].split("```")[0]
    entry = read(tmp_path, example)
    assert model("mynet", {entry.name: entry}).dataset == Dataset(50, 0.00485, 0.0625, 10)


def test_a_folder_reports_the_problems_of_all_its_files(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(GOOD)
    (tmp_path / "b.toml").write_text(GOOD.replace('"mine"', '"MY-NET"').replace('"my-net"', '"third"'))
    (tmp_path / "c.toml").write_text(GOOD.replace("batch = 64", "batch = 0"))
    with pytest.raises(InputError) as caught:
        read_models(tmp_path)
    assert len(caught.value.problems) == 2
    assert "b.toml: name: found 'my-net'; a.toml has this name already" in str(caught.value)
    assert "c.toml:4: batch: found 0; allowed: a whole number from 1 on" in str(caught.value)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(InputError, match="no model file"):
        read_models(empty)
    with pytest.raises(InputError, match="a folder of model files"):
        read_models(tmp_path / "a.toml")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_model(tmp_path / "absent.toml")
    with pytest.raises(InputError, match="this is a folder"):
        read_model(tmp_path)
    assert refused(tmp_path, b"\xff\xfe") == [
        "model.toml: this is not text in UTF-8; allowed: a model file (*.toml)"
    ]
    assert refused(tmp_path, GOOD + "batch = 3") == [
        "model.toml:17: not valid TOML: Cannot overwrite a value"
    ]
    assert refused(tmp_path, "batch = 3\nname = ]")[0].startswith("model.toml:2: not valid TOML: ")
    assert "nest too deep" in refused(tmp_path, "x = " + "[" * 5000)[0]
    assert "too long" in refused(tmp_path, "batch = " + "9" * 5000)[0]
    assert read(tmp_path, b"\xef\xbb\xbf" + GOOD.encode()).name == "mine"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("batch = 64", 'batch = "many"', ":4: batch: found 'many'; allowed: a whole number from 1 on"),
        ("batch = 64", "batch = true", ":4: batch: found True; allowed: a whole number from 1 on"),
        ("batch = 64", "bach = 64", ":4: bach: no such field; allowed: name, "),
        ("batch = 64\n", "", "batch: this field is missing; allowed: a whole number from 1 on"),
        ("0.5", "-0.5", ":5: seconds_per_iteration: found -0.5; allowed: a number above 0"),
        ("0.5", "inf", "seconds_per_iteration: found inf; allowed: a number above 0"),
        ("[0.2, 1.5]", "[0.2, nan]", ":12: speed, row 3, value 2: found nan; allowed: a number above 0"),
        ("[0.2, 1.5]", '[0.2, "x"]', "speed, row 3, value 2: found 'x'; allowed: a number above 0"),
        ("[0.2, 1.5]", "3", "speed, row 3: found 3; allowed: a list of rows of numbers above 0"),
        ("[0.2, 1.5]", "[0.2]", "found '1 value in row 3'; memory_gb_per_gpu has 2 points"),
        ("  [0.2, 1.5],\n", "", "found '2 rows'; cpus_per_gpu has 3 points, so speed needs 3 rows"),
        ("[1, 2, 4]", "[2, 1, 4]", ":10: cpus_per_gpu: found 1.0; each point must be larger"),
        ("[1, 2, 4]", "[]", "cpus_per_gpu: found '[]'; allowed: a list of 1 to 16 numbers"),
        ("gpu = 50", "gpu = 40", "reference_memory_gb_per_gpu: found 40.0; it must be one of mem"),
        ("[0.2, 1.0]", "[0.2, 1.2]", "speed: found 1.2; speed is relative to the reference"),
        ('aliases = ["my-net"]', "aliases = [3]", "aliases, value 1: found 3; allowed: a list of names"),
        (
            "batch = 64",
            "batch = 64\nrestart_seconds = -1",
            ":5: restart_seconds: found -1; allowed: a number from 0",
        ),
        ('"mine"', '" "', "name: found ' '; allowed: a name in quotes"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in GOOD
    lines = refused(tmp_path, GOOD.replace(old, new))
    assert any(said in line for line in lines), lines


EFFICIENCY = """\
[efficiency]
progress = [0, 0.5]
noise_scale = [100, 2e4]
source = "own measurement"
licence = "own"
error = "not known"
"""


def test_a_model_may_state_its_noise_scale(tmp_path: Path) -> None:
    assert read(tmp_path, GOOD).efficiency is None
    stated = read(tmp_path, GOOD + EFFICIENCY).efficiency
    assert stated is not None
    assert (stated.progress, stated.noise_scale) == ((0.0, 0.5), (100.0, 20_000.0))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[0, 0.5]", "[0, 1]", ":18: efficiency.progress, value 2: found 1; allowed: a list of shares"),
        ("[0, 0.5]", "[0.1, 0.5]", ":18: efficiency.progress: found 0.1; allowed: 0 as the first share"),
        ("[0, 0.5]", "[0, 0]", ":18: efficiency.progress: found 0.0; each share must be larger"),
        ("2e4]", "-1]", ":19: efficiency.noise_scale, value 2: found -1; allowed: a list of numbers"),
        (", 2e4]", "]", ":19: efficiency.noise_scale: found '1 value'; progress has 2 shares"),
        ("noise_scale", "noise", ":19: efficiency.noise: no such field; allowed: progress, noise_scale"),
        ('error = "not known"', "", "efficiency.error: this field is missing"),
    ],
)
def test_what_is_wrong_with_a_noise_scale_is_said(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in EFFICIENCY
    lines = refused(tmp_path, GOOD + EFFICIENCY.replace(old, new))
    assert any(said in line for line in lines), lines


def test_a_model_may_state_what_a_restart_costs(tmp_path: Path) -> None:
    assert read(tmp_path, GOOD).restart_seconds is None
    assert read(tmp_path, GOOD.replace("batch", "restart_seconds = 0\nbatch")).restart_seconds == 0
    assert read(tmp_path, GOOD.replace("batch", "restart_seconds = 45.5\nbatch")).restart_seconds == 45.5


def test_all_is_reported_at_once_and_without_jargon(tmp_path: Path) -> None:
    wrong = GOOD.replace("batch = 64", 'batch = "x"').replace("0.5", "-1").replace('licence = "own"\n', "")
    lines = refused(tmp_path, wrong + "[dataset]\nsize_gb = -1\nsize = 3\n")
    assert len(lines) == 8
    for jargon in ("pydantic", "tuple", "finite", "Input should", "float", "str "):
        assert jargon not in "\n".join(lines)


def test_data_facts_that_contradict_the_speeds(tmp_path: Path) -> None:
    # 64 samples of 3 MB at 62.5 MB/s take seconds; the iteration with that little memory took 2.5 s.
    lines = refused(tmp_path, GOOD + DATASET.replace("0.0003", "0.003").replace("60", "600"))
    assert len(lines) == 1
    assert ":17: dataset: reading one batch at 25 GB would take 2.94 s by these" in lines[0]
    assert "measured at 2.5 s" in lines[0]


def test_a_falling_row_is_corrected_with_a_note(tmp_path: Path) -> None:
    corrected = read(tmp_path, GOOD.replace("[0.2, 1.5]", "[0.2, 0.8]"))
    assert corrected.speed == ((0.2, 0.6), (0.2, 1.0), (0.2, 1.0))
    assert corrected.notes == (
        "model.toml: speed fell with more CPU or memory; 1 of 6 points were made monotone, "
        "the largest change at 4 CPUs, 50 GB (0.8 to 1)",
    )
    # A smaller point that measured faster than the reference does not move the reference.
    capped = read(tmp_path, GOOD.replace("[0.2, 0.6]", "[0.2, 1.1]"))
    assert capped.speed == ((0.2, 1.0), (0.2, 1.0), (0.2, 1.5))


speeds = st.lists(st.lists(st.floats(0.01, 5), min_size=2, max_size=2), min_size=3, max_size=3)


@settings(deadline=None)
@given(speeds)
def test_corrected_speed_is_monotone_and_keeps_the_reference(
    tmp_path_factory: pytest.TempPathFactory, found: list[list[float]]
) -> None:
    found[1][1] = 1.0
    entry = read(tmp_path_factory.getbasetemp(), GOOD[: GOOD.index("speed =")] + f"speed = {found}\n")
    corrected = np.array(entry.speed)
    assert (np.diff(corrected, axis=0) >= 0).all()
    assert (np.diff(corrected, axis=1) >= 0).all()
    assert corrected[1, 1] == 1
    given_speed = np.array(found)
    # Above the reference a point is the best of what lies within it, counting nothing over 1 below.
    for row, column in np.ndindex(3, 2):
        within = np.minimum(given_speed[: min(row, 1) + 1, : column + 1], 1).max()
        beyond = given_speed[2 : row + 1, : column + 1].max(initial=0)
        assert corrected[row, column] == max(within, beyond)
    already = (np.diff(given_speed, axis=0) >= 0).all() and (np.diff(given_speed, axis=1) >= 0).all()
    assert (entry.notes == ()) == (bool(already) and bool((corrected == given_speed).all()))


values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 2**70),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.one_of(st.floats(), st.integers(), st.lists(st.floats(), max_size=3)), max_size=4),
)


@settings(deadline=None, max_examples=300)
@given(
    st.one_of(
        st.binary(max_size=60),
        st.tuples(st.integers(0, len(GOOD)), st.integers(0, 12), st.text(max_size=8)).map(
            lambda cut: (GOOD[: cut[0]] + cut[2] + GOOD[cut[0] + cut[1] :]).encode("utf-8", "surrogatepass")
        ),
        st.tuples(st.sampled_from(GOOD.splitlines()[:11]), values).map(
            lambda change: GOOD.replace(
                change[0], f"{change[0].split(' = ')[0]} = {json.dumps(change[1])}"
            ).encode("utf-8", "surrogatepass")
        ),
    )
)
def test_any_file_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    folder = tmp_path_factory.getbasetemp()
    try:
        entry = read(folder, content)
    except InputError:
        assert all(line.startswith("model.toml") for line in refused(folder, content))
        return
    speed = np.array(entry.speed)
    assert speed.shape == (len(entry.cpus_per_gpu), len(entry.memory_gb_per_gpu))
    assert (np.isfinite(speed) & (speed > 0)).all()
    assert all(
        axis[0] > 0 and math.isfinite(axis[-1]) for axis in (entry.cpus_per_gpu, entry.memory_gb_per_gpu)
    )
