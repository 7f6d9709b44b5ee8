"""Verdicts on models whose inputs have to fit each other or the weights, or lie on one side of a bound."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import onnx

from converter import Preprocess, Report
from ir_runtime.graph.model import Model
from ir_runtime.graph.operation import find_operation
from ir_runtime.graph.shape_inference import make_node
from tests.converter.equivalence import models
from tests.converter.equivalence.edits import attributes, layer, operation
from tests.converter.equivalence.models import real
from tests.converter.equivalence.row import DIFFERENT, EQUAL, RIGHT, UNPROVEN, text, verdicts
from tests.converter.preprocessing.pictures import MEAN, SCALE, model_of_pictures, picture
from tests.rows.row import each


def is_undisturbed(report: Report) -> bool:
    """No shapes had to be tried."""
    return not [note for note in report.notes if "does not take" in note]


def indexed(op: str, data: str, indices: str, updates: str = "") -> Any:
    more, name = (f", float[{updates}] updates", ", updates") if updates else ("", "")
    nodes = f"same = Identity (indices) y = {op} (data, same{name})"
    return text(f"g (float[{data}] data, int64[{indices}] indices{more}) => (y) {{ {nodes} }}")


INDEXED = {
    "ScatterElements <axis = -2>": ("n,3", "2,3", "2,3"), "ScatterElements <axis = -1>": ("n,3", "n,2", "n,2"),
    "ScatterND": ("2,5", "4,2", "4"), "GatherElements <axis = -1>": ("n,3", "n,2"), "GatherND": ("3,2", "4,2"),
    "Gather <axis = -2>": ("n,3", "m"),
}  # fmt: skip
REQUIRED = {
    "axes that differ": "float[n,3,m] x, int64[2] a) => (y) { y = ReduceMean (x, a) }",
    "axes of four": "float[n,3,4,5] x, int64[3] a) => (y) { y = ReduceMax <keepdims = 0> (x, a) }",
    "lengths of parts": "float[n,7] x, int64[3] a) => (y) { y, b, c = Split <axis = 1> (x, a) }",
    "batches of regions": """float[n,2,h,w] x, float[r,4] r, int64[r] b) => (y) {
                             y = RoiAlign <output_height = 2, output_width = 2> (x, r, b) }""",
    "factors of sides": 'float[n,1,h,w] x, float[4] f) => (y) { y = Resize <mode = "linear"> (x, , f) }',
}
PITCHES = np.linspace(40, 2000, 95, dtype=np.float32)
BETWEEN = """g (float[n,95] x, float low, float high) => (y) { ABOVE BELOW between = And (above, below)
    weights = Cast <to = 1> (between) weighted = Mul (x, weights) sum = ReduceSum (weighted)
    count = ReduceSum (weights) y = Div (sum, count) }"""
ABOVE = ("above = Greater (pitches, low)", "above = LessOrEqual (low, pitches)")
BELOW = ("below = LessOrEqual (pitches, high)", "below = Greater (high, pitches)")
SWITCH = "g (float[n,3] x, {0} sr) => (y) {{ switch = {1} (sr) is = Equal (switch, rate) y = Where (is, x, nothing) }}"
GQA = """g (float[{b},{s},64] q, float[{b},{s},32] k, float[{b},{s},32] v,
    float[{b},2,{p},16] pk, float[{b},2,{p},16] pv, int32[{b}] lengths, int32 total{inputs})
    => (float[a1,a2,a3] y, float[b1,b2,b3,b4] ok, float[c1,c2,c3,c4] ov) {{
    i = Mul (k, k)
    y, ok, ov = com.microsoft.GroupQueryAttention <kv_num_heads = 2, num_heads = 4, do_rotary = {rotary}>
        (q, i, v, pk, pv, lengths, total{tables}) }}"""
# As torch_geometric exports: rows of sources and targets, gathered, and added up with ScatterElements.
GRAPH_NETWORK = text("""g (float[nodes,4] features, int64[2,edges] edges) => (y) {
    sources = Gather <axis = 0> (edges, zero)  targets = Gather <axis = 0> (edges, one)
    sent = Gather <axis = 0> (features, sources)  shape = Shape (sent)
    column = Unsqueeze (targets, last)  places = Expand (column, shape)  empty = Mul (features, nothing)
    sums = ScatterElements <axis = -2, reduction = "add"> (empty, places, sent)  y = MatMul (sums, weight) }""",
    zero=np.int64(0), one=np.int64(1), last=[-1], nothing=np.float32(0), weight=real(4, 4))  # fmt: skip
# Patches are averaged by squares of two for each image, as the columns of its grid tell.
VISION_ENCODER = text("""g (float[patches,4] pixels, int64[images,3] grid) => (y) {
    frames, heights, widths = Split <axis = 1, num_outputs = 3> (grid)
    rows = Mul (frames, heights)  counts = Mul (rows, widths)  total = ReduceSum <keepdims = 0> (counts)
    many = Unsqueeze (total, first)  shape = Concat <axis = 0> (many, width)  patches = Reshape (pixels, shape)
    quarter = Div (total, four)  fewer = Unsqueeze (quarter, first)  merged = Concat <axis = 0> (fewer, groups)
    squares = Reshape (patches, merged)  means = ReduceMean <keepdims = 0> (squares, middle)
    y = MatMul (means, weight) }""", 18, first=[0], width=[4], four=np.int64(4), groups=[4, 4], middle=[1],
    weight=real(4, 4))  # fmt: skip


def counts_patches(report: Report) -> bool:
    runs = [(one.inputs["pixels"][0], one.inputs["grid"][0]) for one in report.samples]
    assert len({pixels for pixels, _ in runs}) > 1
    return all(pixels == 16 * rows for pixels, rows in runs)


CACHE = text("""g (int64[b,s] ids, int64[b,t] mask, float[b,2,p,4] cache, float[b,2,s,4] new) => (y) {
    all = Concat <axis = 2> (cache, new)  sums = ReduceSum <keepdims = 0> (all, axes)  real = Gather (table, ids)
    seen = Cast <to = 1> (mask)  weighed = Mul (sums, seen)  most = ReduceMax <keepdims = 1> (real)
    y = Add (weighed, most) }""", axes=[1, 3], table=np.arange(9, dtype=np.float32))  # fmt: skip


def covers_both(report: Report) -> bool:
    shapes = report.inputs
    assert shapes["mask"][1] == shapes["cache"][2] + shapes["ids"][1]
    return len({tuple(sample.inputs["mask"]) for sample in report.samples}) == 2


def embedding(rows: int = 40, ir_version: int = 8) -> onnx.ModelProto:
    """Tokens, positions with an offset of two reshapes, and a mask that is cast."""
    random = np.random.default_rng(0)
    weights = {name: random.standard_normal((size, 4)).astype("f4") for name, size in (("table", rows), ("types", 2))}
    made = text("""g (int64[n,s] ids, int64[n,s] kinds, int64[n,s] mask) => (y) {
        words = Gather (table, ids)  wide = Unsqueeze (kinds, last)  narrow = Squeeze (wide, last)
        sorts = Gather (types, narrow)  sum = Add (words, sorts)  floats = Cast <to = 1> (mask)
        factors = Unsqueeze (floats, last)  y = Mul (sum, factors) }""", last=[-1], **weights)()  # fmt: skip
    made.ir_version = ir_version
    return made


DIMENSIONS: dict[str, tuple[str, int, dict[str, Any], dict[int, int]]] = {
    # the nodes, the rank of x, the shapes or values of weights, the axes of x with the sizes that they must have
    "the channels of a convolution": ("y = Conv (x, w)", 4, {"w": (4, 5, 3, 3)}, {1: 5}),
    "the channels of groups": ("y = Conv <group = 2> (x, w)", 4, {"w": (4, 3, 3, 3)}, {1: 6}),
    "the channels of a transposed convolution": ("y = ConvTranspose (x, w)", 4, {"w": (5, 4, 3, 3)}, {1: 5}),
    "the last dimension in front of a product": ("y = MatMul (x, w)", 3, {"w": (13, 3)}, {2: 13}),
    "a dimension that moves": ("t = Transpose <perm = [0,3,1,2]> (x) y = Conv (t, w)", 4, {"w": (4, 3, 3, 3)}, {3: 3}),
    "rows of a transposed matrix": ("y = Gemm <transA = 1> (x, w)", 2, {"w": (20, 3)}, {0: 20}),
    "the width of a table": ("y = Add (x, w)", 3, {"w": (7,)}, {2: 7}),
    "the features of a normalization": ("y = LayerNormalization (x, w)", 2, {"w": (3,)}, {1: 3}),
    "channels with statistics": ("y = BatchNormalization (x, w, w, w, v)", 3, {"w": (5,), "v": (5,)}, {1: 5}),
    "the width of a step": ("y, h = GRU <hidden_size = 2> (x, w, r)", 3, {"w": (1, 6, 11), "r": (1, 6, 2)}, {2: 11}),
    "the sum of parts": ("y, z = Split <axis = 1> (x, s)", 2, {"s": [2, 5]}, {1: 7}),
    "the width of a state": ("y, h = LSTM <hidden_size = 2> (x, w, r)", 3, {"w": (1, 8, 11), "r": (1, 8, 2)}, {2: 11}),
    "a letter of an equation": ('y = Einsum <equation = "abc,cd->abd"> (x, w)', 3, {"w": (13, 3)}, {2: 13}),
    "slopes of elements": ("y = PRelu (x, w)", 3, {"w": (6, 2)}, {1: 6, 2: 2}),
    "a dimension that is left out": ("y = Squeeze (x, s)", 3, {"s": [1]}, {1: 1}),
    "the elements of a shape": ("y = Reshape (x, s)", 1, {"s": [2, 3]}, {0: 6}),
    "rows in a list": ("y = Reshape (x, s)", 1, {"s": [-1, 3]}, {}),
    "the places of a grid": ("y = GridSample (w, x)", 4, {"w": (1, 2, 4, 4)}, {3: 2}),
}  # fmt: skip


def determined(nodes: str, rank: int, weights: dict[str, Any]) -> Any:
    """A graph of which weights determine dimensions of x."""
    draw = np.random.default_rng(1)
    stored = {name: draw.uniform(0.5, 1, one).astype(np.float32) if isinstance(one, tuple) else one
              for name, one in weights.items()}  # fmt: skip
    dims = ",".join(f"x{axis}" for axis in range(rank))
    return text(f"g (float[{dims}] x) => (y) {{ {nodes} }}", 18, **stored)


NHWC: dict[str, Any] = {"element_type": "u8", "layout": "nhwc", "model_layout": "nchw"}
FITTING = [
    *(row for op, shapes in INDEXED.items() for row in verdicts(op, indexed(op, *shapes), samples=3,
        look=is_undisturbed)),
    *(row for name, graph in REQUIRED.items() for row in verdicts(name, text(f"g ({graph}", 18), samples=4,
        look=is_undisturbed)),
    *(row for name, (nodes, rank, weights, sizes) in DIMENSIONS.items() for row in verdicts(
        name, determined(nodes, rank, weights), samples=1, look=lambda r, sizes=sizes: not sizes or (is_undisturbed(r)
        and all(r.inputs["x"][axis] == size for axis, size in sizes.items())))),
    *verdicts("few rows of a table", partial(embedding, 3)),
    *verdicts("the ratio of a dropout", text("g (float[n,3] x, float ratio) => (y) { y = Dropout (x, ratio) }"),
              seed=each(*range(4))),
    # As silero's sampling rate: with another one all elements of the output would be the same.
    *(row for kind, op in (("int64", "Identity"), ("int32", "Cast <to = 7>")) for row in verdicts(
        f"a switch of {kind}", text(SWITCH.format(kind, op), rate=np.int64(16000), nothing=np.float32(0)),
        look=lambda r: not r.shown_by_layers)),
    # As the pitches of a network, the mean of which is NaN where none lies between the bounds.
    *(row for at in (0, 1) for row in verdicts(
        f"bounds, {at}", text(BETWEEN.replace("ABOVE", ABOVE[at]).replace("BELOW", BELOW[at]), pitches=PITCHES),
        seed=each(*range(3)), look=lambda r: not r.shown_by_layers)),
    *verdicts("a width that heads divide", each(*(text("g (float[n,s,d] x) => (y) { y = Reshape (x, shape) }",
              shape=[0, 0, heads, -1]) for heads in (3, 5, 6, 7)))),
    *verdicts("edges between nodes", GRAPH_NETWORK, samples=2, look=lambda r: len(r.samples) == 3
              and not [note for note in r.notes if "OpenVINO itself was not asked" not in note]),
    *verdicts("a grid that counts patches", VISION_ENCODER, note="input 'grid' has rows [1, 4, 4]",
              look=counts_patches),
    # As Whisper's encoder: a convolution halves the length, which must then be that of a table.
    *verdicts("a length that a table fixes", text("""g (float[n,6,steps] sound) => (y) {
              half = Conv <kernel_shape = [3], strides = [2], pads = [1, 1]> (sound, filters)
              turned = Transpose <perm = [0, 2, 1]> (half) y = Concat <axis = 2> (turned, positions) }""",
              filters=np.ones((4, 6, 3), np.float32), positions=real(1, 300, 4)),
              look=lambda r: r.inputs["sound"][2] in (599, 600)),
    *verdicts("a square image whose patches a table counts", text("""g (float[n,3,h,w] image) => (y) {
              map = Conv <kernel_shape = [14, 14], strides = [14, 14]> (image, filters)
              columns = Reshape (map, flat) tokens = Transpose <perm = [0, 2, 1]> (columns)
              y = Add (tokens, positions) }""", filters=np.ones((4, 3, 14, 14), np.float32), flat=[0, 4, -1],
              positions=real(1, 25, 4)), look=lambda r: r.inputs == {"image": [1, 3, 70, 70]}),
    *verdicts("indices of the caller", indexed("Gather", "5", "3"), values={"indices": "zeros"}),
    # onnxruntime refuses several sequences of several tokens beside a cache, which is no difference.
    *(row for b, s, p in (("b", "s", "p"), (1, 3, 4), (2, 1, "p"), ("b", 1, 5)) for rotary in (0, 1)
        for row in verdicts(
        f"a cache of {b},{s},{p}, {rotary}", text(GQA.format(b=b, s=s, p=p, rotary=rotary, tables=", cos, sin" * rotary,
        inputs=", float[16,8] cos, float[16,8] sin" * rotary), 17, ', "com.microsoft" : 1'), samples=3,
        look=lambda r: r.inputs["pk"][2] > 0)),
    *verdicts("a mask beside caches", CACHE, look=covers_both),
    *verdicts("windows of 200", text(
              "g (float[n,3,h,w] x) => (y) { y = AveragePool <kernel_shape = [200, 200]> (x) }"),
              look=lambda r: min(r.inputs["x"][2:]) >= 200, note="shapes were tried"),
    # The first run takes one of two inputs as the file declares it, the second neither.
    *verdicts("shapes of each run", text("""g (float[2,8] a, float[9,9] b) => (y) {
              ma = ReduceMean <keepdims = 0> (a, axes)
              mb = ReduceMean <keepdims = 0> (b, axes) y = Add (ma, mb) }""", 18, axes=[0, 1]),
              convert={"input": {"a": [-1, -1], "b": [-1, -1]}},
              look=lambda r: r.inputs["a"] == [2, 8] != r.samples[-1].inputs["a"]),
    # What the second input requires is the size of the first one, too.
    *verdicts("a size of both inputs", text(
              "g (float[n,f] a, float[f,n] b) => (y) { c = MatMul (b, w) y = Add (a, c) }",
              w=np.random.default_rng(1).uniform(0.5, 1, (4, 4)).astype(np.float32))),
    *(row for index, options in enumerate((
        {"input": "x[1,3,64,48]"}, {"input": {"x": [2, 3, 20, 20]}}, {"batch": 5}, {"freeze": {"rate": 2.5}},
        {"input": "x[2,3,16,16],rate=3"}, {"output": ["r"]}, {"output": ["y", "g"], "input": "x[?,3,?,?]"},
        {"input": "x[?,?,16,16]"},  # the number of channels follows from the file
    )) for row in verdicts(f"what convert took, {index}", models.image, convert=options, saving={}, **options,
                           look=lambda r, options=options: [one.name for one in r.outputs] == options.get("output",
                               ["y"]))),
    *(row for shape in ("[?,3,?,?]", "[2,3,?,?]", "[2,3,16,20]") for shape_of_ir in ("[?,?,?,3]", "[2,16,20,3]", shape)
      for row in verdicts(
        f"preprocessed inputs of {shape}, {shape_of_ir}", models.image, saving={}, input=f"x{shape_of_ir}", convert={
            "input": f"x{shape}", "preprocess": {"x": Preprocess(**NHWC, mean=0.5)}})),
    # Steps of pictures: of open dimensions, of other floats, by their shorter side.
    *(row for steps in (Preprocess(**NHWC, mean=MEAN), Preprocess(**NHWC, resize="nearest", size=(9, 11)))
      for row in verdicts(f"pictures of any size, {steps.resize}", partial(model_of_pictures, ("n", 3, "h", "w")),
                          convert={"preprocess": {"image": steps}})),
    # OpenVINO computes float64 in float32.
    *(row for kind, engines in ((10, ("numpy", "openvino")), (11, ("numpy",))) for row in verdicts(
        f"pictures of floats, {kind}", partial(model_of_pictures, kind=kind), saving={}, engine=each(*engines),
        convert={"preprocess": {"image": Preprocess(**NHWC, mean=MEAN, scale=SCALE, resize="linear", color="bgr")}})),
    *(row for resize in ("linear", "bicubic_pillow") for sides in ((31, 23), (29, 53)) for row in verdicts(
        f"the middle of pictures, {resize}, {sides}", model_of_pictures, saving={}, engine=each("numpy", "openvino"),
        inputs={"image": picture(1, *sides, 3)}, convert={"preprocess": {"image": Preprocess(
            **NHWC, resize=resize, size=17, crop=(12, 16))}})),
    *verdicts("values by name", models.image, values={"x": "5..6", "rate": "ones"}, samples=1),
]  # fmt: skip


def ensemble(transform: str, targets: int) -> onnx.ModelProto:
    ids, leaves = sorted([*range(targets)] * 2), [0.5, -1.5] + [1.0, 2.0] * (targets - 1)
    return text(f"""g (float[n,2] x) => (y) {{ y = ai.onnx.ml.TreeEnsembleRegressor <
        n_targets = {targets}, post_transform = "{transform}", nodes_treeids = [0, 0, 0], nodes_nodeids = [0, 1, 2],
        nodes_featureids = [0, 0, 0], nodes_modes = ["BRANCH_LEQ", "LEAF", "LEAF"], nodes_values = [0.0, 0.0, 0.0],
        nodes_truenodeids = [1, 0, 0], nodes_falsenodeids = [2, 0, 0], target_treeids = {[0] * 2 * targets},
        target_nodeids = {[1, 2] * targets}, target_ids = {ids}, target_weights = {leaves}> (x) }}""",
        17, ', "ai.onnx.ml" : 3')()  # fmt: skip


LEAVES = {"x": np.array([[-1, 0], [1, 0], [-2, 0]], np.float32)}
DEVIATIONS = [
    # onnxruntime ignores the transform of a single target.
    *(row for transform in ("NONE", "LOGISTIC", "SOFTMAX") for targets in (1, 2) for row in verdicts(
        f"{transform} of {targets}", partial(ensemble, transform, targets), None,
        UNPROVEN if (transform, targets) == ("SOFTMAX", 1) else RIGHT, differ="", first="", inputs=LEAVES,
        look=lambda r, is_ignored=transform != "NONE" and targets == 1: is_ignored == any(
            "onnxruntime#26596" in note for note in r.notes))),
    *verdicts("another transform", partial(ensemble, "LOGISTIC", 1), None, DIFFERENT, of=partial(ensemble, "NONE", 1),
              inputs=LEAVES),
]  # fmt: skip


def reshaping(dims: str, shape: list[int], more: str = "y = Relu (f)") -> Any:
    return text(f"g (float[{dims}] x) => (y) {{ f = Reshape (x, s) {more} }}", s=shape, w=real(48, 4))


PRODUCT = "y = MatMul (f, w)"
REFUSED = [
    # name, the model, the one whose IR it is, the shape of both, what is refused
    ("a batch that layers determine", reshaping("n,3", [-1, 3]), reshaping("n,3", [5, 3]), "",
        "reference takes x[6, 3]"),
    ("a batch of one", reshaping("n,3", [-1, 3]), reshaping("n,3", [1, 3]), "", "reference takes x[2, 3]"),
    ("the batch that is tried first", reshaping("n,3", [-1, 3]), reshaping("n,3", [2, 3]), "", "takes x[3, 3]"),
    ("a reference of one batch", reshaping("n,3", [2, 3]), reshaping("n,3", [-1, 3]), "", "the IR takes x["),
    ("one batch on both sides", reshaping("n,3", [5, 3]), None, "", ""),
    ("a wider IR", reshaping("1,3,4,4", [1, 48]), None, "x[?,3,4,4]",
        "the IR declares x[?,3,4,4], but does not take x[2,"),
    ("a wider IR before a product", reshaping("1,3,4,4", [1, -1], PRODUCT), None, "x[?,3,4,4]",
        "does not take x[2, 3, 4, 4]"),
    ("open sides of an image", reshaping("1,3,4,4", [0, -1], PRODUCT), None, "x[1,3,?,?]", "does not take x[1, 3, "),
    ("any batch", reshaping("1,3,4,4", [0, -1], PRODUCT), None, "x[?,3,4,4]", ""),
]  # fmt: skip
SIZES = [
    row for name, model, of, shape, refused in REFUSED for options in [{"input": shape} if shape else {}]
    for row in verdicts(name, model, None, DIFFERENT if refused else RIGHT, of=of, differ="", convert=options, **options,
                        look=lambda r, refused=refused: refused in r.refused and bool(refused) == bool(r.refused))
]  # fmt: skip

TIES = {
    "round": "float[n,24] x) => (y) { y = Round (x) }",
    "sign": "float[n,24] x) => (y) { y = Sign (x) }",
    "floor": "float[n,24] x) => (y) { y = Floor (x) }",
    "clip": "float[n,24] x) => (y) <float low = {-1.5}, float high = {70}> { y = Clip (x, low, high) }",
    "relu": "float[n,24] x) => (y) { y = Relu (x) }",
    "less": "float[n,24] a, float[n,24] b) => (y) { c = Less (a, b) y = Cast <to = 1> (c) }",
    "greater": "float[n,24] a, float[n,24] b) => (y) { c = Greater (a, b) y = Cast <to = 1> (c) }",
    "greater-or-equal": "float[n,24] a, float[n,24] b) => (y) { c = GreaterOrEqual (a, b) y = Cast <to = 1> (c) }",
    "maximum": "float[n,24] a, float[n,24] b) => (y) { y = Max (a, b) }",
    "largest": "float[n,24] x) => (y) { c = ArgMax <axis = 1> (x) y = Cast <to = 1> (c) }",
    "last-largest": "float[n,24] x) => (y) { c = ArgMax <axis = 1, select_last_index = 1> (x) y = Cast <to = 1> (c) }",
    "gather": "float[7,4] data, int64[5] indices) => (y) { y = Gather (data, indices) }",
    "threshold": "float[n,24] x) => (y) { y = ThresholdedRelu <alpha = 0.5> (x) }",
    "quantize": """float[n,24] x) => (y) <float scale = {0.25}, uint8 zero = {100}> {
                   c = QuantizeLinear (x, scale, zero)  y = Cast <to = 1> (c) }""",
    "nan": "float[n,24] x) => (y) { c = IsNaN (x) y = Cast <to = 1> (c) }",
}


def without_sign(model: Model) -> None:
    """Indices that lie at 0 or above are the same."""
    gather = layer(model, "Gather")
    gather.replace_input(1, make_node(find_operation("Abs", 1)(), [gather.inputs[1]], "without_sign").outputs[0])


DECIDING = {
    "round": attributes("Round", mode="half_away_from_zero"), "clip": attributes("Clamp", max=71.0),
    "relu": operation("ReLU", "Clamp", min=0.0, max=1000.0), "less": operation("Less", "LessEqual"),
    "greater": operation("Greater", "GreaterEqual"), "greater-or-equal": operation("GreaterEqual", "Greater"),
    "gather": without_sign, "quantize": attributes("Round", mode="half_away_from_zero"),
}  # fmt: skip
"""Edits that normal values never show: ties, equal operands, bounds, negative indices."""


def is_named(report: Report) -> bool:
    """Each difference from the derivation is in the reason."""
    names = [one.layer or one.other for one in report.derivation.differences]
    return names != [] and all(f"layer '{name}'" in report.reason for name in names)


DIRECTED = [
    *(row for name, graph in TIES.items() for target in ("any", "cpu") for options in ({"layers": True},
        {"stress": True})
      for row in verdicts(f"{name}, {target}, {[*options]}", text(f"g ({graph}", 18), convert={"target": target},
          **options)),
    *(row for name, edit in DECIDING.items() for model in [text(f"g ({TIES[name]}", 18)]
      for given in [{"seed": 1, "convert": {"target": "any"},
          "values": {"indices": "0..6"} if name == "gather" else {}}]
      for row in (
        *verdicts(f"{name}, not shown", model, edit, EQUAL, record=False, **given),
        *verdicts(f"{name}, layers", model, edit, DIFFERENT, record=False, layers=True, reason="layer",
                  look=lambda r: r.first_fault is not None, **given),
        *verdicts(f"{name}, stress", model, edit, DIFFERENT, record=False, stress=True, reason="layer",
                  look=lambda r: r.first_fault is not None, **given),
        # The record names the layer, whatever the inputs are; with directed values it is wrong as well.
        *verdicts(f"{name}, recorded", model, edit, UNPROVEN, layers=False, look=is_named, **given),
        *verdicts(f"{name}, recorded, layers", model, edit, DIFFERENT, **given))),
    *verdicts("the reason names the values", text(f"g ({TIES['round']}", 18), DECIDING["round"], DIFFERENT, layers=True,
              look=lambda r: "on ties, bounds and equal operands" in str(r)),
]  # fmt: skip
TABLES = {"fitting": FITTING, "deviations": DEVIATIONS, "sizes": SIZES, "directed": DIRECTED}
