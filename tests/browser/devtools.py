"""A headless Chromium over the DevTools protocol, through two pipes, and a server for a folder."""

from __future__ import annotations

import functools
import http.server
import json
import os
import select
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.browser.assembled import CHROMIUM

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

    def screenshot(self, path: Path) -> None:
        from base64 import b64decode

        data = self.send("Page.captureScreenshot", session=self.page, captureBeyondViewport=True)["data"]
        path.write_bytes(b64decode(data))

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
