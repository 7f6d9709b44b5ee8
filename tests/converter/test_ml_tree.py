"""Ensembles of decision trees through both engines, against onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

import converter
from tests.engines import check_node, node_model, run_onnxruntime
from tests.random_data import generator

R = generator(41)
X = R.standard_normal((20, 4)).astype(np.float32)
HOLES = np.where(R.random((20, 4)) < 0.3, np.nan, X).astype(np.float32)


def grown(trees: int, depth: int, modes: tuple[str, ...] = ("BRANCH_LEQ",), tracks: bool = False) -> dict[str, Any]:
    """Random trees, as lists of nodes; their leaves are those whose mode is LEAF."""
    nodes: dict[str, list[Any]] = {
        f"nodes_{name}": []
        for name in ("treeids", "nodeids", "modes", "featureids", "values", "truenodeids", "falsenodeids")
    }
    missing = []
    for tree in range(trees):
        waiting, known = [(0, 0)], 1
        while waiting:
            number, level = waiting.pop()
            is_leaf = level == depth or (level > 0 and R.random() < 0.25)
            nodes["nodes_treeids"].append(tree)
            nodes["nodes_nodeids"].append(number)
            nodes["nodes_modes"].append("LEAF" if is_leaf else str(R.choice(list(modes))))
            nodes["nodes_featureids"].append(0 if is_leaf else int(R.integers(4)))
            nodes["nodes_values"].append(0.0 if is_leaf else float(np.float32(R.standard_normal() / 2)))
            nodes["nodes_truenodeids"].append(0 if is_leaf else known)
            nodes["nodes_falsenodeids"].append(0 if is_leaf else known + 1)
            missing.append(int(R.random() < 0.5))
            if not is_leaf:
                waiting += [(known, level + 1), (known + 1, level + 1)]
                known += 2
    return {**nodes, **({"nodes_missing_value_tracks_true": missing} if tracks else {})}


def weighted(nodes: Mapping[str, Any], prefix: str, targets: list[int], positive: bool = False) -> dict[str, Any]:
    """The nodes with a weight of each leaf for each of these targets."""
    leaves = [index for index, mode in enumerate(nodes["nodes_modes"]) if mode == "LEAF"]
    rows = [(leaf, target) for leaf in leaves for target in targets]
    weights = R.random(len(rows)) / 4 if positive else R.standard_normal(len(rows))
    return {
        **nodes,
        f"{prefix}_treeids": [nodes["nodes_treeids"][leaf] for leaf, _ in rows],
        f"{prefix}_nodeids": [nodes["nodes_nodeids"][leaf] for leaf, _ in rows],
        f"{prefix}_ids": [target for _, target in rows],
        f"{prefix}_weights": [float(np.float32(value)) for value in weights],
    }


ALL = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
PLAIN = weighted(grown(5, 4), "target", [0])
TWO = weighted(grown(3, 3), "target", [0, 1])

REGRESSORS = [
    ("plain", X, {**PLAIN, "n_targets": 1}),
    ("base", X, {**PLAIN, "n_targets": 1, "base_values": [0.75]}),
    ("two", X, {**TWO, "n_targets": 2, "base_values": [0.5, -1.0]}),
    ("average", X, {**TWO, "n_targets": 2, "aggregate_function": "AVERAGE"}),
    ("min", X, {**TWO, "n_targets": 2, "aggregate_function": "MIN"}),
    ("max", X, {**TWO, "n_targets": 2, "aggregate_function": "MAX"}),
    ("softmax", X, {**TWO, "n_targets": 2, "post_transform": "SOFTMAX"}),
    ("logistic", X, {**TWO, "n_targets": 2, "post_transform": "LOGISTIC"}),
    ("probit", X, {**TWO, "n_targets": 2, "aggregate_function": "MAX", "post_transform": "PROBIT"}),
    ("modes", np.round(X, 1), {**weighted(grown(4, 3, ALL), "target", [0]), "n_targets": 1}),
    ("holes", HOLES, {**weighted(grown(4, 3, tracks=True), "target", [0]), "n_targets": 1}),
    ("holes-false", HOLES, {**PLAIN, "n_targets": 1}),
    ("single-leaf", X, {**weighted(grown(2, 0), "target", [0]), "n_targets": 1}),
    ("double", X.astype(np.float64), {**PLAIN, "n_targets": 1}),
]


@pytest.mark.parametrize("opset", [1, 3])
@pytest.mark.parametrize(("x", "attributes"), [row[1:] for row in REGRESSORS], ids=[row[0] for row in REGRESSORS])
def test_regressor_gives_the_numbers_of_onnxruntime(x: Any, attributes: Mapping[str, Any], opset: int) -> None:
    model = node_model(
        "TreeEnsembleRegressor",
        {"x": x},
        attributes=attributes,
        domain="ai.onnx.ml",
        opset=opset,
        shapes={"x": ["n", 4]},
    )
    check_node(model, {"x": x})


def test_a_single_score_is_transformed_too() -> None:
    """onnxruntime leaves a regressor's single score as it is, which the specification does not have."""
    attributes = {**PLAIN, "n_targets": 1}
    plain = node_model("TreeEnsembleRegressor", {"x": X}, attributes=attributes, domain="ai.onnx.ml", opset=3)
    want = 1 / (1 + np.exp(-run_onnxruntime(plain, {"x": X})[0]))
    attributes["post_transform"] = "LOGISTIC"
    model = node_model("TreeEnsembleRegressor", {"x": X}, attributes=attributes, domain="ai.onnx.ml", opset=3)
    check_node(model, {"x": X}, [want])


def test_integers_are_features_like_others() -> None:
    """onnxruntime has no kernel for them."""
    x = R.integers(-3, 4, (6, 4))
    attributes = {**PLAIN, "n_targets": 1}
    real = x.astype(np.float32)
    plain = node_model("TreeEnsembleRegressor", {"x": real}, attributes=attributes, domain="ai.onnx.ml", opset=3)
    want = run_onnxruntime(plain, {"x": real})
    model = node_model("TreeEnsembleRegressor", {"x": x}, attributes=attributes, domain="ai.onnx.ml", opset=3)
    check_node(model, {"x": x}, want)


THREE = weighted(grown(4, 3), "class", [0, 1, 2])
CLASSIFIERS = [
    ("three", {**THREE, "classlabels_int64s": [0, 1, 2]}),
    ("labels", {**THREE, "classlabels_int64s": [7, -3, 5], "post_transform": "SOFTMAX"}),
    ("base", {**THREE, "classlabels_int64s": [0, 1, 2], "base_values": [0.5, 0.25, -1.0]}),
    ("share", {**weighted(grown(3, 3), "class", [0], positive=True), "classlabels_int64s": [0, 1]}),
    ("share-second", {**weighted(grown(3, 3), "class", [1], positive=True), "classlabels_int64s": [4, 2]}),
    ("signed", {**weighted(grown(3, 3), "class", [0]), "classlabels_int64s": [0, 1]}),
    ("logistic", {**weighted(grown(3, 3), "class", [0]), "classlabels_int64s": [0, 1], "post_transform": "LOGISTIC"}),
    (
        "share-logistic",
        {
            **weighted(grown(3, 3), "class", [1], positive=True),
            "classlabels_int64s": [0, 1],
            "post_transform": "LOGISTIC",
        },
    ),
    ("signed-base", {**weighted(grown(3, 3), "class", [0]), "classlabels_int64s": [0, 1], "base_values": [0.25]}),
    (
        "share-first-logistic",
        {
            **weighted(grown(3, 3), "class", [0], positive=True),
            "classlabels_int64s": [0, 1],
            "post_transform": "LOGISTIC",
        },
    ),
    (
        "signed-softmax",
        {**weighted(grown(3, 3), "class", [0]), "classlabels_int64s": [0, 1], "post_transform": "SOFTMAX"},
    ),
    ("signed-second", {**weighted(grown(3, 3), "class", [1]), "classlabels_int64s": [0, 1]}),
    (
        "second-softmax",
        {**weighted(grown(3, 3), "class", [1]), "classlabels_int64s": [0, 1], "post_transform": "SOFTMAX"},
    ),
]


@pytest.mark.parametrize("opset", [1, 3])
@pytest.mark.parametrize("attributes", [row[1] for row in CLASSIFIERS], ids=[row[0] for row in CLASSIFIERS])
def test_classifier_gives_the_numbers_of_onnxruntime(attributes: Mapping[str, Any], opset: int) -> None:
    model = node_model(
        "TreeEnsembleClassifier", {"x": X}, attributes=attributes, outputs=2, domain="ai.onnx.ml", opset=opset
    )
    check_node(model, {"x": X})


def test_the_greater_of_two_scores_wins() -> None:
    """onnxruntime gives the second label wherever its score is positive, even if the first one's is greater."""
    attributes = {**weighted(grown(3, 3), "class", [0, 1], positive=True), "classlabels_int64s": [0, 1]}
    model = node_model(
        "TreeEnsembleClassifier", {"x": X}, attributes=attributes, outputs=2, domain="ai.onnx.ml", opset=3
    )
    scores = run_onnxruntime(model, {"x": X})[1]
    check_node(model, {"x": X}, [scores.argmax(axis=1), scores])


def tensor(values: Any, kind: Any = np.float32) -> Any:
    return numpy_helper.from_array(np.array(values, kind))


ENSEMBLE = {
    "n_targets": 2,
    "nodes_featureids": [0, 1, 2],
    "nodes_splits": tensor([0.1, -0.2, 0.3]),
    "nodes_modes": tensor([0, 3, 5], np.uint8),
    "nodes_truenodeids": [1, 0, 3],
    "nodes_trueleafs": [0, 1, 1],
    "nodes_falsenodeids": [2, 1, 2],
    "nodes_falseleafs": [1, 1, 1],
    "leaf_targetids": [0, 1, 0, 1],
    "leaf_weights": tensor([1.5, -2.0, 0.25, 4.0]),
    "tree_roots": [0, 2],
}
SETS = {
    **ENSEMBLE,
    "nodes_modes": tensor([6, 3, 6], np.uint8),
    "membership_values": tensor([1, 2, np.nan, -1, np.nan]),
    "nodes_splits": tensor([0, -0.2, 0]),
}


@pytest.mark.parametrize(
    ("x", "attributes"),
    [
        (X, ENSEMBLE),
        (np.round(X), SETS),
        (X, {**ENSEMBLE, "aggregate_function": 3}),
    ],
    ids=["plain", "sets", "max"],
)
def test_ensemble_gives_the_numbers_of_onnxruntime(x: Any, attributes: Mapping[str, Any]) -> None:
    model = node_model("TreeEnsemble", {"x": x}, attributes=attributes, domain="ai.onnx.ml", opset=5)
    check_node(model, {"x": x})


@pytest.mark.parametrize("number", [1, 2])
def test_transforms_have_the_numbers_of_the_specification(number: int) -> None:
    """onnxruntime takes 1 for LOGISTIC and 2 for SOFTMAX, which ONNX numbers the other way round."""
    raw = node_model("TreeEnsemble", {"x": X}, attributes=ENSEMBLE, domain="ai.onnx.ml", opset=5)
    scores = run_onnxruntime(raw, {"x": X})[0]
    powers = np.exp(scores)
    want = powers / powers.sum(axis=1, keepdims=True) if number == 1 else 1 / (1 + 1 / powers)
    attributes = {**ENSEMBLE, "post_transform": number}
    model = node_model("TreeEnsemble", {"x": X}, attributes=attributes, domain="ai.onnx.ml", opset=5)
    check_node(model, {"x": X}, [want])


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({**PLAIN, "nodes_truenodeids": [0] * len(PLAIN["nodes_modes"])}, "lead|one node that no other"),
        ({**PLAIN, "target_ids": [1] * len(PLAIN["target_ids"])}, "of which there are 1"),
        ({**PLAIN, "nodes_values": [0.5]}, "one entry a node"),
    ],
)
def test_contradictions_are_named(attributes: Mapping[str, Any], message: str) -> None:
    model = node_model("TreeEnsembleRegressor", {"x": X}, attributes=attributes, domain="ai.onnx.ml", opset=3)
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(model)
