"""A small model of pictures, the same steps by OpenVINO's PrePostProcessor, and pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import openvino
from onnx import TensorProto, helper
from openvino.preprocess import ColorFormat, PrePostProcessor, ResizeAlgorithm

import converter
from converter import Postprocess, Preprocess
from tests.converter.optimization.models import parse
from tests.engines import EXACT, core

MEAN, SCALE = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
RESIZES = {
    "linear": ResizeAlgorithm.RESIZE_LINEAR,
    "cubic": ResizeAlgorithm.RESIZE_CUBIC,
    "nearest": ResizeAlgorithm.RESIZE_NEAREST,
    "bilinear_pillow": ResizeAlgorithm.RESIZE_BILINEAR_PILLOW,
    "bicubic_pillow": ResizeAlgorithm.RESIZE_BICUBIC_PILLOW,
}
PLANES = {"nv12": ColorFormat.NV12_SINGLE_PLANE, "i420": ColorFormat.I420_SINGLE_PLANE}


def model_of_pictures(
    shape: Any = (1, 3, 12, 16), *, kind: int = TensorProto.FLOAT, first: str = "Conv", padding: int = 1
) -> onnx.ModelProto:
    """image -> (Sub) -> Conv -> features -> Relu -> scores; ``first`` is Conv, Sub, or Add of the input twice."""
    generator = np.random.default_rng(3)
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    channels, element = shape[1], {1: "float", 10: "float16", 11: "double"}[kind]
    weights = {
        "weights": generator.standard_normal((4, channels, 3, 3)),
        "bias": generator.standard_normal(4),
        "offset": generator.standard_normal((1, channels, 1, 1)),
    }
    before = {
        "Conv": "",
        "Sub": "[shift] shifted = Sub (image, offset)",
        "Add": "[twice] shifted = Concat <axis = 0> (image, image)",
    }
    nodes = f"""{before[first]} [conv] features = Conv <pads = {[padding] * 4}> (
        {"shifted" if before[first] else "image"}, weights, bias) [relu] scores = Relu (features)"""
    dims = ",".join(map(str, shape))
    text = f"pictures ({element}[{dims}] image) => (scores, features) {{ {nodes} }}"
    return parse(text, **{name: value.astype(dtype) for name, value in weights.items()})


def picture(*shape: int, kind: str = "u8", seed: int = 0) -> np.ndarray:
    values = np.random.default_rng(seed).integers(0, 256, shape)
    return values.astype({"u8": np.uint8, "f32": np.float32, "f16": np.float16}[kind])


def compiled(path: Path) -> Any:
    return core().compile_model(str(path), "CPU", EXACT)


def executed(model: Any) -> int:
    """How many layers the plug-in executes, constants left out."""
    nodes = model.get_runtime_model().get_ops()
    return sum(str(node.get_rt_info()["layerType"].astype(str)) != "Const" for node in nodes)


def with_processor(plain: Path, name: str, steps: Preprocess, outputs: dict[str, Postprocess], target: Path) -> None:
    """The IR ``plain`` with the steps by OpenVINO's PrePostProcessor, written to ``target``."""
    processor = PrePostProcessor(openvino.Core().read_model(str(plain)))
    one = processor.input(name)
    if steps.element_type or steps.color in PLANES:
        one.tensor().set_element_type(getattr(openvino.Type, steps.element_type or "u8"))
    if steps.color in PLANES:
        one.tensor().set_color_format(PLANES[steps.color])
    elif steps.layout or steps.model_layout:
        one.tensor().set_layout(openvino.Layout((steps.layout or steps.model_layout).upper()))
    if steps.model_layout:
        one.model().set_layout(openvino.Layout(steps.model_layout.upper()))
    if steps.resize:
        one.tensor().set_spatial_dynamic_shape()
    chain = one.preprocess()
    if steps.color in PLANES:
        blue_first = steps.model_color == "bgr"
        chain.convert_color(ColorFormat.BGR if blue_first else ColorFormat.RGB)
    in_bytes = steps.resize in ("bilinear_pillow", "bicubic_pillow")
    if in_bytes:
        chain.resize(RESIZES[steps.resize], *(steps.size or ()))
    if steps.mean or steps.scale or steps.resize:
        chain.convert_element_type(openvino.Type.f32)
    if steps.resize and not in_bytes:
        chain.resize(RESIZES[steps.resize], *(steps.size or ()))
    if steps.swaps_colors:
        chain.reverse_channels()
    for values, add in ((steps.mean, chain.mean), (steps.scale, chain.scale)):
        if values is not None:
            add(list(values) if len(values) > 1 else values[0])
    for output, behind in outputs.items():
        port = processor.output(output)
        if behind.element_type:
            port.tensor().set_element_type(getattr(openvino.Type, behind.element_type))
        if behind.layout:
            port.tensor().set_layout(openvino.Layout(behind.layout.upper()))
            port.model().set_layout(openvino.Layout(behind.model_layout.upper()))
    openvino.save_model(processor.build(), str(target), compress_to_fp16=False)


def both(
    model: Any, folder: Path, steps: Preprocess, outputs: dict[str, Postprocess] | None = None, **options: Any
) -> tuple[Path, Path]:
    """The IR that we write, and the plain one with the steps by PrePostProcessor; ``options`` are of the conversion."""
    name = options.pop("name", "image")
    converter.save_model(converter.convert_model(model, **options), folder / "plain.xml")
    with_processor(folder / "plain.xml", name, steps, outputs or {}, folder / "theirs.xml")
    ours = converter.convert_model(model, preprocess={name: steps}, postprocess=outputs, **options)
    converter.save_model(ours, folder / "ours.xml")
    return folder / "ours.xml", folder / "theirs.xml"
