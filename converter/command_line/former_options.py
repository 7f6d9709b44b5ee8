"""Options that ``ovc`` and ``mo`` have and this command does not, and what to do instead.

``docs/from_ovc.md`` explains them at greater length.
"""

from __future__ import annotations

_TENSORFLOW = "it is for TensorFlow models: convert yours to ONNX with tf2onnx first"
_NOT_NEEDED = "it is not needed: leave it out"

FORMER_OPTIONS = {
    "dynamo": "it is for PyTorch's modules: export yours with torch.onnx.export first",
    "input-model": "give the model as the first argument: onnx2ir convert model.onnx",
    "framework": "every model is ONNX here: leave it out",
    "input-shape": 'write --input "name[1,3,224,224]"',
    "model-name": "write --output-model FOLDER/NAME",
    "output-dir": "write --output-model FOLDER/",
    "data-type": "write --compress-to-fp16 for FP16; FP32 is the default",
    "freeze-placeholder-with-value": 'write --input "name=value"',
    "static-shape": "write --static",
    "extensions": "write --extension FILE.py",
    "transform": "use openvino._offline_transformations on the IR, as mo did",
    "transformations-config": _TENSORFLOW,
    "tensorflow-use-custom-operations-config": _TENSORFLOW,
    "tensorflow-custom-operations-config-update": _TENSORFLOW,
    "saved-model-dir": _TENSORFLOW,
    "input-meta-graph": _TENSORFLOW,
    "input-checkpoint": _TENSORFLOW,
    "tensorboard-logdir": _TENSORFLOW,
    "use-legacy-frontend": _NOT_NEEDED,
    "use-new-frontend": _NOT_NEEDED,
    "disable-fusing": _NOT_NEEDED,
    "finegrain-fusing": _NOT_NEEDED,
    "progress": _NOT_NEEDED,
    "stream-output": _NOT_NEEDED,
    "silent": "write --quiet",
    "log-level": "write --verbose or --quiet",
    "example-input": "an ONNX model needs none: leave it out",
    "share-weights": _NOT_NEEDED,
}
"""Names without the leading dashes, with dashes for underscores."""
