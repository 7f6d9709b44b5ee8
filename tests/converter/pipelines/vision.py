"""Folders with small models of images and texts, as transformers.js has them, and their tokens in onnxruntime."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto
from tokenizers import Tokenizer

from tests.converter.language_models.decoders import (
    HIDDEN,
    SHARED,
    SIZE,
    VOCABULARY,
    Decoder,
    save_models,
    turned,
    write_tokenizer,
)
from tests.converter.language_models.decoders import LAYERS as DECODER_LAYERS
from tests.engines import OnnxSession
from tests.graphs import Value

from .texts import HIDDEN as WIDTH
from .texts import LOWEST, Graph, write_json
from .texts import SIZE as HEAD

SIDE, PATCH = 16, 8
PATCH_NUMBERS = 2 * 3 * PATCH**2
"""Numbers of a patch, which an image has twice, as if it were two moments."""
IMAGE_ID = VOCABULARY - 1
MEAN, DEVIATION = (0.5, 0.4, 0.3), (0.3, 0.25, 0.2)


def vision_encoder(*, rank: int = 3, inputs: Sequence[str] = ("pixel_values",)) -> onnx.ModelProto:
    """Patches, a layer of a transformer, and a projection to the width of the decoder."""
    graph = Graph(seed=11)
    weight = graph.weight(WIDTH, 3, PATCH, PATCH, depth=3 * PATCH**2)
    patches = graph("Conv", "pixel_values", weight, strides=[PATCH] * 2)
    x = patches.Reshape([0, 0, -1]).Transpose(perm=[0, 2, 1])
    x = x + graph.weight((SIDE // PATCH) ** 2, WIDTH, depth=1)
    x = graph.linear(graph.layer(x), WIDTH, HIDDEN)
    dims = ["images", (SIDE // PATCH) ** 2, HIDDEN]
    if rank == 2:
        x, dims = x.Reshape([-1, HIDDEN]), ["tokens", HIDDEN]
    kinds = dict.fromkeys(inputs, (np.float32, ["images", 3, SIDE, SIDE]))
    return graph.model(kinds, {"image_features": (x, dims)})


MERGE, WAVES = 2, HEAD // 2
"""The side of the squares of patches that become one token; angles of a patch."""
WINDOW = 2
"""The side of Qwen2.5-VL's windows in tokens."""

SIDE_OF_TABLE = 6
"""The side of the square of positions that Qwen3-VL has embeddings of."""


def patch_encoder(
    window: int | None = None, *, has_table: bool = False, interpolation: str = "align_corners"
) -> onnx.ModelProto:
    """Qwen2-VL's encoder, as it is traced for one image: the grid tells the positions of the patches, and a mask.

    With ``window`` that of Qwen2.5-VL: tokens are sorted by windows of so many rows and columns, which a layer sees alone.
    With ``has_table`` that of Qwen3-VL: embeddings of positions, cosines and sines come from tables, and the decoder gets
    states of the embeddings, too. ``interpolation`` says how the table is interpolated.
    """
    graph = Graph(seed=13)
    row = graph("Gather", "image_grid_thw", 0)
    time, height, width = (row.Gather(index) for index in range(3))
    sides = [value.Unsqueeze([0]) for value in (height, width)]
    squares = [(value / MERGE).Unsqueeze([0]) for value in (height, width)]
    tiles = squares[0].Concat([MERGE], squares[1], [MERGE], axis=0)
    places = []
    for count, axis in ((height, 1), (width, 0)):
        numbers = graph("Range", 0, count, 1).Unsqueeze([axis])
        square = numbers.Expand(graph("Concat", *sides, axis=0)).Reshape(tiles)
        places.append(square.Transpose(perm=[0, 2, 1, 3]).Reshape([-1]).Unsqueeze([1]))
    numbers = graph("Concat", *places, axis=1).Tile(time.Unsqueeze([0]).Concat([1], axis=0))
    largest = graph("Range", 0, height.Max(width), 1).Cast(to=TensorProto.FLOAT)
    table = largest.Unsqueeze([1]) @ 10000.0 ** (-np.arange(0, WAVES, 2) / WAVES)[None]
    angles = table.Gather(numbers).Reshape([-1, WAVES])
    x = graph["pixel_values"] @ graph.weight(PATCH_NUMBERS, WIDTH)
    if has_table:
        x = x + _positions_of_table(graph, sides, tiles, interpolation)
    embedded = x
    masks, reverse = [], None
    if window is not None:
        order, reverse, mask = _windows(graph, squares, window)
        x, angles = (
            value.Reshape([-1, MERGE**2, width]).Gather(order).Reshape([-1, width])
            for value, width in ((x, WIDTH), (angles, WAVES))
        )
        masks.append(mask)
    if has_table:
        all_angles = np.arange(64)[:, None] * 10000.0 ** (-np.arange(0, WAVES, 2) / WAVES)
        halves = [graph("Gather", wave(all_angles), numbers).Reshape([-1, WAVES]) for wave in (np.cos, np.sin)]
        waves = [half.Concat(half, axis=-1) for half in halves]
    else:
        angles = angles.Concat(angles, axis=-1)
        waves = [angles.Cos(), angles.Sin()]
    seen = graph("Range", 0, graph.size("pixel_values", 0), 1).Less(time * (height * width))
    masks.append(seen.Where(0.0, LOWEST))

    x = x.Unsqueeze([0])
    for mask in masks:
        parts = [graph.heads(graph.linear(graph.normalized(x), WIDTH, WIDTH, scale=2)) for _ in range(3)]
        q, k = (turned(part, waves, HEAD) for part in parts[:2])
        x = x + graph.linear(graph.attend(q, k, parts[2], mask), WIDTH, WIDTH)
    states = graph.linear(x.Reshape([-1, MERGE**2 * WIDTH]), MERGE**2 * WIDTH, HIDDEN)
    states = states.Gather(reverse) if reverse else states
    inputs: dict[str, tuple[Any, list[int | str]]] = {
        "pixel_values": (np.float32, ["patches", PATCH_NUMBERS]),
        "image_grid_thw": (np.int64, ["images", 3]),
    }
    outputs: dict[str, tuple[str, list[Any]]] = {"image_features": (states, ["tokens", HIDDEN])}
    if has_table:
        merged = embedded.Reshape([-1, MERGE**2 * WIDTH]).Tanh()
        stacked = graph.linear(merged, MERGE**2 * WIDTH, HIDDEN).Unsqueeze([0])
        outputs["deepstack_features"] = (stacked, [1, "tokens", HIDDEN])
    return graph.model(inputs, outputs)


def _positions_of_table(graph: Graph, sides: Sequence[Value], tiles: Value, places: str) -> Value:
    """Embeddings of positions ``[patches, width]``, squares of patches first, between those of a table."""
    table = graph.weight(1, WIDTH, SIDE_OF_TABLE, SIDE_OF_TABLE, depth=1)
    sizes = graph("Concat", [1, WIDTH], *sides, axis=0)
    image = table.Resize("", "", sizes, mode="linear", coordinate_transformation_mode=places)
    squares = image.Reshape(graph("Concat", [WIDTH], tiles, axis=0))
    return squares.Transpose(perm=[1, 3, 2, 4, 0]).Reshape([-1, WIDTH])


def _windows(graph: Graph, sides: Sequence[Value], window: int) -> tuple[Value, Value, Value]:
    """The order of tokens by windows, the order back, and the mask of patches; ``sides`` are ``[rows]``, ``[columns]``."""
    columns = sides[1]
    count = (sides[0] * columns).Squeeze()
    numbers = graph("Range", 0, count, 1)
    row = numbers / columns
    windows = row / window * columns + (numbers - row * columns) / window
    keys = windows * count + numbers
    below = keys.Unsqueeze([0]).Less(keys.Unsqueeze([1]))
    ranks = below.Cast(to=TensorProto.INT64).ReduceSum([1], keepdims=0)
    order = numbers.ScatterElements(ranks, numbers)
    patches = windows.Gather(order).Unsqueeze([1]).Tile([1, MERGE**2]).Reshape([-1])
    mask = patches.Unsqueeze([0]).Equal(patches.Unsqueeze([1])).Where(0.0, -np.inf)
    positions = graph("Range", 0, order.Shape().Squeeze(), 1)
    return order, positions.ScatterElements(order, positions), mask


def rename_for_genai(folder: Path) -> None:
    """Make a folder for onnxruntime-genai of it: settings that name the files, and images among the embeddings."""
    names = {"vision_encoder": "vision", "embed_tokens": "embedding", "decoder_model_merged": "decoder"}
    parts = {part: {"filename": f"tiny-{part}.onnx"} for part in names.values()}
    for name, part in names.items():
        model = onnx.load(folder / "onnx" / f"{name}.onnx")
        onnx.save(_among_embeddings() if part == "embedding" else model, folder / parts[part]["filename"])
    shutil.rmtree(folder / "onnx")
    (folder / "config.json").unlink()
    settings = {"type": "llava", "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "vocab_size": VOCABULARY}
    write_json(folder / "genai_config.json", {"model": {**settings, **parts}, "search": {"max_length": 128}})


def _among_embeddings() -> onnx.ModelProto:
    """The embeddings of tokens, where image tokens have ``image_features``, one after the other."""
    graph, dims = Graph(), ["batch_size", "sequence_length"]
    embedded = graph("Gather", graph.random.normal(size=(VOCABULARY, HIDDEN)), "input_ids")
    is_image = graph("Equal", "input_ids", IMAGE_ID)
    rows = (is_image.Cast(to=TensorProto.INT64).CumSum(1) - 1).Max(0)
    x = is_image.Unsqueeze([-1]).Where(graph("Gather", "image_features", rows), embedded)
    inputs = {"input_ids": (np.int64, dims), "image_features": (np.float32, ["features", HIDDEN])}
    return graph.model(inputs, {"inputs_embeds": (x, [*dims, HIDDEN])})


def write_image_tokenizer(folder: Path, tokens: Sequence[str]) -> None:
    """A tokenizer of single bytes whose last tokens are ``tokens``, the first of them :data:`IMAGE_ID`."""
    write_tokenizer(folder)
    path = folder / "tokenizer.json"
    settings = json.loads(path.read_text())
    words = settings["model"]["vocab"]
    for word in [word for word, index in words.items() if index > VOCABULARY - 1 - len(tokens)]:
        del words[word]
    path.write_text(json.dumps(settings))
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.add_special_tokens([*tokens[1:], tokens[0]])
    assert tokenizer.token_to_id(tokens[0]) == IMAGE_ID
    tokenizer.save(str(path))


class VisionLanguageModel:
    """The parts of a folder in onnxruntime; ``files`` are those of the parts, by the names of transformers.js."""

    def __init__(self, folder: Path, files: Mapping[str, Path] | None = None, patch: int = PATCH) -> None:
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        files = files or {path.stem: path for path in (folder / "onnx").glob("*.onnx")}
        self._sessions = {name: OnnxSession(path) for name, path in files.items()}
        self._patch = patch
        self._has_patches = len(self._sessions["vision_encoder"].inputs) == 2

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens, as openvino-genai returns it."""
        return str(self._tokenizer.decode(list(tokens)))

    def generate(self, text: str, images: Sequence[np.ndarray], count: int) -> list[int]:
        """The next ``count`` tokens; ``text`` has an image token for each of the states of ``images``, ``[h, w, 3]``."""
        tokens = np.array([self._tokenizer.encode(text).ids])
        x, places = self._embedded(tokens), tokens == IMAGE_ID
        stacked = np.zeros_like(x)
        if images:
            states, *others = (np.concatenate(parts) for parts in zip(*map(self._states, images)))
            assert places.sum() == len(states)
            x[places] = states
            stacked[places] = others[0] if others else 0
        decoder, result = self._sessions["decoder_model_merged"], list[int]()
        caches = [name for name in decoder.inputs if name.startswith("past_key_values.")]
        assert len(caches) == 2 * DECODER_LAYERS
        feeds = {name: np.zeros((1, SHARED, 0, SIZE), np.float32) for name in caches}
        positions = self._positions(places[0], images)
        length = 0
        while len(result) < count:
            length += x.shape[1]
            feeds |= {"inputs_embeds": x, "attention_mask": np.ones((1, length), np.int64)}
            feeds |= {
                "position_ids": positions if self._has_patches else positions[0],
                "deepstack_embeds": stacked[None],
            }
            values = decoder(feeds)
            feeds = {name: values[name.replace("past_key_values", "present")] for name in caches}
            result.append(int(values["logits"][0, -1].argmax()))
            x = self._embedded(np.array([result[-1:]]))
            stacked = np.zeros_like(x)
            positions = np.full((3, 1, 1), positions.max() + 1)
        return result

    def _embedded(self, tokens: np.ndarray) -> np.ndarray:
        none = {"image_features": np.zeros((1, HIDDEN)), "deepstack_features": np.zeros((1, 1, HIDDEN))}
        feeds = {name: value.astype(np.float32) for name, value in none.items()}
        return np.array(self._sessions["embed_tokens"]({"input_ids": tokens, **feeds})["inputs_embeds"])

    def _states(self, image: np.ndarray) -> list[np.ndarray]:
        """The states of an image, ``[tokens, width]``, and those that a layer of the decoder adds."""
        pixels = (image.astype(np.float32) / 255 - np.float32(MEAN)) / np.float32(DEVIATION)
        pixels = pixels.transpose(2, 0, 1)
        session = self._sessions["vision_encoder"]
        if not self._has_patches:
            return [np.reshape(session({"pixel_values": pixels[None]})["image_features"], (-1, HIDDEN))]
        height, width = (side // self._patch for side in image.shape[:2])
        twice = np.stack([pixels, pixels])
        parts = twice.reshape(2, 3, height // MERGE, MERGE, self._patch, width // MERGE, MERGE, self._patch)
        rows = parts.transpose(2, 5, 3, 6, 1, 0, 4, 7).reshape(height * width, -1)
        grid = np.array([[1, height, width]])
        states, *others = session({"pixel_values": rows, "image_grid_thw": grid}).values()
        return [np.array(states), *(np.array(other)[0] for other in others)]

    def _positions(self, places: np.ndarray, images: Sequence[np.ndarray]) -> np.ndarray:
        """The positions of a prompt, ``[3, 1, tokens]``: those of Qwen2-VL count rows and columns of images."""
        if not self._has_patches:
            return np.broadcast_to(np.arange(len(places)), (3, 1, len(places)))
        columns: list[tuple[int, int, int]] = []
        index, next_image = 0, iter(images)
        while index < len(places):
            start = max((max(column) for column in columns), default=-1) + 1
            if not places[index]:
                columns.append((start, start, start))
                index += 1
                continue
            height, width = (side // self._patch // MERGE for side in next(next_image).shape[:2])
            columns += [(start, start + row, start + column) for row in range(height) for column in range(width)]
            index += height * width
        return np.array(columns).T[:, None]


@dataclass(frozen=True)
class Family:
    """Models of a type: how ``VLMPipeline`` writes an image of a prompt, and what is special in the folder."""

    model_type: str
    tokens: Sequence[str]
    """The token of an image's states, and others."""
    start: str = ""
    end: str = ""
    mark: str = ""
    """What stands for an image in a prompt."""
    size: object = None
    rank: int = 3
    shape: tuple[int, int] = (SIDE, SIDE)
    """The height and width of images."""
    count: int = (SIDE // PATCH) ** 2
    """Tokens of an image."""
    decoder: Decoder = field(default_factory=Decoder)
    backends: Sequence[str] = ("SDPA", "PA")

    @property
    def image(self) -> str:
        """The tokens of an image."""
        return self.start + self.tokens[0] * self.count + self.end

    def write(self, folder: Path, ending: str = "") -> None:
        has_patches, has_windows = self.model_type.startswith("qwen"), self.model_type == "qwen2_5_vl"
        has_table = self.model_type == "qwen3_vl"
        encoder = patch_encoder(WINDOW if has_windows else None, has_table=has_table)
        models = {
            "vision_encoder": encoder if has_patches else vision_encoder(rank=self.rank),
            "embed_tokens": self.decoder.embeddings(),
            "decoder_model_merged": replace(self.decoder, embedded=True, axes=has_patches, stacked=has_table).build(),
        }
        save_models(folder / "onnx", {f"{name}{ending}": model for name, model in models.items()})
        write_image_tokenizer(folder, self.tokens)
        settings = {"hidden_size": HIDDEN, "vocab_size": VOCABULARY, "model_type": "llama"}
        vision = {"patch_size": PATCH, "image_size": SIDE, "window_size": WINDOW * MERGE * PATCH}
        vision |= {"num_position_embeddings": SIDE_OF_TABLE**2, "deepstack_visual_indexes": [0]}  # type: ignore[dict-item]
        kind = {"model_type": self.model_type}
        write_json(folder / "config.json", {**kind, "text_config": settings, "vision_config": vision})
        sizes = {"size": self.size or {"shortest_edge": SIDE}, "crop_size": {"height": SIDE, "width": SIDE}}
        patches = {"patch_size": PATCH, "merge_size": MERGE, "temporal_patch_size": 2}
        patches |= {"min_pixels": 64, "max_pixels": 65536}
        scaling = {"image_mean": MEAN, "image_std": DEVIATION}
        write_json(folder / "preprocessor_config.json", {**(patches if has_patches else sizes), **scaling})


SQUARE = {"height": SIDE, "width": SIDE}
QWEN = ("<|image_pad|>", "<|vision_start|>", "<|vision_end|>", "<|video_pad|>")


def _qwen(model_type: str, rows: int, columns: int) -> Family:
    """Images of so many tokens."""
    shape = (rows * MERGE * PATCH, columns * MERGE * PATCH)
    ends = (QWEN[1], QWEN[2])
    return Family(
        model_type, QWEN, *ends, QWEN[0].join(ends), shape=shape, count=rows * columns, decoder=Decoder("onnx")
    )


FAMILIES = {
    "llava": Family("llava", ["<image>"], "", "\n", "<image>"),
    "llava, without positions and images": Family(
        "llava", ["<image>"], "", "\n", "<image>", rank=2, decoder=Decoder("onnx", positions=False)
    ),
    # With SDPA openvino-genai 2026.4 counts the positions of gemma3's prompts from 1 and those of new tokens from 0.
    "gemma3": Family(
        *("gemma3", ["<image_soft_token>"], "\n\n<start_of_image>", "<end_of_image>\n\n", "<start_of_image>"),
        size=SQUARE,
        backends=["PA"],
    ),
    "internvl": Family("internvl", ["<IMG_CONTEXT>"], "<img>", "</img>\n", "<image>\n", size=SQUARE),
    "qwen2_5_vl": _qwen("qwen2_5_vl", 3, 5),
    "qwen2_vl": _qwen("qwen2_vl", 2, 3),
    "qwen3_vl": _qwen("qwen3_vl", 3, 5),
}
