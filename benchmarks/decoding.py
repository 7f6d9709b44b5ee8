"""A language model with caches, token by token: sessions in NumPy beside OpenVINO's CPU plug-in in float32.

The decoder has random weights: layers of norm, rotary positions, attention with caches in variables, a gated network.
Each side generates the same number of tokens after a prompt, greedily, three times in turn; the fastest time of a token
is shown. Two more sides show what the parts of the executor are worth: caches that are copied by Concat at each step,
and keys and values that are also repeated for each head of the queries.

    python benchmarks/decoding.py [--layers 10] [--width 512] [--prompt 256] [--tokens 32] [--threads 2]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np
import openvino
import openvino.opset13 as ops

import ir_runtime
from ir_runtime.execution.kernels import attention, caches, registry

HEAD_SIZE = 64
VOCABULARY = 4096
RNG = np.random.default_rng(0)


def main() -> None:
    """A table with a line for each side, for heads of keys as many as heads of queries, and for a quarter of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--layers", type=int, default=10)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--prompt", type=int, default=256)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2, help="of the plug-in; NumPy's library has its own setting")
    given = parser.parse_args()
    heads = given.width // HEAD_SIZE
    print("| heads of keys | side | prompt ms | ms a token | tokens |\n| ---: | --- | ---: | ---: | --- |")
    for count in (heads, max(1, heads // 4)):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "decoder.xml"
            openvino.save_model(decoder(given.layers, given.width, count), path, compress_to_fp16=False)
            sides: dict[str, tuple[Callable[[Any], Any], Callable[[], None]]] = {
                "OpenVINO": _plug_in(path, given.threads),
                "session": _session(path),
                "session, caches copied": _session(path, caches.caches),
                "session, caches copied and heads repeated": _session(
                    path, caches.caches, attention.attention_of_repeated_heads
                ),
            }
            found: dict[str, list[Any]] = {side: [] for side in sides}
            for _ in range(3):
                for side, (call, reset) in sides.items():
                    found[side].append(_generated(call, given.prompt, given.tokens))
                    reset()
            wanted = found["OpenVINO"][0][2]
            for side, times in found.items():
                equal = "equal" if all(tokens == wanted for _, _, tokens in times) else "DIFFERENT"
                print(
                    f"| {count} | {side} | {min(t[0] for t in times):.0f} | {min(t[1] for t in times):.1f} | {equal} |"
                )


def _plug_in(path: Path, threads: int) -> tuple[Callable[[Any], Any], Callable[[], None]]:
    exact = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32", "INFERENCE_NUM_THREADS": threads}
    request = openvino.Core().compile_model(path, "CPU", exact).create_infer_request()
    return lambda inputs: request.infer(inputs)[0], request.reset_state


def _session(path: Path, *without: registry.Fusion) -> tuple[Callable[[Any], Any], Callable[[], None]]:
    """A session of the model; ``without`` some fusions, which are looked up when the plan is made."""
    before = registry._FUSIONS.copy()
    registry._FUSIONS[:] = [one for one in before if one not in without]
    try:
        session = ir_runtime.compile_model(ir_runtime.read_model(path)).session()
    finally:
        registry._FUSIONS[:] = before
    return lambda inputs: session(inputs)["logits"], session.reset


def _generated(call: Callable[[Any], Any], prompt: int, count: int) -> tuple[float, float, list[int]]:
    """Milliseconds of the prompt, those of a token, and the tokens."""
    started = time.perf_counter()
    logits = call(_inputs(np.random.default_rng(1).integers(0, VOCABULARY, prompt), 0))
    tokens = [int(np.argmax(logits[0, -1]))]
    first = time.perf_counter()
    for step in range(count - 1):
        tokens.append(int(np.argmax(call(_inputs([tokens[-1]], prompt + step))[0, -1])))
    return (first - started) * 1e3, (time.perf_counter() - first) / max(count - 1, 1) * 1e3, tokens


def _inputs(tokens: Any, past: int) -> dict[str, np.ndarray[Any, Any]]:
    count = len(tokens)
    return {
        "input_ids": np.array([tokens], np.int64),
        "attention_mask": np.ones((1, past + count), np.int64),
        "position_ids": np.arange(past, past + count, dtype=np.int64)[None],
        "beam_idx": np.zeros(1, np.int32),
    }


def decoder(layers: int, width: int, key_heads: int) -> openvino.Model:
    """A decoder whose caches are variables, in the form that the plug-in fuses."""
    heads = width // HEAD_SIZE
    inputs = {
        name: ops.parameter([-1] * rank, kind, name)
        for name, rank, kind in [
            ("input_ids", 2, np.int64),
            ("attention_mask", 2, np.int64),
            ("position_ids", 2, np.int64),
            ("beam_idx", 1, np.int32),
        ]
    }
    for name, node in inputs.items():
        node.output(0).set_names({name})
    ids, mask, positions, beams = inputs.values()
    angles = 1 / 10000 ** (np.arange(0, HEAD_SIZE, 2) / HEAD_SIZE)
    half = ops.multiply(ops.unsqueeze(ops.convert(positions, "f32"), _i64(2)), _f32(angles.reshape(1, 1, -1)))
    turns = ops.unsqueeze(ops.concat([half, half], 2), _i64(1))
    cos, sin = ops.cos(turns), ops.sin(turns)
    allowed = _allowed(ids, mask)
    sinks: list[Any] = []

    def heads_of(x: Any, count: int, turned: bool) -> Any:
        x = ops.transpose(
            ops.reshape(_product(x, width, count * HEAD_SIZE), _i64(0, 0, count, HEAD_SIZE), True), _i64(0, 2, 1, 3)
        )
        if not turned:
            return x
        first, second = ops.split(x, ops.constant(np.int64(3)), 2).outputs()
        other = ops.concat([ops.multiply(second, _f32(-1)), first], 3)
        return ops.add(ops.multiply(x, cos), ops.multiply(other, sin))

    def cached(name: str, new: Any) -> Any:
        batch = ops.gather(ops.shape_of(ids), _i64(0), _i64(0))
        start = ops.broadcast(_f32(0), ops.concat([batch, _i64(key_heads), _i64(0), _i64(HEAD_SIZE)], 0))
        past = ops.gather(ops.read_value(start, name, np.float32, [-1, key_heads, -1, HEAD_SIZE]), beams, _i64(0))
        all_ = ops.concat([past, new], 2)
        sinks.append(ops.assign(all_, name))
        if key_heads == heads:
            return all_
        repeats = _i64(1, 1, heads // key_heads, 1, 1)
        wide = ops.broadcast(ops.unsqueeze(all_, _i64(2)), repeats, broadcast_spec="BIDIRECTIONAL")
        return ops.reshape(wide, _i64(0, heads, -1, HEAD_SIZE), True)

    x = ops.gather(_weights(VOCABULARY, width), ids, _i64(0))
    for layer in range(layers):
        y = _norm(x, width)
        query = heads_of(y, heads, True)
        key = cached(f"past.{layer}.key", heads_of(y, key_heads, True))
        value = cached(f"past.{layer}.value", heads_of(y, key_heads, False))
        seen = ops.transpose(ops.scaled_dot_product_attention(query, key, value, allowed), _i64(0, 2, 1, 3))
        x = ops.add(x, _product(ops.reshape(seen, _i64(0, 0, width), True), width, width))
        y = _norm(x, width)
        gated = ops.multiply(ops.swish(_product(y, width, 4 * width)), _product(y, width, 4 * width))
        x = ops.add(x, _product(gated, 4 * width, width))
    logits = _product(_norm(x, width), width, VOCABULARY)
    logits.output(0).set_names({"logits"})
    return openvino.Model([ops.result(logits)], sinks, list(inputs.values()), "decoder")


def _allowed(ids: Any, mask: Any) -> Any:
    """The mask of attention, causal and of ``attention_mask``: 0 or a large negative number."""
    zero, one = ops.constant(np.int64(0)), ops.constant(np.int64(1))
    total = ops.squeeze(ops.gather(ops.shape_of(mask), _i64(1), _i64(0)), _i64(0))
    length = ops.squeeze(ops.gather(ops.shape_of(ids), _i64(1), _i64(0)), _i64(0))
    rows = ops.unsqueeze(ops.range(ops.subtract(total, length), total, one, "i64"), _i64(1))
    causal = ops.unsqueeze(ops.less_equal(ops.range(zero, total, one, "i64"), rows), _i64(0, 1))
    both = ops.logical_and(causal, ops.unsqueeze(ops.convert(mask, "boolean"), _i64(1, 2)))
    return ops.select(both, _f32(0), _f32(-65504))


def _norm(x: Any, width: int) -> Any:
    mean = ops.reduce_mean(ops.multiply(x, x), _i64(-1), True)
    scaled = ops.multiply(x, ops.divide(_f32(1), ops.sqrt(ops.add(mean, _f32(1e-6)))))
    return ops.multiply(scaled, _f32(np.ones((1, 1, width))))


def _product(x: Any, depth: int, columns: int) -> Any:
    return ops.matmul(x, _weights(columns, depth), False, True)


def _weights(rows: int, columns: int) -> Any:
    return _f32(RNG.standard_normal((rows, columns)) / np.sqrt(columns))


def _f32(value: Any) -> Any:
    return ops.constant(np.asarray(value, np.float32))


def _i64(*values: int) -> Any:
    return ops.constant(np.array(values, np.int64))


if __name__ == "__main__":
    main()
