"""Tables of a page in a real browser: sorted, filtered, and nothing beside the screen of a telephone."""

from __future__ import annotations

from pathlib import Path

import pytest

from converter.report.markup import Table
from converter.report.page import Page
from tests.converter.test_verify_layers import deep
from tests.report.browser import needs_browser, observed
from tests.report.test_graph import faulty

__all__ = ["deep", "faulty"]  # fixtures

pytestmark = needs_browser


@pytest.fixture
def page(tmp_path: Path) -> Path:
    rows = [
        (f"/net/layer.{place}/MatMul", kind, size)
        for place, (kind, size) in enumerate(zip("ABCABCAB", ["7", "-", "1,000", "20", "3", "inf", "5", "400"]))
    ]
    table = Table("Sizes", ("layer", "kind", "bytes"), rows, is_open=True)
    Page("sizes", "PASSED", "good", "All is well.", [], [table]).write(tmp_path / "page.html")
    return tmp_path / "page.html"


def test_a_click_on_a_heading_sorts_and_words_filter(page: Path, tmp_path: Path) -> None:
    script = """
    const cells = (column) => [...document.querySelectorAll("tbody tr")].filter((row) => !row.hidden).map((row) => row.cells[column].textContent);
    const heads = document.querySelectorAll("thead button");
    heads[2].click(); observed.most = cells(2);
    observed.order = heads[2].parentElement.getAttribute("aria-sort");
    heads[2].click(); observed.least = cells(2);
    heads[1].click(); observed.kinds = cells(1).join("");
    type(document.querySelector(".filter input"), "layer.3");
    observed.found = cells(0); observed.count = document.querySelector(".filter span").textContent;
    type(document.querySelector(".filter input"), "");
    observed.all = cells(0).length;
    """
    found = observed(page, script, tmp_path, "--window-size=1400,1000")
    assert found["errors"] == []
    assert found["most"] == ["inf", "1,000", "400", "20", "7", "5", "3", "-"]
    assert found["least"] == ["3", "5", "7", "20", "400", "1,000", "inf", "-"]
    assert found["order"] == "descending"
    assert found["kinds"] == "AAABBBCC"
    assert (found["found"], found["count"]) == (["/net/layer.3/MatMul"], "1 of 8 shown")
    assert found["all"] == 8


def test_nothing_lies_beside_the_screen_of_a_telephone(faulty: Path, tmp_path: Path) -> None:
    script = """
    await later(() => {
      for (const table of document.querySelectorAll("details")) table.open = true;
      const width = document.documentElement.clientWidth;
      observed.width = width;
      observed.scroll = document.documentElement.scrollWidth;
      observed.beside = [...document.querySelectorAll("main *")].filter((one) => {
        const box = one.getBoundingClientRect();
        return box.width > 0 && (box.right > width + 1 || box.left < -1);
      }).map((one) => `${one.tagName} ${one.className} ${one.textContent.slice(0, 40)}`);
      observed.clipped = [...document.querySelectorAll("td, dd, li, h1, h2, h3, h4")].filter((one) =>
        one.scrollWidth > one.clientWidth + 1 && one.clientWidth > 0).map((one) => `${one.tagName} ${one.textContent.slice(0, 40)}`);
    });
    """
    found = observed(faulty, script, tmp_path, "--window-size=1400,1000", width=390)
    assert found["errors"] == []
    assert 370 <= found["width"] <= 390  # a scroll bar may be beside the page
    assert found["scroll"] <= found["width"]
    assert found["beside"] == []
    assert found["clipped"] == []
