"""The page in Chromium: times, bytes, verification against onnxruntime-web, hosts, mistakes, keyboard and offline."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import version_converter

import converter
from tests.browser import assembled as models
from tests.browser.assembled import CHROMIUM, Browser, browser, hosts_of, served

pytestmark = [pytest.mark.full, pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")]

READY = "document.documentElement.dataset.ready !== undefined && !document.querySelector('#status').textContent.includes('…')"
COLD, WARM = 15, 3
"""Seconds to the first IR of MobileNetV3: from the first visit, and from the dropped file on a page that is ready."""
TOO_LONG = {
    *("light_bvlc_alexnet", "light_densenet121", "light_inception_v1", "light_inception_v2", "light_resnet50"),
    *("light_vgg19", "light_zfnet512"),
}
"""Convolutions take minutes in NumPy without a library for products: these are converted, and not executed."""


class Page:
    """The page in a browser, used as a user does."""

    def __init__(self, driver: Browser, address: str) -> None:
        self.driver, self.address = driver, address

    def open(self) -> None:
        self.driver.open(self.address)
        self.driver.wait_for(READY)

    def add(self, *files: Path, selector: str = "#files") -> None:
        self.driver.run("document.querySelector('#status').textContent = ''")
        self.driver.choose_files(selector, *files)
        self.driver.wait_for("document.querySelector('#status').textContent !== ''")  # a folder is listed first
        self.done()

    def choose(self, command: str, **values: str) -> None:
        self.driver.run(f"document.querySelector('#commands input[value={command}]').click()")
        for name, value in values.items():
            change = f"field.value = {json.dumps(value)}; field.dispatchEvent(new Event('input'))"
            self.driver.run(f"{{ const field = document.getElementById('option-{name}'); {change} }}")

    def run(self, seconds: float = 60) -> str:
        self.driver.run("document.querySelector('#run').click()")
        self.done(seconds)
        text: str = self.driver.run("document.querySelector('#text').textContent")
        return text

    def done(self, seconds: float = 60) -> None:
        self.driver.wait_for("document.querySelector('#progress').hidden", seconds)

    def code(self) -> str:
        code: str = self.driver.run("document.querySelector('#result').dataset.code")
        return code

    def call(self, *values: Any, seconds: float = 60) -> Any:
        return self.driver.run(f"sendToPython(...{json.dumps(values)})", seconds)

    def digest(self, path: str) -> str:
        hashed = f"sendToPython('content', {json.dumps(path)}).then((blob) => blob.arrayBuffer())"
        hashed += ".then((bytes) => crypto.subtle.digest('SHA-256', bytes))"
        text: str = self.driver.run(f"{hashed}.then((hash) => [...new Uint8Array(hash)].join(' '))")
        return bytes(map(int, text.split())).hex()


@pytest.fixture(scope="module")
def page(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A page that is ready; no test may make it ask another host, or meet an error of a script."""
    with served(site) as address, browser(tmp_path_factory.mktemp("profile")) as driver:
        opened = Page(driver, address)
        opened.open()
        yield opened
        assert hosts_of(driver.requests) == {address.split("/")[2]}
        assert driver.problems == []


@pytest.fixture(scope="module")
def mobilenet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "mobilenet_v3.onnx"
    onnx.save(models.mobilenet_v3(), path)
    return path


def digests(source: Path, folder: Path) -> dict[str, str]:
    """The SHA-256 of the IR that CPython writes, by the ending of the file."""
    converter.save_model(converter.convert_model(source), folder / "own.xml")
    files = {suffix: folder / f"own{suffix}" for suffix in (".xml", ".bin")}
    return {suffix: hashlib.sha256(path.read_bytes()).hexdigest() for suffix, path in files.items()}


def first_ir(page: Page, model: Path) -> tuple[float, float]:
    """Seconds to the first IR: from the first visit, and from the dropped file on the page that is open."""
    began = time.monotonic()
    page.open()
    page.add(model)
    page.run()
    cold = time.monotonic() - began
    began = time.monotonic()
    page.add(model)
    page.run()
    return cold, time.monotonic() - began


def test_the_first_ir_comes_soon_and_has_the_bytes_of_cpython(site: Path, mobilenet: Path, tmp_path: Path) -> None:
    times = []
    for visit in range(2):  # the first one has also what the machine reads for the first time
        with served(site) as address, browser(tmp_path / f"profile{visit}") as driver:
            visited = Page(driver, address)
            times.append(first_ir(visited, mobilenet))
            expected = digests(mobilenet, tmp_path)
            assert {suffix: visited.digest(f"results/mobilenet_v3{suffix}") for suffix in expected} == expected
            if visit:
                visited.choose("verify")
                text = visited.run(240)
                assert "PASSED against onnxruntime" in text, text
                assert "(WebAssembly)" in text
            assert hosts_of(driver.requests) == {address.split("/")[2]}
    print("cold and warm, in seconds:", times)
    assert min(cold for cold, _ in times) < COLD, times
    assert min(warm for _, warm in times) < WARM, times


def test_exported_models_have_the_bytes_of_cpython_and_are_verified(page: Page, tmp_path: Path) -> None:
    every = 1 if os.environ.get("ONNX2IR_ALL_MODELS") else 5  # all of them take two minutes
    sources = dict(list(models.exported().items())[::every])
    assert len(sources) == 100 // every
    copies = tmp_path / "zoo"
    (copies / "opset13").mkdir(parents=True)
    for name, source in sources.items():
        (copies / f"{name}.onnx").write_bytes(source.read_bytes())
        if (model := onnx.load(source)).opset_import[0].version < 7:
            onnx.save(version_converter.convert_version(model, 13), copies / "opset13" / f"{name}.onnx")
    page.add(copies, selector="#folder")

    def verdict_on(path: str) -> str:
        result = page.call("call", "run", "convert", [path], {"check": True}, seconds=240)
        return next((line for line in result["output"].splitlines() if line.startswith("PASSED against")), str(result))

    verdicts, different = {}, []
    for name in sources:
        if name in TOO_LONG:
            verdicts[name] = f"converted: {page.call('call', 'run', 'convert', [f'zoo/{name}.onnx'], {})['exit_code']}"
        else:
            verdicts[name] = verdict_on(f"zoo/{name}.onnx")
        expected = digests(copies / f"{name}.onnx", tmp_path)
        if {suffix: page.digest(f"results/{name}{suffix}") for suffix in expected} != expected:
            different.append(name)
        # onnxruntime-web has no kernels of AveragePool, Add and others before opset 7.
        if "against onnx ReferenceEvaluator" in verdicts[name] and (copies / "opset13" / f"{name}.onnx").exists():
            verdicts[name] = verdict_on(f"zoo/opset13/{name}.onnx")
    print(sum("(WebAssembly)" in verdict for verdict in verdicts.values()), "verified against onnxruntime-web")
    assert different == []
    failed = {name: verdict for name, verdict in verdicts.items() if "(WebAssembly)" not in verdict}
    assert failed == dict.fromkeys(TOO_LONG & sources.keys(), "converted: 0")


def test_a_model_of_300_mb_is_converted(page: Page, tmp_path: Path) -> None:
    onnx.save(models.large(300_000_000), tmp_path / "large.onnx")
    assert (tmp_path / "large.onnx").stat().st_size > 300_000_000
    page.open()
    page.add(tmp_path / "large.onnx")
    page.choose("convert")
    text = page.run(120)
    assert page.code() == "0", text
    expected = digests(tmp_path / "large.onnx", tmp_path)
    assert {suffix: page.digest(f"results/large{suffix}") for suffix in expected} == expected


def test_external_data_and_an_ir_are_taken(page: Page, mobilenet: Path, tmp_path: Path) -> None:
    model = onnx.load(mobilenet)
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data")
    page.open()
    page.add(tmp_path / "m.onnx", tmp_path / "m.data")
    page.choose("convert")
    assert "Wrote results/m.xml" in page.run()
    converter.save_model(converter.convert_model(tmp_path / "m.onnx"), tmp_path / "own.xml")
    page.add(tmp_path / "own.xml", tmp_path / "own.bin")
    page.driver.run("document.querySelector('#commands input[value=diff]').click()")
    for index, path in enumerate(("own.xml", "results/m.xml")):
        page.driver.run(f"document.getElementById('file-{index}').value = '{path}'")
    assert "the same: " in page.run()
    for command in ("export", "optimize"):
        page.choose(command)
        path = "own.xml" if command == "export" else "m.onnx"
        page.driver.run(f"document.getElementById('file-0').value = '{path}'")
        text = page.run()
        assert page.code() == "0", text
        assert "Wrote results/" in text
    size = page.driver.run("sendToPython('zip', ['results/own.onnx', 'results/m.xml']).then((blob) => blob.size)")
    assert size > 20_000_000


def test_mistakes_are_shown(page: Page, mobilenet: Path) -> None:
    """Those of ``test_commands`` alone differ in what Python answers."""
    page.open()
    page.add(mobilenet)
    page.choose("convert", batch="many")
    text = page.run()
    assert (page.code(), page.driver.run("document.querySelector('#written').hidden")) == ("2", True)
    assert "'many' is not a valid integer" in text
    assert "'many' is not a valid integer" in page.driver.run("document.querySelector('#verdict').textContent")
    # To be corrected, not to be typed again.
    assert page.driver.run("document.getElementById('option-batch').value") == "many"


def test_files_beyond_the_memory_are_refused_before_they_are_read(page: Page, tmp_path: Path) -> None:
    with (tmp_path / "huge.onnx").open("wb") as file:
        file.truncate(3 << 30)
    page.open()
    page.add(tmp_path / "huge.onnx")
    assert "huge.onnx has 3.0 GiB" in page.driver.run("document.querySelector('#verdict').textContent")


def test_the_keyboard_is_enough_and_a_command_can_be_cancelled(page: Page, mobilenet: Path) -> None:
    page.open()
    page.add(mobilenet)
    page.driver.run("document.querySelector('#commands input[value=inspect]').focus()")
    page.driver.run("document.querySelector('#commands input[value=inspect]').click()")
    page.driver.press("ArrowRight")
    assert page.driver.run("document.activeElement.value") == "convert"
    page.driver.press("Enter", "\r")
    page.driver.wait_for("document.querySelector('#text').textContent.includes('Wrote results/')")
    page.done()
    assert page.driver.run("document.querySelector('#report').srcdoc.includes('<!doctype html>')")
    page.choose("verify")
    page.driver.run("document.querySelector('#run').click()")
    page.driver.wait_for("!document.querySelector('#cancel').hidden")
    time.sleep(1)
    page.driver.run("document.querySelector('#cancel').click()")
    page.driver.wait_for("document.querySelector('#status').textContent === 'Cancelled'")
    page.choose("convert")
    assert "Wrote results/" in page.run()


def test_the_page_works_offline_after_the_first_visit(site: Path, mobilenet: Path, tmp_path: Path) -> None:
    with browser(tmp_path / "profile") as driver:
        with served(site) as address:
            visited = Page(driver, address)
            visited.open()
            cached = "caches.keys().then(([name]) => caches.open(name)).then((cache) => cache.keys()).then((all) => all.length)"
            files = len(json.loads((site / "vendor/manifest.json").read_text())["files"])
            driver.wait_for(f"{cached}.then((count) => count >= {files + 7})")
        visited.open()  # the server has ended
        visited.add(mobilenet)
        assert "Wrote results/" in visited.run()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_a_phone(page: Page, mobilenet: Path, scheme: str) -> None:
    media = [{"name": "prefers-color-scheme", "value": scheme}]
    page.driver.send("Emulation.setEmulatedMedia", session=page.driver.page, features=media)
    size = {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": True}
    page.driver.send("Emulation.setDeviceMetricsOverride", session=page.driver.page, **size)
    try:
        page.open()
        page.add(mobilenet)
        page.choose("convert")
        page.driver.run("document.querySelectorAll('#options details').forEach((one) => (one.open = true))")
        assert page.driver.run("document.documentElement.scrollWidth") <= 360
        names = page.driver.run(
            "[...document.querySelectorAll('input, select, button')].filter((one) => !one.labels?.length && !one.textContent)"
            ".map((one) => one.id)"
        )
        assert names == []
    finally:
        page.driver.send("Emulation.clearDeviceMetricsOverride", session=page.driver.page)
        page.driver.send("Emulation.setEmulatedMedia", session=page.driver.page, features=[])
