"""Pages in a real browser: a script of a test runs in the page, and its findings come back."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium")
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--virtual-time-budget=5000", "--dump-dom"),
]
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")

_FRAME = """
<iframe id="frame" src="PAGE" style="width:WIDTHpx;height:900px;border:0"></iframe>
<script>
  const wait = setInterval(() => {
    const found = frame.contentDocument && frame.contentDocument.getElementById("result");
    if (!found || !found.textContent) return;
    clearInterval(wait);
    document.body.append(Object.assign(document.createElement("pre"), { id: "result", textContent: found.textContent }));
  }, 50);
</script>
"""
_EARLY = "<script>window.early = []; addEventListener('error', (event) => early.push(event.message));</script>"
"""The listener for errors must be there before the page's own script runs."""
_TOOLS = """
<pre id="result"></pre><script>{
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
window.addEventListener("load", async () => {
  try {
    %s
  } catch (error) { early.push(String(error)); }
  document.getElementById("result").textContent = JSON.stringify({ ...observed, errors: early });
});
}</script></body>
"""


def observed(page: Path, script: str, folder: Path, *flags: str, timed: bool = False, width: int = 0) -> dict[str, Any]:
    """What ``script`` puts into ``observed`` within ``page``, in which there were no errors.

    With ``timed`` the clock is a real one, and the script runs at once and must not wait. With ``width`` the page is
    seen in a frame of so many pixels, because a window is never as narrow as a telephone.
    """
    assert CHROMIUM is not None
    tools = _TOOLS
    if timed:
        tools = tools.replace('window.addEventListener("load", async () => {', "(() => {")
        tools = tools.replace("});\n}</script>", "})();\n}</script>")
    fixed = [flag for flag in FLAGS if not (timed and flag.startswith("--virtual-time"))]
    text = page.read_text().replace("<head>", f"<head>{_EARLY}", 1).replace("</body>", tools % script, 1)
    instrumented = folder / "instrumented.html"
    instrumented.write_text(text)
    if width:
        fixed.append("--allow-file-access-from-files")
        framed = _FRAME.replace("WIDTH", str(width)).replace("PAGE", instrumented.name)
        instrumented = folder / "frame.html"
        instrumented.write_text(framed)
    command = [CHROMIUM, *fixed, f"--user-data-dir={folder / 'profile'}", *flags, instrumented.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    found = re.search(r'<pre id="result">(.*?)</pre>', done.stdout, re.S)
    assert found is not None, done.stderr[-2000:]
    assert "CONSOLE" not in done.stderr
    result = json.loads(html.unescape(found[1]))
    assert result.pop("errors") == []
    return result


def data_of(page: Path) -> dict[str, Any]:
    """The data that a page has for its script."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.S)
    assert found is not None
    return json.loads(found[1])
