"""The shipped models that were fitted to measured steps are what the fits make of the archived tables."""

from __future__ import annotations

import tarfile
import tomllib
from pathlib import Path

import pytest

from experiments.fitting.compute import APPLICATIONS, fit_compute
from experiments.fitting.total_batch import FAMILIES, model_file
from muster.workload.models import registry
from tests.reference_data import ARCHIVES_FOLDER


def table(archive: str, name: str, folder: Path) -> Path:
    """A table of an archive, unpacked."""
    with tarfile.open(ARCHIVES_FOLDER / archive) as packed:
        member = packed.extractfile(f"parity/elastic/tables/{name}")
        assert member is not None
        (folder / name).write_bytes(member.read())
    return folder / name


@pytest.mark.parametrize("app", APPLICATIONS)
def test_compute_on_t4_gpus_is_the_fit_of_its_table(app: str, tmp_path: Path) -> None:
    steps = table("pollux.tar.xz", "t4_seconds_per_iteration.csv", tmp_path)
    stated = tomllib.loads(fit_compute(steps, app).toml(app))["compute"]
    found = registry()[f"pollux-{app}"].compute
    assert found is not None
    assert stated.pop("fixed_samples") == pytest.approx(found.fixed_samples, rel=0.01)
    assert stated == {name: getattr(found, name) for name in stated}


@pytest.mark.parametrize("app", FAMILIES)
def test_models_on_a800_gpus_are_the_fit_of_their_table(app: str, tmp_path: Path) -> None:
    steps = table("rubick.tar.xz", "rubick_seconds_per_iteration.csv", tmp_path)
    stated = tomllib.loads(model_file(steps, app))["network"]["measured"]
    network = registry()[f"rubick-{app}"].network
    assert network is not None
    assert network.measured is not None
    assert stated["compute_seconds"] == pytest.approx(network.measured["compute_seconds"], rel=0.05)
    assert stated["uplink_seconds"] == pytest.approx(network.measured["uplink_seconds"], rel=0.05)
