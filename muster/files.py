"""Files at the edge: text in by content, whole files and whole folders out or nothing.

Compression and encoding are recognised by the first bytes, never by the name. What is written appears at its
place complete or not at all: it is made beside it, flushed, and renamed.
"""

from __future__ import annotations

import codecs
import errno
import gzip
import io
import lzma
import os
import re
import secrets
import shutil
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from muster.folder_layouts import FolderLayout
from muster.problems import InputError, Problem, Unable

if TYPE_CHECKING:
    import polars as pl

if sys.version_info >= (3, 14):
    from compression.zstd import ZstdError
    from compression.zstd import decompress as decompress_zst
else:
    from backports.zstd import ZstdError
    from backports.zstd import decompress as decompress_zst

_COMPRESSED = (
    (b"\x1f\x8b", "gzip", gzip.decompress),
    (b"\xfd7zXZ\x00", "xz", lzma.decompress),
    (b"\x28\xb5\x2f\xfd", "zst", decompress_zst),
)
_DAMAGED = (OSError, EOFError, zlib.error, lzma.LZMAError, ZstdError)
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""The disk is full, over its quota or broken."""
_OS_ERROR = re.compile(r"\(os error (\d+)\)")
_FILLED = (errno.ENOTEMPTY, errno.EEXIST)
"""A folder cannot be renamed to one that holds something."""
_NAMED_AT_MOST = 3
_NOT_SAVED = "something came into this folder while the command ran, so its result is not saved; "
_ALLOWED = "text in UTF-8 (or UTF-16 with its mark), plain or as gzip, xz or zst"


def read_bytes(path: Path) -> bytes:
    """The bytes of a file, decompressed if their first bytes say gzip, xz or zst."""
    where = str(path)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise InputError(Problem(where, "there is no such file")) from None
    except IsADirectoryError:
        raise InputError(Problem(where, "this is a directory; allowed: a file")) from None
    except (OSError, ValueError) as error:
        raise InputError(Problem(where, f"cannot be read: {_reason(error)}")) from None
    for magic, name, decompress in _COMPRESSED:
        if data.startswith(magic):
            try:
                return decompress(data)
            except _DAMAGED:
                raise InputError(Problem(where, f"its {name} data is damaged or cut off")) from None
    return data


def decode_text(data: bytes, where: str) -> str:
    """Text from bytes: UTF-8 with or without its mark, UTF-16 with its mark; anything else is refused."""
    utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = data.decode("utf-16" if utf16 else "utf-8-sig")
    except UnicodeDecodeError as error:
        if utf16 or b"\x00" in data:
            raise InputError(Problem(where, f"this is not text; allowed: {_ALLOWED}")) from None
        line = data.count(b"\n", 0, error.start) + 1
        found = data[error.start : error.start + 1].hex()
        what = f"byte 0x{found} is not UTF-8; allowed: {_ALLOWED}"
        raise InputError(Problem(where, what, row=line)) from None
    if "\x00" in text:
        raise InputError(Problem(where, f"this is a binary file; allowed: {_ALLOWED}"))
    return text


def read_text(path: Path) -> str:
    """The text of a file, whatever its compression and mark."""
    return decode_text(read_bytes(path), str(path))


@contextmanager
def write_aside(path: Path) -> Iterator[Path]:
    """A path to write to; the file takes its place at the end, and nothing is left if the body fails."""
    try:
        if path.exists() and not path.is_file():
            kind = "a directory" if path.is_dir() else "not an ordinary file"
            raise InputError(Problem(str(path), f"this is {kind}; allowed: a file to write"))
        final = path.resolve()
        _check_name(final)
        aside = _name_beside(final)
        # Made here, so that a folder without write permission is reported before the work is done.
        aside.touch(exist_ok=False)
    except OSError as error:
        raise unwritable(path, error) from None
    try:
        yield aside
        _flush(aside)
        aside.replace(final)
    except BaseException as error:
        aside.unlink(missing_ok=True)
        _raise_if_disk_error(path, error)
        raise
    _flush(final.parent)


@contextmanager
def write_folder_aside(path: Path, replaces: FolderLayout | None = None) -> Iterator[Path]:
    """An empty folder to fill; it takes its place at the end, and nothing is left if the body fails.

    A folder with something in it is refused, at the start and at the end, unless all of it is of the layout
    `replaces`; then the whole of it is replaced.
    """
    made: list[Path] = []
    try:
        _check_replaceable(path, replaces)
        final = path.resolve()
        made = _missing_parents(final)
        final.parent.mkdir(parents=True, exist_ok=True)
        _check_name(final)
        aside = _name_beside(final)
        aside.mkdir()
    except OSError as error:
        _remove_empty(made)
        raise unwritable(path, error) from None
    try:
        yield aside
        for file in sorted(aside.rglob("*")):
            _flush(file)
        _flush(aside)
        _put_in_place(aside, final, path, replaces)
    except BaseException as error:
        shutil.rmtree(aside, ignore_errors=True)
        _remove_empty(made)
        _raise_if_disk_error(path, error)
        raise
    _flush(final.parent)


def open_lock_file(path: Path) -> int:
    """A descriptor of a lock file that only this user can open, made if it is missing; OSError if that cannot be.

    A process that may open a file may lock it and keep others out. A link, or another user's file, is refused.
    """
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    try:
        there = os.fstat(file)
        if not stat.S_ISREG(there.st_mode):
            raise OSError(errno.EINVAL, "not an ordinary file", str(path))
        if there.st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "the file belongs to another user", str(path))
        os.fchmod(file, 0o600)  # older versions made it readable to all
    except BaseException:
        os.close(file)
        raise
    return file


def _check_replaceable(path: Path, replaces: FolderLayout | None) -> None:
    """Refuses what a new folder may not replace, before any work is done."""
    if not os.path.lexists(path):
        return
    if not path.is_dir():
        raise InputError(Problem(str(path), "this is a file; allowed: a folder to write"))
    final = path.resolve()
    for keep, name in ((Path.cwd(), "the folder you are in"), (Path.home(), "your home")):
        if keep.resolve().is_relative_to(final):
            raise InputError(Problem(str(path), f"{name} is or lies in this folder; name another one"))
    if final.is_mount():
        what = "this folder is the root of a file system and cannot be replaced; allowed: a folder in it"
        raise InputError(Problem(str(path), what))
    _check_content(path, final, replaces)


def _check_content(path: Path, folder: Path, replaces: FolderLayout | None, *, late: bool = False) -> None:
    """Refuses a folder that holds something which is not of the layout; `path` is what the user named."""
    first = _NOT_SAVED if late else ""
    if replaces is None:
        if late or any(folder.iterdir()):
            what = "the folder exists and is not empty; name another one or say --overwrite"
            raise InputError(Problem(str(path), first + what))
        return
    if others := replaces.others_in(folder):
        shown, more = others[:_NAMED_AT_MOST], len(others) - _NAMED_AT_MOST
        found = ", ".join(shown) + (f" and {more} more" if more > 0 else "")
        what = (
            "allowed with --overwrite: an empty folder, or one that holds only what this command writes. "
            "Hint: move the other files, or name another folder"
        )
        raise InputError(Problem(str(path), first + what, found=found))


def _check_name(final: Path) -> None:
    """Raises the OSError of a name that the file system cannot have; it shows once the folder above is there."""
    with suppress(FileNotFoundError):
        final.lstat()


def _put_in_place(new: Path, final: Path, path: Path, replaces: FolderLayout | None) -> None:
    """Renames `new` to `final`, which may hold something by now; `path` is what the user named."""
    try:
        new.rename(final)
    except OSError as error:
        if error.errno not in _FILLED:
            raise unwritable(path, error) from None
        if replaces is None:
            _check_content(path, final, None, late=True)
        else:
            _swap_folders(new, final, path, replaces)


def _swap_folders(new: Path, final: Path, path: Path, replaces: FolderLayout) -> None:
    """Puts `new` at `final`; what was there goes away only once `new` stands, and only if it is of the layout."""
    old = _name_beside(final)
    final.rename(old)
    try:
        _check_content(path, old, replaces, late=True)
        new.rename(final)
    except BaseException:
        old.rename(final)
        raise
    shutil.rmtree(old)


def _missing_parents(path: Path) -> list[Path]:
    """The folders above that do not exist yet, the deepest first."""
    return [folder for folder in path.parents if not folder.exists()]


def _remove_empty(folders: list[Path]) -> None:
    """Takes made folders away again, except where somebody else has put something in meanwhile."""
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()


def _name_beside(final: Path) -> Path:
    """A new name in the same folder, hence on the same file system; its letters never reach the content."""
    return final.with_name(f".muster-{secrets.token_hex(6)}.part")


def _flush(path: Path) -> None:
    """Brings a file or a folder's names to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_parquet(table: pl.DataFrame, path: Path) -> None:
    """Write a table; a full disk is an OSError, which Polars' own writing does not say."""
    buffer = io.BytesIO()
    table.write_parquet(buffer, compression="zstd", compression_level=1)
    path.write_bytes(buffer.getbuffer())


def disk_error(error: BaseException) -> int | None:
    """The error number of a disk that is full or broken; None for any other error.

    Polars raises errors that state the number in their text alone.
    """
    number = error.errno if isinstance(error, OSError) else None
    if number is None and (stated := _OS_ERROR.search(str(error))):
        number = int(stated[1])
    return number if number in _DISK_ERRORS else None


def _raise_if_disk_error(path: Path, error: BaseException) -> None:
    """Name the file or folder that a full or broken disk did not take."""
    number = disk_error(error)
    if number is not None:
        raise unwritable(path, OSError(number, os.strerror(number))) from error


def unwritable(path: Path, error: OSError) -> InputError | Unable:
    """What to raise for a file or folder that cannot be written: the disk's failure, or the user's mistake."""
    if disk_error(error) is not None:
        return Unable(f"{path}: cannot be written: {_reason(error)}")
    return InputError(Problem(str(path), f"cannot be written: {_reason(error)}"))


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
