"""exp, log and powers are those of the C library on every machine; NumPy's follow the processor."""

from __future__ import annotations

import ast
import math
from pathlib import Path

import numpy as np
import pytest

import muster
from muster.cluster.portable_math import exp, log, log10, power

ROOMS = ("cluster", "workload", "speed", "schedulers", "runtime", "simulation")
"""From which results come."""
OF_NUMPY = {
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "power", "float_power", "cbrt"),
    *("sin", "cos", "tan", "sinh", "cosh", "tanh", "arctan", "arctan2", "logspace", "geomspace"),
}
CHANCE = np.random.default_rng(1)


@pytest.mark.parametrize(
    ("of_array", "of_number", "numbers"),
    [
        (exp, math.exp, CHANCE.uniform(-700, 700, 5000)),
        (log, math.log, CHANCE.uniform(1e-9, 1e9, 5000)),
        (log10, math.log10, CHANCE.uniform(1e-9, 1e9, 5000)),
    ],
)
def test_each_number_is_that_of_the_c_library(of_array, of_number, numbers) -> None:  # type: ignore[no-untyped-def]
    found = of_array(numbers.reshape(50, 100))
    assert found.shape == (50, 100)
    assert found.ravel().tolist() == [of_number(one) for one in numbers.tolist()]


def test_powers_take_one_base_or_exponent_for_all() -> None:
    bases, exponents = CHANCE.uniform(0, 9, 5000), CHANCE.uniform(-3, 3, 5000)
    assert power(bases, exponents).tolist() == [
        base**exponent for base, exponent in zip(bases.tolist(), exponents.tolist(), strict=True)
    ]
    assert power(2.0, exponents).tolist() == [2.0**exponent for exponent in exponents.tolist()]
    assert power(bases[:, None], 0.3).shape == (5000, 1)


def test_what_is_given_stays_as_it_was() -> None:
    numbers = np.ones(3)
    exp(numbers)
    power(numbers, 2.0)
    assert numbers.tolist() == [1.0, 1.0, 1.0]


def test_results_use_no_function_that_follows_the_processor() -> None:
    package = Path(muster.__file__).parent
    used = [
        f"{path.relative_to(package)}:{node.lineno}: np.{node.attr}"
        for room in ROOMS
        for path in sorted((package / room).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "np"
        and node.attr in OF_NUMPY
    ]
    assert used == []
