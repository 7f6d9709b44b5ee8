"""Pages in a real browser: a script of a test runs in the page, and its findings come back."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.browser.assembled import CHROMIUM, browser

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
_TOOLS = """
const observed = {};
const press = (target, key, more = {}) =>
  target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...more }));
const type = (target, text) => { target.value = text; target.dispatchEvent(new Event("input")); };
const title = () => document.querySelector("#details h3").textContent;
const details = () => document.getElementById("details").textContent;
const later = (work) => new Promise((done, fail) => setTimeout(() => {
  try { work(); done(); } catch (error) { fail(error); }
}, 60));
const clickAt = (canvas, x, y) => {
  const box = canvas.getBoundingClientRect(), at = { clientX: box.left + x, clientY: box.top + y, pointerId: 1, bubbles: true };
  canvas.setPointerCapture = () => {};
  canvas.dispatchEvent(new PointerEvent("pointerdown", at));
  canvas.dispatchEvent(new PointerEvent("pointerup", at));
};
const clickOn = (part) => clickAt(document.getElementById("canvas"), part.x * view.scale + view.x, (part.y + 8) * view.scale + view.y);
"""


def observed(
    page: Path, script: str, folder: Path, size: tuple[int, int] = (1400, 1000), scheme: str = "light"
) -> dict[str, Any]:
    """What ``script`` puts into ``observed`` within ``page``, in which there were no errors."""
    with browser(folder / "profile") as driver:
        media = [{"name": "prefers-color-scheme", "value": scheme}]
        driver.send("Emulation.setEmulatedMedia", session=driver.page, features=media)
        width, height = size
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        driver.send("Emulation.setDeviceMetricsOverride", session=driver.page, **metrics)
        driver.open(page.as_uri())
        driver.wait_for("document.readyState === 'complete'")
        found: dict[str, Any] = driver.run(f"(async () => {{ {_TOOLS} {script}\nreturn observed; }})()")
        assert driver.problems == []
        return found


def data_of(page: Path) -> dict[str, Any]:
    """The data that a page has for its script."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.S)
    assert found is not None
    return json.loads(found[1])
