"""Ensembles of decision trees, against onnxruntime."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import numpy_helper

from tests.rows.row import by_onnxruntime, each, rows

R = np.random.default_rng(41)
X = R.standard_normal((20, 4)).astype(np.float32)
HOLES = np.where(R.random((20, 4)) < 0.3, np.nan, X).astype(np.float32)
NODES = "treeids nodeids modes featureids values truenodeids falsenodeids missing_value_tracks_true"
ALL = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
computed = functools.partial(by_onnxruntime, domain="ai.onnx.ml")


def grown(trees: int, depth: int, modes: tuple[str, ...] = ALL[:1], tracks: bool = False) -> dict[str, Any]:
    """Random trees, as lists of nodes; their leaves are those whose mode is LEAF."""
    nodes: list[tuple[Any, ...]] = []
    for tree in range(trees):
        waiting, count = [(0, 0)], 1
        while waiting:
            number, level = waiting.pop()
            missing = int(R.random() < 0.5)
            if level == depth or (level > 0 and R.random() < 0.25):
                nodes.append((tree, number, "LEAF", 0, 0.0, 0, 0, missing))
                continue
            mode, value = str(R.choice(list(modes))), float(np.float32(R.standard_normal() / 2))
            nodes.append((tree, number, mode, int(R.integers(4)), value, count, count + 1, missing))
            waiting += [(count, level + 1), (count + 1, level + 1)]
            count += 2
    return {f"nodes_{name}": list(column) for name, column in zip(NODES.split()[: 7 + tracks], zip(*nodes))}


def weighted(nodes: Mapping[str, Any], prefix: str, targets: list[int], positive: bool = False) -> dict[str, Any]:
    """The nodes with a weight of each leaf for each of these targets."""
    leaves = [index for index, mode in enumerate(nodes["nodes_modes"]) if mode == "LEAF" for _ in targets]
    weights = R.random(len(leaves)) / 4 if positive else R.standard_normal(len(leaves))
    ids = {f"{prefix}_{name}": [nodes[f"nodes_{name}"][leaf] for leaf in leaves] for name in ("treeids", "nodeids")}
    ids[f"{prefix}_ids"] = targets * (len(leaves) // len(targets))
    return {**nodes, **ids, f"{prefix}_weights": weights.astype(np.float32).tolist()}


def scores(positive: bool, *targets: int) -> dict[str, Any]:
    return weighted(grown(3, 3), "class", list(targets), positive)


def tensor(values: Any, kind: Any = np.float32) -> Any:
    return numpy_helper.from_array(np.array(values, kind))


def logistic(post_transform: Any, **arguments: Any) -> Any:
    """onnxruntime leaves a regressor's single score as it is, which the specification does not have."""
    return 1 / (1 + np.exp(-computed("TreeEnsembleRegressor", 3, **arguments)[0]))


def of_floats(x: np.ndarray, **arguments: Any) -> Any:
    """onnxruntime has no kernel for integers."""
    return computed("TreeEnsembleRegressor", 3, x=x.astype(np.float32), **arguments)


def greatest(**arguments: Any) -> Any:
    """onnxruntime gives the second label wherever its score is positive, even if the first one's is greater."""
    found = computed("TreeEnsembleClassifier", 3, outputs=2, **arguments)[1]
    return [found.argmax(axis=1), found]


def transformed(post_transform: int, **arguments: Any) -> Any:
    """onnxruntime takes 1 for LOGISTIC and 2 for SOFTMAX, which ONNX numbers the other way round."""
    powers = np.exp(computed("TreeEnsemble", 5, **arguments)[0])
    return powers / powers.sum(axis=1, keepdims=True) if post_transform == 1 else 1 / (1 + 1 / powers)


PLAIN = {**weighted(grown(5, 4), "target", [0]), "n_targets": 1}
TWO = {**weighted(grown(3, 3), "target", [0, 1]), "n_targets": 2}
THREE = weighted(grown(4, 3), "class", [0, 1, 2])
REGRESSIONS: list[tuple[np.ndarray, dict[str, Any]]] = [
    (X, PLAIN),
    (X, {**PLAIN, "base_values": [0.75]}),
    (X, {**TWO, "base_values": [0.5, -1.0]}),
    *((X, {**TWO, "aggregate_function": name}) for name in ("AVERAGE", "MIN", "MAX")),
    *((X, {**TWO, "post_transform": name}) for name in ("SOFTMAX", "LOGISTIC")),
    (X, {**TWO, "aggregate_function": "MAX", "post_transform": "PROBIT"}),
    (np.round(X, 1), {**weighted(grown(4, 3, ALL), "target", [0]), "n_targets": 1}),
    (HOLES, {**weighted(grown(4, 3, tracks=True), "target", [0]), "n_targets": 1}),
    (HOLES, PLAIN),
    (X, {**weighted(grown(2, 0), "target", [0]), "n_targets": 1}),
    (X.astype(np.float64), PLAIN),
]
CLASSES: list[dict[str, Any]] = [
    {**THREE, "classlabels_int64s": [0, 1, 2]},
    {**THREE, "classlabels_int64s": [7, -3, 5], "post_transform": "SOFTMAX"},
    {**THREE, "classlabels_int64s": [0, 1, 2], "base_values": [0.5, 0.25, -1.0]},
    {**scores(True, 0), "classlabels_int64s": [0, 1]},
    {**scores(True, 1), "classlabels_int64s": [4, 2]},
    {**scores(False, 0), "classlabels_int64s": [0, 1], "base_values": [0.25]},
    *({**scores(sign, target), "classlabels_int64s": [0, 1], "post_transform": name} for sign, target, name in (
        (False, 0, "NONE"), (False, 1, "NONE"), (False, 0, "LOGISTIC"), (True, 1, "LOGISTIC"), (True, 0, "LOGISTIC"),
        (False, 0, "SOFTMAX"), (False, 1, "SOFTMAX"))),
]  # fmt: skip
ENSEMBLE: dict[str, Any] = {
    "n_targets": 2, "nodes_featureids": [0, 1, 2], "nodes_splits": tensor([0.1, -0.2, 0.3]),
    "nodes_modes": tensor([0, 3, 5], np.uint8), "nodes_truenodeids": [1, 0, 3], "nodes_trueleafs": [0, 1, 1],
    "nodes_falsenodeids": [2, 1, 2], "nodes_falseleafs": [1, 1, 1], "leaf_targetids": [0, 1, 0, 1],
    "leaf_weights": tensor([1.5, -2.0, 0.25, 4.0]), "tree_roots": [0, 2],
}  # fmt: skip
SETS = {"nodes_modes": tensor([6, 3, 6], np.uint8), "membership_values": tensor([1, 2, np.nan, -1, np.nan]),
        "nodes_splits": tensor([0, -0.2, 0])}  # fmt: skip
regressor = functools.partial(rows, "TreeEnsembleRegressor", domain="ai.onnx.ml")
classifier = functools.partial(rows, "TreeEnsembleClassifier", domain="ai.onnx.ml", outputs=2)
ensemble = functools.partial(rows, "TreeEnsemble", 5, domain="ai.onnx.ml")
ROWS = [
    *(row for x, options in REGRESSIONS for row in regressor(opset=each(1, 3), x=x, **options, dims={"x": ["n", 4]})),
    *regressor(opset=3, x=X, **PLAIN, post_transform="LOGISTIC", expect=logistic),
    *regressor(opset=3, x=R.integers(-3, 4, (6, 4)), **PLAIN, expect=of_floats),
    *regressor(opset=3, x=X, **PLAIN | {"nodes_truenodeids": [0] * len(PLAIN["nodes_modes"])},
               refused="lead|one node that no other"),
    *regressor(opset=3, x=X, **PLAIN | {"target_ids": [1] * len(PLAIN["target_ids"])}, refused="of which there are 1"),
    *regressor(opset=3, x=X, **PLAIN | {"nodes_values": [0.5]}, refused="one entry a node"),
    *(row for options in CLASSES for row in classifier(opset=each(1, 3), x=X, **options)),
    *classifier(opset=3, x=X, **scores(True, 0, 1), classlabels_int64s=[0, 1], expect=greatest),
    *ensemble(x=X, **ENSEMBLE, also=each({}, {"aggregate_function": 3})),
    *ensemble(x=np.round(X), **ENSEMBLE | SETS),
    *ensemble(x=X, **ENSEMBLE, post_transform=each(1, 2), expect=transformed),
]  # fmt: skip
