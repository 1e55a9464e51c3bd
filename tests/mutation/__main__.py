"""Counts the mutations that the tests notice: `python -m tests.mutation --seed 1 --count 100`."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from tests.mutation.copies import Copy, Limits, can_isolate
from tests.mutation.mutations import Mutation, mutations_under
from tests.mutation.nearest import Nearest
from tests.mutation.sampling import listed_equivalents, sample, without_equivalents

ROOT = Path(__file__).parent.parent.parent
NOTICED = ("killed", "timeout")
NOT_NOTICED = ("survived", "stalled", "no test")
NEEDED = 0.95
_IDLE_SECONDS = 300.0
"""Of a mutation's tests together: those of the service wait for processes and timers, never this long."""
Result = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status: 0 if enough mutations were noticed, 1 if not, 2 if nothing could be tried."""
    options = _options(arguments)
    if not can_isolate():
        print(
            "unshare: process spaces are not available; allowed: Linux with util-linux and the right to use them."
        )
        return 2
    drawn = without_equivalents(mutations_under(ROOT / "muster"), listed_equivalents().keys())
    order = sample(drawn, options.seed, len(drawn))
    if options.key:
        order = [one for one in drawn if one.key in options.key]
    results = _kept(options.results) if options.resume else {}
    if not options.resume and not options.key:
        options.results.unlink(missing_ok=True)
    chosen = _first(order, results, options.count)
    waiting = [one for one in chosen if results.get(one.key, {}).get("result") not in NOTICED]
    while waiting:
        _try_all(waiting, results, options)
        chosen = _first(order, results, options.count)
        waiting = [one for one in chosen if one.key not in results]
    ordered = [results[one.key] for one in chosen]
    if not options.key:
        options.results.parent.mkdir(parents=True, exist_ok=True)
        options.results.write_text("".join(json.dumps(result) + "\n" for result in ordered))
    return _report(ordered)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="which mutations are drawn (default: 1)")
    parser.add_argument("--count", type=int, default=100, help="how many mutations to try (default: 100)")
    parser.add_argument("--files", type=int, default=6, help="test files to run for a mutation (default: 6)")
    parser.add_argument("--workers", type=int, default=1, help="mutations tried at once (default: 1)")
    parser.add_argument(
        "--test-seconds", type=float, default=60.0, help="processor seconds for one test (default: 60)"
    )
    parser.add_argument(
        "--run-seconds", type=float, default=180.0, help="processor seconds for a mutation (default: 180)"
    )
    parser.add_argument(
        "--results", type=Path, help="file of results (default: build/mutation/seed-SEED.jsonl)"
    )
    parser.add_argument(
        "--resume", action="store_true", help="do not try again what the file of results lists as noticed"
    )
    parser.add_argument("--key", action="append", help="try only the mutation with this key; may be repeated")
    options = parser.parse_args(arguments)
    if options.results is None:
        options.results = ROOT / "build" / "mutation" / f"seed-{options.seed}.jsonl"
    return options


def _first(order: Iterable[Mutation], results: Mapping[str, Result], count: int) -> list[Mutation]:
    """Returns the first mutations, without those that are known not to compile, which are none."""
    compiles = (one for one in order if results.get(one.key, {}).get("result") != "not compiled")
    return list(islice(compiles, count))


def _kept(path: Path) -> dict[str, Result]:
    lines = path.read_text().splitlines() if path.exists() else []
    return {result["key"]: result for result in map(json.loads, lines)}


def _try_all(mutations: Sequence[Mutation], results: dict[str, Result], options: argparse.Namespace) -> None:
    """Try mutations in temporary copies; write each result to the file of results as soon as it is known."""
    nearest = Nearest(ROOT)
    limits = Limits(options.test_seconds, options.run_seconds, _IDLE_SECONDS)
    with tempfile.TemporaryDirectory(prefix="mutate-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o711)  # Tests that need another account reach what they open to it.
        free: SimpleQueue[Copy] = SimpleQueue()
        for number in range(options.workers):
            free.put(Copy(ROOT, Path(folder) / str(number), limits))

        def try_one(mutation: Mutation) -> None:
            tests = nearest.tests_for(mutation.path, mutation.function, options.files)
            copy, began = free.get(), time.monotonic()
            try:
                tried = copy.try_out(mutation, tests)
            finally:
                free.put(copy)
            results[mutation.key] = _result(mutation, tried.result, tried.by, tests)
            seconds = time.monotonic() - began
            print(
                f"{tried.result:8} {seconds:5.0f} s  {mutation.path}:{mutation.line}  {tried.by}", flush=True
            )
            if not options.key:
                _append(options.results, results[mutation.key])

        with ThreadPoolExecutor(options.workers) as pool:
            list(pool.map(try_one, mutations))
        _doubt([results[one.key] for one in mutations], free.get())


def _append(path: Path, result: Result) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(result) + "\n")


def _result(mutation: Mutation, result: str, by: str, tests: Sequence[str]) -> Result:
    return {
        "key": mutation.key,
        "result": result,
        "by": by,
        "path": mutation.path,
        "line": mutation.line,
        "kind": mutation.kind,
        "before": mutation.before,
        "after": mutation.after,
        "tests": list(tests),
    }


def _doubt(results: Sequence[Result], copy: Copy) -> None:
    """A test that fails without any mutation has noticed nothing."""
    by = sorted({result["by"] for result in results if "::" in result["by"]})
    failing = copy.failing_without_mutation(by) if by else set()
    for result in results:
        if result["by"] in failing:
            result["result"] = "survived"


def _report(results: Sequence[Result]) -> int:
    counts = Counter(result["result"] for result in results)
    for result in results:
        if result["result"] not in NOTICED:
            print(
                f"\n{result['result']}: {result['path']}:{result['line']}  {result['kind']}, key {result['key']}"
            )
            print(f"- {result['before'].strip()}\n+ {result['after'].strip()}")
    noticed = sum(counts[name] for name in NOTICED)
    share = noticed / len(results) if results else 0.0
    print("\n" + ", ".join(f"{counts[name]} {name}" for name in (*NOTICED, *NOT_NOTICED)))
    print(f"{noticed} of {len(results)} mutations noticed: {100 * share:.1f} %, {100 * NEEDED:.0f} % needed")
    return 0 if share >= NEEDED else 1


if __name__ == "__main__":
    sys.exit(main())
