"""The shipped models that were fitted to measured steps are what the fits make of the archived tables."""

from __future__ import annotations

import tarfile
import tomllib
from pathlib import Path

import pytest

from experiments.elastic.efficiency import applications
from experiments.fitting.compute import APPLICATIONS, compute_of
from experiments.fitting.noise_scale import fit_noise
from experiments.fitting.total_batch import FAMILIES, model_file
from muster.workload.models import shipped_models
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
    stated = tomllib.loads(compute_of(steps, app).toml(app))["compute"]
    found = shipped_models()[f"pollux-{app}"].compute
    assert found is not None
    assert stated.pop("fixed_samples") == pytest.approx(found.fixed_samples, rel=0.01)
    assert stated == {name: getattr(found, name) for name in stated}


def test_noise_scales_are_the_fits_of_their_tables(tmp_path: Path) -> None:
    for name in ("apps.csv", "statistics.csv"):
        table("pollux.tar.xz", name, tmp_path)
    for name, app in applications(tmp_path).items():
        stated = tomllib.loads(fit_noise(app).toml(name))["efficiency"]
        found = shipped_models()[f"pollux-{name}"].efficiency
        assert found is not None
        assert (found.progress, found.noise_scale) == (
            tuple(stated["progress"]),
            tuple(stated["noise_scale"]),
        )
        assert (found.source, found.error) == (stated["source"], stated["error"])


@pytest.mark.parametrize("app", FAMILIES)
def test_models_on_a800_gpus_are_the_fit_of_their_table(app: str, tmp_path: Path) -> None:
    steps = table("rubick.tar.xz", "rubick_seconds_per_iteration.csv", tmp_path)
    stated = tomllib.loads(model_file(steps, app))["network"]["measured"]
    network = shipped_models()[f"rubick-{app}"].network
    assert network is not None
    assert network.measured is not None
    assert stated["compute_seconds"] == pytest.approx(network.measured["compute_seconds"], rel=0.05)
    assert stated["uplink_seconds"] == pytest.approx(network.measured["uplink_seconds"], rel=0.05)
