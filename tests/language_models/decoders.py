"""Decoders of two layers with random weights, written node by node as exporters write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LAYERS, VOCABULARY, HEADS, SHARED, SIZE = 2, 260, 4, 2, 16
"""Layers, tokens, heads of queries, heads of keys and values, numbers a head."""
HIDDEN = HEADS * SIZE
POSITIONS = 256
BOUND = 16
MICROSOFT = "com.microsoft"


@dataclass(frozen=True)
class Decoder:
    """What a decoder has beside plain attention."""

    attention: str = "grouped"
    """``grouped`` (com.microsoft GroupQueryAttention), ``multihead`` (com.microsoft MultiHeadAttention), ``onnx``
    (Attention of opset 23), ``cached`` (the same with its own inputs and outputs of caches, causal) or ``spelled``
    (MatMul, Softmax, MatMul)."""
    window: int = -1
    sink: bool = False
    softcap: float = 0.0
    packed: bool = True
    """Whether queries, keys and values are one product."""
    positions: bool = True
    """Whether positions are an input; otherwise the length of the past tells them. Grouped attention has its own."""
    bound: str = ""
    """What changes positions of its own beyond :data:`BOUND`: an operator, or ``If`` for another branch."""
    guarded: bool = False
    """Whether hidden keys have -inf, and rows without keys become zeros, as torch's operator is exported."""
    kind: Any = np.float32

    @property
    def has_positions(self) -> bool:
        """Whether the file has the input ``position_ids``."""
        return self.positions and self.attention != "grouped"

    def build(self, seed: int = 0) -> onnx.ModelProto:
        """The model, with ``input_ids``, ``attention_mask``, caches, and ``position_ids`` where it is not grouped."""
        return _Writer(self, seed).model()

    @property
    def caches(self) -> Sequence[str]:
        """The names of the inputs that are caches."""
        return [f"past_key_values.{layer}.{part}" for layer in range(LAYERS) for part in ("key", "value")]

    @property
    def shared(self) -> int:
        """Heads of keys and values in the caches."""
        return HEADS if self.attention == "multihead" else SHARED

    def empty_caches(self, batch: int) -> Mapping[str, np.ndarray]:
        return {name: np.zeros((batch, self.shared, 0, SIZE), self.kind) for name in self.caches}


class _Writer:
    def __init__(self, decoder: Decoder, seed: int) -> None:
        self.decoder = decoder
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    # --- formulas ---

    def __call__(self, op_type: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        return self.several(op_type, 1, *inputs, domain=domain, **attributes)[0]

    def several(self, op_type: str, count: int, *inputs: str, domain: str = "", **attributes: Any) -> list[str]:
        name = f"{op_type}_{len(self.nodes)}"
        outputs = [name] if count == 1 else [f"{name}.{index}" for index in range(count)]
        self.nodes.append(helper.make_node(op_type, inputs, outputs, name, domain=domain, **attributes))
        return outputs

    def constant(self, value: Any, kind: Any = None) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, kind or self.decoder.kind), name))
        return name

    def integers(self, *values: int) -> str:
        return self.constant(values, np.int64)

    def weight(self, *shape: int, scale: float = 1.0) -> str:
        return self.constant(self.random.normal(scale=scale / np.sqrt(shape[0]), size=shape))

    def named(self, name: str, value: str) -> None:
        self.nodes.append(helper.make_node("Identity", [value], [name]))

    # --- the model ---

    def model(self) -> onnx.ModelProto:
        x = self("Gather", self.constant(self.random.normal(size=(VOCABULARY, HIDDEN))), "input_ids")
        attend = {
            "grouped": self.grouped,
            "multihead": self.multihead,
            "onnx": self.onnx_attention,
            "cached": self.cached_attention,
            "spelled": self.spelled,
        }
        masks = {"grouped": self.lengths, "multihead": list, "cached": self.padding}
        before = masks.get(self.decoder.attention, self.mask)()
        for layer in range(LAYERS):
            x = self("Add", x, attend[self.decoder.attention](self.normalized(x), layer, before))
            inner = self("MatMul", self.normalized(x), self.weight(HIDDEN, 2 * HIDDEN, scale=2))
            inner = self("Mul", inner, self("Sigmoid", inner))
            x = self("Add", x, self("MatMul", inner, self.weight(2 * HIDDEN, HIDDEN, scale=2)))
        logits = self("MatMul", self.normalized(x), self.weight(HIDDEN, VOCABULARY, scale=4))
        self.nodes[-1].output[0] = "logits"
        assert logits
        return self.finished()

    def finished(self) -> onnx.ModelProto:
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(self.decoder.kind))
        shared = self.decoder.shared
        past = ["batch_size", shared, "past_sequence_length", "head_size"]
        present = ["batch_size", shared, "total_sequence_length", "head_size"]
        tokens, keys = ["batch_size", "sequence_length"], ["batch_size", "total_sequence_length"]
        inputs = [helper.make_tensor_value_info("input_ids", TensorProto.INT64, tokens)]
        inputs.append(helper.make_tensor_value_info("attention_mask", TensorProto.INT64, keys))
        if self.decoder.has_positions:
            inputs.append(helper.make_tensor_value_info("position_ids", TensorProto.INT64, tokens))
        inputs += [helper.make_tensor_value_info(name, kind, past) for name in self.decoder.caches]
        logits = helper.make_tensor_value_info("logits", kind, [*tokens, VOCABULARY])
        presents = [name.replace("past_key_values", "present") for name in self.decoder.caches]
        outputs = [logits, *(helper.make_tensor_value_info(name, kind, present) for name in presents)]
        graph = helper.make_graph(self.nodes, "decoder", inputs, outputs, self.constants)
        opsets = [helper.make_opsetid("", 23), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=11)

    def normalized(self, x: str) -> str:
        """The root of mean squares as exporters spell it out."""
        squares = self("ReduceMean", self("Pow", x, self.constant(2)), self.integers(-1))
        root = self("Sqrt", self("Add", squares, self.constant(1e-5)))
        return self("Mul", self("Div", x, root), self.constant(self.random.normal(1, 0.1, HIDDEN)))

    def waves(self) -> tuple[str, str]:
        """Cosines and sines of the angles of each position, ``[positions, size / 2]``."""
        speeds = 100.0 ** (-np.arange(SIZE // 2) / (SIZE // 2))
        angles = np.arange(POSITIONS)[:, None] * speeds
        return self.constant(np.cos(angles)), self.constant(np.sin(angles))

    def parts(self, x: str) -> list[str]:
        widths = [HIDDEN, SHARED * SIZE, SHARED * SIZE]
        if self.decoder.packed:
            whole = self("MatMul", x, self.weight(HIDDEN, sum(widths)))
            return self.several("Split", 3, whole, self.integers(*widths), axis=-1)
        return [self("MatMul", x, self.weight(HIDDEN, width)) for width in widths]

    # --- GroupQueryAttention, as onnxruntime-genai's builder writes it ---

    def lengths(self) -> Sequence[str]:
        counts = self("ReduceSum", "attention_mask", self.integers(1), keepdims=0)
        ends = self("Cast", self("Sub", counts, self.integers(1)), to=TensorProto.INT32)
        width = self("Gather", self("Shape", "attention_mask"), self.constant(1, np.int64))
        return [ends, self("Cast", width, to=TensorProto.INT32)]

    def grouped(self, x: str, layer: int, lengths: Sequence[str]) -> str:
        names = ["past_key_values", "present"]
        (past_k, k), (past_v, v) = zip(*([f"{name}.{layer}.{part}" for part in ("key", "value")] for name in names))
        if self.decoder.packed:
            whole = self("MatMul", x, self.weight(HIDDEN, HIDDEN + 2 * SHARED * SIZE))
            inputs = [whole, "", ""]
        else:
            inputs = self.parts(x)
        sinks = [self.constant(self.random.normal(size=HEADS))] if self.decoder.sink else []
        attributes: dict[str, Any] = {"local_window_size": self.decoder.window, "do_rotary": 1}
        if self.decoder.softcap:
            attributes["softcap"] = self.decoder.softcap
        output = f"attention.{layer}"
        self.nodes.append(
            helper.make_node(
                "GroupQueryAttention",
                [*inputs, past_k, past_v, *lengths, *self.waves(), "", "", *sinks],
                [output, k, v],
                f"attention {layer}",
                domain=MICROSOFT,
                num_heads=HEADS,
                kv_num_heads=SHARED,
                **attributes,
            )
        )
        return self("MatMul", output, self.weight(HIDDEN, HIDDEN))

    # --- Attention of opset 23, and the same spelled out ---

    def mask(self) -> Sequence[str]:
        """``[b, 1, s, t]``: 0, or the lowest number where a key is not seen; as torch's exporters write it."""
        count = self("Gather", self("Shape", "input_ids"), self.constant(1, np.int64))
        if self.decoder.positions:
            total = self("Gather", self("Shape", "attention_mask"), self.constant(1, np.int64))
        else:
            total = self("Add", self.past_length(), count)
        zero, one = self.constant(0, np.int64), self.constant(1, np.int64)
        keys = self("Unsqueeze", self("Range", zero, total, one), self.integers(0, 1, 2))
        queries = self("Range", self("Sub", total, count), total, one)
        queries = self("Unsqueeze", queries, self.integers(0, 1, 3))
        seen = self("LessOrEqual", keys, queries)
        if self.decoder.window > 0:
            near = self("Greater", keys, self("Sub", queries, self.constant(self.decoder.window, np.int64)))
            seen = self("And", near, seen)
        valid = self("Unsqueeze", self("Cast", "attention_mask", to=TensorProto.BOOL), self.integers(1, 2))
        lowest = -np.inf if self.decoder.guarded else np.finfo(self.decoder.kind).min
        return [self("Where", self("And", seen, valid), self.constant(0), self.constant(lowest))]

    def past_length(self) -> str:
        return self("Gather", self("Shape", "past_key_values.0.key"), self.constant(2, np.int64))

    def places(self) -> str:
        """The positions of the tokens, ``[b, s]`` or ``[1, s]``."""
        if self.decoder.positions:
            return "position_ids"
        count = self("Gather", self("Shape", "input_ids"), self.constant(1, np.int64))
        start = self.past_length()
        row = self("Range", start, self("Add", start, count), self.constant(1, np.int64))
        row = self("Unsqueeze", row, self.integers(0))
        if not self.decoder.bound:
            return row
        bound = self.constant(BOUND, np.int64)
        if self.decoder.bound == "If":
            is_long = self("Greater", self("Add", start, count), bound)
            branches = {}
            for name, operator in (("then", "Min"), ("else", "Max")):
                output = helper.make_tensor_value_info(f"{name} of {is_long}", TensorProto.INT64, [1, None])
                inputs = [row, bound if operator == "Min" else self.constant(0, np.int64)]
                node = helper.make_node(operator, inputs, [output.name])
                branches[f"{name}_branch"] = helper.make_graph([node], name, [], [output])
            return self("If", is_long, **branches)
        if self.decoder.bound == "Gather":
            bound = self.constant(np.minimum(np.arange(POSITIONS), BOUND), np.int64)
            return self("Gather", bound, row)
        return self(self.decoder.bound, row, bound)

    def heads(self, x: str, count: int) -> str:
        split = self("Reshape", x, self.integers(0, 0, count, SIZE))
        return self("Transpose", split, perm=[0, 2, 1, 3])

    def turned(self, x: str, waves: Sequence[str]) -> str:
        """Each half of a head against the other, as transformers writes it."""
        first, second = (
            self("Slice", x, self.integers(at), self.integers(at + SIZE // 2), self.integers(3))
            for at in (0, SIZE // 2)
        )
        other = self("Concat", self("Neg", second), first, axis=-1)
        return self("Add", self("Mul", x, waves[0]), self("Mul", other, waves[1]))

    def padding(self) -> Sequence[str]:
        """``[b, 1, 1, t]``: which keys count."""
        valid = self("Unsqueeze", self("Cast", "attention_mask", to=TensorProto.BOOL), self.integers(1, 2))
        count = self(
            "Unsqueeze", self("Gather", self("Shape", "input_ids"), self.constant(1, np.int64)), self.integers(0)
        )
        one = self.integers(1)
        return [self("Expand", valid, self("Concat", one, one, count, one, axis=0))]

    def multihead(self, x: str, layer: int, _: Sequence[str]) -> str:
        """Each head of keys and values for each of the queries; keys that count are an input of the operator."""
        q, k, v = self.turned_parts(x)
        wide = []
        for part in (k, v):
            repeated = self.repeated(part)
            wide.append(self("Reshape", self("Transpose", repeated, perm=[0, 2, 1, 3]), self.integers(0, 0, HIDDEN)))
        flat = self("Reshape", self("Transpose", q, perm=[0, 2, 1, 3]), self.integers(0, 0, HIDDEN))
        past, present = (
            [f"{name}.{layer}.{part}" for part in ("key", "value")] for name in ("past_key_values", "present")
        )
        padding = self("Cast", "attention_mask", to=TensorProto.INT32)
        inputs = [flat, *wide, "", padding, "", *past]
        output = f"attention.{layer}"
        attributes = {"num_heads": HEADS, "unidirectional": 1}
        self.nodes.append(
            helper.make_node("MultiHeadAttention", inputs, [output, *present], output, domain=MICROSOFT, **attributes)
        )
        return self("MatMul", output, self.weight(HIDDEN, HIDDEN))

    def cached_attention(self, x: str, layer: int, padding: Sequence[str]) -> str:
        past, present = (
            [f"{name}.{layer}.{part}" for part in ("key", "value")] for name in ("past_key_values", "present")
        )
        output = f"attention.{layer}"
        inputs = [*self.turned_parts(x), *padding, *past]
        self.nodes.append(helper.make_node("Attention", inputs, [output, *present], f"node {output}", is_causal=1))
        return self.merged(output)

    def turned_parts(self, x: str) -> Sequence[str]:
        """New queries, keys and values, ``[b, n, s, h]``."""
        q, k, v = (self.heads(part, count) for part, count in zip(self.parts(x), (HEADS, SHARED, SHARED)))
        found = [self("Gather", wave, self.places()) for wave in self.waves()]
        waves = [self("Unsqueeze", self("Concat", wave, wave, axis=-1), self.integers(1)) for wave in found]
        return [self.turned(q, waves), self.turned(k, waves), v]

    def cached(self, x: str, layer: int) -> Sequence[str]:
        """Queries ``[b, n, s, h]``, and keys and values ``[b, g, t, h]`` behind those of the past."""
        q, k, v = self.turned_parts(x)
        present = []
        for part, new in (("key", k), ("value", v)):
            whole = self("Concat", f"past_key_values.{layer}.{part}", new, axis=2)
            self.named(f"present.{layer}.{part}", whole)
            present.append(whole)
        return [q, *present]

    def onnx_attention(self, x: str, layer: int, mask: Sequence[str]) -> str:
        output = self("Attention", *self.cached(x, layer), *mask)
        return self.merged(output)

    def spelled(self, x: str, layer: int, mask: Sequence[str]) -> str:
        q, k, v = self.cached(x, layer)
        k, v = self.repeated(k), self.repeated(v)
        scores = self("MatMul", q, self("Transpose", k, perm=[0, 1, 3, 2]))
        scores = self("Mul", scores, self.constant(SIZE**-0.5))
        shares = self("Softmax", self("Add", scores, *mask), axis=-1)
        if self.decoder.guarded:
            shares = self("Where", self("IsNaN", shares), self.constant(0), shares)
        return self.merged(self("MatMul", shares, v))

    def repeated(self, x: str) -> str:
        """Each head twice, as transformers' ``repeat_kv`` is exported."""
        shape = self("Shape", x)
        batch, length = (self("Gather", shape, self.integers(axis)) for axis in (0, 2))
        wide = self("Concat", batch, self.integers(SHARED, HEADS // SHARED), length, self.integers(SIZE), axis=0)
        merged = self("Concat", batch, self.integers(HEADS), length, self.integers(SIZE), axis=0)
        return self("Reshape", self("Expand", self("Unsqueeze", x, self.integers(2)), wide), merged)

    def merged(self, x: str) -> str:
        flat = self("Reshape", self("Transpose", x, perm=[0, 2, 1, 3]), self.integers(0, 0, HIDDEN))
        return self("MatMul", flat, self.weight(HIDDEN, HIDDEN))


DECODERS = {
    "grouped": Decoder(),
    "grouped, unpacked": Decoder(packed=False),
    "grouped, window": Decoder(window=8),
    "grouped, window and sink": Decoder(window=8, sink=True),
    "grouped, softcap": Decoder(softcap=20.0),
    "grouped, float16": Decoder(kind=np.float16),
    "onnx": Decoder("onnx"),
    "onnx, window": Decoder("onnx", window=8),
    "cached": Decoder("cached"),
    "multihead": Decoder("multihead"),
    "spelled": Decoder("spelled"),
    "spelled, window": Decoder("spelled", window=8, packed=False),
    "spelled, guarded": Decoder("spelled", guarded=True),
    "spelled, own positions": Decoder("spelled", positions=False),
    "spelled, window, guarded, own positions": Decoder("spelled", window=8, guarded=True, positions=False),
    "onnx, guarded, own positions": Decoder("onnx", guarded=True, positions=False),
}
