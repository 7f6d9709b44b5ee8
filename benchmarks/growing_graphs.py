"""Graphs of any number of nodes, as files: what ``scaling.py`` converts.

    python benchmarks/growing_graphs.py FORM NODES FILE

Without arguments it prints the forms that there are.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_DEPTH = 8

Graph = onnx.GraphProto


def _graph(nodes: list[onnx.NodeProto], result: str, tensors: list[TensorProto] = (), shape: object = (1, 4)) -> Graph:
    """A graph from x to one result."""
    return helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info(result, TensorProto.FLOAT, shape)],
        list(tensors),
    )


def chain(count: int) -> Graph:
    """Each node reads the one before."""
    ops = ("Relu", "Sigmoid", "Neg")
    return _graph(
        [helper.make_node(ops[i % 3], [f"v{i}" if i else "x"], [f"v{i + 1}"]) for i in range(count)], f"v{count}"
    )


def weights(count: int) -> Graph:
    """A chain in which each node has a weight of its own."""
    nodes = [helper.make_node("Add", [f"v{i}" if i else "x", f"w{i}"], [f"v{i + 1}"]) for i in range(count)]
    tensors = [numpy_helper.from_array(np.full(4, i, np.float32), f"w{i}") for i in range(count)]
    return _graph(nodes, f"v{count}", tensors)


def fan(count: int) -> Graph:
    """One value is read by every node, and one Concat reads them all."""
    nodes = [helper.make_node("Add", ["x", f"w{i % 7}"], [f"v{i}"]) for i in range(count)]
    tensors = [numpy_helper.from_array(np.full(4, i, np.float32), f"w{i}") for i in range(7)]
    nodes.append(helper.make_node("Concat", [f"v{i}" for i in range(count)], ["y"], axis=0))
    return _graph(nodes, "y", tensors, shape=(count, 4))


def sums(count: int) -> Graph:
    """One Sum of as many inputs as there are other nodes."""
    nodes = [helper.make_node(("Relu", "Neg")[i % 2], ["x" if i < 2 else f"v{i - 2}"], [f"v{i}"]) for i in range(count)]
    nodes.append(helper.make_node("Sum", [f"v{i}" for i in range(count)], ["y"]))
    return _graph(nodes, "y")


def named(count: int) -> Graph:
    """Nodes that all have the same name."""
    made = chain(count)
    for node in made.node:
        node.name = "node"
    return made


def inputs(count: int) -> Graph:
    """A tenth as many inputs and outputs as there are nodes, and a declared shape for every value."""
    few = max(1, count // 10)
    nodes = [
        helper.make_node("Relu", [f"x{i % few}" if i < few else f"v{i - few}"], [f"v{i}"], name=f"n{i}")
        for i in range(count)
    ]
    value = helper.make_tensor_value_info
    return helper.make_graph(
        nodes,
        "g",
        [value(f"x{i}", TensorProto.FLOAT, [1, 4]) for i in range(few)],
        [value(f"v{count - 1 - i}", TensorProto.FLOAT, [1, 4]) for i in range(few)],
        value_info=[value(f"v{i}", TensorProto.FLOAT, [1, 4]) for i in range(count - few)],
    )


def _levels(count: int) -> list[list[onnx.NodeProto]]:
    each = max(1, count // (_DEPTH + 1))
    ops = ("Relu", "Neg", "Sigmoid")
    return [
        [helper.make_node(ops[i % 3], [f"d{d}_{i}"], [f"d{d}_{i + 1}"]) for i in range(each)] for d in range(_DEPTH + 1)
    ]


def ifs(count: int) -> Graph:
    """If in If in If ..., each with its share of the nodes, which read what is outside."""
    levels = _levels(count)
    inner: list[onnx.NodeProto] = []
    for depth in reversed(range(_DEPTH + 1)):
        nodes = [*levels[depth]]
        nodes[0].input[0] = "x" if not depth else f"d{depth - 1}_1"
        last = nodes[-1].output[0]
        if inner:
            nodes += [
                helper.make_node("ReduceMax", [nodes[0].output[0]], [f"most{depth}"], keepdims=0),
                helper.make_node("Greater", [f"most{depth}", "x0"], [f"c{depth}"]),
                *inner,
                helper.make_node("Add", [last, f"if{depth}"], [f"sum{depth}"]),
            ]
            last = f"sum{depth}"
        if depth:
            value = helper.make_tensor_value_info(last, TensorProto.FLOAT, None)
            then = helper.make_graph(nodes, f"then{depth}", [], [value])
            other = helper.make_graph(
                [helper.make_node("Abs", ["x"], [f"else{depth}"])],
                f"else{depth}",
                [],
                [helper.make_tensor_value_info(f"else{depth}", TensorProto.FLOAT, None)],
            )
            inner = [helper.make_node("If", [f"c{depth - 1}"], [f"if{depth - 1}"], then_branch=then, else_branch=other)]
        else:
            return _graph(nodes, last, [numpy_helper.from_array(np.float32(0.5), "x0")])
    raise AssertionError


def loops(count: int) -> Graph:
    """Loop in Loop in Loop ..., each with its share of the nodes."""
    levels = _levels(count)
    constants = [
        numpy_helper.from_array(np.array(2), "trips"),
        numpy_helper.from_array(np.array(True), "go"),
    ]
    inner: list[onnx.NodeProto] = []
    for depth in reversed(range(_DEPTH + 1)):
        nodes = [*levels[depth]]
        nodes[0].input[0] = "x" if not depth else f"state{depth}"
        last = nodes[-1].output[0]
        if inner:
            inner[0].input[2] = last
            nodes += inner
            last = inner[0].output[0]
        if not depth:
            return _graph(nodes, last, constants)
        value = helper.make_tensor_value_info
        body = helper.make_graph(
            [*nodes, helper.make_node("Identity", [f"cond{depth}"], [f"on{depth}"])],
            f"body{depth}",
            [
                value(f"i{depth}", TensorProto.INT64, []),
                value(f"cond{depth}", TensorProto.BOOL, []),
                value(f"state{depth}", TensorProto.FLOAT, None),
            ],
            [value(f"on{depth}", TensorProto.BOOL, []), value(last, TensorProto.FLOAT, None)],
        )
        inner = [helper.make_node("Loop", ["trips", "go", ""], [f"loop{depth - 1}"], body=body)]
    raise AssertionError


FORMS: dict[str, Callable[[int], Graph]] = {
    form.__name__: form for form in (chain, weights, fan, sums, named, inputs, ifs, loops)
}


def write(form: str, count: int, path: Path) -> None:
    """Write the graph of that form and number of nodes as a model."""
    model = helper.make_model(FORMS[form](count), opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path.write_bytes(model.SerializeToString())


if __name__ == "__main__":
    if len(sys.argv) == 4:
        write(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
    else:
        print("\n".join(FORMS))
