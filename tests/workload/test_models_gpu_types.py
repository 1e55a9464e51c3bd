"""What a model file says of other types of GPU: tables, scales, fall-backs, and every way to say it wrongly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.speed.input_pipeline import model_table, untold_gpu_types
from muster.speed.input_stage import relative_speed
from tests.workload.test_models import DATASET, GOOD, read, refused

ON_A100 = "\n[gpu_types.a100]\nspeed = [[0.2, 0.6], [0.2, 1.1], [0.2, 2.3]]\n"


def test_the_example_in_the_documentation(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "models.md").read_text()
    blocks = [block.split("```")[0] for block in page.split("```toml\n")[1:]]
    entry = read(tmp_path, blocks[1] + "\n" if blocks[1].startswith("name") else GOOD + blocks[1])
    assert entry.speed_on("V100") == entry.speed
    assert entry.speed_on("A100") == ((0.2, 0.6), (0.2, 1.1), (0.2, 2.3))
    # At best speed, 1.5, only the last point; slower GPUs cap it.
    assert entry.speed_on("k80") == pytest.approx(np.minimum(entry.speed, 1.5 * 0.35))
    assert entry.speed_on("t4") == pytest.approx(np.minimum(entry.speed, 1.5 * 0.8))


def test_a_faster_gpu_gains_where_the_gpu_was_the_limit(tmp_path: Path) -> None:
    """As much as the cores can feed: one and a half times as many as where the old one was full, so 1.5 at most."""
    flat = GOOD.replace("[1, 2, 4]", "[1, 2, 3]").replace("[0.2, 0.6]", "[0.2, 0.8]").replace("1.5", "1.0")
    entry = read(tmp_path, flat + "[gpu_types.a100]\ncompute_scale = 2\n")
    assert entry.speed_on("a100") == pytest.approx(np.array([[0.2, 0.8], [0.2, 1.0], [0.2, 1.5]]))


@settings(deadline=None, max_examples=40)
@given(slower=st.floats(0.05, 1), faster=st.floats(1, 5))
def test_scales_bracket_the_reference(
    tmp_path_factory: pytest.TempPathFactory, slower: float, faster: float
) -> None:
    folder = tmp_path_factory.getbasetemp()
    tables = f"[gpu_types.old]\ncompute_scale = {slower!r}\n[gpu_types.new]\ncompute_scale = {faster!r}\n"
    entry = read(folder, GOOD + tables)
    old, new, here = np.array(entry.speed_on("old")), np.array(entry.speed_on("new")), np.array(entry.speed)
    for less, more in ((old, here), (here, new), (new[:-1], new[1:]), (new[:, :-1], new[:, 1:])):
        assert (less <= more).all()
    table = model_table([entry], ["old", "new", "unheard-of"])
    on_type = table[0]["on_type"]
    for number, matrix in enumerate((old, new, here)):
        for row, cpus in enumerate(entry.cpus_per_gpu):
            for column, memory in enumerate(entry.memory_gb_per_gpu):
                speed = relative_speed(table, on_type[number], cpus, memory, np.inf)
                assert speed == pytest.approx(matrix[row][column])


def test_unstated_gpu_types_give_one_note(tmp_path: Path) -> None:
    silent, speaks = read(tmp_path, GOOD), read(tmp_path, GOOD.replace('"mine"', '"other-net"') + ON_A100)
    assert untold_gpu_types([silent], ["v100"]) == []
    assert untold_gpu_types([speaks, None], ["a100"]) == []
    assert untold_gpu_types([silent, speaks], ["a100", "k80"]) == [
        "nothing is known of mine on GPUs of type a100, k80: taken to be as their reference",
        "nothing is known of other-net on GPUs of type k80: taken to be as their reference",
    ]


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ("[gpu_types.a100]\n", ":17: gpu_types.a100: allowed: exactly one of speed and compute_scale"),
        (
            "[gpu_types.a100]\ncompute_scale = 0\n",
            "gpu_types.a100.compute_scale: found 0; allowed: a number above 0",
        ),
        (
            "[gpu_types.a100]\ncompute_scale = 2\nspeed = [[1]]\n",
            "allowed: exactly one of speed and compute_scale",
        ),
        ("[gpu_types.a100]\nspeed = [[1, 1]]\n", ":18: gpu_types.a100.speed: found '1 row'"),
        (
            "[gpu_types.a100]\nspeed = [[1], [1, 1], [1, 1]]\n",
            "found '1 value in row 1'; memory_gb_per_gpu has 2",
        ),
        (
            "[gpu_types.a100]\nspeed = [[1, nan], [1, 1], [1, 1]]\n",
            "gpu_types.a100.speed, row 1, value 2: found nan",
        ),
        (
            "[gpu_types.a100]\nscale = 2\n",
            "no such field; allowed: speed, compute_scale",
        ),
        (
            "[gpu_types]\na100 = 2\n",
            "gpu_types.a100: found 2; allowed: a table [gpu_types.NAME] with speed or compute_scale",
        ),
        (
            "[gpu_types.a]\ncompute_scale = 1\n[gpu_types.A]\ncompute_scale = 2\n",
            "this GPU type is named twice",
        ),
        (DATASET + ON_A100.replace("2.3", "2300"), "reading one batch at 50 GB would take"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, tables: str, said: str) -> None:
    lines = refused(tmp_path, GOOD + tables)
    assert any(said in line for line in lines), lines


def test_a_falling_row_is_corrected_with_a_note(tmp_path: Path) -> None:
    entry = read(tmp_path, GOOD + ON_A100.replace("1.1", "0.5"))
    assert entry.speed_on("a100") == ((0.2, 0.6), (0.2, 0.6), (0.2, 2.3))
    assert [note.startswith("model.toml, a100: speed fell") for note in entry.notes] == [True]
