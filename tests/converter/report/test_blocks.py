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


def titles(parts: Sequence[Part]) -> list[str | int]:
    """Of blocks their titles, of layers their places."""
    return [part.title if isinstance(part, Block) else part for part in parts]


def scoped(scopes: Sequence[str], inside: Sequence[str]) -> tuple[list[str], list[str]]:
    return [f"/{scope}/{kind}" for scope in scopes for kind in inside], [kind for _ in scopes for kind in inside]


FOUR = ("MatMul", "Add", "Tanh", "Multiply")


LONG = tuple(f"kind {place}" for place in range(12))
DASH = "\N{EN DASH}"


def layers(*parts: tuple[Sequence[str], Sequence[str]] | str) -> tuple[list[str], list[str]]:
    """Names and types of layers in scopes, each with the same types, and of single ones, of the type Range."""
    found = [([part], ["Range"]) if isinstance(part, str) else scoped(*part) for part in parts]
    return [name for names, _ in found for name in names], [kind for _, types in found for kind in types]


def numbered(scope: str, *numbers: int) -> list[str]:
    return [f"{scope}{number}" for number in numbers]


BLOCKS = {
    # layers, the parts at the top, and those of the only block
    "scopes that differ in a number": (
        layers((numbered("encoder/layer.", *range(12)), FOUR)), [f"encoder layer {TIMES} 12"], numbered("layer.", *range(12)),
    ),
    "a scope around one scope": (layers(([f"h.{at}/mlp" for at in range(3)], FOUR)), [f"h {TIMES} 3"],
                                 [f"h.{at} mlp" for at in range(3)]),
    "a scope around one around one": (layers(([f"h.{at}/mlp/core" for at in range(3)], FOUR)), [f"h {TIMES} 3"],
                                      [f"h.{at} mlp core" for at in range(3)]),
    "blocks that are not alike and numbers that are left out end a stack": (
        layers((["a.0", "a.1"], FOUR), (["a.2"], ("Convolution", "ReLU", "MaxPool", "Concat", "Split")),
               (["a.5", "a.6", "a.7"], FOUR)), [f"a 0{DASH}1 {TIMES} 2", "a.2", f"a 5{DASH}7 {TIMES} 3"], None,
    ),
    "a stack takes up single layers between its blocks": (
        layers((["a.0"], FOUR), "loose", (["a.1"], FOUR)), [f"a {TIMES} 2"], ["a.0", 4, "a.1"],
    ),
    # As of a language model, whose first layer has the shape from which all layers' rotations are computed.
    "a stack takes up a small block between its blocks": (
        layers((["model/layers.0"], LONG), (["model/rotary_1"], FOUR), (["model/layers.1", "model/layers.2"], LONG)),
        [f"model layers {TIMES} 3"], ["layers.0", "rotary_1", "layers.1", "layers.2"],
    ),
    "a loose layer between layers of a block belongs to it": (
        (["/a/x", "/a/y", "loose", "/a/z", "/a/v", "last"], ["MatMul", "Add", "Range", "Tanh", "Multiply", "ReLU"]),
        ["a", 5], [0, 1, 2, 3, 4],
    ),
    "blocks with others between them": (
        layers(*(([f"{kind}{at}"], FOUR) for at in (1, 2, 3) for kind in ("dense", "transition"))),
        [f"{kind}{at}" for at in (1, 2, 3) for kind in ("dense", "transition")], None,
    ),
    "sequences that repeat where names tell nothing": (
        ([f"node_{at}" for at in range(33)], ["Gather", "MVN", *("MatMul", "Add", "Tanh", "Multiply", "SoftMax", "Reshape") * 5,
                                              "ReLU"]), [0, 1, f"block {TIMES} 5", 32], None,
    ),
    **{f"layers of {len(set(types))} types": (([f"n{at}" for at in range(40)], types), [*range(40)], None)
       for types in (["Concat"] * 40, ["Concat", "Slice"] * 20, [f"kind {at}" for at in range(40)])},
    "a graph without layers": (([], []), [], None),
}  # fmt: skip


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks(name: str) -> None:
    (names, types), expected, inside = BLOCKS[name]
    parts = chain(names, types)
    assert titles(parts) == expected
    blocks = [part for part in parts if isinstance(part, Block)]
    if inside is not None:
        assert titles(blocks[0].parts) == inside
        assert blocks[0].types.total() == len(types) - len(parts) + 1
    assert all(f"{TIMES} {block.repeats}" in block.title for block in blocks if block.repeats > 1)


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


def test_every_layer_is_in_one_block_that_comes_after_the_one_around_it() -> None:
    names, types = scoped([f"net/stage.{stage}/block.{block}" for stage in range(3) for block in range(4)], FOUR)
    parts = chain([*names, "last"], [*types, "ReLU"])
    groups, block_of = flat_blocks(parts, len(names) + 1)
    assert all(group["p"] < place for place, group in enumerate(groups))
    assert block_of[-1] == -1
    inside = [groups[block]["t"] for block in block_of[:-1]]
    assert inside == [f"block.{block}" for _ in range(3) for block in range(4) for _ in FOUR]
