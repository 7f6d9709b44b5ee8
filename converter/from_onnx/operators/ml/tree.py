"""``ai.onnx.ml``: ensembles of decision trees.

All trees are evaluated at once, for each row and tree from the root to a leaf. A table has for each node the feature to
compare, the value to compare it with, and the next nodes. The next node of a leaf is the leaf itself, so all rows are
at their leaves after as many steps as the deepest tree has.
https://onnx.ai/onnx/operators/onnx_aionnxml_TreeEnsemble.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from converter.from_onnx.lowering import label_scores
from converter.from_onnx.translation import Context, attributes_of, onnx_op
from converter.onnx_file.domains import ML
from converter.onnx_file.messages import TensorProto
from ir_runtime.graph import Array, ElementType, Operation
from ir_runtime.operations import elementwise
from ir_runtime.records import record
from ir_runtime.rewriting.expressions import Expression, concat, where

_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
_COMPARISONS: tuple[type[Operation], ...] = (
    elementwise.LessEqual1,
    elementwise.Less1,
    elementwise.GreaterEqual1,
    elementwise.Greater1,
    elementwise.Equal1,
    elementwise.NotEqual1,
)
_LEAF = -1
_MEMBER = 6
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")

Whole = Sequence[int] | None
Real = Sequence[float] | None
StoredTensor = TensorProto | None
_NODES_AS_TENSORS = ("nodes_hitrates_as_tensor", "nodes_values_as_tensor")


@record
class _Forest:
    """Nodes by their numbers. ``mode`` is an index of :data:`_COMPARISONS`, or :data:`_LEAF`."""

    feature: Array
    split: Array
    mode: Array
    if_true: Array
    if_false: Array
    nan_is_true: Array
    roots: Array

    def depth(self, ctx: Context) -> int:
        """The number of steps from the roots to the last leaf."""
        level, steps = np.unique(self.roots), 0
        while True:
            inner = level[self.mode[level] != _LEAF]
            if not inner.size:
                return steps
            steps += 1
            if steps > len(self.mode):
                raise ctx.invalid("the nodes of a tree lead back to themselves")
            level = np.unique(np.concatenate([self.if_true[inner], self.if_false[inner]]))


# --- from roots to leaves ---


def _leaves(ctx: Context, x: Expression, forest: _Forest) -> Expression:
    """For rows ``[n, f]`` the numbers of the leaves ``[n, t]`` where each tree ends."""
    features = ctx.declared(x.value).shape[1]
    used = forest.feature[forest.mode != _LEAF]
    if used.size and (used.min() < 0 or (features.is_static and used.max() >= features.value)):
        raise ctx.invalid(f"a node looks at feature {used.max()}, but there are {features}")
    place = x.of(forest.roots.reshape(1, -1), "i32")
    for step in range(forest.depth(ctx)):
        place = _next(x, forest, place, is_first=step == 0)
    return place.broadcast(x.size(0), len(forest.roots))


def _next(x: Expression, forest: _Forest, place: Expression, *, is_first: bool) -> Expression:
    def at(values: Array, element_type: ElementType | str) -> Expression:
        return x.of(values, element_type).gather(place)

    feature = at(forest.feature, "i32")
    # At first, every row is at the roots.
    value = x.gather(feature.squeeze(0), 1) if is_first else x.gather_elements(feature, 1)
    split = at(forest.split, x.element_type)
    first, *others = np.unique(forest.mode[forest.mode != _LEAF])
    holds = value.emit(_COMPARISONS[first](), split)
    for mode in others:
        other = value.emit(_COMPARISONS[mode](), split)
        holds = where(at(forest.mode == mode, "boolean"), other, holds)
    if forest.nan_is_true.any():
        holds = holds | (value.emit(elementwise.IsNaN10()) & at(forest.nan_is_true, "boolean"))
    return where(holds, at(forest.if_true, "i32"), at(forest.if_false, "i32"))


def _scores(ctx: Context, x: Expression, forest: _Forest, weights: Array, has: Array, aggregate: str) -> Expression:
    """``[n, c]`` of the leaves' weights ``[nodes, c]``; ``has`` marks the weights that the model gives."""
    wide = label_scores.real(x.unsqueeze(0) if ctx.rank(x.value, "the input") == 1 else x)
    leaves = _leaves(ctx, wide, forest)
    beyond = float(np.finfo(np.float32).max) * (-1 if aggregate == "MAX" else 1)
    is_extreme = aggregate in ("MIN", "MAX")
    leaf_scores = wide.of(np.where(has, weights, beyond) if is_extreme else weights).gather(leaves)
    if not is_extreme:
        total = leaf_scores.sum(1)
        return total if aggregate == "SUM" else total / len(forest.roots)
    extreme = leaf_scores.min(1) if aggregate == "MIN" else leaf_scores.max(1)
    if has[forest.mode == _LEAF].all():
        return extreme
    return where(extreme.equal(beyond), extreme.of(0), extreme)


def _plus(ctx: Context, scores: Expression, base: Array | None) -> Expression:
    if base is None or not base.size:
        return scores
    columns = scores.value.shape[1]
    if base.size != 1 and not columns.contains(base.size):
        raise ctx.invalid(f"base_values has {base.size} numbers for {columns} scores")
    return scores + base


# --- the tables of versions 1 to 3 ---


def _numbers(ctx: Context, values: Real, tensor: StoredTensor) -> Array | None:
    if tensor is not None:
        return ctx.known(ctx.stored(tensor), "a tensor").reshape(-1)
    return None if values is None else np.asarray(values, np.float32)


def _listed_forest(
    ctx: Context,
    *,
    nodes_falsenodeids: Whole = None,
    nodes_featureids: Whole = None,
    nodes_hitrates: Real = None,
    nodes_hitrates_as_tensor: StoredTensor = None,
    nodes_missing_value_tracks_true: Whole = None,
    nodes_modes: Sequence[str] | None = None,
    nodes_nodeids: Whole = None,
    nodes_treeids: Whole = None,
    nodes_truenodeids: Whole = None,
    nodes_values: Real = None,
    nodes_values_as_tensor: StoredTensor = None,
) -> tuple[_Forest, dict[tuple[int, int], int]]:
    """Nodes that are named by tree and by number in it, and their places in the table."""
    trees, ids, features = nodes_treeids or (), nodes_nodeids or (), nodes_featureids or ()
    modes, targets = nodes_modes or (), (nodes_truenodeids or (), nodes_falsenodeids or ())
    splits = _numbers(ctx, nodes_values, nodes_values_as_tensor)
    lists = ids, modes, features, *targets, () if splits is None else splits
    if not trees or any(len(values) != len(trees) for values in lists):
        raise ctx.invalid("the attributes nodes_* must have one entry a node")
    place = {key: index for index, key in enumerate(zip(trees, ids))}
    if len(place) != len(trees):
        raise ctx.invalid("two nodes of a tree have the same number")
    unknown = set(modes) - {*_MODES, "LEAF"}
    if unknown:
        raise ctx.invalid(f"'{min(unknown)}' is not a mode of nodes")
    mode = np.array([_LEAF if name == "LEAF" else _MODES.index(name) for name in modes])
    here = np.arange(len(trees))
    branches = []
    for following_ids in targets:
        following = here.copy()
        for index in here[mode != _LEAF]:
            key = (trees[index], following_ids[index])
            if key not in place:
                raise ctx.invalid(f"tree {key[0]} has no node {key[1]}, to which another leads")
            following[index] = place[key]
        branches.append(following)
    inner = here[mode != _LEAF]
    roots = np.setdiff1d(here, np.concatenate([branch[inner] for branch in branches]))
    if sorted(trees[index] for index in roots) != sorted(set(trees)):
        raise ctx.invalid("every tree must have one node that no other leads to")
    tracks = nodes_missing_value_tracks_true or [0] * len(trees)
    if len(tracks) != len(trees):
        raise ctx.invalid("nodes_missing_value_tracks_true must have one entry a node")
    assert splits is not None
    # NaN fails every comparison and takes the false branch, except where the mode is BRANCH_NEQ.
    nan = np.asarray(tracks, bool) & (mode != _LEAF)
    forest = _Forest(np.asarray(features), splits, mode, branches[0], branches[1], nan, roots)
    return forest, place


def _weights(
    ctx: Context, place: Mapping[tuple[int, int], int], places: Sequence[Whole], values: Array | None, count: int
) -> tuple[Array, Array]:
    """``[nodes, count]`` of weights, and which are given; their places are trees, nodes and targets."""
    trees, ids, targets = (numbers or () for numbers in places)
    if values is None or not len(trees) == len(ids) == len(targets) == len(values):
        raise ctx.invalid("each weight needs a tree, a node and a target")
    if any(not 0 <= target < count for target in targets):
        raise ctx.invalid(f"the weights are for targets {min(targets)} to {max(targets)}, of which there are {count}")
    if any(key not in place for key in zip(trees, ids)):
        raise ctx.invalid("a weight belongs to a node that does not exist")
    table = np.zeros((len(place), count), values.dtype)
    rows = [place[key] for key in zip(trees, ids)]
    np.add.at(table, (rows, list(targets)), values)
    has = np.zeros(table.shape, bool)
    has[rows, list(targets)] = True
    return table, has


def _of_two(
    ctx: Context, score: Expression, labels: Sequence[int], column: int, is_share: bool, transform: str
) -> tuple[Expression, Expression]:
    """Label and scores from the score ``[n, 1]`` of one class, which is a share if no weight is negative.

    Weights of the first class are meant for the second, and its own score follows from that; weights of
    the second one leave the first at 0.
    """
    above = score.greater(0.5 if is_share else 0.0)
    if column == 1:
        class_scores = label_scores.transformed(ctx, concat([score * 0, score], 1), transform)
    else:
        label_scores.refuse_probit_of_two_labels(ctx, transform)
        single = transform == "LOGISTIC"
        class_scores = concat([1 - score if is_share and not single else -score, score], 1)
        if single:
            class_scores = label_scores.transformed(ctx, class_scores, transform)
    return label_scores.chosen(above, labels), class_scores.as_type("f32")


@onnx_op(
    "TreeEnsembleRegressor",
    domain=ML,
    versions=(1,),
    without=("base_values_as_tensor", "target_weights_as_tensor", *_NODES_AS_TENSORS),
)
@onnx_op("TreeEnsembleRegressor", domain=ML, versions=(3, 5))
@attributes_of(_listed_forest)
def tree_ensemble_regressor(
    ctx: Context,
    x: Expression,
    *,
    aggregate_function: Literal["AVERAGE", "SUM", "MIN", "MAX"] = "SUM",
    base_values: Real = None,
    base_values_as_tensor: StoredTensor = None,
    n_targets: int | None = None,
    post_transform: str = "NONE",
    target_ids: Whole = None,
    target_nodeids: Whole = None,
    target_treeids: Whole = None,
    target_weights: Real = None,
    target_weights_as_tensor: StoredTensor = None,
    **nodes: Any,
) -> Expression:
    """The sum, mean, minimum or maximum of the trees' results."""
    forest, place = _listed_forest(ctx, **nodes)
    weights = _numbers(ctx, target_weights, target_weights_as_tensor)
    table, has = _weights(ctx, place, (target_treeids, target_nodeids, target_ids), weights, n_targets or 1)
    scores = _scores(ctx, x, forest, table, has, aggregate_function)
    base = _numbers(ctx, base_values, base_values_as_tensor)
    return label_scores.transformed(ctx, _plus(ctx, scores, base), post_transform).as_type("f32")


@onnx_op(
    "TreeEnsembleClassifier",
    domain=ML,
    versions=(1,),
    without=("base_values_as_tensor", "class_weights_as_tensor", *_NODES_AS_TENSORS),
)
@onnx_op("TreeEnsembleClassifier", domain=ML, versions=(3, 5))
@attributes_of(_listed_forest)
def tree_ensemble_classifier(
    ctx: Context,
    x: Expression,
    *,
    base_values: Real = None,
    base_values_as_tensor: StoredTensor = None,
    class_ids: Whole = None,
    class_nodeids: Whole = None,
    class_treeids: Whole = None,
    class_weights: Real = None,
    class_weights_as_tensor: StoredTensor = None,
    classlabels_int64s: Whole = None,
    classlabels_strings: Sequence[str] | None = None,
    post_transform: str = "NONE",
    **nodes: Any,
) -> tuple[Expression, Expression]:
    """The label of the class with the greatest sum, and the sums."""
    label_scores.no_strings(ctx, classlabels_strings=classlabels_strings)
    labels, targets = list(classlabels_int64s or ()), class_ids or ()
    forest, place = _listed_forest(ctx, **nodes)
    weights = _numbers(ctx, class_weights, class_weights_as_tensor)
    base = _numbers(ctx, base_values, base_values_as_tensor)
    table, has = _weights(ctx, place, (class_treeids, class_nodeids, targets), weights, max(1, len(labels)))
    if len(labels) == 2 and len(set(targets)) == 1:
        column = targets[0]
        if base is not None and base.size > (0 if column else 1):
            raise ctx.unsupported("base_values of two classes, of which one has weights, are not supported")
        scores = _plus(ctx, _scores(ctx, x, forest, table[:, [column]], has[:, [column]], "SUM"), base)
        return _of_two(ctx, scores, labels, column, weights is None or bool((weights >= 0).all()), post_transform)
    scores = _plus(ctx, _scores(ctx, x, forest, table, has, "SUM"), base)
    return label_scores.greatest(scores, labels), label_scores.transformed(ctx, scores, post_transform).as_type("f32")


# --- the tables of version 5 ---


@onnx_op("TreeEnsemble", domain=ML, versions=(5,))
def tree_ensemble(
    ctx: Context,
    x: Expression,
    *,
    aggregate_function: int = 1,
    leaf_targetids: Sequence[int],
    leaf_weights: TensorProto,
    membership_values: StoredTensor = None,
    n_targets: int | None = None,
    nodes_falseleafs: Sequence[int],
    nodes_falsenodeids: Sequence[int],
    nodes_featureids: Sequence[int],
    nodes_hitrates: StoredTensor = None,
    nodes_missing_value_tracks_true: Sequence[int] | None = None,
    nodes_modes: TensorProto,
    nodes_splits: TensorProto,
    nodes_trueleafs: Sequence[int],
    nodes_truenodeids: Sequence[int],
    post_transform: int = 0,
    tree_roots: Sequence[int],
) -> Expression:
    """Inner nodes and leaves in tables of their own; a leaf has one target."""
    modes = ctx.known(ctx.stored(nodes_modes), "nodes_modes").reshape(-1).astype(np.int64)
    splits = ctx.known(ctx.stored(nodes_splits), "nodes_splits").reshape(-1).astype(np.float64)
    weights = ctx.known(ctx.stored(leaf_weights), "leaf_weights").reshape(-1)
    count, leaves = len(modes), len(weights)
    lists = (splits, nodes_featureids, nodes_trueleafs, nodes_falseleafs, nodes_truenodeids, nodes_falsenodeids)
    tracks = nodes_missing_value_tracks_true or [0] * count
    if any(len(values) != count for values in (*lists, tracks)) or len(leaf_targetids) != leaves:
        raise ctx.invalid("the attributes nodes_* must have one entry a node, those of leaves one a leaf")
    if not 0 <= aggregate_function < len(_AGGREGATES) or not 0 <= post_transform < len(_TRANSFORMS):
        raise ctx.invalid("aggregate_function or post_transform is not a number that has a meaning")
    if modes.size and not 0 <= modes.min() <= modes.max() <= _MEMBER:
        raise ctx.invalid(f"the modes of nodes are 0 to 6, but {modes.max()} is among them")
    targets = n_targets or 1
    if any(not 0 <= target < targets for target in leaf_targetids):
        raise ctx.invalid(f"a leaf has a target beyond the {targets} that there are")

    def following(ids: Sequence[int], is_leaf: Sequence[int]) -> Array:
        places = np.asarray(ids, np.int64)
        leaf = np.asarray(is_leaf, bool)
        if ((places < 0) | (places >= np.where(leaf, leaves, count))).any():
            raise ctx.invalid("a node leads to one that does not exist")
        return np.where(leaf, places + count, places)

    # The leaves come behind the inner nodes.
    behind = np.arange(count, count + leaves)
    forest = _Forest(
        np.concatenate([np.asarray(nodes_featureids, np.int64), np.zeros(leaves, np.int64)]),
        np.concatenate([splits, np.zeros(leaves)]),
        np.concatenate([modes, np.full(leaves, _LEAF)]),
        np.concatenate([following(nodes_truenodeids, nodes_trueleafs), behind]),
        np.concatenate([following(nodes_falsenodeids, nodes_falseleafs), behind]),
        np.concatenate([np.asarray(tracks, bool), np.zeros(leaves, bool)]),
        np.asarray(tree_roots, np.int64),
    )
    if not forest.roots.size or not 0 <= forest.roots.min() <= forest.roots.max() < count:
        raise ctx.invalid("tree_roots must list nodes that exist")
    table = np.zeros((count + leaves, targets), weights.dtype)
    table[behind, list(leaf_targetids)] = weights
    has = np.zeros(table.shape, bool)
    has[behind, list(leaf_targetids)] = True
    if (modes == _MEMBER).any():
        if membership_values is None:
            raise ctx.invalid("membership_values is missing, which nodes ask for")
        members = ctx.known(ctx.stored(membership_values), "membership_values").reshape(-1).astype(np.float64)
        forest = _without_sets(ctx, forest, members)
        more = len(forest.mode) - len(table)
        table, has = (np.concatenate([part, np.zeros((more, targets), part.dtype)]) for part in (table, has))
    scores = _scores(ctx, x, forest, table, has, _AGGREGATES[aggregate_function])
    return label_scores.transformed(ctx, scores, _TRANSFORMS[post_transform]).as_type(x.element_type)


def _without_sets(ctx: Context, forest: _Forest, members: Array) -> _Forest:
    """Nodes that ask for one of several values as one node a value, each behind the other's false branch."""
    feature, split, mode = list(forest.feature), list(forest.split), list(forest.mode)
    if_true, if_false, nan = list(forest.if_true), list(forest.if_false), list(forest.nan_is_true)
    ends = np.flatnonzero(np.isnan(members))
    sets = [part[~np.isnan(part)] for part in np.split(members, ends)]
    nodes = np.flatnonzero(forest.mode == _MEMBER)
    if len(sets) < len(nodes) or any(not part.size for part in sets[: len(nodes)]):
        raise ctx.invalid(f"membership_values must have {len(nodes)} sets of at least one value")
    for node, values in zip(nodes.tolist(), sets):
        otherwise, current = if_false[node], node
        mode[node], split[node] = _MODES.index("BRANCH_EQ"), values[0]
        for value in values[1:]:
            if_false[current] = len(mode)
            current = len(mode)
            feature.append(feature[node])
            split.append(value)
            mode.append(_MODES.index("BRANCH_EQ"))
            if_true.append(if_true[node])
            if_false.append(otherwise)
            nan.append(nan[node])
    return _Forest(
        np.asarray(feature),
        np.asarray(split),
        np.asarray(mode),
        np.asarray(if_true),
        np.asarray(if_false),
        np.asarray(nan),
        forest.roots,
    )
