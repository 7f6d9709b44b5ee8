"""ONNX to ONNX: :func:`optimize`.

The model is converted to the plain IR, with the passes of a conversion, and exported again. A node that the IR cannot
carry, or that would become more nodes, stays as it is: it is a layer of the IR whose operation is that of ONNX.

The place of a node is its index in the source's graph. "Kept" nodes are those that stay as they are.
"""

from __future__ import annotations

import os
from collections import ChainMap, Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import Any

import onnx

from converter.conversion.convert import Conversion, convert
from converter.editing import float16
from converter.editing.naming import as_in_file
from converter.editing.source import Source
from converter.errors import ConversionError, InternalError, UnsupportedModelError
from converter.from_onnx.translation.graph_translator import KeptNodes
from converter.onnx_file import schema_table
from converter.onnx_file.domains import MICROSOFT, normalize_domain
from converter.onnx_file.graph import (
    CAPTURED,
    INITIALIZER,
    INPUT,
    OnnxGraph,
    OnnxOperator,
    body_of,
    captured_names,
    operator_of,
)
from converter.onnx_file.model import OnnxModel
from converter.onnx_file.node_order import node_name
from converter.onnx_file.reader import ModelSource
from converter.options.conversion import ConversionOptions, options_from, takes
from converter.options.export import ExportOptions
from converter.options.optimization import OptimizationOptions
from converter.options.values import NEWEST, OLDEST
from converter.passes.compression.float16_graph import compute_in_half
from converter.passes.constant_subgraphs import fold_constants
from converter.stages import about, stage
from converter.to_onnx.export import export_graph
from converter.to_onnx.file import write_onnx
from converter.to_onnx.graph import operators_of, origin_of, written_operators
from converter.to_onnx.opsets import FORMS
from ir_runtime.boundary import boundary
from ir_runtime.graph import Model, Node, SubGraph, element_types
from ir_runtime.graph.invariants import NAMES, PASSES
from ir_runtime.records import record
from ir_runtime.rewriting import UniqueNames, graph_pass

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
_INPUT_OF_NO_TENSOR = OnnxOperator(INPUT)
"""The operation of inputs that are sequences, optionals and maps."""
_MAX_REPEATS = 4
"""Maximum number of times that a result is optimized again."""
_OPSET_OF_HALF_SCALES = 19
"""The first opset in which DequantizeLinear takes scales of float16."""


@record
class _Result:
    """The exported model in which some nodes were kept."""

    kept: frozenset[int]
    model: OnnxModel
    passes: Mapping[str, int]


@record
class Optimization:
    """An optimized model: what :func:`optimize` returns."""

    model: OnnxModel
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
        return self.model.opset

    def to_onnx(self) -> onnx.ModelProto:
        """Return the model with its weights: up to 2 GB. :meth:`save` writes models of any size."""
        return self.model.with_weights()

    @boundary(error=ConversionError)
    def save(self, path: str | os.PathLike[str], *, external_data: bool | None = None) -> list[Path]:
        """Write the model; weights are copied from file to file. Return the files: all are written, or none.

        ``external_data`` writes the weights to a file of their own beside the model; by default from 2 GB on.
        """
        return write_onnx(self.model, Path(path), external_data)

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
        onnx_model = OnnxModel(source)
    with about(onnx_model.name), stage("optimize"):
        excepted = chosen.excepted()
        first = _Search(Source(onnx_model, chosen.bindings), chosen)
        best = _with_operators_of_onnxruntime(first)
        again = replace(chosen, input=None, freeze=None, batch=None, opset=None)
        best = _repeat(best, again)
        return _convert_to_half(best, again, excepted - first.excepted) if chosen.fp16 else best


def _with_operators_of_onnxruntime(search: _Search) -> Optimization:
    """Return the result of a search; for the target onnxruntime also try its operators, and return the smaller one."""
    best = search.result()
    if search.options.target == "onnxruntime":
        source, options = search.source, search.options
        fused = _Search(source, options, search.in_half, _OF_ONNXRUNTIME).result()
        best = fused if fused.nodes < best.nodes else best
    return best


def _repeat(best: Optimization, options: OptimizationOptions) -> Optimization:
    """Optimize again while that leaves fewer nodes: the result of one round may match further patterns in the next."""
    for _ in range(_MAX_REPEATS):
        result = _with_operators_of_onnxruntime(_Search(Source(best.model), options))
        if result.nodes >= best.nodes:
            break
        passes = Counter(best.passes) + Counter(result.passes)
        best = replace(result, nodes_before=best.nodes_before, passes=dict(passes), float32=best.float32)
    return best


def _convert_to_half(best: Optimization, options: OptimizationOptions, unknown: set[str]) -> Optimization:
    """Return the optimized model in float16; ``unknown`` are names of ``fp16_except`` without a node in the file."""
    if not float16.has_float32(Source(best.model)):
        raise ConversionError("fp16 is asked for, but the model has no tensors of float32")
    if options.fp16_io:
        float16.halve_ends(best.model.graph)
    search = _Search(Source(best.model), options, in_half=True)
    result = search.result()
    if missing := sorted(unknown - search.excepted):
        names = ", ".join(f"'{name}'" for name in missing)
        raise ConversionError(f"fp16_except: the model has no node and no operator of the name {names}")
    passes = Counter(best.passes) + Counter(result.passes)
    result = _repeat(replace(result, nodes_before=best.nodes_before, passes=dict(passes)), options)
    written = {node.name for part in result.model.graph.parts() for node in part.nodes}
    return replace(result, float32={name: why for name, why in result.float32.items() if name in written})


class _Search:
    """Search for the nodes to keep: all others are converted to the IR and exported again."""

    def __init__(
        self,
        source: Source,
        options: OptimizationOptions,
        in_half: bool = False,
        fused: frozenset[str] = frozenset(),
        taken: set[str] | None = None,
    ) -> None:
        self.source = source
        self.taken = source.names() if taken is None else taken
        self.options = options
        self.in_half = in_half
        self.fused = fused
        """Passes of fusion that run although the opset has no operator for them: onnxruntime has one of its own."""
        self.all_places = frozenset(range(len(source.nodes))) - source.constants
        self.main_places = frozenset(index for index in self.all_places if source.holders[index] is None)
        self.imported = source.opsets.get("", FORMS)
        self.opset = options.opset or self.imported
        contrib = options.target == "onnxruntime" or MICROSOFT in source.domains(self.all_places)
        self.exporting = ExportOptions(contrib=contrib, inline_functions=True)
        self.reasons: dict[int, str] = {}
        """Places of nodes that have to be kept -> why."""
        self.excepted: set[str] = set()
        """The names and operators of ``fp16_except`` that nodes of the source have."""
        if names := options.excepted():
            self.reasons, self.excepted = float16.excepted_nodes(source, names)
        self._operators: dict[int, tuple[OnnxOperator, list[str]]] = {}
        self._bodies: dict[int, list[Optimization]] = {}
        """The optimized bodies of nodes that stay, by place."""
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
            best = self._try(self.main_places, opset)
        kept = [
            index for index in sorted(best.kept & self.all_places) if best.kept.isdisjoint(self.source.around(index))
        ]
        self._check_opset(kept, opset)
        exported, float32 = self._half(best, opset) if self.in_half else (best.model, dict)
        nodes = self._size(exported.graph)
        reason = _SMALLER if is_written else f"opsets from {OLDEST} to {NEWEST} are written, and it is of {opset}"
        reasons = {node_name(self.source.nodes[index]): self.reasons.get(index, reason) for index in kept}
        of_bodies = [dict(body.float32) for index in kept for body in self._bodies.get(index, ())]
        model = as_in_file(self.source, exported, opset, self.taken)
        return Optimization(model, nodes_before, nodes, reasons, best.passes, dict(ChainMap(float32(), *of_bodies)))

    def _half(self, best: _Result, opset: int) -> tuple[OnnxModel, Callable[[], dict[str, str]]]:
        """Return the model in float16, and a function that returns the nodes that compute in float32 and why.

        The function is called after the assembly, which names the nodes.
        """
        conversion = self._conversion(best.kept)
        ends = float16.ends_of_codes(self.source)
        refused: dict[str, str] = {}
        reasons_of_kept: dict[str, str] = {}
        for index in best.kept & self.all_places:
            reason = (
                self.reasons[index]
                if self.reasons.get(index) == float16.ASKED_FOR
                else float16.why_float32(self.source, index, opset, ends)
            )
            if reason:
                name = node_name(self.source.nodes[index])
                refused[name] = reasons_of_kept[name] = reason
        while True:
            model = conversion.model.clone()
            origins = _origins(model)
            half_scales = opset >= _OPSET_OF_HALF_SCALES
            quantized = ends[0] | ends[1]
            reasons = compute_in_half(model, refused, half_scales=half_scales, quantized=quantized)
            try:
                exported = self._export(model, opset)
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

    def _size(self, graph: Model) -> int:
        """Count the nodes of a graph, with those of the bodies and functions of kept nodes, without constants."""
        indices = [operator_of(node).place for node in written_operators(graph)]
        kept = [index for index in indices if index is not None and index >= 0]
        bodies = [body for index in kept for body in self._bodies.get(index, ())]
        saved = sum(body.nodes_before - body.nodes for body in bodies)
        return len(indices) + sum(self.source.total(index) - 1 for index in kept) - saved

    def _find_fewest_nodes(self, opset: int) -> _Result:
        """Return the result with the fewest nodes.

        Nodes that became more nodes are kept on trial: first all of them, then those of each operator, beginning with
        the operator that grew most.
        """
        best = self._try(frozenset(), opset)
        for _ in range(_MAX_ROUNDS):
            size_before, growth = self._size(best.model.graph), self._growth(best.model.graph)
            by_operator: dict[str, set[int]] = {}
            for index in filter(partial(self._may_stay, opset=opset), growth):
                by_operator.setdefault(self.source.nodes[index].op_type, set()).add(index)
            grown = sorted(by_operator.values(), key=lambda indices: -sum(growth[index] for index in indices))
            base, all_grown = best.kept, set[int]().union(*grown)
            for indices in ([all_grown] if len(grown) > 1 else []) + grown[:_MAX_TRIES]:
                # After keeping all that grew, one operator at a time is released on trial.
                is_release = len(grown) > 1 and indices is not all_grown and all_grown <= best.kept
                tried = self._try(best.kept - (indices - base) if is_release else best.kept.union(indices), opset)
                size, best_size = self._size(tried.model.graph), self._size(best.model.graph)
                if size < best_size or (is_release and size == best_size):
                    best = tried
            if self._size(best.model.graph) == size_before:
                break
        return best

    def _growth(self, graph: Model) -> dict[int, int]:
        """Return the number of additional nodes for each node that became several."""
        sizes: Counter[str] = Counter(_origins_of_written(graph, ""))
        growth = {}
        for origin, size in sizes.items():
            indices = self.source.places.get(origin, ())
            if len(indices) == 1 and size > self.source.size(indices[0]):
                growth[indices[0]] = size - self.source.size(indices[0])
        return growth

    def _check_opset(self, kept_nodes: Collection[int], opset: int) -> None:
        """Raise :class:`UnsupportedModelError` for kept nodes that have another meaning, or none, in that opset."""
        lines = []
        for index in sorted(kept_nodes):
            if not self._may_stay(index, opset):
                node = self.source.nodes[index]
                function = "the function " if self.source.called([index]) else ""
                why = self.reasons.get(index, f"{function}{node.op_type} of opset {self.imported} is another one")
                lines.append(f"  node '{node_name(node)}' ({node.op_type}): {why}")
        if lines:
            raise UnsupportedModelError(
                f"nodes that cannot be expressed in opset {opset}: {len(lines)}\n" + "\n".join(lines)
            )

    def _may_stay(self, index: int, opset: int) -> bool:
        """True if a node means the same in that opset as in the file's; its bodies are searches of their own."""
        node = self.source.nodes[index]
        if opset == self.imported:
            return True
        called = self.source.called([index])
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
                exported = self._export(conversion.model, opset if is_written else None)
            except InternalError:
                raise
            except ConversionError as error:
                self.reasons |= self._find_culprits(kept, error)
                continue
            _return_constants(exported.graph)
            result = self._results[kept, opset] = _Result(kept, exported, conversion.passes)
            return result

    def _export(self, model: Model, opset: int | None) -> OnnxModel:
        options = replace(self.exporting, opset=opset)
        return export_graph(model, options, tensor_data=self.source.model.tensor_data)

    def _is_convertible(self, index: int) -> bool:
        """Return whether a node alone can be converted."""
        try:
            self._conversion(self.all_places.difference(self.source.inside(index), self.source.around(index)))
        except InternalError:
            raise
        except ConversionError:
            return False
        return True

    def _conversion(self, kept: frozenset[int]) -> Conversion:
        if kept not in self._converted:
            operators = {id(self.source.nodes[index]): self._operator(index) for index in kept}
            nodes = KeptNodes(operators, self.source.constant_operators.get, _INPUT_OF_NO_TENSOR)
            file = self.source.file
            conversion, narrowed = convert(file, self._conversion_options(self.opset), kept=nodes), set[str]()
            while not narrowed >= (fusions := _fusions_of_float64(conversion.model)):
                narrowed |= fusions
                conversion = convert(file, self._conversion_options(self.opset, narrowed), kept=nodes)
            fold_constants(conversion.model)
            self._converted[kept] = conversion
        return self._converted[kept]

    def _operator(self, place: int) -> tuple[OnnxOperator, list[str]]:
        """Return a node that stays as an operator over optimized bodies, and what these read from around them."""
        if place not in self._operators:
            op, read = self.source.operator(place)
            op = op.replace(follows=self.in_half and op.op_type != "Cast")
            if op.subgraphs and OLDEST <= self.opset <= NEWEST:
                count = sum(op.slots)
                names = {count + index: name for index, name in enumerate(read)}
                results = self._bodies[place] = [self._optimize_body(sub, names) for sub in op.subgraphs]
                graphs = [result.model.graph for result in results]
                read = list(dict.fromkeys(name for graph in graphs for name in captured_names(graph)))
                indices = {name: count + index for index, name in enumerate(read)}
                op = op.replace(graphs=tuple(body_of(graph, indices) for graph in graphs))
            self._operators[place] = op, read
        return self._operators[place]

    def _optimize_body(self, sub: SubGraph, names: Mapping[int, str]) -> Optimization:
        """Optimize a body as a model whose inputs are the values that it captures; the node's inputs have ``names``."""
        before, graph = self.source.model, sub.body.clone()
        assert isinstance(graph, OnnxGraph)
        captured = {entry.parameter: names[entry.external] for entry in sub.inputs if entry.external is not None}
        _open_body(graph, captured, self.source, self.taken)
        model = OnnxModel.of_parts(before.header, graph, before.functions, before.tensor_data)
        options = replace(self.options, input=None, freeze=None, batch=None, opset=self.opset)
        result = _Search(Source(model), options, self.in_half, self.fused, self.taken).result()
        _close_body(result.model.graph, set(captured.values()))
        return result

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
        staying = {inner for index in kept for inner in self.source.inside(index)}
        for problem in error.problems:
            named = self.source.places.get(layers.get(problem.node, problem.node), ())
            # Where a node stays already, the node that has it in a body is at fault.
            around = [next((e for e in self.source.around(index) if e not in staying), None) for index in named]
            named = [index for index in named if index not in staying] or [e for e in around if e is not None]
            if len(named) > 1:  # a name of several nodes, such as those of functions
                named = [index for index in named if not self._is_convertible(index)] or named
            reasons |= {index: problem.reason for index in named if index not in reasons}
        if not reasons and kept >= self.main_places:
            raise error
        return reasons or dict.fromkeys(self.main_places - kept, str(error))


@graph_pass("captured_inputs", NAMES)
def _open_body(graph: Model, captured: Mapping[int, str], source: Source, taken: set[str]) -> None:
    """Let the captured values of a body, by parameter, be inputs of these names, or constants where these are small."""
    parameters = []
    for index, node in enumerate(graph.parameters):
        (value,), name = node.outputs, captured.get(index)
        constant = None if name is None else source.small_constant(name)
        if name is not None and constant is not None:
            unique = UniqueNames(taken)(name)
            copy = Node(constant, (), constant.infer(()), unique).outputs[0]
            copy.names = [unique]
            value.replace_by(copy, move_names=False)
            continue
        if name is not None:
            value.names = [name]
            node.op = OnnxOperator(INPUT, infos={-1: (0, source.info(name))})
        parameters.append(node)
    graph.parameters = parameters


@graph_pass("captured_values", NAMES)
def _close_body(graph: Model, captured: Collection[str]) -> None:
    """Let the inputs of these names be captured; those that nothing reads are gone."""
    parameters = []
    for node in graph.parameters:
        (value,) = node.outputs
        is_captured = value.names[0] in captured
        node.op = OnnxOperator(CAPTURED) if is_captured else node.op
        if value.is_used or not is_captured:
            parameters.append(node)
    graph.parameters = parameters


def _origins_of_written(graph: Model, around: str) -> Iterator[str]:
    """Yield the origin of each node of a graph that was made, or else that of the node ``around`` it."""
    for node in operators_of(graph):
        if operator_of(node).place is None:
            origin = origin_of(node) or around
            yield origin
            for sub in node.op.subgraphs:
                yield from _origins_of_written(sub.body, origin)


def _float32(graph: Model, reasons: Mapping[str, str], opset: int, of_kept: Mapping[str, str]) -> dict[str, str]:
    return {**of_kept, **dict(float16.float32_nodes(graph, reasons, opset))}


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


def _origins(model: Model) -> dict[str, str]:
    """Return the name of each layer's ONNX node by the layer's name."""
    nodes = [node for part in model.parts() for node in part.nodes]
    return {node.name: node.origin.node for node in nodes if node.origin is not None}
