"""Rows of which each value of each parameter occurs by default, everything with ``--full``, the others with ``--rest``.

``selection.py`` chooses the rows, the same ones each time, and leaves out tests whose rows are long. So does
``@pytest.mark.full``; ``@pytest.mark.weekly`` waits for ``--weekly``. ``@pytest.mark.every_row`` keeps all rows, and
``every_value`` as many as the values need, however long they take. Properties are tried on 40 examples, with ``--full``
or ``--rest`` on 100, with ``--weekly`` on 300: the same ones each time, or those of ``--hypothesis-seed``. Tests that
are named on the command line run whole. ``--changed`` runs what reaches the lines that were changed: ``changed.py``.
"""

from __future__ import annotations

import gc
import os
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

from converter.passes.registry import passes
from converter.targets.registry import RULES
from ir_runtime import InternalError
from ir_runtime.graph import reshaping
from ir_runtime.graph.node import Edits
from ir_runtime.lazy import import_modules_of
from ir_runtime.rewriting.checks import Checks
from tests import changed, random_data, selection
from tests.runtimes import batches, check

gc.disable()  # until all rows are collected: they stay, and looking through them takes a fifth of that time
os.environ["CI"] = "true"  # OpenVINO sends no telemetry then: seven processes for each convert_model

if sys.dont_write_bytecode:  # each process that a test starts would compile all packages: half of its time
    sys.dont_write_bytecode, sys.pycache_prefix = (
        False,
        str(Path(__file__).parent.parent / ".pytest_cache" / "bytecode"),
    )
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

import_modules_of("converter.command_line")  # some tests look through main.commands


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--full", action="store_true", help="every row of every test; those with a value of their own without"
    )
    parser.addoption("--rest", action="store_true", help="the rows that --full runs, and no run without it")
    parser.addoption("--weekly", action="store_true", help="what --full runs, and tests that take minutes each")
    parser.addoption("--changed", action="store_true", help="tests that reach the lines that differ since --record")
    parser.addoption("--record", action="store_true", help="note which functions each test calls, for --changed")
    parser.addoption("--routes", action="store_true", help="each row in all runtimes")
    parser.addoption(
        "--measure", action="store_true", help="renew tests/row_seconds.json for the tests that run, by processor time"
    )


def pytest_configure(config: pytest.Config) -> None:
    settings.register_profile(
        "tests",
        max_examples=300 if config.getoption("--weekly") else 100 if _is_full(config) else 40,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        derandomize=config.getoption("--hypothesis-seed") is None,
    )
    settings.load_profile("tests")
    check.takes_all, check.is_full = config.getoption("--routes"), _is_full(config)
    if config.getoption("--record"):
        config.pluginmanager.register(changed.Recorder(config))
    if config.getoption("--measure"):
        config.pluginmanager.register(selection.Measurement())


def _is_full(config: pytest.Config) -> bool:
    return any(map(config.getoption, ("--full", "--rest", "--weekly")))


@pytest.fixture
def is_full(request: pytest.FixtureRequest) -> bool:
    """True where a test is to try more examples than by default."""
    return _is_full(request.config)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    random_data.begin(item.nodeid)


@pytest.fixture(autouse=True)
def every_pass_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Invariants of every layer hold after every pass and rule, whatever a test converts."""
    monkeypatch.setattr(Checks, "is_thorough", True)
    monkeypatch.setattr(Edits, "guard", staticmethod(_refuse_edits_outside_passes))


MAY_EDIT = ("ir_runtime.graph.", "ir_runtime.rewriting.")
"""What edits graphs for those who call it."""
OWN_GRAPHS = ("converter.from_onnx.", "ir_runtime.execution.")
"""The translation changes bodies while it builds them, the executor a copy that nobody else sees."""


def _refuse_edits_outside_passes() -> None:
    """Raise AssertionError if the packages change a graph otherwise than by a pass, whatever a test does."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(MAY_EDIT):
        if frame.f_code is reshaping.infer_again.__code__:
            return  # Model.reshape: it checks all layers itself, and changes nothing where one refuses the shapes
        frame = frame.f_back
    name = frame.f_globals.get("__name__", "")
    if not Edits.passes and name.startswith(("converter.", "ir_runtime.")) and not name.startswith(OWN_GRAPHS):
        raise AssertionError(f"{name} changes a graph outside of a pass: {frame.f_code.co_name}")


def pytest_report_header(config: pytest.Config) -> str | None:
    seed = config.getoption("--hypothesis-seed")
    return None if seed is None else f"examples of hypothesis drawn with --hypothesis-seed={seed}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--weekly") or any("::" in argument for argument in config.args):
        return
    if config.getoption("--full"):
        chosen = {item for item in items if not item.get_closest_marker("weekly")}
    else:
        chosen = _chosen(items)
    if config.getoption("--changed"):
        chosen = changed.choose(config, items, chosen)
    elif config.getoption("--rest"):
        chosen = {item for item in items if item not in chosen or _tries_more(item)}
        chosen = {item for item in chosen if not item.get_closest_marker("weekly")}
    left_out = [item for item in items if item not in chosen]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item in chosen]


def _tries_more(item: pytest.Item) -> bool:
    """True for tests that by default try some of their examples alone."""
    return is_hypothesis_test(getattr(item, "obj", None)) or "is_full" in getattr(item, "fixturenames", ())


def _chosen(items: list[pytest.Item]) -> set[pytest.Item]:
    """Return the rows that run by default."""
    rows_of: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        rows_of[selection.group_of(item)].append(item)
    seconds = selection.row_seconds()
    chosen: set[pytest.Item] = set()
    for name, rows in rows_of.items():
        if rows[0].get_closest_marker("every_row"):
            chosen.update(rows)
        elif not rows[0].get_closest_marker("full") and not rows[0].get_closest_marker("weekly"):
            chosen.update(selection.choose(rows, seconds.get(name, selection.USUAL)))
    return chosen


def pytest_collection_finish(session: pytest.Session) -> None:
    batches.plan(session.items)
    gc.freeze()
    gc.set_threshold(20_000)  # models are many small objects in cycles: at the usual 700, a twentieth of all time
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each process neighbouring tests, which share what is cached; one that has no more takes from the others."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say that an order is wrong where tests fail: a pass that does not run fails many of them."""
    if not terminalreporter.stats.get("failed"):
        return
    for pipeline in (passes, *RULES):
        try:
            pipeline.all()
        except InternalError as error:
            terminalreporter.write_line(str(error), red=True)
