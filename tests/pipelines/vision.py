"""Folders with small models of images and texts, as transformers.js has them, and their tokens in onnxruntime."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper
from tokenizers import Tokenizer

from tests.language_models.decoders import HIDDEN, SHARED, SIZE, VOCABULARY, Decoder
from tests.language_models.decoders import LAYERS as DECODER_LAYERS
from tests.language_models.folders import write_tokenizer

from .graphs import HIDDEN as WIDTH
from .graphs import Graph
from .texts import write_json

SIDE, PATCH = 16, 8
IMAGE_ID = VOCABULARY - 1
MEAN, DEVIATION = (0.5, 0.4, 0.3), (0.3, 0.25, 0.2)


def vision_encoder(*, rank: int = 3, inputs: Sequence[str] = ("pixel_values",)) -> onnx.ModelProto:
    """Patches, a layer of a transformer, and a projection to the width of the decoder."""
    graph = Graph(seed=11)
    patches = graph(
        "Conv", "pixel_values", graph.weight(WIDTH, 3, PATCH, PATCH, depth=3 * PATCH**2), strides=[PATCH] * 2
    )
    x = graph("Transpose", graph("Reshape", patches, graph.integers(0, 0, -1)), perm=[0, 2, 1])
    x = graph("Add", x, graph.weight((SIDE // PATCH) ** 2, WIDTH, depth=1))
    x = graph.linear(graph.layer(x), WIDTH, HIDDEN)
    dims = ["images", (SIDE // PATCH) ** 2, HIDDEN]
    if rank == 2:
        x, dims = graph("Reshape", x, graph.integers(-1, HIDDEN)), ["tokens", HIDDEN]
    kinds = dict.fromkeys(inputs, (np.float32, ["images", 3, SIDE, SIDE]))
    return graph.model(kinds, {"image_features": (x, dims)})


def split(decoder: Decoder) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """The embeddings of tokens, and the decoder that reads them."""
    model = decoder.build()
    graph = model.graph
    lookup = next(node for node in graph.node if node.op_type == "Gather" and node.input[1] == "input_ids")
    table = next(tensor for tensor in graph.initializer if tensor.name == lookup.input[0])
    dims = ["batch_size", "sequence_length"]
    embeddings = helper.make_model(
        helper.make_graph(
            [helper.make_node("Gather", [table.name, "input_ids"], ["inputs_embeds"])],
            "embed_tokens",
            [helper.make_tensor_value_info("input_ids", TensorProto.INT64, dims)],
            [helper.make_tensor_value_info("inputs_embeds", TensorProto.FLOAT, [*dims, HIDDEN])],
            [table],
        ),
        opset_imports=[helper.make_opsetid("", 18)],
        ir_version=9,
    )
    for node in graph.node:
        for index, name in enumerate(node.input):
            if name in ("input_ids", lookup.output[0]):
                node.input[index] = "inputs_embeds"
    graph.node.remove(lookup)
    graph.initializer.remove(table)
    graph.input[0].CopyFrom(helper.make_tensor_value_info("inputs_embeds", TensorProto.FLOAT, [*dims, HIDDEN]))
    return embeddings, model


def write_vision_folder(
    folder: Path,
    decoder: Decoder,
    *,
    model_type: str = "llava",
    token: str = "<image>",
    size: object = None,
    rank: int = 3,
    ending: str = "",
) -> None:
    """``token`` stands for each state of an image; ``size`` is that of the preprocessor."""
    embeddings, language_model = split(decoder)
    models = {
        "vision_encoder": vision_encoder(rank=rank),
        "embed_tokens": embeddings,
        "decoder_model_merged": language_model,
    }
    (folder / "onnx").mkdir(parents=True)
    for name, model in models.items():
        onnx.save(model, folder / "onnx" / f"{name}{ending}.onnx")
    write_tokenizer(folder)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.add_special_tokens([token])
    assert tokenizer.token_to_id(token) == IMAGE_ID
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"hidden_size": HIDDEN, "vocab_size": VOCABULARY, "model_type": "llama"}
    vision = {"patch_size": PATCH, "image_size": SIDE}
    write_json(
        folder / "config.json",
        {"model_type": model_type, "image_token_index": IMAGE_ID, "text_config": settings, "vision_config": vision},
    )
    sizes = {"size": size or {"shortest_edge": SIDE}, "crop_size": {"height": SIDE, "width": SIDE}}
    write_json(folder / "preprocessor_config.json", {**sizes, "image_mean": MEAN, "image_std": DEVIATION})


class VisionLanguageModel:
    """The parts of a folder in onnxruntime."""

    def __init__(self, folder: Path) -> None:
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._sessions = {
            path.stem: onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
            for path in (folder / "onnx").glob("*.onnx")
        }
        names = json.loads((folder / "config.json").read_text())
        self._image_token = names["image_token_index"]

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens, as openvino-genai returns it."""
        return str(self._tokenizer.decode(list(tokens)))

    def generate(self, text: str, images: Sequence[np.ndarray], count: int) -> list[int]:
        """The next ``count`` tokens; ``text`` has an image token for each of the states of ``images``, ``[h, w, 3]``."""
        tokens = np.array([self._tokenizer.encode(text).ids])
        x = self._embedded(tokens)
        places = tokens == self._image_token
        if images:
            pixels = (np.stack(images).astype(np.float32) / 255 - np.float32(MEAN)) / np.float32(DEVIATION)
            (states,) = self._sessions["vision_encoder"].run(None, {"pixel_values": pixels.transpose(0, 3, 1, 2)})
            assert places.sum() == np.prod(states.shape[:-1])
            x[places] = states.reshape(-1, HIDDEN)
        decoder, result = self._sessions["decoder_model_merged"], list[int]()
        inputs = [port.name for port in decoder.get_inputs()]
        outputs = [port.name for port in decoder.get_outputs()]
        caches = [name for name in inputs if name.startswith("past_key_values.")]
        assert len(caches) == 2 * DECODER_LAYERS
        feeds = {name: np.zeros((1, SHARED, 0, SIZE), np.float32) for name in caches}
        length = 0
        while len(result) < count:
            length += x.shape[1]
            feeds |= {"inputs_embeds": x, "attention_mask": np.ones((1, length), np.int64)}
            if "position_ids" in inputs:
                feeds["position_ids"] = np.arange(length - x.shape[1], length)[None]
            values = dict(zip(outputs, decoder.run(None, feeds)))
            feeds = {name: values[name.replace("past_key_values", "present")] for name in caches}
            result.append(int(values["logits"][0, -1].argmax()))
            x = self._embedded(np.array([result[-1:]]))
        return result

    def _embedded(self, tokens: np.ndarray) -> np.ndarray:
        return np.array(self._sessions["embed_tokens"].run(None, {"input_ids": tokens})[0])
