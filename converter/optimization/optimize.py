"""ONNX to ONNX: :func:`optimize`.

The model is converted to the plain IR, with the passes of a conversion, and exported again. A node that the IR cannot
carry, or that would become more nodes, stays as it is: it is a layer of the IR whose operation is that of ONNX.

The place of a node is its index in the source's graph. "Kept" nodes are those that stay as they are.
"""

from __future__ import annotations

import os
from collections import ChainMap, Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter.compression.float16_graph import compute_in_half
from converter.conversion import Conversion, convert
from converter.errors import ConversionError, InternalError, UnsupportedModelError
from converter.export_options import ExportOptions
from converter.from_onnx.options import Options
from converter.from_onnx.translation.graph_translator import KeptNodes
from converter.onnx_file import schema_table
from converter.onnx_file.domains import MICROSOFT, normalize_domain
from converter.onnx_file.graph import INITIALIZER, INPUT, OnnxOperator, operator_of
from converter.onnx_file.model import OnnxModel
from converter.onnx_file.node_order import node_name, subgraphs
from converter.onnx_file.reader import ModelSource, open_model
from converter.optimization.assembly import Assembly
from converter.optimization.float16 import (
    ASKED_FOR,
    ends_of_codes,
    excepted_nodes,
    float32_nodes,
    halve_ends,
    has_float32,
    why_float32,
)
from converter.optimization.source import Source
from converter.optimization_options import OptimizationOptions
from converter.options import ConversionOptions, options_from, takes
from converter.passes.constant_subgraphs import fold_constants
from converter.stages import about, stage
from converter.to_onnx.export import export_graph
from converter.to_onnx.file import write_onnx
from converter.to_onnx.graph import operators_of, origin_of, written_operators
from converter.to_onnx.names import drop_unread_outputs
from converter.to_onnx.opsets import FORMS, NEWEST, OLDEST
from ir_runtime.boundary import boundary
from ir_runtime.graph import Model, element_types
from ir_runtime.graph.invariants import PASSES
from ir_runtime.records import record
from ir_runtime.rewriting import graph_pass

if TYPE_CHECKING:
    import onnx

_MAX_ROUNDS = 3
"""Maximum number of rounds that look for nodes that became more nodes."""
_MAX_TRIES = 6
"""Maximum number of operators whose nodes are kept on trial, where these became more nodes."""
_OPERATORS = {
    "attentions": "Attention",
    "einsum_attentions": "Attention",
    "gelus": "Gelu",
    "group_normalizations": "GroupNormalization",
    "layer_normalizations": "LayerNormalization",
    "mishes": "Mish",
    "swishes": "Swish",
}
"""Passes of fusion -> the ONNX operator of the result: an opset without it needs the single nodes again."""
_OF_ONNXRUNTIME = frozenset({"attentions", "einsum_attentions", "gelus"})
"""Passes of fusion for whose result onnxruntime has an operator of its own in every opset."""
_WITHOUT_FLOAT64 = {
    "Gelu": "gelus",
    "HSigmoid": "hsigmoids",
    "HSwish": "hswishes",
    "Mish": "mishes",
    "PReLU": "prelus",
    "SoftPlus": "softpluses",
    "SoftSign": "softsigns",
}
"""Layers whose ONNX operators onnxruntime computes in float32 alone -> the passes of fusion that make them."""
_DIFFER_IN_TYPES = {
    "Bernoulli": 15,
    "Dropout": 12,
    "GRU": 7,
    "Identity": 1,
    "If": 11,
    "LSTM": 7,
    "Loop": 11,
    "Multinomial": 7,
    "RNN": 7,
    "RandomNormal": 1,
    "RandomNormalLike": 1,
    "RandomUniform": 1,
    "RandomUniformLike": 1,
    "Scan": 11,
}
"""Operator -> the opset from which on its versions differ in nothing but types and attributes of their own."""
_SMALLER = "it would become more nodes"
"""The reason for kept nodes that the IR can carry."""
_MAX_REPEATS = 4
"""Maximum number of times that a result is optimized again."""
INPUT_OF_NO_TENSOR = OnnxOperator(INPUT)
"""The operation of inputs that are sequences, optionals and maps."""
_OPSET_OF_HALF_SCALES = 19
"""The first opset in which DequantizeLinear takes scales of float16."""


@record
class _Result:
    """The exported model in which some nodes were kept."""

    kept: frozenset[int]
    model: OnnxModel
    passes: Mapping[str, int]


def size_of(graph: Model) -> int:
    """Count the nodes of a graph, with those of bodies, of which nodes that were kept have none."""
    return sum(1 for _ in written_operators(graph))


@record
class Optimization:
    """An optimized model: what :func:`optimize` returns."""

    assembly: Assembly
    """The model to write."""
    nodes_before: int
    """The number of nodes of the file with those of bodies and functions, without constants."""
    nodes: int
    """The number of nodes of the result, counted in the same way."""
    kept: Mapping[str, str]
    """Nodes that stay as they are, and why."""
    passes: Mapping[str, int]
    """The number of layers that each pass replaced."""
    float32: Mapping[str, str] = field(default_factory=dict)
    """With ``fp16`` the nodes that compute in float32, and why."""

    @property
    def opset(self) -> int:
        """The version of ONNX's operators."""
        return self.assembly.opset

    def to_onnx(self) -> onnx.ModelProto:
        """Return the model with its weights: up to 2 GB. :meth:`save` writes models of any size."""
        return self.assembly.model().with_weights()

    @boundary(error=ConversionError)
    def save(self, path: str | os.PathLike[str], *, external_data: bool | None = None) -> list[Path]:
        """Write the model; weights are copied from file to file. Return the files: all are written, or none.

        ``external_data`` writes the weights to a file of their own beside the model; by default from 2 GB on.
        """
        return write_onnx(self.assembly.model(), Path(path), external_data)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "opset": self.opset,
            "nodes_before": self.nodes_before,
            "nodes": self.nodes,
            "kept": dict(self.kept),
            "passes": dict(self.passes),
            "float32": dict(self.float32),
        }


@boundary(error=ConversionError)
@takes(OptimizationOptions)
def optimize(model: ModelSource, *, options: OptimizationOptions | None = None, **keywords: Any) -> Optimization:
    """Optimize an ONNX model: fewer nodes, another opset, the same results.

    ``model`` is a path, the file's bytes, a binary file object or an ``onnx.ModelProto``; it stays as it is. Names of
    inputs, outputs and tensors that still exist, metadata, and names of dimensions are kept. Nodes that the IR cannot
    carry stay as they are, so that every valid model can be optimized; a result has never more nodes than the file.

    ``options`` are :class:`converter.OptimizationOptions`, or the keywords are their fields:

    {options}

    Raises :class:`ConversionError` for a file that is no valid model, and where an opset is asked for in which nodes
    cannot be expressed: it lists them all.
    """
    chosen = options_from(OptimizationOptions, options, keywords, "optimize")
    source = os.fspath(model) if isinstance(model, os.PathLike) else model
    with stage("read"):
        file = open_model(source)
    with about(file.name), stage("optimize"):
        excepted = chosen.excepted()
        first = _Search(Source(file, chosen.bindings().bindings), chosen)
        best = _with_operators_of_onnxruntime(first)
        again = replace(chosen, input=None, freeze=None, batch=None, opset=None)
        best = _repeat(best, again)
        return _convert_to_half(best, again, excepted - first.excepted) if chosen.fp16 else best


def _with_operators_of_onnxruntime(search: _Search) -> Optimization:
    """Return the result of a search; for the target onnxruntime also try its operators, and return the smaller one."""
    best = search.result()
    if search.options.target == "onnxruntime":
        source, options = search.source, search.options
        fused = _Search(source, options, source.names(), search.in_half, _OF_ONNXRUNTIME).result()
        best = fused if fused.nodes < best.nodes else best
    return best


def _repeat(best: Optimization, options: OptimizationOptions) -> Optimization:
    """Optimize again while that leaves fewer nodes: the result of one round may match further patterns in the next."""
    for _ in range(_MAX_REPEATS):
        result = _with_operators_of_onnxruntime(_Search(Source(best.assembly.as_file(), Options()), options))
        if result.nodes >= best.nodes:
            break
        passes = Counter(best.passes) + Counter(result.passes)
        best = replace(result, nodes_before=best.nodes_before, passes=dict(passes), float32=best.float32)
    return best


def _convert_to_half(best: Optimization, options: OptimizationOptions, unknown: set[str]) -> Optimization:
    """Return the optimized model in float16; ``unknown`` are names of ``fp16_except`` without a node in the file."""
    if not has_float32(Source(best.assembly.as_file(), Options())):
        raise ConversionError("fp16 is asked for, but the model has no tensors of float32")
    if options.fp16_io:
        halve_ends(best.assembly.graph, best.assembly.names)
    source = Source(best.assembly.as_file(), Options())
    search = _Search(source, options, in_half=True)
    result = search.result()
    if missing := sorted(unknown - search.excepted):
        names = ", ".join(f"'{name}'" for name in missing)
        raise ConversionError(f"fp16_except: the model has no node and no operator of the name {names}")
    passes = Counter(best.passes) + Counter(result.passes)
    result = _repeat(replace(result, nodes_before=best.nodes_before, passes=dict(passes)), options)
    names_written = {node_name(node) for node in Source(result.assembly.as_file(), Options()).all_nodes()}
    return replace(result, float32={name: why for name, why in result.float32.items() if name in names_written})


class _Search:
    """Search for the nodes to keep: all others are converted to the IR and exported again."""

    def __init__(
        self,
        source: Source,
        options: OptimizationOptions,
        taken: set[str] | None = None,
        in_half: bool = False,
        fused: frozenset[str] = frozenset(),
    ) -> None:
        self.source = source
        self.taken = source.names() if taken is None else taken
        self.options = options
        self.in_half = in_half
        self.fused = fused
        """Passes of fusion that run although the opset has no operator for them: onnxruntime has one of its own."""
        self.all_places = frozenset(range(len(source.nodes))) - source.constants
        self.imported = source.opsets.get("", FORMS)
        self.opset = options.opset or self.imported
        contrib = options.target == "onnxruntime" or MICROSOFT in source.domains(self.all_places)
        self.exporting = ExportOptions(contrib=contrib, inline_functions=True)
        self.reasons: dict[int, str] = {}
        """Places of nodes that have to be kept -> why."""
        self.excepted: set[str] = set()
        """The names and operators of ``fp16_except`` that nodes of the source have."""
        if names := options.excepted():
            self.reasons, self.excepted = excepted_nodes(source, names)
        self._converted: dict[frozenset[int], Conversion] = {}
        self._results: dict[tuple[frozenset[int], int], _Result] = {}

    def result(self) -> Optimization:
        """Return the model with the fewest nodes of all that were tried."""
        nodes_before = sum(map(self.source.size, self.all_places))
        opset = self.opset
        is_written = OLDEST <= opset <= NEWEST
        if is_written:
            best = self._find_fewest_nodes(opset)
        if not is_written or (self._size(best.model.graph) > nodes_before and opset == self.imported):
            best = self._try(self.all_places, opset)
        kept = best.kept & self.all_places
        self._check_opset(kept, opset)
        bodies = self._bodies(kept, opset) if is_written else {}
        model, float32 = best.model, None
        if self.in_half:
            model, float32 = self._half(best, opset)
        operators = {place: self._with_bodies(place, optimized) for place, optimized in bodies.items()}
        saved = sum(body.nodes_before - body.nodes for optimized in bodies.values() for _, _, body in optimized)
        if bodies:
            _set_operators(model.graph, operators)
            drop_unread_outputs(model.graph, opset)
        nodes = self._size(model.graph) - saved
        reason = _SMALLER if is_written else f"opsets from {OLDEST} to {NEWEST} are written, and it is of {opset}"
        assembly = Assembly(self.source, model, opset, self.taken)
        bodies_of_all = [body for bodies_of_node in bodies.values() for _, _, body in bodies_of_node]
        return Optimization(
            assembly,
            nodes_before,
            nodes,
            {node_name(self.source.nodes[place]): self.reasons.get(place, reason) for place in sorted(kept)},
            best.passes,
            {} if float32 is None else dict(ChainMap(float32(), *(dict(body.float32) for body in bodies_of_all))),
        )

    def _with_bodies(
        self, place: int, bodies: Sequence[tuple[int, int | None, Optimization]]
    ) -> tuple[OnnxOperator, list[int]]:
        """Return a node that stays over optimized bodies, and which of the captured values these still read."""
        before = self.source.operator(place)[1]
        messages = [(number, index, body.to_onnx().graph) for number, index, body in bodies]
        op, captured = self.source.operator(place, messages)
        return op, [before.index(name) for name in captured]

    def _half(self, best: _Result, opset: int) -> tuple[OnnxModel, Callable[[], dict[str, str]]]:
        """Return the model in float16, and a function that returns the nodes that compute in float32 and why.

        The function is called after the assembly, which names the nodes.
        """
        conversion = self._conversion(best.kept)
        ends = ends_of_codes(self.source)
        refused: dict[str, str] = {}
        reasons_of_kept: dict[str, str] = {}
        for place in best.kept & self.all_places:
            reason = (
                self.reasons[place]
                if self.reasons.get(place) == ASKED_FOR
                else why_float32(self.source, place, opset, ends)
            )
            if reason:
                name = node_name(self.source.nodes[place])
                refused[name] = reasons_of_kept[name] = reason
        while True:
            model = conversion.model.clone()
            origins = _origins(model)
            half_scales = opset >= _OPSET_OF_HALF_SCALES
            quantized = ends[0] | ends[1]
            reasons = compute_in_half(model, refused, half_scales=half_scales, quantized=quantized)
            try:
                exported = export_graph(model, replace(self.exporting, opset=opset))
            except InternalError:
                raise
            except ConversionError as error:
                new = {problem.node: problem.reason for problem in error.problems if problem.node not in refused}
                if not new.keys() & origins.keys():
                    raise
                refused |= new
                continue
            _return_constants(exported.graph)
            own = {origins[name]: why for name, why in reasons.items() if name in origins}
            return exported, partial(_float32, exported.graph, own, opset, reasons_of_kept)

    def _bodies(self, kept: Collection[int], opset: int) -> dict[int, list[tuple[int, int | None, Optimization]]]:
        """Return the optimized bodies of kept nodes, by place, each with its indices among attributes and graphs."""
        options = replace(self.options, input=None, freeze=None, batch=None, opset=opset)
        return {
            place: [
                (number, index, _Search(body, options, self.taken, self.in_half, self.fused).result())
                for number, index, body in self.source.bodies(place)
            ]
            for place in kept
            if any(subgraphs(self.source.nodes[place]))
        }

    def _size(self, graph: Model) -> int:
        """Count the nodes of a graph, with those of the bodies and functions of kept nodes, without constants."""
        places = [operator_of(node).place for node in written_operators(graph)]
        kept = [place for place in places if place is not None and place >= 0]
        return len(places) + sum(self.source.size(place) - 1 for place in kept)

    def _find_fewest_nodes(self, opset: int) -> _Result:
        """Return the result with the fewest nodes.

        Nodes that became more nodes are kept on trial: first all of them, then those of each operator, beginning with
        the operator that grew most.
        """
        best = self._try(frozenset(), opset)
        for _ in range(_MAX_ROUNDS):
            size_before, growth = self._size(best.model.graph), self._growth(best.model.graph)
            by_operator: dict[str, set[int]] = {}
            for place in filter(partial(self._may_stay, opset=opset), growth):
                by_operator.setdefault(self.source.nodes[place].op_type, set()).add(place)
            grown = sorted(by_operator.values(), key=lambda places: -sum(growth[place] for place in places))
            base, all_grown = best.kept, set[int]().union(*grown)
            for places in ([all_grown] if len(grown) > 1 else []) + grown[:_MAX_TRIES]:
                # After keeping all that grew, one operator at a time is released on trial.
                is_release = len(grown) > 1 and places is not all_grown and all_grown <= best.kept
                tried = self._try(best.kept - (places - base) if is_release else best.kept.union(places), opset)
                size, best_size = self._size(tried.model.graph), self._size(best.model.graph)
                if size < best_size or (is_release and size == best_size):
                    best = tried
            if self._size(best.model.graph) == size_before:
                break
        return best

    def _growth(self, graph: Model) -> dict[int, int]:
        """Return the number of additional nodes for each node that became several."""
        sizes = Counter[str]()
        for node in operators_of(graph):
            if operator_of(node).place is None:
                sizes[origin_of(node)] += 1 + sum(size_of(sub.body) for sub in node.op.subgraphs)
        growth = {}
        for origin, size in sizes.items():
            places = self.source.places.get(origin, ())
            if len(places) == 1 and size > self.source.size(places[0]):
                growth[places[0]] = size - self.source.size(places[0])
        return growth

    def _check_opset(self, kept_nodes: Collection[int], opset: int) -> None:
        """Raise :class:`UnsupportedModelError` for kept nodes that have another meaning, or none, in that opset."""
        lines = []
        for place in sorted(kept_nodes):
            if not self._may_stay(place, opset):
                node = self.source.nodes[place]
                function = "the function " if self.source.called([place]) else ""
                why = self.reasons.get(place, f"{function}{node.op_type} of opset {self.imported} is another one")
                lines.append(f"  node '{node_name(node)}' ({node.op_type}): {why}")
        if lines:
            raise UnsupportedModelError(
                f"nodes that cannot be expressed in opset {opset}: {len(lines)}\n" + "\n".join(lines)
            )

    def _may_stay(self, place: int, opset: int) -> bool:
        """True if a node means the same in that opset as in the file's; its bodies are searches of their own."""
        node = self.source.nodes[place]
        if opset == self.imported:
            return True
        called = self.source.called([place])
        if (normalize_domain(node.domain), node.op_type) in called:
            return all(self.source.is_compatible(function, opset) for function in called)
        if normalize_domain(node.domain):
            return True
        before, after = (schema_table.find(node.op_type, "", version) for version in (self.imported, opset))
        if before is None or after is None or before.since_version == after.since_version:
            return before is not None and after is not None
        comparable_since = _DIFFER_IN_TYPES.get(node.op_type, NEWEST)
        has_attributes = all(attribute.name in after.attribute_types for attribute in node.attribute)
        return comparable_since <= min(before.since_version, after.since_version) and has_attributes

    def _try(self, kept: frozenset[int], opset: int) -> _Result:
        """Return the result for ``kept`` and all that cannot be converted."""
        while True:
            kept = kept.union(self.reasons)
            if (kept, opset) in self._results:
                return self._results[kept, opset]
            try:
                conversion = self._conversion(kept)
                is_written = OLDEST <= opset <= NEWEST
                exported = export_graph(conversion.model, replace(self.exporting, opset=opset if is_written else None))
            except InternalError:
                raise
            except ConversionError as error:
                self.reasons |= self._find_culprits(kept, error)
                continue
            _return_constants(exported.graph)
            result = self._results[kept, opset] = _Result(kept, exported, conversion.passes)
            return result

    def _is_convertible(self, place: int) -> bool:
        """Return whether a node alone can be converted."""
        try:
            self._conversion(self.all_places - {place})
        except InternalError:
            raise
        except ConversionError:
            return False
        return True

    def _conversion(self, kept: frozenset[int]) -> Conversion:
        if kept not in self._converted:
            source = self.source
            operators = {id(source.nodes[place]): source.operator(place, follows=self.in_half) for place in kept}
            nodes = KeptNodes(operators, source.constant, INPUT_OF_NO_TENSOR)
            conversion, narrowed = convert(source.whole, self._conversion_options(self.opset), kept=nodes), set[str]()
            while not narrowed >= (fusions := _fusions_of_float64(conversion.model)):
                narrowed |= fusions
                conversion = convert(source.whole, self._conversion_options(self.opset, narrowed), kept=nodes)
            fold_constants(conversion.model)
            self._converted[kept] = conversion
        return self._converted[kept]

    def _conversion_options(self, opset: int, narrowed: Collection[str] = ()) -> ConversionOptions:
        """Return the options of conversions, without ``narrowed`` and fusions to operators that the opset lacks."""
        unsupported = {
            name for name, op in _OPERATORS.items() if schema_table.versions(op, "")[0].since_version > opset
        }
        unsupported = (unsupported - self.fused).union(narrowed)
        options = self.options.conversion()
        if not unsupported or not options.fuse:
            return options
        skipped = options.skip_passes
        names = [pass_name.strip() for pass_name in skipped.split(",")] if isinstance(skipped, str) else list(skipped)
        return replace(options, skip_passes=[*(name for name in names if name), *sorted(unsupported)])

    def _find_culprits(self, kept: frozenset[int], error: ConversionError) -> dict[int, str]:
        """Return the nodes that an error names, with reasons; all of them where it names none."""
        conversion = self._converted.get(kept)
        layers = {} if conversion is None else _origins(conversion.model)
        reasons: dict[int, str] = {}
        for problem in error.problems:
            named = self.source.places.get(layers.get(problem.node, problem.node), ())
            named = [place for place in named if place not in kept]
            if len(named) > 1:  # a name of several nodes, such as those of functions
                named = [place for place in named if not self._is_convertible(place)] or named
            reasons |= {place: problem.reason for place in named if place not in reasons}
        if not reasons and kept >= self.all_places:
            raise error
        return reasons or dict.fromkeys(self.all_places - kept, str(error))


def _float32(graph: Model, reasons: Mapping[str, str], opset: int, of_kept: Mapping[str, str]) -> dict[str, str]:
    return {**of_kept, **dict(float32_nodes(graph, reasons, opset))}


def _fusions_of_float64(model: Model) -> set[str]:
    """Return the passes of fusion whose layers would compute in float32 what the file computes in float64."""
    return {
        _WITHOUT_FLOAT64[node.op.type]
        for part in model.parts()
        for node in part.nodes
        if node.op.type in _WITHOUT_FLOAT64 and node.outputs[0].element_type is element_types.f64
    }


@graph_pass("returned_constants", PASSES)
def _return_constants(graph: Model) -> None:
    """Let constants be outputs as they are, instead of copies of them."""
    for value in graph.outputs:
        if value.node.op.type == "Identity" and operator_of(value.node.inputs[0].node).kind == INITIALIZER:
            (constant,) = value.node.inputs
            if constant not in graph.outputs:
                constant.names = value.names
                value.replace_by(constant, move_names=False)


@graph_pass("optimized_bodies", PASSES)
def _set_operators(graph: Model, operators: Mapping[int, tuple[OnnxOperator, Sequence[int]]]) -> None:
    """Replace nodes that stay, by place, by the same over other bodies, which read these of the captured values."""
    for node in list(written_operators(graph)):
        before = operator_of(node)
        if before.place is not None and before.place in operators:
            (op, captured), count = operators[before.place], sum(before.slots)
            node.op = op.replace(order=before.order, types=before.types)
            node.inputs = (*node.inputs[:count], *(node.inputs[count + index] for index in captured))


def _origins(model: Model) -> dict[str, str]:
    """Return the name of each layer's ONNX node by the layer's name."""
    nodes = [node for part in model.parts() for node in part.nodes]
    return {node.name: node.origin.node for node in nodes if node.origin is not None}
