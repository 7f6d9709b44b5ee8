"""Sentence embeddings and rankings in openvino-genai: what onnxruntime computes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import openvino
import openvino_genai
import openvino_tokenizers
import pytest

import converter

from .graphs import run
from .texts import encode, text_encoder, write_pooling, write_text_folder

TEXTS = ["once", "a much longer text, which is padded less", "two"]
PROPERTIES = {"INFERENCE_PRECISION_HINT": "f32"}
Pooling = Callable[[np.ndarray, np.ndarray], np.ndarray]
POOLINGS: dict[str, tuple[str, bool, Pooling]] = {
    "cls": ("cls_token", True, lambda states, _: states[:, 0]),
    "mean": ("mean_tokens", True, lambda states, mask: (states * mask[..., None]).sum(1) / mask.sum(1)[:, None]),
    "mean, not normalized": (
        *("mean_tokens", False),
        lambda states, mask: (states * mask[..., None]).sum(1) / mask.sum(1)[:, None],
    ),
    "last token": ("lasttoken", True, lambda states, mask: states[np.arange(len(mask)), mask.sum(1) - 1]),
}  # fmt: skip


@pytest.mark.parametrize(("mode", "normalizes", "pool"), POOLINGS.values(), ids=POOLINGS)
def test_embeddings(tmp_path: Path, mode: str, normalizes: bool, pool: Pooling) -> None:
    model = text_encoder("last_hidden_state" if normalizes else "token_embeddings")
    write_text_folder(tmp_path / "onnx", model, {"model_type": "bert", "architectures": ["BertModel"]})
    write_pooling(tmp_path / "onnx", mode, normalizes=normalizes)
    written = converter.convert_folder(tmp_path / "onnx", tmp_path / "ir")
    assert (written.pipeline.task, written.pipeline.runtime) == ("feature-extraction", "TextEmbeddingPipeline")
    assert (tmp_path / "ir/1_Pooling/config.json").is_file()
    names = {"openvino_genai": openvino_genai, "FOLDER": tmp_path / "ir"}
    pipeline = eval(written.pipeline.call.removesuffix(")") + ", **PROPERTIES)", {**names, "PROPERTIES": PROPERTIES})
    feeds = encode(tmp_path / "onnx", *TEXTS)
    expected = pool(run(model, **feeds)[0], feeds["attention_mask"])
    if normalizes:
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    embeddings = np.array(pipeline.embed_documents(TEXTS))
    assert np.abs(expected[0] - expected[1]).max() > 0.1, "equal embeddings prove little"
    np.testing.assert_allclose(embeddings, expected, atol=1e-5)


RERANKERS = {"one score": (1, True), "two classes": (2, True), "without segments": (1, False)}


@pytest.mark.parametrize(("labels", "segments"), RERANKERS.values(), ids=RERANKERS)
def test_ranking(tmp_path: Path, labels: int, segments: bool) -> None:
    model = text_encoder("logits", labels=labels, segments=segments)
    names = {str(number): f"LABEL_{number}" for number in range(labels)}
    configuration = {"architectures": ["BertForSequenceClassification"], "id2label": names, "model_type": "bert"}
    write_text_folder(tmp_path / "onnx", model, configuration, file="model.onnx", segments=segments)
    task = None if labels == 1 else "text-ranking"  # two classes may be anything
    written = converter.convert_folder(tmp_path / "onnx", tmp_path / "ir", task=task)
    assert (written.pipeline.task, written.pipeline.runtime) == ("text-ranking", "TextRerankPipeline")
    pipeline = openvino_genai.TextRerankPipeline(tmp_path / "ir", "CPU", top_n=3, **PROPERTIES)
    feeds = encode(tmp_path / "onnx", *["a question"] * 3, second=TEXTS)
    logits = run(model, **feeds)[0].astype(np.float64)
    powers = np.exp(logits - logits.max(1, keepdims=True))
    expected = 1 / (1 + np.exp(-logits[:, 0])) if labels == 1 else (powers / powers.sum(1, keepdims=True))[:, 1]
    scores = dict(pipeline.rerank("a question", TEXTS))
    assert np.ptp(expected) > 0.01, "equal scores prove little"
    np.testing.assert_allclose([scores[row] for row in range(3)], expected, atol=1e-5)


def test_classes_of_texts_in_openvino(tmp_path: Path) -> None:
    model = text_encoder("logits", labels=3)
    write_text_folder(tmp_path / "onnx", model, {"model_type": "bert"})
    written = converter.convert_folder(tmp_path / "onnx", tmp_path / "ir")
    assert (written.pipeline.task, written.pipeline.call) == ("text-classification", "")
    core = openvino.Core()
    core.add_extension(openvino_tokenizers._ext_path)
    tokenizer = core.compile_model(tmp_path / "ir/openvino_tokenizer.xml", "CPU")
    classifier = core.compile_model(written.models[0], "CPU", PROPERTIES)
    feeds = {port.any_name: value for port, value in tokenizer(TEXTS).items()}
    logits = classifier({port.any_name: feeds[port.any_name] for port in classifier.inputs})["logits"]
    (expected,) = run(model, **encode(tmp_path / "onnx", *TEXTS))
    np.testing.assert_allclose(logits, expected, atol=1e-5)
