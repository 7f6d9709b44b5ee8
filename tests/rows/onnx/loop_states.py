"""What loops carry round as exporters write it: weights that stay, placeholders, [] where [1] was meant."""

from __future__ import annotations

import numpy as np

from tests.rows.onnx.control_flow import normal, trips
from tests.rows.row import const, each, graphs

HANDING_ON = """g (int64 n, float[2,3] x, float[3] w0) => (float[] m2, float[] s2, float[] w2, float[] j_all) {
    m2, s2, w2, j_all = Loop (n, , m, x, w0) <body = b (int64 i, bool go, float[] weights, float[] s, float[] w)
        => (bool[] on, float[] weights, float[] s_next, float[] w, float[] j) {
        on = Identity (go)  p = MatMul (s, weights)  s_next = Add (p, w)  j = ReduceSum <keepdims = 0> (s_next) }>
}"""
"""The weights and the input w go round as they are, beside a state that changes and a joined output."""
PLACEHOLDER = """g ({}float[n,3] x) => (float[] y) <float nothing = {{0}}> {{
    s_end, v_end = Loop (m, , x, nothing) <body = b (int64 i, bool go, float[] s, float[n,3] v)
        => (bool[] on, float[] s_next, float[n,3] v_next) {{
        on = Identity (go)  s_next = Add (s, x)  v_next = Mul (s_next, x) }}>
    y = Softmax <axis = -1> (v_end)
}}"""
"""The state v begins as a scalar that nobody reads, and is a matrix from the first iteration on."""
SCALARS = """g (bool c, float x) => (float[] y) <int64[1] axes = {{0}}> {{
    y = If (c) <then_branch = g1 () => (float{} t) {{ t = Constant <value_float = 2.0> () }},
                else_branch = g2 () => (float{} e) {{ e = Unsqueeze (x, axes) }}>
}}"""
BECOMES_LIST = """g (int64 n, float x) => (float[] y) {
    y = Loop (n, , x) <body = b (int64 i, bool go, float s) => (bool[] on, float s_next) <float[1] one = {1}> {
        on = Identity (go)  s_next = Add (s, one) }>
}"""
DOUBLED = """g ({}float[2] x) => (float[] y) {{
    y = Loop (n, , x) <body = b (int64 i, bool go, float[] s) => (bool[] on, float[] s_next) {{
        on = Identity (go)  s_next = Add (s, s) }}>
}}"""
APPENDED = """g ({inputs}float[2,3] x) => ({kind}[] y) <int64 two = {{2}}, int64 last = {{-1}}> {{
    empty = SequenceEmpty ()
    end, q = Loop (n, , x, empty) <body = b (int64[1] i, bool go, float[] s, seq(float[]) l)
        => (bool[] on, float[] s_next, seq(float[]) l_next) {{
        on = Identity (go)  s_next = Add (s, s)  l_next = SequenceInsert (l, s_next)  {more} }}>
    y = {reader}
}}"""
"""Each iteration appends the state, doubled, as recorded lists are exported."""
PREFIXES = """g (int64 n, {kind}[{sizes}] x) => ({outputs})
    <int64[1] one = {{1}}, int64[1] zero = {{0}}, int64[1] axis = {{{axis}}}> {{
    empty = SequenceEmpty <dtype = {to}> ()
    q = Loop (n, , empty) <body = b (int64 i, bool go, seq({kind}[]) l) => (bool[] on, seq({kind}[]) l_next) {{
        on = Identity (go)  stop = Reshape (i, one)  prefix = Slice (x, zero, stop, axis)
        l_next = SequenceInsert (l, prefix) }}>
    {readers}
}}"""
"""The first i elements of x along an axis are appended in iteration i."""
NUMBERED = """g ({}float[4,3] x) => (float[] y) {{
    y = Loop (n, , ) <body = b (int64[1] i, bool[1] go) => (bool[] on, float[] r) <int64[1] one = {{1}}> {{
        on = Identity (go)  j = Add (i, one)  row = Slice (x, i, j)  r = ReduceSum <keepdims = 0> (row) }}>
}}"""
KNOWN_OR_NOT = {"": const, "int64 n, ": np.asarray}
"""The declaration of a number of iterations and what its value is wrapped in."""
X = normal(2, 3)


def softmax(x: np.ndarray) -> np.ndarray:
    shares = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=-1, keepdims=True), np.float32)


def prefixes(label: str, kind: str, sizes: str, axis: int, readers: str, **more: object) -> object:
    lengths = zip(sizes.split(","), (5, 3, 2) if axis == 0 else (2, 5, 3))
    shape = [int(size) if size.isdigit() else length for size, length in lengths]
    x = normal(*shape) if kind == "float" else np.arange(15).reshape(shape)
    outputs = ", ".join(f"{'int64' if name == 'k' else kind}[] {name}" for name in "yzk" if f"{name} = " in readers)
    to = 1 if kind == "float" else 7
    text = PREFIXES.format(kind=kind, sizes=sizes, axis=axis, readers=readers, to=to, outputs=outputs)
    return graphs(text, label=label, x=x, **{"n": trips(1, 2, 5), **more})


JOIN = "y = ConcatFromSequence <axis = 0> (q) "
READERS = (
    "ConcatFromSequence <axis = 0, new_axis = 1> (q)", "ConcatFromSequence <axis = 2, new_axis = 1> (q)",
    "ConcatFromSequence <axis = -2, new_axis = 1> (q)", "ConcatFromSequence <axis = 0> (q)",
    "ConcatFromSequence <axis = -1> (q)", "SequenceAt (q, two)", "SequenceAt (q, last)", "SequenceLength (q)",
)  # fmt: skip
UNCHANGED = [*graphs(HANDING_ON, label="handing_on", n=trips(3, 1), x=X, w0=normal(3), m=const(normal(3, 3)))]
ROWS = [
    *UNCHANGED,
    # onnxruntime gives the joined output of nothing another shape.
    *graphs(HANDING_ON, label="handing_on", n=trips(0), x=X, w0=normal(3), m=const(normal(3, 3)),
            expect=lambda m, x, w0: [m, x, w0, np.zeros(0, np.float32)]),
    *graphs(PLACEHOLDER.format(""), label="placeholder", x=X, m=const(3), expect=softmax(4 * X * X)),
    *graphs(PLACEHOLDER.format("int64 m, "), label="placeholder", x=X, m=np.array(3),
            refused="Softmax.*rank of the input must be known"),
    *(row for declared, shape in (("", ()), ("[1]", (1,))) for truth, value in ((True, 2), (False, 5)) for row in graphs(
        SCALARS.format(declared, declared), label="scalars", c=np.array(truth), x=np.array(5, np.float32),
        expect=np.full(shape, value, np.float32))),
    *graphs(SCALARS.format("", "[1]"), label="scalars", c=np.array(True), x=np.array(5, np.float32),
            refused="rank 0 in then_branch, but 1 in else_branch"),
    *graphs(BECOMES_LIST, label="becomes_a_list", n=np.array(3), x=np.array(2, np.float32),
            expect=np.array(5, np.float32)),
    *(row for declared, wrap in KNOWN_OR_NOT.items() for row in (
        *graphs(DOUBLED.format(declared), label="no_trips", n=each(*(wrap(np.array(n)) for n in (-1, -7))), x=X[0, :2]),
        *graphs(NUMBERED.format(declared), label="numbered", n=wrap(np.array(3)), x=normal(4, 3)),
        *(row for reader in READERS for row in graphs(
            APPENDED.format(inputs=declared, kind="int64" if "Length" in reader else "float", more="", reader=reader),
            label="appended", n=wrap(np.array(3)), x=X)))),
    *graphs(APPENDED.format(inputs="", kind="float", more="", reader=READERS[0]), label="appended", n=const(2), x=X,
            layers=["Add-1", "Unsqueeze-1", "Add-1", "Unsqueeze-1", "Concat-1"]),
    *graphs(APPENDED.format(inputs="int64 n, ", kind="float", more="count = SequenceLength (l)", reader=READERS[0]),
            label="appended", n=np.array(3), x=X, refused=r"\(Loop.*the sequence 'l' is more than appended to"),
    *prefixes("prefixes", "float", "5,3", 0, JOIN),
    *prefixes("prefixes", "float", "a,3", 0, JOIN),
    *prefixes("prefixes", "int64", "a,b", 0, JOIN + "k = SequenceLength (q)"),
    *prefixes("prefixes", "float", "2,b", 1, "y = ConcatFromSequence <axis = 1> (q)"),
    *prefixes("prefixes", "float", "a,b,c", 1, "y = ConcatFromSequence <axis = -2> (q)"),
    *prefixes("prefixes", "float", "a", 0, JOIN + "z = ConcatFromSequence <axis = -1> (q)"),
    # onnxruntime refuses to join an empty sequence; without a tensor no dimension has a size.
    *prefixes("prefixes_of_nothing", "float", "a,b", 0, JOIN, n=trips(0), expect=np.zeros((0, 0), np.float32)),
    *prefixes("prefixes", "float", "a,3", 0, JOIN + "last = Constant <value_int = -1> () z = SequenceAt (q, last)",
              refused="its tensors may differ in size"),
]  # fmt: skip
