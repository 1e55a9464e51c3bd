"""The jobs' folders on a shared disk: named once, tried at every start, never mixed with another store's."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.problems import InputError
from muster.service import jobs_folder
from muster.service.home import bind_store, job_folder, make_home, newest_job_folder
from muster.service.jobs_folder import use_folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    make_home(home)
    return home


def test_jobs_have_their_folders_where_serve_names_it(home: Path, tmp_path: Path) -> None:
    """Their paths go to other machines, so they do not lead through the home."""
    shared = tmp_path / "shared"
    use_folder(home, shared)
    assert job_folder(home, 3) == shared / "3"
    make_home(home)
    use_folder(home, None)
    assert job_folder(home, 3) == shared / "3", "the home remembers it"
    assert list(shared.iterdir()) == [], "the trial leaves nothing"
    (shared / "3").mkdir()
    assert newest_job_folder(home) == 3
    use_folder(home, shared)


def test_jobs_that_have_folders_already_are_not_left_behind(home: Path, tmp_path: Path) -> None:
    job_folder(home, 1).mkdir()
    with pytest.raises(InputError, match=r"--jobs: found '.*'; the jobs of this home have their folders in"):
        use_folder(home, tmp_path / "shared")
    assert job_folder(home, 1) == home / "jobs/1"
    job_folder(home, 1).rmdir()
    use_folder(home, tmp_path / "shared")
    (tmp_path / "shared/1").mkdir()
    with pytest.raises(InputError, match="have their folders in"):
        use_folder(home, tmp_path / "other")


def test_a_shared_disk_that_is_away_is_not_created_again(home: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    use_folder(home, shared)
    shared.rename(tmp_path / "away")
    with pytest.raises(InputError, match=r"cannot be reached\. Hint: mount its disk"):
        make_home(home)
    assert not shared.exists()


def test_two_stores_never_share_the_jobs_folders(home: Path, tmp_path: Path) -> None:
    use_folder(home, tmp_path / "shared")
    bind_store(home, 1.0)
    job_folder(home, 1).mkdir()
    bind_store(home, 1.0)
    other = tmp_path / "other"
    make_home(other)
    use_folder(other, tmp_path / "shared")
    with pytest.raises(InputError, match="are of the store that was made on"):
        bind_store(other, 2.0)


@pytest.mark.parametrize("name", ["/proc/muster", "/dev/null", "/proc"])
def test_a_folder_that_cannot_hold_files_is_refused(home: Path, name: str) -> None:
    with pytest.raises(InputError, match=f"--jobs: found '{name}'; cannot"):
        use_folder(home, Path(name))


def test_a_disk_that_shows_others_old_files_is_refused(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a cache would: here every second write is held back."""
    published: list[str] = []

    def publish(folder: Path, content: str) -> None:
        published.append(content)
        (folder / "published").write_text(published[0])

    monkeypatch.setattr(jobs_folder, "_publish", publish)
    with pytest.raises(InputError, match="another process does not see files as they were renamed last"):
        use_folder(home, tmp_path)
    assert not (home / "jobs").is_symlink()
