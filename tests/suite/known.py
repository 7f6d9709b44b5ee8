"""What fails of ONNX's node suite and of its types, as ``tests/runtimes/known.toml`` has it, for pages and figures."""

from __future__ import annotations

from functools import cache

from tests.engines import ENGINES
from tests.rows.suite.node import is_random, rows_of
from tests.runtimes import conversions
from tests.runtimes.check import fault_of, reason_of
from tests.runtimes.work import Work
from tests.suite.node_suite import Case, node_cases

_RUNTIMES = {"numpy": conversions.plain, "openvino": conversions.openvino}
RANDOM = "random numbers of the same distribution, but of another generator than the stored ones"


@cache
def known_reshape_failures() -> dict[tuple[str, str], str]:
    """(case, engine) -> the reason for which at least one of its reshapings is wrong or refused."""
    runtimes = {"numpy": "other sizes", "openvino": "other sizes in OpenVINO"}
    return {
        (case.name, engine): reason
        for case in node_cases()
        for engine, runtime in runtimes.items()
        if (case.name, engine) not in known_failures() and (reason := reason_of(runtime, f"suite/node/{case.name}"))
    }


@cache
def known_failures() -> dict[tuple[str, str], str]:
    """(case, engine) -> the reason for which it fails."""
    keys = [(case.name, engine) for case in node_cases() for engine in ENGINES]
    reasons = {key: RANDOM if is_random(key[0]) else known("node", *key) for key in keys}
    return {key: reason for key, reason in reasons.items() if reason}


def known(kind: str, name: str, engine: str) -> str:
    """The reason for which a row of ``suite/node`` or ``suite/types`` fails in an engine; empty where it does not."""
    return reason_of("plain" if engine == "numpy" else engine, f"suite/{kind}/{name}")


def outcome(case: Case) -> dict[str, str]:
    """For each engine what is wrong; empty where the case passes."""
    works = [Work(row) for row in rows_of(case, is_foretold=True)]
    faults = {engine: [fault_of(work, run) for work in works] for engine, run in _RUNTIMES.items()}
    return {engine: next(filter(None, found), "") for engine, found in faults.items()}
