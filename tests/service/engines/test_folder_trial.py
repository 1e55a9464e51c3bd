"""Nodes try the jobs' folder at the same time: a shared one is well; hidden, private and replacing ones are named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from muster.launcher import folder_trial
from muster.launcher.folder_trial import begin_trial, try_folder
from muster.problems import InputError
from muster.service.engines.folder_trial import AskNodes, check_shared_folder

WELL = ""


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_trial, "TRIAL_SECONDS", 0.5)


def nodes_that_see(*views: Callable[[Path], Path]) -> AskNodes:
    """Nodes that try a folder together, each under the path at which it sees the daemon's."""

    def ask(folder: Path, token: str) -> Mapping[str, str]:
        with ThreadPoolExecutor(len(views)) as pool:
            found = [
                pool.submit(try_folder, view(folder), token, number, len(views))
                for number, view in enumerate(views)
            ]
            return {f"node{number}": one.result() for number, one in enumerate(found)}

    return ask


def same(folder: Path) -> Path:
    return folder


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_shared_folder_is_well_and_left_empty(tmp_path: Path, count: int) -> None:
    assert check_shared_folder(tmp_path, nodes_that_see(*[same] * count)) == WELL
    assert list(tmp_path.iterdir()) == []


def test_what_a_node_does_not_see_is_named(tmp_path: Path) -> None:
    jobs, other = tmp_path / "jobs", tmp_path / "other"
    jobs.mkdir()
    other.mkdir()

    def private(folder: Path) -> Path:
        """What the daemon has written, and nothing of what other nodes write, as a stale copy."""
        (other / folder.name).mkdir()
        begin_trial(other / folder.name, (folder / "daemon").read_text())
        return other / folder.name

    def stale(folder: Path) -> Path:
        (other / folder.name).mkdir()
        begin_trial(other / folder.name, "of another trial")
        return other / folder.name

    views: Mapping[str, Callable[[Path], Path]] = {
        "node1 has no such folder": lambda folder: tmp_path / "none" / folder.name,
        "node1 has another folder of this name": lambda folder: other / folder.name,
        "node1 does not see what the daemon has flushed": stale,
        "node1 does not see within 0.5 s what another node has published": private,
    }
    for said, view in views.items():
        with pytest.raises(InputError, match=rf"--jobs: found '{jobs}'; node {said}"):
            check_shared_folder(jobs, nodes_that_see(same, view))
    with pytest.raises(InputError, match="has published something there that the daemon does not see"):
        check_shared_folder(tmp_path, nodes_that_see(private))


def test_a_disk_where_renames_replace_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two starts could publish in one folder there."""
    rename = Path.rename

    def replacing(path: Path, target: Path) -> Path:
        if target.is_dir():
            for old in target.iterdir():
                old.unlink()
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", replacing)
    for count in (1, 2):
        with pytest.raises(InputError, match="sees there how a renamed folder replaces another one"):
            check_shared_folder(tmp_path, nodes_that_see(*[same] * count))


def test_nodes_that_cannot_be_asked_are_said(tmp_path: Path) -> None:
    def busy(folder: Path, token: str) -> Mapping[str, str]:
        raise OSError("none has a free CPU")

    assert check_shared_folder(tmp_path, busy) == f"{tmp_path} was not tried from a node: none has a free CPU"
