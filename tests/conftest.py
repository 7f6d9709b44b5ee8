"""A true cross-section by default, everything with ``--full``.

``@pytest.mark.sample(every=N)`` keeps each N-th row of a test, the same ones each time; ``@pytest.mark.full``
leaves a test out. With ``--full`` both run whole.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests import random_data


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="every row of every test; a cross-section without")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    random_data.begin(item.nodeid)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--full") or any("::" in argument for argument in config.args):
        return
    seen: Counter[str] = Counter()
    left_out = []
    for item in items:
        sample = item.get_closest_marker("sample")
        name = item.nodeid.partition("[")[0]
        if item.get_closest_marker("full") or (sample is not None and seen[name] % sample.kwargs["every"]):
            left_out.append(item)
        seen[name] += 1
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]
