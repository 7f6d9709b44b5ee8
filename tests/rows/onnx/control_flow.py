"""If, Loop and Scan with states that stay or grow and few or no iterations; functions of models and of schemas."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from tests.rows.row import Row, const, each, graphs, normal_by, rows, several

RNG = np.random.default_rng(11)
normal = normal_by(RNG)
TRUTH = each(np.array(True), np.array(False))
CHOICE = """g ({}float[{}] x) => (float[] y) {{
    y = If (c) <then_branch = g1 () => (float[] t) {{ t = Neg (x) }}, else_branch = g2 () => (float[] e) {{ e = Exp (x) }}>
}}"""
SQUEEZED = """g (float[{dims}] x, float[n] v) => (float[a,b] y{outputs}) <int64[1] last = {{-1}}, int64 one = {{1}}> {{
    s = Shape (x)  d = Gather (s, last)  is_one = Equal (d, one)
    q = If (is_one) <then_branch = g1 () => (t) {{ t = Squeeze (x, last) }},
                     else_branch = g2 () => (e) {{ e = Identity (x) }}>
    {nodes}
}}"""
UNSQUEEZED = """r = Shape (q)  size = Size (r)  is_flat = Equal (size, one)
    u = If (is_flat) <then_branch = g3 () => (t2) { t2 = Unsqueeze (q, last) },
                      else_branch = g4 () => (e2) { e2 = Identity (q) }>
    """
"""What PyTorch's squeeze of a dimension becomes, and what reads the rank of its result."""
COLUMN = "column = Constant <value = int64[2] {-1, 1}> ()  "
READERS = {
    "rank": (UNSQUEEZED + "y = Relu (u)", ""),
    "second_reader": (UNSQUEEZED + "w = Neg (q)  z = ReduceSum <keepdims = 0> (w)  y = Add (u, z)", ""),
    "two_outputs": (UNSQUEEZED + "y = Relu (u)  z = ReduceMax <keepdims = 0> (q)", ", float z"),
    "node_between": (UNSQUEEZED + "p = Exp (v) k = Size (q) l = Add (k, k) f = Cast <to = 1> (l) y = Mul (u, f)", ""),
    "reshape": (COLUMN + "a = Neg (q)  b = Exp (a)  y = Reshape (b, column)", ""),
    "other_input": (COLUMN + "p = Abs (x)  a = Mul (q, q)  b = Reshape (a, column)  h = Add (p, p) "
                    "k = Reshape (h, column)  y = Sub (b, k)", ""),
    "size": ("y = Identity (x)  z = Size (q)", ", int64 z"),
}  # fmt: skip
SETTLED = """g (float[n,{}] x) => (float[] y) <int64 at = {{-1}}, int64 one = {{1}}, int64[1] axes = {{1}}> {{
    s = Shape (x)  d = Gather (s, at)  c = Equal (d, one)
    y = If (c) <then_branch = g1 () => (float[] t) {{ t = Squeeze (x, axes) }},
                else_branch = g2 () => (float[] e) {{ e = Identity (x) }}>
}}"""
NESTED = """g (bool c, bool d, float[2,3] x, float[3] w) => (float[] y) <float k = {0.5}> {
    y = If (c) <
        then_branch = g1 () => (float[] n) { m = Sub (x, k)  n = If (d) <
            then_branch = g2 () => (float[] nt) { nt = Add (x, w) },
            else_branch = g3 () => (float[] ne) { ne = Mul (m, k) }> },
        else_branch = g4 () => (float[] e) { e = Mul (x, x) }>
}"""
DIFFERENT = """g (bool c, float[2,3] a, float[2,2] b) => (float[] y, float[] z) {
    y, z = If (c) <then_branch = g1 () => (float[] t0, float[] t1) { t0 = Identity (a)  t1 = Neg (b) },
                   else_branch = g2 () => (float[] e0, float[2,2] k) <float[2,2] k = {1, 1, 1, 1}> {
                       e0 = Concat <axis = 0> (a, a) }>
}"""
MISFIT = """g (bool c, float[2,3] x, float[4] w) => (float[] y) {{
    y = If (c) <then_branch = g1 () => ({}) {{ {} }}, else_branch = g2 () => ({}) {{ {} }}>
}}"""
CONTRADICTORY = """g (bool c, float[{rows},3] x, float[4] w) => ({kind}[] y) {{
    y = If (c) <{odd} = g1 () => ({kind}[] oc) {{ o = Add (x, w)  oc = Cast <to = {to}> (o) }},
                {good} = g2 () => ({kind}[] gc) {{ g = Neg (x)  gc = Cast <to = {to}> (g) }}>
}}"""
NAMED = ("then_branch", "else_branch")
HALF_ZERO = np.array([[1, 0, 3], [-4, 5, 6]], np.float32)
LOOP = """g ({inputs}float[2] x) => (float[] y{outputs}) {{
    y{results} = Loop ({arguments}, x) <body = b (int64 i, bool{start} go, float[] v)
        => (bool[] on, float[] v_next{joined}) <float limit = {{{limit}}}, int64[1] axes = {{0}}> {{
        fi = Cast <to = 1> (i)  vv = Add (v, v)  v_next = Add (vv, fi)
        sum = ReduceSum <keepdims = 0> (v_next)  on = Less (sum, limit)  {nodes}
    }}>
}}"""
"""The state becomes its double and the number of the iteration, while its sum is below the limit."""
JOINED = {
    "outputs": ", float[] a, float[] b, float[] c", "results": ", a, b, c",
    "joined": ", float[] r0, float[] r1, float[] r2",
    "nodes": "r0 = ReduceMax <keepdims = 0> (v_next)  r1 = Identity (v_next)  r2 = Unsqueeze (v_next, axes)",
}  # fmt: skip
ONE_JOINED = {"outputs": ", float[] a", "results": ", a", "joined": ", float[] r", "nodes": "r = Identity (v_next)"}
GROWING = """g (int64 n, float[1,2] x, float[2,2] w) => (float[] y) {
    y = Loop (n, , x) <body = b (int64 i, bool go, float[] v) => (bool[] on, float[] v_next) {
        on = Identity (go)  v_next = Concat <axis = 0> (v, w) }>
}"""
CAPTURES = """g (int64 n, float[2] x, float[2] z, float[4,2] rows) => (float[] p, float[] q, float[] r) {
    p, q, r = Loop (n, , x, z) <body = b (int64 i, bool go, float[] a, float[] b)
        => (bool[] on, float[] a_next, float[] b_next, float[] both) <float scale = {0.5}> {
        on = Identity (go)  row = Gather (rows, i)  a_next = Add (a, row)  b_next = Mul (b, scale)
        both = Add (a_next, b_next) }>
}"""
IF_INSIDE = """g (int64 n, float[2] x, float[2] w) => (float[] y) {
    y = Loop (n, , x) <body = b (int64 i, bool go, float[2] v) => (bool[] on, float[] v_next) <int64 two = {2}> {
        on = Identity (go)  rest = Mod (i, two)  odd = Cast <to = 9> (rest)
        v_next = If (odd) <then_branch = g1 () => (float[] t) { t = Add (v, w) },
                           else_branch = g2 () => (float[] e) { e = Mul (v, w) }> }>
}"""
BODY = """g (int64 n, float[2] x) => (float[] y) {{
    y = Loop (n, , x) <body = b ({}) => ({}) {{ on = Identity (go) {} }}>
}}"""
SCAN = """g (float[{x}] x, float[{p}] p, float[{q}] q) => (float[] y, float[] z) {{
    y, z = Scan <num_scan_inputs = {count}{attributes}, body = b (float[{d}] s, float[{d}] a, float[{d}] b)
        => (float[{d}] s_next, float[{d}] out) {{ s_next = Add (s, a)  out = Mul (s_next, b) }}> ({first}x, p, q)
}}"""
"""The running sum of slices of p, times the slices of q."""
STATELESS = """g (float[4,3] p, float[3,2] w) => (float[] y, float[] z) {
    y, z = Scan <num_scan_inputs = 1, body = b (float[3] a) => (float[2] m, float total) {
        m = MatMul (a, w)  total = ReduceSum <keepdims = 0> (m) }> (p)
}"""
SWAPPED = """g (int64 n, {kind}[2] x, {kind}[2] y) => ({kind}[] p, {kind}[] q, {kind}[] r) {{
    p, q, r = Loop (n, , x, y) <body = b (int64 i, bool go, {kind}[2] a, {kind}[2] b)
        => (bool[] on, {kind}[2] a2, {kind}[2] b2, {kind}[2] joined) {{
        on = Identity (go)  a2 = Identity (b)  b2 = Identity (a)  joined = Identity (a) }}>
}}"""
PREVIOUS = """g (float[{n}] x, float[5,4] p) => (float[] y, float[] z) {{
    y, z = Scan <num_scan_inputs = 1, body = b (float[{n}] x, float[4] p) => (float[{n}] x2, float[{n}] joined)
        <int64[1] shape = {{4}}> {{ {step}  joined = Identity (x) }}> (x, p)
}}"""


def looped(label: str, arguments: str, inputs: str = "", limit: float = 1e9, start: str = "", opset: Any = 17,
           expect: Any = None, joined: Any = None, **values: Any) -> Iterator[Row]:  # fmt: skip
    parts = dict.fromkeys(JOINED, "") | (joined or {})
    text = LOOP.format(inputs=inputs, arguments=arguments, limit=limit, start=start, **parts)
    yield from graphs(text, label=label, opset=opset, x=np.array([1, 2], np.float32), **values, expect=expect)


def scanned(label: str, attributes: str = "", shapes: Any = ((3,), (4, 3), (4, 3)), opset: Any = 17, count: int = 2,
            first: str = "", **more: Any) -> Iterator[Row]:  # fmt: skip
    arrays = dict(zip("xpq", (normal(*shape) for shape in shapes)))
    sizes = {name: ",".join(map(str, value.shape)) for name, value in arrays.items()}
    text = SCAN.format(**sizes, d="d", attributes=attributes and f", {attributes}", count=count, first=first)
    yield from graphs(text, label=label, opset=opset, **arrays, **more)


def trips(*counts: int) -> Any:
    return each(*map(np.array, counts))


X = normal(2, 3)
ROWS = [
    *(row for opset in (8, 11, 13, 17) for dims in ("2,3", "n,3") for row in graphs(
        CHOICE.format("bool c, ", dims), label="if", opset=opset, c=TRUTH, x=X)),
    *graphs(CHOICE.format("bool[1] c, ", "2,3"), label="if_of_rank_1", x=X,
            c=each(np.array([True]), np.array([False]))),
    *graphs(CHOICE.format("", "2,3"), label="if_known", x=X, c=const(True), layers=["Negative-1"]),
    *graphs(CHOICE.format("", "2,3"), label="if_known", x=X, c=const(False), layers=["Exp-1"]),
    # How exporters write a squeeze of a dimension that may not be 1. onnxruntime refuses the branch not taken as well.
    *graphs(SETTLED.format(1), label="if_settled", x=normal(2, 1), layers=["VariadicSplit-1", "Squeeze-1"]),
    *graphs(SETTLED.format(3), label="if_settled", x=X, layers=["VariadicSplit-1"]),
    *graphs(SETTLED.format("m"), label="if_settled", x=X,
            refused="rank 1 in then_branch, but 2 .* 0 and 1 of the input 'x'"),
    # Readers become part of both branches, in which the rank is known, until one rank is returned.
    *(row for label, (nodes, outputs) in READERS.items()
      for dims, *shape in (("n,m", 3, 1), ("n,m", 3, 4), ("n,m", 1, 1), ("n,1", 3, 1), ("3,m", 3, 4), ("3,1", 3, 1))
      for row in graphs(SQUEEZED.format(dims=dims, nodes=nodes, outputs=outputs), label=f"reader_{label}",
                        x=normal(*shape), v=normal(shape[0]))),
    *graphs(SQUEEZED.format(dims="n,m", nodes="y = Identity (x)", outputs=", float q"), label="reader_output", x=X,
            v=X[:, 0], refused="node 'q' .*rank 1 in then_branch, but 2 in else_branch"),
    *graphs(NESTED, label="if_nested", c=TRUTH, d=TRUTH, x=X, w=normal(3)),
    *graphs(DIFFERENT, label="if_of_different_dimensions", c=TRUTH, a=X, b=normal(2, 2)),
    *(row for branches, message in (
        (("float[] t", "t = Neg (x)", "int64[] e", "e = Cast <to = 7> (x)"), "f32 in then_branch, but i64"),
        (("float[] t", "t = ReduceSum <keepdims = 0> (x)", "float[] e", "e = Neg (x)"),
         "rank 0 in then_branch, but 2 in else_branch.*depends on the value of the input 'c': freeze it"),
        (("float[] t, float[] u", "t = Neg (x) u = Abs (x)", "float[] e", "e = Neg (x)"),
         "then_branch has 2 outputs, but else_branch has 1"),
        (("float[] t", "t = Add (x, w)", "float[] e", "e = Add (w, x)"), "neither branch fits.*"))
      for row in graphs(MISFIT.format(*branches), label="misfit", x=X, c=np.array(True), w=X[0], refused=message)),
    # The other branch is at odds with the shapes: onnxruntime does not get past its type inference.
    *(row for (kind, to, dtype), n, odd in itertools.product(
        (("float", 1, "f4"), ("int64", 7, "i8"), ("bool", 9, "?")), (2, "n"), (0, 1)) for row in graphs(
            CONTRADICTORY.format(kind=kind, to=to, rows=n, odd=NAMED[odd], good=NAMED[1 - odd]), label="contradictory",
            c=np.array(odd == 1), x=HALF_ZERO, w=normal(4))),
    *(row for opset, limit in itertools.product((11, 13, 17), (30.0, 1e9)) for row in looped(
        "loop", "n, c", "int64 n, bool c, ", limit, opset=opset, n=trips(0, 1, 4), c=np.array(True))),
    *looped("loop_by_lists", "n, c", "int64[1] n, bool[1] c, ", start="[1]", n=np.array([3]),
            c=each(np.array([True]), np.array([False]))),
    *looped("loop_by_constants", ", c", limit=50, c=const(True)),
    *looped("loop_by_constants", "n, ", limit=50, n=const(3)),
    *looped("loop_by_constants", ", ", limit=50),
    *looped("loop_by_constants", "n, c", limit=50, n=const(each(0, 2**63 - 1)), c=const(True)),
    *looped("loop_joined", "n, ", n=const(each(1, 3)), joined=JOINED),
    *looped("loop_joined", "n, ", "int64 n, ", n=trips(1, 3), joined=JOINED),
    # The shape of no iterations is known; onnxruntime gives [0] where the file declares none.
    *looped("loop_joined", "n, ", "int64 n, ", n=np.array(0), joined=ONE_JOINED,
            expect=lambda x: [x, np.zeros((0, 2), np.float32)]),
    *graphs(GROWING, label="growing", n=trips(0, 1, 3), x=normal(1, 2), w=normal(2, 2)),
    *graphs(CAPTURES, label="captures", n=np.array(3), x=normal(2), z=normal(2), rows=normal(4, 2)),
    *graphs(IF_INSIDE, label="if_inside", n=np.array(5), x=normal(2), w=normal(2)),
    *graphs(BODY.format("int64[] i, bool[] go", "bool[] on", ""), label="misfit", n=np.array(1), x=X[0, :2],
            refused="does not fit 1"),
    *graphs(BODY.format("int64[] i, bool[] go, float[] v", "bool[] on, int64[] w", "w = Cast <to = 7> (v)"),
            label="misfit", n=np.array(1), x=X[0, :2], refused="is f32, but becomes i64"),
    *(row for attributes, p, q in (
        ("", (4, 3), (4, 3)), ("scan_input_directions = [1, 0]", (4, 3), (4, 3)),
        ("scan_output_directions = [1]", (4, 3), (4, 3)),
        ("scan_input_axes = [1, 0], scan_output_axes = [1]", (3, 4), (4, 3)),
        ("scan_input_axes = [1, 1], scan_output_axes = [1], scan_input_directions = [0, 1]", (3, 4), (3, 4)),
        ("scan_input_axes = [-1, -2], scan_output_axes = [-1]", (3, 4), (4, 3)))
      for opset in ((9, 11, 17) if "-" not in attributes else (17,))
      for row in scanned("scan", attributes, ((3,), p, q), opset)),
    *(row for batch in (1, 3) for how in ("", "directions = [1, 1]") for row in scanned(
        "scan_of_a_batch", how, ((batch, 3), (batch, 4, 3), (batch, 4, 3)), 8, first=", ")),
    *graphs(STATELESS, label="scan_without_states", p=normal(4, 3), w=normal(3, 2)),
    *scanned("scan", count=4, refused="num_scan_inputs must be from 1 to 3, but is 4"),
    *scanned("scan", "scan_input_axes = [0]", refused="scan_input_axes must have 2 entries"),
    *scanned("scan", "scan_input_axes = [0, 2]", refused="scan_input_axes"),
    *scanned("scan", "scan_output_axes = [2]", refused="scan_output_axes"),
    *(row for kind, dtype in (("float", "f4"), ("int64", "i8"), ("bool", "?"), ("float16", "f2")) for row in graphs(
        SWAPPED.format(kind=kind), label=f"swapped_{kind}", n=trips(1, 2, 5), x=np.array([1, 0], dtype),
        y=np.array([0, 1], dtype))),
    *(row for n, step in (
        (4, "x2 = Identity (p)"), (2, "x2, rest = Split <axis = 0> (p)"), (4, "x2 = Reshape (p, shape)"))
      for row in graphs(PREVIOUS.format(n=n, step=step), label="previous_slice", x=normal(n), p=normal(5, 4))),
]  # fmt: skip

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
STATE_READERS = (
    "ConcatFromSequence <axis = 0, new_axis = 1> (q)", "ConcatFromSequence <axis = 2, new_axis = 1> (q)",
    "ConcatFromSequence <axis = -2, new_axis = 1> (q)", "ConcatFromSequence <axis = 0> (q)",
    "ConcatFromSequence <axis = -1> (q)", "SequenceAt (q, two)", "SequenceAt (q, last)", "SequenceLength (q)",
)  # fmt: skip
UNCHANGED = [*graphs(HANDING_ON, label="handing_on", n=trips(3, 1), x=X, w0=normal(3), m=const(normal(3, 3)))]
ROWS += [
    *UNCHANGED,
    # onnxruntime gives the joined output of nothing another shape.
    *graphs(HANDING_ON, label="handing_on", n=trips(0), x=X, w0=normal(3), m=const(normal(3, 3))),
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
        *(row for reader in STATE_READERS for row in graphs(
            APPENDED.format(inputs=declared, kind="int64" if "Length" in reader else "float", more="", reader=reader),
            label="appended", n=wrap(np.array(3)), x=X)))),
    *graphs(APPENDED.format(inputs="", kind="float", more="", reader=STATE_READERS[0]), label="appended", n=const(2), x=X,
            layers=["Add-1", "Unsqueeze-1", "Add-1", "Unsqueeze-1", "Concat-1"]),
    *graphs(APPENDED.format(inputs="int64 n, ", kind="float", more="count = SequenceLength (l)", reader=STATE_READERS[0]),
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

ONES, START = np.ones((2, 3), np.float32), np.full((2, 3), 3, np.float32)
NOTHING = [START, np.zeros((0, 2, 3), np.float32), np.zeros(0, np.int32)]
IDLE_LOOP = """{0} = Loop ({1}, {2}, s0) <body = b (int64 i, bool before, float{3} s) =>
    (bool again, float{3} t, float{3} positive, int32 number) {{
        t = Add (s, x) positive = Relu (t) number = Cast <to = 6> (i) again = Identity (before) }}>"""
"""A sum as a loop-carried value, its positive part and the number of the iteration, which are joined."""
CONTROL: dict[str, dict[str, Any]] = {
    "no_trips": {"m": np.int64(0)},
    "no_trips_of_a_list": {"m": np.array([0])},
    "fewer_than_no_trips": {"m": np.int64(-2), "c": np.bool_(True)},
    "false": {"c": np.bool_(False)},
    "false_some_trips": {"m": np.int64(3), "c": np.bool_(False)},
    "both": {"m": np.int64(0), "c": np.bool_(False)},
}
"""Trip counts and conditions, as far as there are some."""
ENDS = "end, positives, numbers"
ELSEWHERE = """other = Neg (s0) others = Unsqueeze (s0, first) five = Constant <value_ints = [5]> ()
    cast = Cast <to = 6> (five)"""


def loop(control: Any, outputs: str = ENDS, dims: str = "[2, 3]") -> str:
    return IDLE_LOOP.format(outputs, *(name if name in control else "" for name in "mc"), dims)


def idle(label: str, nodes: str, expect: Any = NOTHING, outputs: str = ENDS, **arguments: Any) -> Iterator[Row]:
    constants = {name: const(value) if name in ("m", "c") else value for name, value in arguments.items()}
    for row in several(nodes, label=label, outputs=outputs, x=ONES, s0=START, expect=expect, **constants):
        yield replace(row, absent="Loop", group="idle")


def inside_an_if() -> Iterator[Row]:
    kinds = ("float[]", "float[]", "int32[]")
    then, otherwise = (", ".join(map(" ".join, zip(kinds, names))) for names in ("abd", ("other", "others", "cast")))
    nodes = "{0} = If (choice) <then_branch = t () => ({1}) {{ {2} }}, else_branch = e () => ({3}) {{ {4} }}>"
    for name, choice in itertools.product(("no_trips", "false", "both"), (True, False)):
        text = nodes.format(ENDS, then, loop(CONTROL[name], "a, b, d"), otherwise, ELSEWHERE)
        yield from idle(
            f"if-{name}", text, None, choice=np.array(choice), first=const([0]), **CONTROL[name]
        )  # fmt: skip


FOLDED = "m = Sub (a, a) c = Less (a, a)"
BY_SHAPE = "shape = Shape (rows) m = Gather (shape, zero) c = Greater (m, zero)"
ROWS += [
    *(
        row
        for (name, control), opset in itertools.product(CONTROL.items(), (8, 11, 13, 21))
        for row in idle(f"{name}-{opset}", loop(control), opset=opset, **control)
    ),
    *inside_an_if(),
    *idle("folded", f"{FOLDED} {loop('mc')}", a=const(np.int64(4))),
    *(
        row
        for control in ("m", "c", "mc")
        for row in idle(f"declared-{control}", f"{BY_SHAPE} {loop(control)}", rows=np.zeros((0, 5), np.float32), zero=const(np.int64(0)))
    ),
    *idle("undeclared", loop("m", dims="[]"), m=np.int64(0)),
]  # fmt: skip

# --- functions ---

PAIR = np.array([[-1, 0.5, 2], [3, -4, 0]], np.float32)
ACME = '<domain: "acme", opset_import: ["" : 18, "acme" : 1]>'
LEAK = ACME + " Leak <slope> (a) => (b) { [inner] b = LeakyRelu <alpha: float = @slope> (a) }"
TWICE = (
    ACME
    + """ Twice (a) => (b) {
    [first] t = acme.Leak <slope = 0.5> (a)  [second] b = acme.Leak <slope = 0.1> (t)
}"""
)
LIMITS = (
    ACME
    + " Limit (a, low, high) => (b) { b = Clip (a, low, high) } "
    + ACME
    + """ Outer (a, low, high) => (b) {
    l = acme.Limit (a, low, high)  total = ReduceSum <keepdims = 0> (a)  no = Greater (total, total)
    i = If (no) <then_branch = then () => (float[] c) { c = Clip (a, low, high) },
                 else_branch = else () => (float[] d) { d = Clip (a, low, high) }>
    b = Add (l, i)
}"""
)
"""Inputs that are missing in a call are missing in a nested one, and in the bodies of an If."""


def calls(label: str, nodes: str, *functions: str, outputs: str = "float[p, q] y", **more: Any) -> Iterator[Row]:
    """Yield a model that calls functions of the domain ``acme``."""
    text = f"g (float[2, 3] x) => ({outputs}) {{ {nodes} }} {' '.join(functions)}"
    yield from graphs(text, label=label, opset=18, domain="acme", x=PAIR, **more)


ROWS += [
    *calls("nested", "[call] y = acme.Twice (x)", TWICE, LEAK),
    *calls("default", "y = acme.Leak (x)", LEAK.replace("<slope>", "<slope: float = 0.25>")),
    *calls("unused_output", "n, , p = acme.Both (x)", ACME + " Both (a) => (n, none, p) { n = Neg (a)  p = Abs (a) }",
           outputs="n, p", expect=[-PAIR, np.abs(PAIR)]),
    *(row for inputs in ("x", "x, ,", "x, , ,", "x, low", "x, , high") for row in calls(
        f"left_out_{inputs.replace(' ', '').replace(',', '_')}", f"y = acme.Outer ({inputs})", LIMITS,
        low=const(-0.75, np.float32), high=const(1.5, np.float32))),
    *calls("recursion", "y = acme.Loop (x)", ACME + " Loop (a) => (b) { b = acme.Loop (a) }", refused="deep"),
    *calls("inputs", "[call] y = acme.Leak (x, x)", LEAK, refused="node 'call'.*takes 1 inputs"),
    *calls("attribute", "[call] y = acme.Leak <alpha = 1.0> (x)", LEAK, refused="node 'call'.*no attribute 'alpha'"),
    *calls("unknown", "y = acme.Bad (x)", ACME + " Bad (a) => (b) { [inner] b = NoSuchOp (a) }",
           refused=r"node 'inner' \(NoSuchOp"),
    *rows("MeanVarianceNormalization", 13, x=PAIR, axes=[1]),
]  # fmt: skip
