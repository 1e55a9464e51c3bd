"""Which changes are found, how they are drawn, which tests are near, and what a run says of them."""

from __future__ import annotations

import ast
import dataclasses
import random
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.mutation.__main__ import ROOT, _report
from tests.mutation.copies import Copy, Limits, Tried, can_isolate, isolation
from tests.mutation.mutations import Mutation, mutations_of, mutations_under
from tests.mutation.nearest import Nearest
from tests.mutation.sampling import listed_equivalents, sample, without_equivalents
from tests.mutation.waiting import OVERTIME, wait_while_busy


def changes(line: str) -> set[str]:
    return {mutation.after for mutation in mutations_of(line + "\n", "muster/a.py")}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("x = a < b", {"x = a <= b"}),
        ("x = a is not b", {"x = a is b"}),
        ("x = a not in b", {"x = a in b"}),
        ("x = (a) - (b)", {"x = (a) + (b)"}),
        ("x = a and b", {"x = a or b"}),
        ("x = not a", {"x = a"}),
        ("x = b if a else c", {"x = b if not a else c"}),
        ("x = [a for a in b if a]", {"x = [a for a in b if not a]"}),
        ("x = np.minimum(a, b)", {"x = np.maximum(a, b)"}),
        ("x = [1]", {"x = [2]", "x = [0]"}),
        ("x = [0]", {"x = [1]"}),
        ("x = [2.5]", {"x = [5.0]"}),
        ("x = [True]", {"x = [False]"}),
        ("x.y = a", {"pass"}),
        ("x += a", {"pass", "x -= a"}),
        ("f(a)", {"pass"}),
        ("x = 'é' + a", {"x = 'é' - a"}),
    ],
)
def test_every_known_change_of_a_line_is_found(line: str, expected: set[str]) -> None:
    assert changes(line) == expected


@pytest.mark.parametrize(
    "source",
    [
        '"""A text with 1 < 2."""',
        "x: list[Literal[1]]",
        "@decorated(1)\ndef f(a: Literal[2]) -> Literal[3]: ...",
        "assert a < 1",
        'x = f"{1 + a}"',
        'log.info("a", b=1)',
        "x = zip(a, b, strict=True)",
        "x = 1e-9",
        '__all__ = ["a"]',
    ],
)
def test_what_is_not_behaviour_is_left_alone(source: str) -> None:
    assert mutations_of(source, "muster/a.py") == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("x = a < b", {"x = a <= b"}),
        ("x = (a) >= b[1]", {"x = (a) > b[1]", "x = (a) >= b[2]", "x = (a) >= b[0]"}),
        ("x = a - b if a else c", {"x = a + b if a else c"}),
        ("x = a and b", {"x = a or b"}),
        ("x = not a", {"x = a"}),
        ("if fits:", {"if not fits:"}),
        ("while a < b:", {"while a <= b:"}),
        ("x = <int64_t> y", set()),
        ("x = a < <int64_t*> y", {"x = a <= <int64_t*> y"}),
        ("cdef int64_t x, best = -1", {"cdef int64_t x, best = -0"}),
        ("cdef double* x = y + a * z", {"cdef double* x = y - a * z"}),
        ("here.free[0] = a", {"pass"}),
        ("x = max(a, b)", {"x = min(a, b)"}),
        ("left -= a", {"pass", "left += a"}),
        ("put(a, b)", {"pass"}),
        ("rows.at(a).put(b)", set()),
        ("break", {"pass"}),
        ("return False", {"return True"}),
    ],
)
def test_every_known_change_of_compiled_code_is_found(line: str, expected: set[str]) -> None:
    body = "        pass\n" if line.endswith(":") else ""
    source = f"cdef int64_t f(int64_t* a, b=1) except -1:\n    {line}\n{body}"
    found = mutations_of(source, "muster/a.pyx")
    assert {mutation.after.strip() for mutation in found} == expected
    assert {mutation.function for mutation in found} <= {"f"}


@pytest.mark.parametrize(
    "source",
    [
        '"""A text with 1 < 2."""',
        "from muster.a cimport b",
        "cdef int64_t x[2]",
        "cdef struct Room:\n    int64_t free[3]",
        "cdef vector[pair[int64_t, double]] x",
        "cdef class A(B):\n    cdef int64_t x[4]\n    def f(self, double a=1.0, *, bint b=True):\n        ...",
    ],
)
def test_declarations_of_compiled_code_are_left_alone(source: str) -> None:
    assert mutations_of(source + "\n", "muster/a.pyx") == []


def test_sizes_on_a_page_are_not_mutated() -> None:
    source = "x = 12 if a < b else 13\n"
    assert {one.kind for one in mutations_of(source, "muster/report/drawing.py")} == {"comparison"}


def test_each_change_touches_one_line_and_can_be_parsed() -> None:
    for path in (
        "muster/schedulers/composed.py",
        "muster/simulation/engine.py",
        "muster/service/store/store.py",
        "muster/schedulers/composed_core.pyx",
        "muster/cluster/ledger_core.pyx",
    ):
        source = (ROOT / path).read_text()
        found = mutations_of(source, path)
        assert len(found) > 50
        for mutation in random.Random(1).sample(found, 50):
            changed = mutation.applied(source)
            if path.endswith(".py"):
                ast.parse(changed)
            pairs = zip(source.split("\n"), changed.split("\n"), strict=True)
            assert [number for number, (old, new) in enumerate(pairs, 1) if old != new] == [mutation.line]


def made_up(path: str, lines: int) -> list[Mutation]:
    source = "".join(f"x{number} = a + {number}\n" for number in range(10, 10 + lines))
    return mutations_of(source, path)


def test_a_seed_draws_the_same_lines_after_an_edit_elsewhere() -> None:
    before = mutations_of("a = b < c\nd = e + f\ng = h * i\nk = m - n\n", "muster/a.py")
    after = mutations_of("# new\na = b < c\nd = e + f\ng = h // i\nk = m - n\n", "muster/a.py")
    drawn = [one.after for one in sample(before, 1, 4)]
    assert drawn == [one.after for one in sample(before, 1, 4)]
    assert [one for one in drawn if "g =" not in one] == [
        one.after for one in sample(after, 1, 4) if "g =" not in one.after
    ]
    orders = {tuple(one.line for one in sample(before, seed, 4)) for seed in range(20)}
    assert len(orders) > 5


def test_lines_are_drawn_once_and_by_weight() -> None:
    lines = made_up("muster/schedulers/a.py", 400) + made_up("muster/report/a.py", 400)
    drawn = sample(lines, 3, 300)
    assert len({(one.path, one.line) for one in drawn}) == 300
    counts = Counter(one.path for one in drawn)
    assert 1.5 < counts["muster/schedulers/a.py"] / counts["muster/report/a.py"] < 2.5


def test_equal_lines_of_one_function_have_own_keys() -> None:
    found = mutations_of("def f(a):\n    a += 1\n    a += 1\n", "muster/a.py")
    assert len({one.key for one in found}) == len(found) > 2


def test_listed_equivalents_exist_and_are_not_drawn() -> None:
    listed = listed_equivalents()
    assert all(reason.strip() for reason in listed.values())
    everything = mutations_under(ROOT / "muster")
    known = {(one.path, one.before.strip(), one.after.strip()) for one in everything}
    assert set(listed) <= known, "a listed line has changed: look at it again, or drop it"
    left = without_equivalents(everything, listed.keys())
    assert len(everything) - len(left) >= len(listed)


SOURCES = {
    "muster/__init__.py": "",
    "muster/limits.py": "def clamp(value, most):\n    return min(value, most)\n\n\ndef unused(a):\n    return a + a\n",
    "muster/loop.py": (
        "from muster.limits import clamp\n\n\ndef count(most):\n    done = 0\n    while done < clamp(most, 9):\n"
        "        done += 1\n    return done\n"
    ),
    "muster/fast.pyx": (
        "cdef int64_t inner(int64_t a) noexcept nogil:\n    return a + 1\n\n\n"
        "def step(int64_t a):\n    cdef int64_t* here = &a\n    here = NULL if a > 8 else here\n"
        "    return inner(here[0])\n"
    ).replace("int64_t", "long"),
    "setup.py": (
        "from Cython.Build import cythonize\nfrom setuptools import Extension, setup\n\n"
        "fast = Extension('muster.fast', ['muster/fast.pyx'])\n"
        "setup(name='muster', ext_modules=cythonize([fast], build_dir='build/c'))\n"
    ),
    "tests/test_fast.py": "from muster.fast import step\n\n\ndef test_step():\n    assert step(3) == 4\n",
    "muster/lonely.py": "def alone(a):\n    return a < 1\n",
    "tests/__init__.py": "",
    "tests/mutation/__init__.py": "",
    "tests/test_limits.py": (
        "from muster.limits import clamp\n\n\ndef test_clamp():\n    assert clamp(3, 2) == clamp(2, 3) == 2\n"
    ),
    "tests/test_loop.py": "from muster.loop import count\n\n\ndef test_count():\n    assert count(3) == 3\n",
    "tests/test_broken.py": (
        "import pytest\nfrom muster.lonely import alone\n\n\n"
        "@pytest.mark.parametrize('name', ['a name', 'b'])\n"
        "def test_alone(name):\n    assert [name] == ['b - [c]'] or not alone(0)\n"
    ),
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    for name, text in SOURCES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for name in ("bounded.py", "in_turn.py"):
        shutil.copy(ROOT / "tests/mutation" / name, root / "tests/mutation" / name)
    return root


def test_the_nearest_tests_come_first(project: Path) -> None:
    nearest = Nearest(project)
    assert nearest.tests_for("muster/limits.py", "clamp", 6) == ["tests/test_limits.py", "tests/test_loop.py"]
    assert nearest.tests_for("muster/loop.py", "count", 6) == ["tests/test_loop.py"]


def test_a_test_named_after_the_function_comes_first(project: Path) -> None:
    (project / "muster/orders.py").write_text(
        "class Orders:\n    def apply_returns(self):\n        return 1\n"
    )
    for name in ("a", "returns"):
        (project / f"tests/test_{name}.py").write_text("import muster.orders\n")
    nearest = Nearest(project).tests_for("muster/orders.py", "Orders.apply_returns", 2)
    assert nearest == ["tests/test_returns.py", "tests/test_a.py"]


def test_a_test_is_near_through_an_experiment(project: Path) -> None:
    """Tests of reproductions call a scheduler through the package of experiments."""
    files = {
        "muster/slow.py": "def wait():\n    return 1\n",
        "experiments/__init__.py": "",
        "experiments/log.py": "from muster.slow import wait\n\n\ndef repeated():\n    return wait()\n",
        "tests/test_log.py": "from experiments.log import repeated\n\n\ndef test_log():\n    assert repeated() == 1\n",
    }
    for name, content in files.items():
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(content)
    assert Nearest(project).tests_for("muster/slow.py", "wait", 6) == ["tests/test_log.py"]


def test_whole_runs_follow_the_nearest_tests(project: Path) -> None:
    """For the rooms whose code decides what happens in a run, and only there."""
    for name, text in {
        "muster/schedulers/__init__.py": "",
        "muster/schedulers/first.py": "def key(a):\n    return a + 1\n",
        "tests/simulation/__init__.py": "",
        "tests/simulation/test_random_runs.py": "import muster.limits\nimport muster.schedulers.first\n",
        "tests/test_first.py": "from muster.schedulers.first import key\n\n\ndef test_key():\n    assert key(1) == 2\n",
    }.items():
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(text)
    nearest = Nearest(project)
    assert nearest.tests_for("muster/schedulers/first.py", "key", 1) == [
        "tests/test_first.py",
        "tests/simulation/test_random_runs.py",
    ]
    assert nearest.tests_for("muster/limits.py", "clamp", 1) == ["tests/test_limits.py"]


def test_the_quickest_whole_runs_come_first_for_compiled_code(project: Path) -> None:
    """And a test is near to what the helpers that it imports name."""
    for name, text in {
        "muster/schedulers/__init__.py": "",
        "muster/schedulers/kernel.pyx": "cdef long inner(long a):\n    return a + 1\n",
        "muster/schedulers/named.py": "import muster.schedulers.kernel\n\n\nclass Named:\n    name: str = 'quick'\n",
        "tests/cases.py": "FIELD = ('quick', 'slow')\n",
        "tests/simulation/__init__.py": "",
        "tests/simulation/test_fixed_runs.py": "import muster.schedulers.named\n",
        "tests/test_a.py": "import muster.schedulers.named\n",
        "tests/test_b.py": "import muster.schedulers.named\nfrom tests.cases import FIELD\n",
    }.items():
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(text)
    nearest = Nearest(project)
    whole = "tests/simulation/test_fixed_runs.py"
    assert nearest.tests_for("muster/schedulers/kernel.pyx", "inner", 1)[0] == whole
    assert nearest.tests_for("muster/schedulers/named.py", "Named", 1) == ["tests/test_b.py", whole]


def mutation_to(project: Path, path: str, after: str) -> Mutation:
    found = mutations_of((project / path).read_text(), path)
    (mutation,) = (one for one in found if one.after.strip() == after)
    return mutation


@pytest.mark.skipif(not can_isolate(), reason="needs process spaces of its own")
def test_a_copy_reports_killed_survived_and_endless(project: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    folder.mkdir()
    copy = Copy(project, folder, Limits(test=1.0, run=60.0, idle=300.0))
    tests = ["tests/test_limits.py", "tests/test_loop.py"]
    killed = copy.try_out(mutation_to(project, "muster/limits.py", "return max(value, most)"), tests)
    assert (killed.result, killed.by) == ("killed", "tests/test_limits.py::test_clamp")
    assert copy.try_out(mutation_to(project, "muster/limits.py", "return a - a"), tests).result == "survived"
    endless = copy.try_out(mutation_to(project, "muster/loop.py", "done += 0"), tests)
    assert endless == Tried("timeout", "tests/test_loop.py::test_count")
    lonely = mutation_to(project, "muster/lonely.py", "return a <= 1")
    assert copy.try_out(lonely, []).result == "no test"
    assert copy.try_out(lonely, ["tests/test_broken.py"]).result == "killed"
    always = {f"tests/test_broken.py::test_alone[{name}]" for name in ("a name", "b")}
    assert copy.failing_without_mutation([*always, "tests/test_limits.py::test_clamp"]) == always
    assert {name: (project / name).read_text() for name in SOURCES} == SOURCES


@pytest.mark.skipif(not can_isolate(), reason="needs process spaces of its own")
@pytest.mark.parametrize(("fails", "result"), [("tries > 30", "killed"), ("tries == 5", "survived")])
def test_what_fails_must_fail_with_all_examples(
    project: Path, tmp_path: Path, fails: str, result: str
) -> None:
    """One test fails late, after few examples have passed; the other with few examples, but not with all."""
    (project / "tests/test_examples.py").write_text(
        "from hypothesis import given, settings, strategies\nfrom muster.lonely import alone\n\n\ntries = 0\n\n\n"
        "@settings(max_examples=50)\n@given(strategies.integers())\n"
        "def test_alone(number):\n    global tries\n    tries += 1\n"
        f"    assert alone(0) or not ({fails})\n"
    )
    (tmp_path / "copy").mkdir()
    copy = Copy(project, tmp_path / "copy", Limits(test=5.0, run=60.0, idle=300.0))
    mutation = mutation_to(project, "muster/lonely.py", "return a < 0")
    assert copy.try_out(mutation, ["tests/test_examples.py"]).result == result


@pytest.mark.skipif(not can_isolate(), reason="needs process spaces of its own")
def test_a_copy_builds_compiled_code_and_builds_it_back(project: Path, tmp_path: Path) -> None:
    """A mutation that ends the process is killed; one that no compiler takes is none."""
    build = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    subprocess.run(build, cwd=project, check=True, capture_output=True)
    folder = tmp_path / "copy"
    folder.mkdir()
    copy = Copy(project, folder, Limits(test=1.0, run=60.0, idle=300.0))
    path, tests = "muster/fast.pyx", Nearest(project).tests_for("muster/fast.pyx", "inner", 6)
    assert tests == ["tests/test_fast.py"]
    before = contents(folder / "tree")
    wrong = copy.try_out(mutation_to(project, path, "return a - 1"), tests)
    assert (wrong.result, wrong.by) == ("killed", "tests/test_fast.py::test_step")
    crashing = mutation_to(project, path, "here = NULL if a >= 8 else here")
    crashing = dataclasses.replace(crashing, after=crashing.before.replace("8", "2"))
    assert copy.try_out(crashing, tests) == Tried("killed", "exit status 139")
    unknown = dataclasses.replace(crashing, after=crashing.before.replace("NULL", "unknown"))
    assert copy.try_out(unknown, tests).result == "not compiled"
    assert contents(folder / "tree") == before


def contents(folder: Path) -> dict[Path, tuple[bytes, int]]:
    """Of all files but bytecode, with the moments at which they were changed."""
    files = [file for file in folder.rglob("*") if file.is_file() and "__pycache__" not in file.parts]
    return {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in files}


def python(code: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code])


BUSY = "import time\nwhile time.process_time() < 2.0: pass\n"
"""Two seconds of processor time, however long they take."""
WAITS = "import signal; signal.pause()"


@pytest.mark.parametrize(
    "busy", [BUSY, f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BUSY!r}])"]
)
def test_a_busy_process_is_waited_for(busy: str) -> None:
    """Also where it only waits for a busy child; the idle seconds allowed are fewer than it takes."""
    process = python(busy)
    assert wait_while_busy(process, idle_seconds=1.0, processor_seconds=60.0, look_seconds=0.05) == 0


@pytest.mark.parametrize(
    "code", [WAITS, f"import subprocess, sys; subprocess.run([sys.executable, '-c', {WAITS!r}])"]
)
def test_a_process_that_waits_for_nothing_is_given_up(code: str) -> None:
    process = subprocess.Popen([*isolation(), sys.executable, "-c", code])
    assert wait_while_busy(process, idle_seconds=0.5, processor_seconds=60.0, look_seconds=0.05) is None
    process.kill()
    process.wait()


def test_processor_time_of_all_processes_is_limited() -> None:
    process = subprocess.Popen([*isolation(), sys.executable, "-c", "while True: pass"])
    assert wait_while_busy(process, idle_seconds=60.0, processor_seconds=0.3, look_seconds=0.05) == OVERTIME
    process.kill()
    process.wait()


def test_the_exit_status_is_1_below_95_percent(capsys: pytest.CaptureFixture[str]) -> None:
    def result(name: str) -> dict[str, object]:
        return {
            "result": name,
            "path": "a.py",
            "line": 3,
            "kind": "k",
            "key": "f00",
            "before": "x",
            "after": "y",
        }

    assert _report([result("killed")] * 18 + [result("timeout"), result("survived")]) == 0
    assert "19 of 20 mutations noticed: 95.0 %" in capsys.readouterr().out
    assert _report([result("killed")] * 18 + [result("stalled"), result("survived")]) == 1
    assert "a.py:3" in capsys.readouterr().out
