"""Models that are compared: small, deep, of random rounding, with tensors of every kind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

import converter
from tests.converter.optimization.models import parse
from tests.graphs import Graph

WIDTH = 48


def saved(model: onnx.ModelProto, folder: Path, name: str = "m.onnx") -> Path:
    onnx.save(model, folder / name)
    return folder / name


def pair(model: onnx.ModelProto, folder: Path, saving: dict[str, Any] | None = None, **options: Any) -> list[Path]:
    path = saved(model, folder)
    converter.save_model(converter.convert_model(path, **options), folder / "m.xml", **(saving or {}))
    return [path, folder / "m.xml"]


def real(*shape: int, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def in_a_row(count: int, nodes: str, last: str, first: str = "x") -> str:
    """Return the nodes ``count`` times: ``{n}`` is a number, ``{x}`` the tensor ``last`` of the time before."""
    return " ".join(nodes.format(n=n, x=f"{last}{n - 1}" if n else first) for n in range(count))


def three_layers() -> onnx.ModelProto:
    """y = mean(|x * w| + 1), in three layers."""
    nodes = """[scale] scaled = Mul (x, w) [shift] shifted = Add (scaled, one)
               [norm] y = ReduceL1 <keepdims = 0> (shifted)"""
    return parse(f"g (float[n,4] x) => (float y) {{ {nodes} }}", 18, w=f32(1, 2, 3, 4), one=np.float32(1))


def deep() -> onnx.ModelProto:
    """Twelve products with activations, the last one by zeros: the output is 0 whatever comes before."""
    random = np.random.default_rng(0)
    weights = {f"w{at}": (random.standard_normal((16, 16)) / 4).astype(np.float32) for at in range(12)}
    layers = in_a_row(12, "[product{n}] p{n} = MatMul ({x}, w{n}) [tanh{n}] t{n} = Tanh (p{n})", "t")
    ends = "[head] y = MatMul (t11, zeros) [mean] m = ReduceMean <keepdims = 0> (t11)"
    return parse(f"g (float[n,16] x) => (y) {{ {layers} {ends} }}", 18, **weights, zeros=np.zeros((16, 4), np.float32))


def image() -> onnx.ModelProto:
    """A static classifier of 32 x 32 with an inner activation and a rate that is an input."""
    nodes = """[conv] c = Conv <pads = [1, 1, 1, 1]> (x, k)  r = Relu (c)  g = GlobalAveragePool (r)  f = Flatten (g)
               y = Mul (f, rate)"""
    return parse(f"g (float[1,3,32,32] x, float rate) => (float[a,b] y) {{ {nodes} }}", k=real(8, 3, 3, 3))


def small_network(gain: float = 1.0) -> onnx.ModelProto:
    """Convolutions with normalizations, whose values shrink by ``gain`` from one to the next."""
    random, weights = np.random.default_rng(0), {}
    for at in range(5):
        weights[f"w{at}"] = random.standard_normal((8, 8 if at else 3, 3, 3)) * gain / 8
        weights |= {f"s{at}": random.random(8) + 0.5, f"b{at}": np.zeros(8), f"m{at}": np.zeros(8)}
        weights[f"v{at}"] = random.random(8) + 0.5
    nodes = in_a_row(5, """[c{n}] c{n} = Conv <pads = [1, 1, 1, 1]> ({x}, w{n})
        [n{n}] n{n} = BatchNormalization (c{n}, s{n}, b{n}, m{n}, v{n}) [a{n}] a{n} = Relu (n{n})""", "a")  # fmt: skip
    end = "[pool] y = GlobalAveragePool (a4)"
    if gain == 1:  # otherwise the output is as small as the values before it
        end = """[pool] pooled = GlobalAveragePool (a4)
                 [norm] y = LayerNormalization <axis = 1, epsilon = 0.000001> (pooled, g)"""
        weights["g"] = random.standard_normal((8, 1, 1))
    typed = {name: value.astype(np.float32) for name, value in weights.items()}
    return parse(f"g (float[1,3,12,12] x) => (y) {{ {nodes} {end} }}", **typed)


def scaled_network(mean: float = 0.3, is_sparse: bool = False) -> onnx.ModelProto:
    """A convolution with batch normalisation, a depthwise one with a scale, a product with a scale and a bias.

    With ``is_sparse`` six of seven weights are 0.
    """
    draw = np.random.default_rng(5)
    weights = {"k": draw.standard_normal((16, 3, 3, 3)) / 5, "d": draw.standard_normal((16, 1, 3, 3)) / 3}
    weights["g"] = draw.standard_normal((16, 128)) / 4
    if is_sparse:
        weights = {
            name: value * (np.arange(value.size) % 7 == 0).reshape(value.shape) for name, value in weights.items()
        }
    others = {"s": (16, 1, 1), "t": (128,), "gamma": (16,), "variance": (16,)}
    weights |= {name: draw.uniform(0.5, 1.5, shape) for name, shape in others.items()}
    weights |= {"beta": draw.standard_normal(16), "mean": np.where(np.arange(16) < 12, mean, 0.2)}
    weights["h"] = draw.standard_normal(128)
    nodes = """[conv] c = Conv (x, k)  [norm] n = BatchNormalization (c, gamma, beta, mean, variance)  r = Relu (n)
        [depthwise] e = Conv <group = 16> (r, d)  [scale] m = Mul (e, s)  p = GlobalMaxPool (m)
        f = Flatten (p)  q = MatMul (f, g)  a = Add (q, h)  y = Mul (a, t)"""
    typed = {name: value.astype(np.float32) for name, value in weights.items()}
    return parse(f"g (float[n,3,9,9] x) => (y) {{ {nodes} }}", **typed)


def detector(bias: float = -4.0, stride: int = 4, dims: str = "n,3,h,w") -> onnx.ModelProto:
    """An image is averaged to one of ``1 / stride``, made larger again, and gives probabilities of ``exp(bias)``."""
    window = f"kernel_shape = [{stride}, {stride}], strides = [{stride}, {stride}]"
    nearest = 'mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"'
    nodes = f"""[pool] small = AveragePool <{window}> (x)  [resize] large = Resize <{nearest}> (small, , scales)
                [shift] logits = Add (large, bias)  [sigmoid] y = Sigmoid (logits)"""
    return parse(f"g (float[{dims}] x) => (y) {{ {nodes} }}", 18, scales=f32(1, 1, 2, 2), bias=np.float32(bias))


def times_tiny(more: str = "y = Sin (scaled)") -> onnx.ModelProto:
    return parse(f"g (float[n,4] x) => (y) {{ scaled = Mul (x, tiny) {more} }}", 18, tiny=np.float32(1e-12))


def scaled_by(value: float) -> onnx.ModelProto:
    return parse("g (float[n,4] x) => (y) { sum = Add (x, c) y = Mul (sum, f) }", c=np.float32(1), f=np.float32(value))


def chaotic() -> onnx.ModelProto:
    """Products and sines in a row, each of which enlarges differences by about three."""
    random = np.random.default_rng(1)
    scale = 4 / np.sqrt(WIDTH)
    weights = {f"w{at}": (random.standard_normal((WIDTH, WIDTH)) * scale).astype(np.float32) for at in range(10)}
    nodes = in_a_row(10, "[product{n}] product{n} = MatMul ({x}, w{n}) [sine{n}] sine{n} = Sin (product{n})", "sine")
    text = f"g (float[n,{WIDTH}] x) => (float[n,{WIDTH}] y) {{ {nodes} y = Identity (sine9) }}"
    return parse(text, 19, **weights)


def quantized() -> onnx.ModelProto:
    """Products of codes in a row; every second value lies in the middle between two steps before it is rounded."""
    random = np.random.default_rng(2)
    weights: dict[str, Any] = {"s": np.float32(1 / 7), "z": np.uint8(128), "wz": np.int8(0), "ws": np.float32(0.15)}
    weights |= {f"w{at}": random.integers(-3, 4, (WIDTH, WIDTH)).astype(np.int8) for at in range(12)}
    nodes = in_a_row(12, """[product{n}] codes{n} = QLinearMatMul ({x}, s, z, w{n}, ws, wz, s, z)
        [real{n}] real{n} = DequantizeLinear (codes{n}, s, z)""", "codes", "codes")  # fmt: skip
    nodes = f"[quantize] codes = QuantizeLinear (x, s, z) {nodes} y = Identity (real11)"
    return parse(f"g (float[n,{WIDTH}] x) => (float[n,{WIDTH}] y) {{ {nodes} }}", 19, **weights)


def equal_terms() -> onnx.ModelProto:
    """A convolution that adds 1,152 equal terms, whose partial sums are all rounded in one direction."""
    text = "g (float[1,128,28,28] x) => (y) { [conv] c = Conv <pads = [1, 1, 1, 1]> (x, w) [relu] y = Relu (c) }"
    return parse(text, w=np.full((32, 128, 3, 3), 0.000315, np.float32))


def best_boxes(rows_of_scores: int = 8) -> onnx.ModelProto:
    """A head without suppression: the best 20 boxes of a map, then the best 20 of their scores, as rows."""
    g = Graph(opset=17)
    half = g["x"].Conv(g.constant(real(12, 3, 3, 3, scale=1e-5)), strides=[2, 2], pads=[1, 1, 1, 1])
    map = half * half.Sigmoid()
    raw, logits = map.Reshape([0, 12, -1]).Transpose(perm=[0, 2, 1]).Split([4, 8], axis=2, count=2)
    line = g("Range", 0.0, g.size(map, -1).Cast(to=1), 1.0)
    boxes = raw + line.Tile(g.size(map, -2).Unsqueeze([0])).Unsqueeze([-1])
    scores = logits.Sigmoid()
    _, first = scores.ReduceMax(axes=[-1], keepdims=0).TopK([20], axis=1, count=2, name="first")
    boxes, scores = (values.GatherElements(first.Unsqueeze([-1]).Tile([1, 1, count]), axis=1)
                     for values, count in ((boxes, 4), (scores, 8)))  # fmt: skip
    best, second = scores.Flatten().TopK([20], axis=1, count=2, name="second")
    row, kind = second.Div(rows_of_scores), second.Mod(rows_of_scores).Cast(to=1)
    boxes = boxes.GatherElements(row.Unsqueeze([-1]).Tile([1, 1, 4]), axis=1)
    y = g("Concat", boxes, best.Unsqueeze([-1]), kind.Unsqueeze([-1]), axis=2)
    return g.model({"x": (np.float32, ["batch", 3, "height", "width"])}, {"y": (y, ["batch", "n", 6])})


def lookup() -> onnx.ModelProto:
    """A look-up in 1,000 rows of which a run asks for a few, a convolution with bias, a recurrent layer."""
    nodes = """[look] rows = Gather (table, ids)  turned = Transpose <perm = [0, 2, 1]> (rows)
               [conv] c = Conv <pads = [1, 1]> (turned, k, b)  steps = Transpose <perm = [2, 0, 1]> (c)
               [lstm] all, last = LSTM <hidden_size = 6> (steps, W, R, B)  flat = Squeeze (last, axis)
               [gemm] y = Gemm <transB = 1, alpha = 0.5> (flat, g, h)"""
    shapes: dict[str, tuple[int, ...]] = {"table": (1000, 8), "k": (5, 8, 3), "b": (5,), "W": (1, 24, 5)}
    shapes |= {"R": (1, 24, 6), "B": (1, 48), "g": (3, 6), "h": (3,), "left": (4,)}
    weights = {name: real(*shape, seed=sum(shape)) for name, shape in shapes.items()}
    return parse(f"g (int64[n,s] ids) => (y) {{ {nodes} }}", **weights, axis=[0])


def two_results() -> onnx.ModelProto:
    text = "g (float[n,4] x) => (float[n,4] y, float[n,4] z) { y = Add (x, one) z = Add (y, one) }"
    return parse(text, 18, one=np.ones(4, np.float32))


def two_ends(x: str = "x", z: str = "z", second: str = "second") -> onnx.ModelProto:
    """Two inputs and two outputs of one shape, which another program may call otherwise."""
    text = f"""g (float[3,4] {x}, float[3,4] {z}) => (float[3,4] first, float[3,4] {second}) {{
        product = MatMul ({x}, w)  first = Sub (product, {z})  {second} = Tanh (first) }}"""
    return parse(text, w=real(4, 4))


def noise(nodes: str = "change = Mul (noise, spread) y = Add (mean, change)") -> onnx.ModelProto:
    text = f"g (float[n,5] x) => (y) {{ mean = Tanh (x) noise = RandomNormalLike (mean) {nodes} }}"
    return parse(text, 15, spread=f32(*[0.5] * 5))


def trained_normalization(bias: Sequence[float] = (0,) * 6) -> onnx.ModelProto:
    """A node of whose result onnxruntime (1.32) writes the new variance over the scale where one tensor is both."""
    text = """g (float[20,6] x) => (y) {
        [norm] y, means, variances = BatchNormalization <training_mode = 1> (x, ones, bias, zeros, ones) }"""
    return parse(text, 15, ones=np.ones(6, np.float32), zeros=np.zeros(6, np.float32), bias=f32(*bias))


def product(more: str = "", shape: tuple[int, int] = (64, 48), output: str = "p") -> onnx.ModelProto:
    text = f"g (float[4,{shape[0]}] x) => ({output}) {{ [product] p = MatMul (x, w) {more} }}"
    return parse(text, w=real(*shape))


def in_16_bits() -> onnx.ModelProto:
    """Twelve products with what follows them in float16, between inputs and outputs of float32."""
    random = np.random.default_rng(5)
    weights = {f"w{at}": (random.standard_normal((48, 48)) / 5).astype(np.float16) for at in range(12)}
    layers = "p{n} = MatMul ({x}, w{n}) s{n} = Add (p{n}, {x}) v{n} = LayerNormalization (s{n}, g)"
    text = f"v = Cast <to = 10> (x) {in_a_row(12, layers, 'v', 'v')} y = Cast <to = 1> (v11)"
    return parse(f"g (float[30,48] x) => (float[30,48] y) {{ {text} }}", **weights, g=np.ones(48, np.float16))


def words(last: str = "gamma", is_initializer: bool = True) -> onnx.ModelProto:
    constant = helper.make_tensor("words", TensorProto.STRING, [3], ["alpha", "", last])
    model = parse("g (float[3] x) => (string[1] y) { i = ArgMax <axis = 0> (x) y = Gather (words, i) }", 19)
    if is_initializer:
        model.graph.initializer.append(constant)
    else:
        model.graph.node.insert(0, helper.make_node("Constant", [], ["words"], value=constant))
    return model


def cast(source: str, target: str, first: str = "w = Identity (x)") -> onnx.ModelProto:
    """A Cast between two types, and the input as it is."""
    to = TensorProto.DataType.Value(target.upper())
    nodes = f"{first} y = Cast <to = {to}> (w) z = Identity (x)"
    return parse(f"g ({source}[n] x) => ({target}[n] y, {source}[n] z) {{ {nodes} }}", 23)


def attending(dims: str = "n,3,h,w") -> onnx.ModelProto:
    """Scores of 2 x 16384 x 16384 for images of 128 pixels a side: 2 GB, from a graph of a kilobyte."""
    text = f"""g (float[{dims}] x) => (y) {{ features = Conv <kernel_shape = [1, 1]> (x, w)
        keys = Reshape (features, to)
        queries = Transpose <perm = [0, 2, 1]> (keys) scores = MatMul (queries, keys)
        shares = Softmax <axis = -1> (scores) y = MatMul (shares, queries) }}"""
    return parse(text, 18, w=real(8, 3, 1, 1), to=[0, 8, -1])
