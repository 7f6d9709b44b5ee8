"""The page, assembled once for all tests that open it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.browser.assembled import build_site


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the assembled page; skips where node, npm or what they fetch cannot be had, and beside others."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        pytest.skip("the page is fetched and timed in a process of its own: pytest --full -n 0 tests/browser")
    return build_site(tmp_path_factory.mktemp("site"))
