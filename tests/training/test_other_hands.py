"""A run folder that belongs to a user: what he puts there cannot hold up a scheduler, or lead it elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from muster.problems import InputError
from muster.training.run_folder import begin_start, give_notice, progress_file, read_progress


def test_a_link_in_the_place_of_a_part_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("unharmed")
    run_dir = tmp_path / "run"
    begin_start(run_dir, 1)
    (run_dir / f"{os.getpid()}.part").symlink_to(victim)
    give_notice(run_dir, 1, stop=True)
    assert victim.read_text() == "unharmed"
    assert '"stop": true' in (run_dir / "notice.json").read_text()


@pytest.mark.parametrize("what", ["pipe", "link", "folder"])
def test_what_is_no_ordinary_file_is_refused_at_once(tmp_path: Path, what: str) -> None:
    begin_start(tmp_path, 1)
    path = progress_file(tmp_path, 1)
    if what == "pipe":
        os.mkfifo(path)
    elif what == "link":
        (tmp_path / "secret").write_text('{"epoch": 1}')
        path.symlink_to("secret")
    else:
        path.mkdir()
    with pytest.raises(InputError, match=r"progress-1\.json"):
        read_progress(tmp_path)


@pytest.mark.parametrize("content", [100_000 * "[", 900 * "[" + 900 * "]", '{"step": ' + 5000 * "9" + "}"])
def test_what_no_parser_bears_is_refused_with_a_reason(tmp_path: Path, content: str) -> None:
    begin_start(tmp_path, 1)
    progress_file(tmp_path, 1).write_text(content)
    with pytest.raises(InputError, match=r"progress-1\.json") as refused:
        read_progress(tmp_path)
    assert len(str(refused.value)) < 500


def test_a_folder_that_is_none_is_refused_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("mine")
    with pytest.raises(InputError, match="Not a directory"):
        read_progress(tmp_path / "run")
    assert read_progress(tmp_path) is None
