"""The decompositions in order: one whose layers need another comes before it; see :mod:`converter.passes.order`."""

from __future__ import annotations

from ir_runtime.rewriting.pipeline import Entry

# fmt: off
ORDER = [
    Entry("matrix_nms", ["MatrixNms8"], ["target"], module="nms_variants", reason="free: no other emits it"),
    Entry("multiclass_nms", ["MulticlassNms8", "MulticlassNms9"], ["target"], module="nms_variants",
          reason="free: no other emits it"),
    Entry("nms_rotated", ["NMSRotated13"], ["target"], reason="free: no other emits it"),
    Entry("detection_output", ["DetectionOutput1", "DetectionOutput8"], ["target"], reason="free: no other emits it"),
    Entry("proposal", ["Proposal1", "Proposal4"], ["target"], module="proposals", reason="free: no other emits it"),
    Entry("generate_proposals", ["GenerateProposals9"], ["target"], module="proposals",
          reason="free: no other emits it"),
    Entry("generate_proposals_of_one_image", ["ExperimentalDetectronGenerateProposalsSingleImage6"], ["target"],
          module="proposals", reason="free: no other emits it"),
    Entry("top_k_rois", ["ExperimentalDetectronTopKROIs6"], ["target"], module="detectron",
          reason="free: no other emits it"),
    Entry("prior_grid_generator", ["ExperimentalDetectronPriorGridGenerator6"], ["target"], module="detectron",
          reason="free: no other emits it"),
    Entry("roi_feature_extractor", ["ExperimentalDetectronROIFeatureExtractor6"], ["target"], module="detectron",
          reason="free: no other emits it"),
    Entry("detectron_detection_output", ["ExperimentalDetectronDetectionOutput6"], ["target"], module="detectron",
          reason="free: no other emits it"),
    Entry("ps_roi_pooling", ["PSROIPooling1"], ["target"], module="position_sensitive",
          reason="free: no other emits it"),
    Entry("deformable_ps_roi_pooling", ["DeformablePSROIPooling1"], ["target"], module="position_sensitive",
          reason="free: no other emits it"),
    Entry("roi_pooling", ["ROIPooling2"], ["target"], reason="free: no other emits it"),
    Entry("roi_align_rotated", ["ROIAlignRotated15"], ["target"], module="roi_pooling",
          reason="free: no other emits it"),
    Entry("non_max_suppression", ["NonMaxSuppression5", "NonMaxSuppression9"], ["target"], module="detection",
          after=["multiclass_nms", "detection_output", "proposal", "generate_proposals",
                 "generate_proposals_of_one_image", "detectron_detection_output"],
          reason="takes the boxes of detectors"),
    Entry("embedding_bag_offsets", ["EmbeddingBagOffsets15"], ["target"], module="embedding",
          reason="means are sums by the sizes of the bags"),
    Entry("embedding_bag_offsets_sum", ["EmbeddingBagOffsetsSum3"], ["target"], module="embedding",
          after=["embedding_bag_offsets"], reason="bags are segments"),
    Entry("embedding_bag_packed", ["EmbeddingBagPackedSum3", "EmbeddingBagPacked15"], ["target"], module="embedding",
          reason="free: no other emits it"),
    Entry("embedding_segments_sum", ["EmbeddingSegmentsSum3"], ["target"], module="embedding",
          after=["embedding_bag_offsets_sum"], reason="sums of bags are sums of segments"),
    Entry("erf_inv", ["ErfInv17"], ["target"], module="error_function", reason="free: no other emits it"),
    Entry("istft", ["ISTFT16"], ["target"], reason="free: no other emits it"),
    Entry("segment_max", ["SegmentMax16"], ["target"], module="embedding", reason="free: no other emits it"),
    Entry("slice_scatter", ["SliceScatter15"], ["target"], reason="free: no other emits it"),
    Entry("search_sorted", ["SearchSorted15"], ["target"], module="sorting", reason="free: no other emits it"),
    Entry("bucketize", ["Bucketize3"], ["target"], module="sorting", after=["embedding_bag_offsets_sum"],
          reason="gives the bag of each index"),
]
# fmt: on
