"""Builds the compiled parts; everything else about the distribution is in pyproject.toml."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup

sys.path.insert(0, str(Path(__file__).parent / "deploy"))
from build_backend import use_packaged_compiler  # beside this file

# Results do not depend on the compiler: no fused multiply-add, which rounds once where others round twice.
FLAGS = ["-O3", "-std=c++17", "-ffp-contract=off", "-fno-math-errno", "-Wno-sign-compare"]
if platform.machine() in ("x86_64", "AMD64"):
    FLAGS += ["-msse4.2", "-mpopcnt"]  # in all since 2009: rounding and counting bits is one instruction
MACROS = [("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION")]
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
    "binding": False,
}

extensions = [
    Extension(
        ".".join(path.with_suffix("").parts),
        [str(path)],
        include_dirs=[numpy.get_include()],
        define_macros=MACROS,
        extra_compile_args=FLAGS,
        language="c++",
    )
    for path in sorted(Path("muster").rglob("*.pyx"))
]

CORES = os.cpu_count() or 1
use_packaged_compiler()
setup(
    options={"build_ext": {"parallel": CORES}},
    ext_modules=cythonize(
        extensions,
        build_dir="build/native",
        nthreads=CORES,
        compiler_directives=DIRECTIVES,
        quiet=True,
    ),
)
