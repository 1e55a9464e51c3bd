"""Files at the edge: what is read by content, what is written whole or not at all."""

from __future__ import annotations

import codecs
import gzip
import lzma
import sys
from pathlib import Path

import pytest

from muster.files import read_text, write_aside, write_folder_aside
from muster.folder_layouts import FolderLayout
from muster.problems import InputError

if sys.version_info >= (3, 14):
    from compression.zstd import compress as compress_zst
else:
    from backports.zstd import compress as compress_zst

TEXTS = FolderLayout(("*.txt",))
TEXT = "job_id,gpus\nköln,1\n"


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def break_off_a_file(path: Path, error: type[BaseException]) -> None:
    with write_aside(path) as aside:
        aside.write_text("half")
        raise error


def break_off_a_folder(path: Path, error: type[BaseException]) -> None:
    with write_folder_aside(path, TEXTS) as aside:
        (aside / "half.txt").write_text("half")
        raise error


@pytest.mark.parametrize("name", ["trace.csv", "trace.gz"])
@pytest.mark.parametrize(
    "data",
    [
        TEXT.encode(),
        codecs.BOM_UTF8 + TEXT.encode(),
        TEXT.encode("utf-16"),
        codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"),
        gzip.compress(TEXT.encode(), mtime=0),
        gzip.compress(TEXT[:8].encode(), mtime=0) + gzip.compress(TEXT[8:].encode(), mtime=0),
        lzma.compress(TEXT.encode()),
        compress_zst(TEXT.encode()),
        compress_zst(TEXT[:8].encode()) + compress_zst(TEXT[8:].encode()),
        gzip.compress(TEXT.encode("utf-16"), mtime=0),
    ],
    ids=[
        "plain",
        "mark",
        "utf-16",
        "utf-16-be",
        "gzip",
        "gzip members",
        "xz",
        "zst",
        "zst frames",
        "gzip utf-16",
    ],
)
def test_text_is_read_by_content_whatever_its_name(tmp_path: Path, name: str, data: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    assert read_text(path) == TEXT


@pytest.mark.parametrize(
    ("data", "reply"),
    [
        (gzip.compress(TEXT.encode() * 100, mtime=0)[:-20], "gzip data is damaged or cut off"),
        (gzip.compress(TEXT.encode(), mtime=0)[:2] + b"nonsense", "gzip data is damaged"),
        (lzma.compress(TEXT.encode() * 100)[:-20], "xz data is damaged"),
        (b"\x28\xb5\x2f\xfd nonsense", "zst data is damaged"),
        (b"a,b\n1,2\n\xff,3\n", ":3: byte 0xff is not UTF-8"),
        (b"\x7fELF\x00\x01", "binary file"),
        (b"\x89PNG\r\n\x1a\n\x00", "not text"),
        (TEXT.encode("utf-16-le"), "not text"),
        (codecs.BOM_UTF16_LE + b"\x00\xd8", "not text"),
    ],
)
def test_what_is_not_text_is_refused_with_a_reason(tmp_path: Path, data: bytes, reply: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(data)
    with pytest.raises(InputError, match=reply) as refused:
        read_text(path)
    assert str(path) in str(refused.value)


def test_no_file_and_a_directory_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_text(tmp_path / "absent.csv")
    with pytest.raises(InputError, match="is a directory"):
        read_text(tmp_path)


def test_a_file_appears_whole(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_text("old")
    with write_aside(path) as aside:
        aside.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert names_in(tmp_path) == ["out.csv"]
    plain = tmp_path / "plain"
    plain.write_text("")
    assert path.stat().st_mode == plain.stat().st_mode


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_nothing_is_left_of_a_file_that_failed(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "out.csv"
    path.write_text("old")
    with pytest.raises(error):
        break_off_a_file(path, error)
    assert path.read_text() == "old"
    assert names_in(tmp_path) == ["out.csv"]


def test_a_link_is_written_through(tmp_path: Path) -> None:
    target = tmp_path / "target.csv"
    target.write_text("old")
    link = tmp_path / "link.csv"
    link.symlink_to(target)
    with write_aside(link) as aside:
        aside.write_text("new")
    assert link.is_symlink()
    assert target.read_text() == "new"


@pytest.mark.parametrize("place", ["/dev/null", "/dev/full/out.csv", "."])
def test_no_place_for_a_file_is_refused_before_any_work(place: str) -> None:
    with pytest.raises(InputError), write_aside(Path(place)):
        pytest.fail("the body ran")
    assert Path("/dev/null").is_char_device()


def test_a_name_too_long_for_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="File name too long"), write_aside(tmp_path / ("x" * 256)):
        pytest.fail("the body ran")
    assert names_in(tmp_path) == []


def test_a_file_into_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"), write_aside(tmp_path / "no" / "out.csv"):
        pytest.fail("the body ran")


def test_a_folder_appears_whole_with_its_parents(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "out"
    with write_folder_aside(path) as aside:
        (aside / "sub").mkdir()
        (aside / "sub" / "run.json").write_text("{}")
        assert not path.exists()
    assert (path / "sub" / "run.json").read_text() == "{}"
    assert names_in(path.parent) == ["out"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_nothing_is_left_of_a_folder_that_failed(tmp_path: Path, error: type[BaseException]) -> None:
    with pytest.raises(error):
        break_off_a_folder(tmp_path / "a" / "out", error)
    assert names_in(tmp_path) == []


def test_a_folder_with_content_is_kept_unless_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.mkdir()
    with write_folder_aside(path) as aside:
        (aside / "first.txt").write_text("1")
    with pytest.raises(InputError, match="--overwrite"), write_folder_aside(path):
        pytest.fail("the body ran")
    with pytest.raises(RuntimeError):
        break_off_a_folder(path, RuntimeError)
    assert names_in(path) == ["first.txt"]
    with write_folder_aside(path, TEXTS) as aside:
        (aside / "second.txt").write_text("2")
    assert names_in(path) == ["second.txt"]
    assert names_in(tmp_path) == ["out"]


def test_what_one_stands_in_is_never_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = tmp_path / "work" / "here"
    inside.mkdir(parents=True)
    monkeypatch.chdir(inside)
    for path in (Path(), Path(".."), Path.home()):
        with pytest.raises(InputError, match="name another"), write_folder_aside(path, TEXTS):
            pytest.fail("the body ran")
    assert inside.is_dir()


def test_the_root_of_a_file_system_is_not_replaced() -> None:
    refused = pytest.raises(InputError, match="the root of a file system")
    with refused, write_folder_aside(Path("/proc"), TEXTS):
        pytest.fail("the body ran")


def test_a_link_in_a_folder_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.mkdir()
    (path / "link.txt").symlink_to("elsewhere")
    with pytest.raises(InputError, match=r"found 'link\.txt'"), write_folder_aside(path, TEXTS):
        pytest.fail("the body ran")
    assert (path / "link.txt").is_symlink()


def test_a_file_in_the_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("mine")
    with pytest.raises(InputError, match="is a file"), write_folder_aside(path, TEXTS):
        pytest.fail("the body ran")
    with pytest.raises(InputError, match="cannot be written"), write_folder_aside(path / "deeper"):
        pytest.fail("the body ran")
    assert path.read_text() == "mine"
