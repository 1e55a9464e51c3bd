"""The archives of reference data are described, small and reproducible."""

from __future__ import annotations

import ast
import re
import tarfile
from pathlib import Path

from tests.reference_data import ARCHIVES_FOLDER, CONTENTS, pack

MOST_BYTES = 15 * 10**6
MOST_SKIPPED = 15


def test_every_archive_has_a_source_and_a_licence() -> None:
    rows = re.findall(
        r"^\| `(\S+)\.tar\.xz` \| (.+) \| (.+) \| (.+) \|$",
        (ARCHIVES_FOLDER / "README.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    described = {name: licence for name, _, _, licence in rows}
    there = {file.name.removesuffix(".tar.xz") for file in ARCHIVES_FOLDER.glob("*.tar.xz")}
    assert described.keys() == there == CONTENTS.keys()
    assert all(re.search("MIT|Apache-2.0|CC-BY-4.0", licence) for licence in described.values())
    assert "dally" not in "".join(name for each in CONTENTS.values() for name in each)


def test_the_archives_are_small() -> None:
    assert sum(file.stat().st_size for file in ARCHIVES_FOLDER.iterdir()) < MOST_BYTES


def test_few_tests_skip_where_data_cannot_ship() -> None:
    using = [
        node
        for path in sorted(Path(__file__).parent.rglob("test_*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
        and any(argument.arg == "unshipped_reference" for argument in node.args.args)
    ]
    assert {node.name for node in using if not node.name.startswith("test_")} == set()
    assert {
        node.name for node in using if "parametrize" in "".join(map(ast.dump, node.decorator_list))
    } == set()
    assert 0 < len(using) <= MOST_SKIPPED


def test_archives_of_equal_files_have_equal_bytes(reference: Path, tmp_path: Path) -> None:
    """Packed again from what was unpacked, with other times, owners and modes; nothing is lost."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        pack(reference, tmp_path / name)
        for file in reference.rglob("*.csv"):
            file.touch(0o600)
    for shipped in sorted(ARCHIVES_FOLDER.glob("*.tar.xz")):
        first, second = (tmp_path / name / shipped.name for name in ("first", "second"))
        assert first.read_bytes() == second.read_bytes()
        with tarfile.open(shipped) as theirs, tarfile.open(first) as ours:
            members = [(member.name, member.size, member.mtime, member.uid) for member in theirs]
            assert members == [(member.name, member.size, member.mtime, member.uid) for member in ours]
            assert members, shipped
            for member in theirs:
                content, again = theirs.extractfile(member), ours.extractfile(member.name)
                assert content is not None
                assert again is not None
                assert content.read() == again.read()
