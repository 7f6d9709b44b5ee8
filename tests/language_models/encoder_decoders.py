"""Encoders with decoders of two layers and random weights, written node by node as Optimum writes them."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LAYERS, VOCABULARY, HEADS, SIZE = 2, 300, 4, 8
HIDDEN = HEADS * SIZE
BANDS, FRAMES, POSITIONS = 80, 3000, 448
"""Of a spectrogram the bands and the frames, and of its text the positions: those of Whisper."""
NAMES = ("encoder_model", "decoder_model", "decoder_with_past_model", "decoder_model_merged")


@dataclass(frozen=True)
class EncoderDecoder:
    """``speech`` is like Whisper (a spectrogram, positions from a table), otherwise like T5 (a mask, a bias)."""

    speech: bool = False
    one_token: bool = False
    """Whether the decoder with caches has lost its mask, as older exporters, which trace one token, leave it."""
    kind: Any = np.float32

    def save(self, folder: Path, names: Sequence[str] = NAMES) -> None:
        """Write the files of these names."""
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            onnx.save(self.build(name), folder / f"{name}.onnx")

    def build(self, name: str) -> onnx.ModelProto:
        if name == "encoder_model":
            graph = _Encoder(self).graph()
        elif name == "decoder_model_merged":
            graph = _merged(self)
        else:
            graph = _Decoder(self, with_past="with_past" in name).graph()
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)

    def caches(self, of: str) -> list[str]:
        """The names of the inputs that are caches of the ``decoder`` itself, or of the ``encoder``'s states."""
        return [f"past_key_values.{layer}.{of}.{part}" for layer in range(LAYERS) for part in ("key", "value")]

    @property
    def element_type(self) -> int:
        return helper.np_dtype_to_tensor_dtype(np.dtype(self.kind))


class _Graph:
    """Formulas; weights of one name are equal in all graphs."""

    def __init__(self, model: EncoderDecoder, prefix: str = "") -> None:
        self.of, self.prefix = model, prefix
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}

    def __call__(self, op_type: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        output = name or f"{self.prefix}{op_type}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [output], f"/{output}", **attributes))
        return output

    def constant(self, name: str, value: Any, kind: Any = None) -> str:
        self.constants[name] = numpy_helper.from_array(np.asarray(value, kind or self.of.kind), name)
        return name

    def number(self, value: float) -> str:
        return self.constant(f"number.{value}", value)

    def integers(self, *values: int) -> str:
        return self.constant(f"integers.{values}", values, np.int64)

    def integer(self, value: int) -> str:
        return self.constant(f"integer.{value}", value, np.int64)

    def random(self, name: str, *shape: int, scale: float = 1.0) -> str:
        values = np.random.default_rng(zlib.crc32(name.encode())).normal(scale=scale, size=shape)
        return self.constant(name, values)

    def product(self, x: str, name: str, width: int = HIDDEN, inner: int = HIDDEN, scale: float = 1.0) -> str:
        return self("MatMul", x, self.random(name, inner, width, scale=scale / np.sqrt(inner)))

    def dimension(self, x: str, axis: int) -> str:
        return self("Gather", self("Shape", x), self.integer(axis))

    def normalized(self, x: str) -> str:
        squares = self("ReduceMean", self("Mul", x, x), self.integers(-1))
        return self("Div", x, self("Sqrt", self("Add", squares, self.number(1e-5))))


class _Encoder(_Graph):
    """A spectrogram or a text; rows of a batch that are padded do not depend on the padding."""

    def graph(self) -> onnx.GraphProto:
        if self.of.speech:
            first = self.random("encoder.conv", HIDDEN, BANDS, 3, scale=0.2)
            x = self("Conv", "input_features", first, strides=[2], pads=[1, 1])
            x = self("Transpose", x, perm=[0, 2, 1])
            inputs = [("input_features", self.of.element_type, ["batch_size", BANDS, FRAMES])]
            length: str | int = FRAMES // 2
        else:
            x = self("Gather", self.random("encoder.words", VOCABULARY, HIDDEN), "input_ids")
            length = "encoder_sequence_length"
            names = ("input_ids", "attention_mask")
            inputs = [(name, TensorProto.INT64, ["batch_size", length]) for name in names]
            weights = self("Cast", self("Unsqueeze", "attention_mask", self.integers(2)), to=self.of.element_type)
            x = self("Mul", x, weights)
        x = self("Add", x, self.product(self("Tanh", x), "encoder.inner"))
        self("Identity", self.normalized(x), name="last_hidden_state")
        output = ("last_hidden_state", self.of.element_type, ["batch_size", length, HIDDEN])
        return _graph_of("encoder", self.nodes, inputs, [output], list(self.constants.values()))


class _Decoder(_Graph):
    def __init__(self, model: EncoderDecoder, *, with_past: bool, prefix: str = "") -> None:
        super().__init__(model, prefix)
        self.with_past = with_past

    def graph(self) -> onnx.GraphProto:
        self.logits()
        return _graph_of(
            "decoder", self.nodes, self.inputs(), self.outputs(with_encoder=not self.with_past), self.initializers()
        )

    def initializers(self) -> list[onnx.TensorProto]:
        return list(self.constants.values())

    def inputs(self) -> list[tuple[str, int, list[Any]]]:
        found: list[tuple[str, int, list[Any]]] = []
        if not self.of.speech:
            found.append(("encoder_attention_mask", TensorProto.INT64, ["batch_size", "encoder_sequence_length"]))
        found.append(("input_ids", TensorProto.INT64, ["batch_size", "decoder_sequence_length"]))
        if not self.with_past:
            found.append(self.states())
        else:
            for name in [*self.of.caches("decoder"), *self.of.caches("encoder")]:
                found.append(self.cache(name, "past_decoder_sequence_length"))
        return found

    def states(self) -> tuple[str, int, list[Any]]:
        return ("encoder_hidden_states", self.of.element_type, ["batch_size", "encoder_sequence_length", HIDDEN])

    def cache(self, name: str, length: str) -> tuple[str, int, list[Any]]:
        length = "encoder_sequence_length" if ".encoder." in name else length
        return (name, self.of.element_type, ["batch_size", HEADS, length, SIZE])

    def outputs(self, *, with_encoder: bool) -> list[tuple[str, int, list[Any]]]:
        whole = "past_decoder_sequence_length + decoder_sequence_length"
        names = [*self.of.caches("decoder"), *(self.of.caches("encoder") if with_encoder else ())]
        logits = ("logits", self.of.element_type, ["batch_size", "decoder_sequence_length", VOCABULARY])
        return [logits, *(self.cache(name.replace("past_key_values", "present"), whole) for name in names)]

    def result(self, name: str, value: str) -> None:
        self("Identity", value, name=self.prefix + name)

    def logits(self) -> None:
        count = self.dimension("input_ids", 1)
        rows = self("Concat", self.integers(-1), self("Unsqueeze", count, self.integers(0)), axis=0)
        x = self("Gather", self.random("words", VOCABULARY, HIDDEN), self("Reshape", "input_ids", rows))
        before = self.dimension("past_key_values.0.decoder.key", 2) if self.with_past else self.integer(0)
        total = self("Add", before, count)
        places = self("Range", before, total, self.integer(1))
        if self.of.speech:
            x = self("Add", x, self("Gather", self.random("positions", POSITIONS, HIDDEN), places))
        mask = ""
        for layer in range(LAYERS):
            q, k, v = (self.heads(self.product(self.normalized(x), f"{layer}.self.{part}"), x) for part in "qkv")
            k, v = (self.cached(new, f"{layer}.decoder.{part}") for new, part in ((k, "key"), (v, "value")))
            mask = mask or self.mask(places, k, total)
            x = self("Add", x, self.product(self.attention(q, k, v, mask, x), f"{layer}.self.o"))
            q = self.heads(self.product(self.normalized(x), f"{layer}.cross.q"), x)
            k, v = (self.of_states(layer, part, x) for part in ("key", "value"))
            x = self("Add", x, self.product(self.attention(q, k, v, self.padding(), x), f"{layer}.cross.o", scale=2))
            inner = self.product(self.normalized(x), f"{layer}.wide", 2 * HIDDEN)
            x = self("Add", x, self.product(self("Relu", inner), f"{layer}.narrow", HIDDEN, 2 * HIDDEN))
        self.result("logits", self.product(self.normalized(x), "logits.weights", VOCABULARY, scale=4))

    def heads(self, x: str, like: str) -> str:
        """``[b, n, s, h]``; the batch is that of the decoder's activations ``like``, as exporters trace it."""
        batch = self("Unsqueeze", self.dimension(like, 0), self.integers(0))
        shape = self("Concat", batch, self.integers(-1, HEADS, SIZE), axis=0)
        return self("Transpose", self("Reshape", x, shape), perm=[0, 2, 1, 3])

    def cached(self, new: str, name: str) -> str:
        whole = self("Concat", f"past_key_values.{name}", new, axis=2) if self.with_past else new
        self.result(f"present.{name}", whole)
        return whole

    def of_states(self, layer: int, part: str, like: str) -> str:
        name = f"{layer}.encoder.{part}"
        if self.with_past:
            return f"past_key_values.{name}"
        made = self.heads(self.product("encoder_hidden_states", f"{layer}.cross.{part}"), like)
        self.result(f"present.{name}", made)
        return made

    def mask(self, places: str, k: str, total: str) -> str:
        """0, or the lowest number for keys behind a query; for texts with a bias by the distance.

        T5 takes the number of keys, and the shape of a mask of all keys, from the keys of its first layer.
        """
        if self.of.speech and self.of.one_token and self.with_past:
            return ""
        count = total if self.of.speech else self.dimension(k, 2)
        keys = self("Range", self.integer(0), count, self.integer(1))
        distance = self("Sub", self("Unsqueeze", places, self.integers(1)), keys)
        lowest = self.number(float(np.finfo(self.of.kind).min))
        unseen = self("Less", distance, self.integer(-POSITIONS if self.of.one_token and self.with_past else 0))
        mask = self("Where", unseen, lowest, self.number(0))
        if self.of.speech:
            return mask
        near = self("Max", self("Min", distance, self.integer(7)), self.integer(0))
        one = numpy_helper.from_array(np.ones(1, self.of.kind))
        every = self("ConstantOfShape", self("Gather", self("Shape", k), self.integers(0, 2)), value=one)
        counted = self("Add", mask, self("Unsqueeze", every, self.integers(1, 2)))
        mask = self("Where", self("Equal", counted, self.number(0)), lowest, mask)
        bias = self("Transpose", self("Gather", self.random("distances", 8, HEADS), near), perm=[2, 0, 1])
        return self("Add", self("Unsqueeze", bias, self.integers(0)), mask)

    def padding(self) -> str:
        """The mask of the encoder's states; none for speech."""
        if self.of.speech:
            return ""
        wide = self("Unsqueeze", "encoder_attention_mask", self.integers(1, 2))
        hidden = self("Sub", self.number(1), self("Cast", wide, to=self.of.element_type))
        return self("Mul", hidden, self.number(float(np.finfo(self.of.kind).min)))

    def attention(self, q: str, k: str, v: str, mask: str, like: str) -> str:
        scores = self("MatMul", q, self("Transpose", k, perm=[0, 1, 3, 2]))
        scores = self("Mul", scores, self.number(SIZE**-0.5))
        if mask:
            scores = self("Add", scores, mask)
        values = self("Transpose", self("MatMul", self("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
        batch = self("Unsqueeze", self.dimension(like, 0), self.integers(0))
        return self("Reshape", values, self("Concat", batch, self.integers(-1, HIDDEN), axis=0))


def _merged(model: EncoderDecoder) -> onnx.GraphProto:
    """Both decoders as branches of one If; that with caches returns stand-ins for what is of the encoder."""
    branches, constants = dict[str, onnx.GraphProto](), dict[str, onnx.TensorProto]()
    for name, with_past in (("then_branch", True), ("else_branch", False)):
        graph = _Decoder(model, with_past=with_past, prefix=f"{name}/")
        graph.logits()
        constants |= graph.constants
        outputs = graph.outputs(with_encoder=True)
        if with_past:
            empty = numpy_helper.from_array(np.zeros((0, HEADS, 1, SIZE), model.kind))
            for past in model.caches("encoder"):
                graph("Constant", name=graph.prefix + past.replace("past_key_values", "present"), value=empty)
        outputs = [(graph.prefix + output, kind, shape) for output, kind, shape in outputs]
        branches[name] = _graph_of(name, graph.nodes, [], outputs, [])
    whole = _Decoder(model, with_past=True)
    inputs = [*whole.inputs(), whole.states(), ("use_cache_branch", TensorProto.BOOL, [1])]
    outputs = whole.outputs(with_encoder=True)
    chosen = helper.make_node("If", ["use_cache_branch"], [name for name, *_ in outputs], "/optimum::if", **branches)
    return _graph_of("decoder", [chosen], inputs, outputs, list(constants.values()))


def _graph_of(
    name: str,
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[tuple[str, int, Sequence[Any]]],
    outputs: Sequence[tuple[str, int, Sequence[Any]]],
    constants: Sequence[onnx.TensorProto],
) -> onnx.GraphProto:
    ends = [[helper.make_tensor_value_info(*value) for value in side] for side in (inputs, outputs)]
    return helper.make_graph(list(nodes), name, *ends, list(constants))
