"""How pip builds the package: as setuptools does, with a compiler from the package index where the machine has none."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (  # noqa: F401  # hooks that pip calls
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

COMPILER = "ziglang>=0.13"
"""With it a machine needs neither a compiler nor the right to install one."""


def compilers_missing() -> bool:
    """Whether neither CXX nor any usual name leads to a C++ compiler."""
    names = [os.environ["CXX"].split()[0]] if os.environ.get("CXX") else ["c++", "g++", "clang++"]
    return not any(map(shutil.which, names))


def compiler_needed() -> list[str]:
    """The compiler's package, if the machine has no compiler."""
    return [COMPILER] if compilers_missing() else []


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """What a build needs beside `build-system.requires`."""
    needed: list[str] = build_meta.get_requires_for_build_wheel(config_settings)
    return needed + compiler_needed()


def get_requires_for_build_editable(config_settings: Any = None) -> list[str]:
    """As for a wheel."""
    return get_requires_for_build_wheel(config_settings)


def use_packaged_compiler() -> None:
    """Compile with the compiler of the package index from now on, if the machine has none."""
    if compilers_missing():
        zig = f"{sys.executable} -m ziglang"
        os.environ |= {"CC": f"{zig} cc", "CXX": f"{zig} c++"}
        os.environ |= {"LDSHARED": f"{zig} c++ -shared", "LDCXXSHARED": f"{zig} c++ -shared"}


if __name__ == "__main__":
    print(*compiler_needed(), sep="\n", end="")
