"""Blocks of a graph: by the scopes of names, by structure that repeats; every layer lies in exactly one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from converter.report.blocks import Block, Part, blocks_of, flat_blocks
from converter.report.repeats import Repeat, repeats_in

TIMES = "\N{MULTIPLICATION SIGN}"


def chain(names: Sequence[str], types: Sequence[str]) -> list[Part]:
    """The blocks of layers that each read the one before."""
    return blocks_of(names, types, [[place - 1] if place else [] for place in range(len(names))])


def titles(parts: Sequence[Part]) -> list[str]:
    return [part.title for part in parts if isinstance(part, Block)]


def scoped(scopes: Sequence[str], inside: Sequence[str]) -> tuple[list[str], list[str]]:
    return [f"/{scope}/{kind}" for scope in scopes for kind in inside], [kind for _ in scopes for kind in inside]


FOUR = ("MatMul", "Add", "Tanh", "Multiply")


def test_scopes_that_differ_in_a_number_are_one_block() -> None:
    names, types = scoped([f"encoder/layer.{place}" for place in range(12)], FOUR)
    (stack,) = chain(names, types)
    assert isinstance(stack, Block)
    assert (stack.title, stack.repeats) == (f"encoder layer {TIMES} 12", 12)
    assert titles(stack.parts) == [f"layer.{place}" for place in range(12)]
    assert stack.types == dict.fromkeys(FOUR, 12)


@pytest.mark.parametrize("inner", ["mlp", "mlp/core"])
def test_a_scope_around_one_scope_is_not_a_block_by_itself(inner: str) -> None:
    names, types = scoped([f"h.{place}/{inner}" for place in range(3)], FOUR)
    (stack,) = chain(names, types)
    assert isinstance(stack, Block)
    assert stack.title == f"h {TIMES} 3"
    assert titles(stack.parts) == [f"h.{place} {inner.replace('/', ' ')}" for place in range(3)]


def test_blocks_that_are_not_alike_and_numbers_that_are_left_out_end_a_stack() -> None:
    names, types = scoped(["a.0", "a.1"], FOUR)
    more = scoped(["a.2"], ("Convolution", "ReLU", "MaxPool", "Concat", "Split"))
    last = scoped(["a.5", "a.6", "a.7"], FOUR)
    parts = chain([*names, *more[0], *last[0]], [*types, *more[1], *last[1]])
    dash = "\N{EN DASH}"
    assert titles(parts) == [f"a 0{dash}1 {TIMES} 2", "a.2", f"a 5{dash}7 {TIMES} 3"]


def test_a_loose_layer_between_layers_of_a_block_belongs_to_it() -> None:
    names, types = scoped(["a"], FOUR)
    assert chain([*names[:2], "loose", *names[2:], "last"], [*types[:2], "Range", *types[2:], "ReLU"])[1:] == [5]


def test_blocks_with_other_blocks_between_them_are_no_stack() -> None:
    names, types = scoped([f"{kind}{place}" for place in (1, 2, 3) for kind in ("dense", "transition")], FOUR)
    parts = chain(names, types)
    assert titles(parts) == [f"{kind}{place}" for place in (1, 2, 3) for kind in ("dense", "transition")]


def test_a_stack_takes_up_single_layers_between_its_blocks() -> None:
    names, types = scoped(["a.0"], FOUR)
    more, kinds = scoped(["a.1"], FOUR)
    (stack,) = chain([*names, "loose", *more], [*types, "Range", *kinds])
    assert isinstance(stack, Block)
    assert titles(stack.parts) == ["a.0", "a.1"]
    assert [part for part in stack.parts if isinstance(part, int)] == [4]


def test_a_stack_takes_up_a_small_block_between_its_blocks() -> None:
    """As of a language model, whose first layer has the shape from which all layers' rotations are computed."""
    long = tuple(f"kind {place}" for place in range(12))
    names, types = scoped(["model/layers.0"], long)
    rotary = scoped(["model/rotary_1"], FOUR)
    more = scoped(["model/layers.1", "model/layers.2"], long)
    (stack,) = chain([*names, *rotary[0], *more[0]], [*types, *rotary[1], *more[1]])
    assert isinstance(stack, Block)
    assert stack.title == f"model layers {TIMES} 3"
    assert titles(stack.parts) == ["layers.0", "rotary_1", "layers.1", "layers.2"]
    assert stack.types.total() == 40


def test_sequences_that_repeat_are_blocks_where_names_tell_nothing() -> None:
    inside = ("MatMul", "Add", "Tanh", "Multiply", "SoftMax", "Reshape")
    types = ["Gather", "MVN", *inside * 5, "ReLU"]
    parts = chain([f"node_{place}" for place in range(len(types))], types)
    assert parts[:2] == [0, 1]
    stack = parts[2]
    assert isinstance(stack, Block)
    assert (stack.title, stack.repeats) == (f"block {TIMES} 5", 5)
    assert [len(part.parts) for part in stack.parts if isinstance(part, Block)] == [6] * 5
    assert parts[3:] == [32]


def test_a_run_is_cut_where_one_value_passes() -> None:
    tokens = list("xABCDEF" + "ABCDEF" * 3 + "ABC")
    # D to F and the next A and B are all read by the next C: behind each C one value passes, elsewhere more.
    reads: list[list[int]] = [[] for _ in tokens]
    for place, token in enumerate(tokens):
        if token == "C":
            reads[place] = list(range(max(0, place - 5), place))
        elif place:
            reads[place] = [place - 1]
    assert repeats_in(tokens, reads) == [Repeat(4, 6, 4)]


@pytest.mark.parametrize("types", [["Concat"] * 40, ["Concat", "Slice"] * 20, [f"kind {place}" for place in range(40)]])
def test_no_blocks_of_layers_of_one_or_two_types(types: list[str]) -> None:
    assert chain([f"n{place}" for place in range(len(types))], types) == list(range(len(types)))


def test_every_layer_is_in_one_block_that_comes_after_the_one_around_it() -> None:
    names, types = scoped([f"net/stage.{stage}/block.{block}" for stage in range(3) for block in range(4)], FOUR)
    parts = chain([*names, "last"], [*types, "ReLU"])
    groups, block_of = flat_blocks(parts, len(names) + 1)
    assert all(group["p"] < place for place, group in enumerate(groups))
    assert block_of[-1] == -1
    inside = [groups[block]["t"] for block in block_of[:-1]]
    assert inside == [f"block.{block}" for _ in range(3) for block in range(4) for _ in FOUR]


def test_a_graph_without_layers_has_no_blocks() -> None:
    assert blocks_of([], [], []) == []
