"""How strong are the tests? A sample of mutants of both packages, each run by the tests that reach its line.

First the tests record which lines each of them reaches, and how long it takes; then a copy of the checkout is
changed in one place at a time, by an operator of cosmic-ray, and the quickest tests of that line run, in the end all
of them. A mutant that no test fails for has survived: it computes the same, or a test is missing. Lines that no test
reaches count as survivors. Results are added to a file, so that a run can be continued. The tests that run without
``--full`` come first: it is also printed how many of the killed mutants they kill.

With ``record --readme`` these are the only ones, which takes minutes instead of hours: then the share of killed
mutants is a bound from below.

    pip install -e ".[test]" pytest-cov cosmic-ray
    python benchmarks/mutants.py record --data DIR [--readme] [--tests PATH ...]
    python benchmarks/mutants.py run --data DIR [--count 200] [--seed 0] [--under ir_runtime/execution ...]
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("converter", "ir_runtime")
_LEFT_OUT = ("Variable", "_Is", "IsNot", "RShift", "LShift", "BitXor", "Invert", "UAdd", "Mod", "Pow")
"""Operators of cosmic-ray that mostly make what cannot run at all, and show nothing by that."""
_QUICK, _MOST = 12, 150
"""How many tests of a line run at first, and at all."""
_SECONDS = 180.0
_WITH_FULL = ", with --full"
_NEAR = 15
"""How many lines behind what an import runs tests are looked for."""


@dataclass(frozen=True)
class Mutant:
    """One change: the ``occurrence``-th place of a file at which a cosmic-ray operator applies."""

    file: str
    line: int
    operator: str
    occurrence: int


def main() -> None:
    """Record, or run and print the share of mutants that were killed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("step", choices=["record", "run"])
    parser.add_argument("--data", type=Path, required=True, help="folder for what is recorded and found")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tests", nargs="*", default=[], help="files and folders whose tests are recorded")
    parser.add_argument("--readme", action="store_true", help="record only the rows that run without --full")
    parser.add_argument("--under", nargs="*", default=[], help="folders and files that are changed")
    given = parser.parse_args()
    given.data.mkdir(parents=True, exist_ok=True)
    if given.step == "record":
        record(given.data, given.tests, [] if given.readme else ["--full"])
    else:
        run(given.data, given.count, given.seed, tuple(given.under))


def record(data: Path, paths: Sequence[str], selection: Sequence[str]) -> None:
    """Run all tests, or those below the paths; note which lines each one reaches, and which run without ``--full``.

    ``selection`` are pytest's options that say which rows run.
    """
    settings = data / "coverage.ini"
    settings.write_text(
        f"[run]\nparallel = True\nsource_pkgs =\n    converter\n    ir_runtime\ndata_file = {data}/lines\n"
    )
    options = [
        *selection,
        "--cov",
        "--cov-context=test",
        f"--cov-config={settings}",
        "--cov-report=",
        "--durations=0",
        "-vv",
    ]
    pytest = [sys.executable, "-m", "pytest"]
    with (data / "tests.log").open("w") as log:
        subprocess.run([*pytest, "-n", "auto", *options, *paths], cwd=ROOT, stdout=log, check=False)
    with (data / "chosen.log").open("w") as log:
        subprocess.run([*pytest, "--collect-only", *paths], cwd=ROOT, stdout=log, check=True)


def run(data: Path, count: int, seed: int, under: tuple[str, ...]) -> None:
    """Draw mutants, run those that have no result yet, and print what survived."""
    tests_of, seconds = recorded(data)
    without_full = set((data / "chosen.log").read_text().splitlines())
    chosen = drawn([place for place in places() if place.file.startswith(under or PACKAGES)], count, seed)
    results = data / f"mutants-{seed}.jsonl"
    known = {}
    if results.exists():
        known = {Mutant(**entry.pop("mutant")): entry for entry in map(json.loads, results.read_text().splitlines())}
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        subprocess.run(["git", "clone", "-q", str(ROOT), str(copy)], check=True)
        for number, mutant in enumerate(chosen):
            if mutant in known:
                continue
            tests = sorted(_tests(mutant, tests_of[mutant.file]), key=lambda test: seconds.get(test, 0.0))
            parts = (
                [test for test in tests if test in without_full],
                [test for test in tests if test not in without_full],
            )
            verdict, diff = tried(copy, mutant, parts)
            known[mutant] = {"verdict": verdict, "tests": len(tests), "diff": diff}
            with results.open("a") as file:
                file.write(json.dumps({"mutant": vars(mutant), **known[mutant]}) + "\n")
            print(f"{number + 1:4} {verdict:12} {mutant.file}:{mutant.line} {mutant.operator}", flush=True)
    verdicts = [known[mutant]["verdict"] for mutant in chosen]
    killed = sum(verdict.startswith("killed") for verdict in verdicts)
    print(f"{killed} of {len(verdicts)} mutants killed, {killed / len(verdicts):.1%}")
    late = sum(verdict.endswith(_WITH_FULL) for verdict in verdicts)
    print(f"{killed - late} of these {killed} without --full, {1 - late / max(1, killed):.1%}")
    for mutant in chosen:
        if not known[mutant]["verdict"].startswith("killed"):
            print(f"\n{known[mutant]['verdict']}: {known[mutant]['tests']} tests\n{known[mutant]['diff']}")


def recorded(data: Path) -> tuple[dict[str, dict[int, set[str]]], dict[str, float]]:
    """The tests that reach each line of each file, and how long each test takes."""
    from coverage import Coverage

    coverage = Coverage(config_file=str(data / "coverage.ini"))
    if not (data / "lines").exists():
        coverage.combine(keep=True)
    coverage.load()
    found: dict[str, dict[int, set[str]]] = defaultdict(dict)
    lines = coverage.get_data()
    for path in lines.measured_files():
        name = "/".join(Path(path).parts[-len(Path(path).parts) + _depth(path) :])
        for line, contexts in lines.contexts_by_lineno(path).items():
            found[name][line] = {context.rpartition("|")[0] for context in contexts if context}
    log = (data / "tests.log").read_text()
    # A test that fails anyway would kill every mutant.
    failed = set(re.findall(r"^(?:FAILED|ERROR) (\S+)", log, re.M))
    for of_lines in found.values():
        for line in of_lines:
            of_lines[line] -= failed
    seconds = {name: float(time) for time, name in re.findall(r"^([\d.]+)s call +(.*)$", log, re.M)}
    return found, seconds


def _tests(mutant: Mutant, tests_of: dict[int, set[str]]) -> set[str]:
    """The tests that reach the mutant's statement. What an import alone runs (a default, a constant) is read by
    what the tests of the file run: the nearest ones behind it, or any."""
    first, last = _statement((ROOT / mutant.file).read_text(), mutant.line)
    own = [line for line in range(first, last + 1) if line in tests_of]
    found = set().union(*(tests_of[line] for line in own))
    if found or not own:
        return found
    behind = set().union(*(tests for line, tests in tests_of.items() if last < line <= last + _NEAR))
    return behind or set().union(*tests_of.values())


def _statement(source: str, line: int) -> tuple[int, int]:
    """The first and the last line of the smallest statement, or head of one, that ``line`` lies in."""
    found = (line, line)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt):
            inner = getattr(node, "body", None)
            end = inner[0].lineno - 1 if isinstance(inner, list) and inner else node.end_lineno or node.lineno
            if node.lineno <= line <= end and (found == (line, line) or end - node.lineno < found[1] - found[0]):
                found = (node.lineno, max(end, node.lineno))
    return found


def _depth(path: str) -> int:
    """How many parts of a path lie above the package."""
    parts = Path(path).parts
    return max(parts.index(name) if name in parts else -1 for name in PACKAGES)


def places() -> Iterator[Mutant]:
    """Every mutant that there can be, but those of annotations, which nobody evaluates."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator, operator_names

    operators = [name for name in operator_names() if not any(part in name for part in _LEFT_OUT)]
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            source = path.read_text()
            annotated = set(_annotations(ast.parse(source)))
            nodes = list(ast_nodes(get_ast(source)))
            for name in operators:
                operator = get_operator(name)()
                occurrence = 0
                for node in nodes:
                    for (line, column), _ in operator.mutation_positions(node):
                        if (line, column) not in annotated:
                            yield Mutant(str(path.relative_to(ROOT)), line, name, occurrence)
                        occurrence += 1


def _annotations(tree: ast.Module) -> Iterator[tuple[int, int]]:
    """Positions, lines from 1 and columns from 0, of what stands in annotations."""
    for node in ast.walk(tree):
        for part in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            if part is None:
                continue
            for line in range(part.lineno, part.end_lineno + 1):
                first = part.col_offset if line == part.lineno else 0
                last = part.end_col_offset if line == part.end_lineno else 1000
                yield from ((line, column) for column in range(first, last + 1))


def drawn(every: Sequence[Mutant], count: int, seed: int) -> list[Mutant]:
    """Lines at random, and of each one of its mutants, so that arithmetic does not crowd out the rest."""
    by_line: dict[tuple[str, int], list[Mutant]] = defaultdict(list)
    for mutant in every:
        by_line[mutant.file, mutant.line].append(mutant)
    chance = random.Random(seed)
    lines = chance.sample(sorted(by_line), min(count, len(by_line)))
    return [chance.choice(by_line[line]) for line in lines]


def tried(copy: Path, mutant: Mutant, tests: Sequence[Sequence[str]]) -> tuple[str, str]:
    """What became of a mutant, and what it changes; the tests are those without ``--full``, and the others."""
    from cosmic_ray.mutating import apply_mutation
    from cosmic_ray.plugins import get_operator

    path = copy / mutant.file
    before = path.read_text()
    apply_mutation(path, get_operator(mutant.operator)(), mutant.occurrence)
    diff = subprocess.run(["git", "diff", "-U1"], cwd=copy, capture_output=True, text=True, check=True).stdout
    try:
        if not any(tests):
            return "not reached", diff
        for names, when in zip(tests, ("", _WITH_FULL)):
            for part in (names[:_QUICK], names[_QUICK:_MOST]):
                if part and (verdict := _verdict(copy, part)) != "survived":
                    return verdict + when, diff
        return "survived", diff
    finally:
        path.write_text(before)


def _verdict(copy: Path, tests: Sequence[str]) -> str:
    options: list[Any] = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    try:
        done = subprocess.run(command, cwd=copy, capture_output=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return "killed: slow"
    # Where rows of a test are made by what was changed, one of them may be gone: that fails, too.
    return "killed" if done.returncode else "survived"


if __name__ == "__main__":
    main()
