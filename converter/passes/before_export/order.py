"""The order of the fusions before export, and the reason for the place of each.

Each replaces layers of the IR by one operator of ONNX, or of onnxruntime, which stays in the graph beside the layers.
"""

from __future__ import annotations

from ir_runtime.rewriting.contracts import EQUAL, FUSED
from ir_runtime.rewriting.pipeline import Entry

# fmt: off
ORDER = [
    Entry("rotary_embeddings_of_merged_heads", ["Reshape1"], ["fusion"], module="rotary_embeddings",
          reason="contains the rotation of heads that are split, and the Reshape that merges them", contract=FUSED),
    Entry("rotary_embeddings", ["Add1", "Concat1", "Reshape1"], ["fusion"], after=["rotary_embeddings_of_merged_heads"],
          reason="fuses the rotations that are left, whose heads stay split", contract=FUSED),
    Entry("scaled_rms_normalizations", ["Multiply1"], ["fusion"], module="normalizations",
          reason="contains a normalization without a scale", contract=FUSED),
    Entry("rms_normalizations", ["Multiply1", "Divide1"], ["fusion"], module="normalizations",
          after=["scaled_rms_normalizations"], reason="fuses the normalizations that are left, which have no scale",
          contract=FUSED),
    Entry("shifted_layer_normalizations", ["Add1"], ["fusion"], module="normalizations",
          reason="contains a normalization with a scale alone", contract=FUSED),
    Entry("layer_normalizations", ["Multiply1"], ["fusion"], module="normalizations",
          after=["shifted_layer_normalizations"], reason="fuses the normalizations that are left, which have no bias",
          contract=FUSED),
    Entry("compressed_products", ["MatMul1"], ["fusion"], module="compressed_weights",
          reason="contains what turns codes into floats", contract=EQUAL),
    Entry("compressed_tables", ["Gather"], ["fusion"], module="compressed_weights",
          reason="contains what turns codes into floats", contract=EQUAL),
    Entry("quantize_linear", ["Convert1"], ["fusion"], module="linear_quantizations",
          reason="its layers are part of no other fusion", contract=EQUAL),
    Entry("dequantize_linear", ["Multiply1"], ["fusion"], module="linear_quantizations",
          after=["layer_normalizations", "compressed_products", "compressed_tables"],
          reason="a product with a constant may be the scale of a normalization, or part of compressed weights",
          contract=EQUAL),
    Entry("multi_head_attentions", ["Reshape1"], ["fusion"], module="attentions", after=["rotary_embeddings"],
          reason="needs the layers of an attention around heads that are split and merged", contract=FUSED),
    Entry("group_query_attentions", ["ScaledDotProductAttention13"], ["fusion"], module="attentions",
          after=["multi_head_attentions"],
          reason="takes attention with a cache, which MultiHeadAttention is not used for", contract=FUSED),
    Entry("attentions_of_rows_without_keys", ["Select1"], ["fusion"], module="attentions",
          after=["group_query_attentions"], reason="contains an attention and the layers around its mask",
          contract=FUSED),
    Entry("attentions", ["ScaledDotProductAttention13"], ["fusion"], after=["attentions_of_rows_without_keys"],
          reason="takes the attentions that are left, and is the last resort before they are decomposed",
          contract=FUSED),
    Entry("hardmaxes", ["OneHot1"], ["fusion"], reason="its layers are part of no other fusion"),
]
# fmt: on
