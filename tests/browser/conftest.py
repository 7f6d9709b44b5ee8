"""The page, assembled once for all tests that open it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.assembled import build_site


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the assembled page; skips where node, npm or what they fetch cannot be had."""
    return build_site(tmp_path_factory.mktemp("site"))
