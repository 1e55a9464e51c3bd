"""The check of names notices a class of two files and a long name of a test, and nothing else."""

from __future__ import annotations

from pathlib import Path

from tests.language.names import LONGEST, faults_of_names


def test_classes_of_one_name_and_long_names_are_found(tmp_path: Path) -> None:
    files = {
        "muster/one.py": "class Job: ...\nclass _Row: ...\n",
        "muster/inner/two.py": "class Job: ...\nclass _Row: ...\nclass Node: ...\n",
        "tests/test_one.py": f"def test_{'a' * (LONGEST - 5)}(): ...\nasync def test_{'b' * (LONGEST - 4)}(): ...\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert faults_of_names(tmp_path) == [
        "muster/inner/two.py, muster/one.py: class Job; allowed: one public class of a name",
        f"tests/test_one.py:2: test_{'b' * 56}, 61 characters; allowed: at most 60",
    ]
