"""The result of the runs of both sides: outputs, the first wrong layer, weights, another IR, as one report."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from converter.equivalence.comparison.compare import Comparison, compare, errors_of
from converter.equivalence.comparison.evidence import unproven
from converter.equivalence.comparison.exact import ExactModel
from converter.equivalence.comparison.layers import Compared, LayerComparison, worst_of
from converter.equivalence.comparison.minimise import minimise
from converter.equivalence.comparison.rounded_weights import RoundedWeights
from converter.equivalence.comparison.runs import Runs
from converter.equivalence.comparison.sides import Run
from converter.equivalence.comparison.tolerances import Loss, furthest, gaps, widened
from converter.equivalence.derivation.rederivation import DIFFERENT, DerivationCheck
from converter.equivalence.reference.engines import Engine, by_names
from converter.equivalence.verdict.report import Report, Sample
from converter.equivalence.weights.accounting import WeightAccount, account_for
from converter.equivalence.weights.checks import WeightCheck, check_weights
from converter.errors import VerificationError
from converter.onnx_file.reader import ModelSource
from converter.options.verification import VerificationOptions
from converter.stages import stage
from ir_runtime import CompiledModel, ModelError, compile_model
from ir_runtime.graph import Array, Node

_CHANGED_RUNS = 3
_RANDOM = "depends on random numbers"
_OF_CONVERSION = ("input", "freeze", "output", "batch")
"""Options that the conversion had, too."""


class Findings:
    """The findings of ``runs``.

    ``chosen`` is what the caller wants to know; ``source`` is what the IR was converted from, ``derivation`` the IR
    beside its derivation.
    """

    def __init__(
        self, runs: Runs, chosen: VerificationOptions, source: ModelSource, derivation: DerivationCheck
    ) -> None:
        self._runs = runs.runs
        self._sides = runs.sides
        self._chosen = chosen
        self._source = source
        self._derivation = derivation

    def report(self, against: Engine | None) -> Report:
        """Everything that was found; layers, weights and another IR, ``against``, are compared now."""
        chosen = self._chosen
        layers = True if chosen.layers is None and chosen.report is not None else chosen.layers
        directed = chosen.stress and layers is not False
        histograms = chosen.report is not None
        sides, runs = self._sides, self._runs
        random = sides.random_outputs()
        # Two ONNX models: of an IR the layers can be compared, which says more than small outputs.
        names = [output.name for output in runs[0].outputs] if sides.engine.name.startswith("onnxruntime") else []
        identical = list(filter(self._is_identical, names))
        values = [run.expected for run in runs]
        proofless = unproven(values, sides.tolerance, has_inputs=bool(sides.ports), identical=identical)
        proofless.update({comparison.name: _RANDOM for comparison in runs[0].outputs if comparison.name in random})
        sides.notes += [
            f"output '{name}' {why}: it proves nothing about the layers before it" for name, why in proofless.items()
        ]
        if sides.onnx is not None and sides.onnx.name.startswith("onnxruntime"):
            sides.notes += sides.onnx.graph.deviations
        wide = [output.name for output in runs[0].outputs if output.element_type == "float64"]
        if wide and sides.engine.precision and sides.default_tolerance:
            sides.notes.append(
                f"{sides.engine.name} computes in {sides.engine.precision}, whose tolerance holds for outputs of "
                f"float64: {', '.join(wide)}"
            )
        if sides.gaps:
            widest = max(sides.gaps.values())
            sides.notes.append(f"onnxruntime's own optimised and plain runs differ by up to {widest:.3g}")
        first = next((run for run in runs if not run.passed), runs[0])
        compared = Compared()
        at_fault = first
        is_edited = self._derivation.state == DIFFERENT
        is_unclear = not first.passed or bool(proofless) or is_edited or chosen.minimise is not None
        wants_layers = layers or directed or (layers is None and is_unclear)
        if wants_layers:
            with stage("layers"):
                directs = bool(layers) or directed or is_edited
                compared = sides.layers(first, histograms=histograms, directed=directs)
                # Layers may be wrong at some sizes alone.
                for run in self._other_sizes(first) if layers or proofless else ():
                    at_fault = first if compared.is_faulty else run
                    compared = worst_of(compared, sides.layers(run, histograms=histograms))
        if random:
            self._pass_random(random)
        checks, of_file = self._weights() if chosen.weights else ((), frozenset())
        if not first.passed and compared.defined and compared.is_right:
            self._compare_definitions()
        if compared.chosen and not sides.rounded and sides.engine.name == "NumPy":
            self._compare_with_choices()
        if not first.passed and compared.layers and compared.is_right:
            if sides.loss is not None:
                self._allow(sides.loss)
            if all(check.passed for check in checks) and sides.default_tolerance:
                compared = self._compare_errors(compared, {str(first.shapes)})
        account = self._account(of_file, compared) if chosen.weights else None
        if account is not None and account.missing and not wants_layers and layers is None:
            with stage("layers"):
                compared = sides.layers(first)
            account = self._account(of_file, compared)
        others = self._against(against) if against is not None else ()
        outputs = tuple(furthest([run.outputs[i] for run in runs]) for i in range(len(runs[0].outputs)))
        names_by_layers = tuple(name for name in proofless if self._is_shown(name, compared))
        outcome = Report(
            oracle=sides.reference.name,
            seed=chosen.seed if chosen.inputs is None else None,
            inputs=runs[0].shapes,
            outputs=outputs,
            layers=tuple(compared.layers),
            layers_problem=compared.problem,
            engine=sides.engine.name,
            samples=tuple(Sample(run.description, run.shapes, run.passed) for run in runs),
            weights=checks,
            account=account,
            derivation=self._derivation,
            against=others,
            refused=sides.refused,
            limits=tuple(compared.limits),
            notes=tuple(dict.fromkeys(sides.notes)),
            unproven=tuple(name for name in proofless if name not in names_by_layers),
            shown_by_layers=names_by_layers,
            random=tuple(comparison.name for comparison in outputs if comparison.name in random),
            accept_unproven=chosen.accept_unproven,
        )
        return self._with_part(outcome, at_fault)

    def _is_identical(self, name: str) -> bool:
        """True if an output is the same on both sides in each run."""
        return all(np.array_equal(run.expected[name], run.actual[name]) for run in self._runs)

    def _pass_random(self, names: Collection[str]) -> None:
        """Compare nothing but the types and shapes of these outputs, which depend on random numbers."""
        for run in self._runs:
            for number, comparison in enumerate(run.outputs):
                expected, actual = run.expected[comparison.name], run.actual[comparison.name]
                if comparison.name in names and (expected.dtype, expected.shape) == (actual.dtype, actual.shape):
                    run.outputs[number] = replace(comparison, passed=True, reason="")

    def _compare_definitions(self) -> None:
        """Compare the outputs that failed with what onnx's own evaluator computes, where each layer is defined so."""
        for run in self._runs:
            if run.passed:
                continue
            try:
                with stage("definition"):
                    defined = self._sides.defined(run)
            except VerificationError as error:
                self._sides.notes.append(f"onnx's own evaluator cannot run the model: {error}")
                return
            for number, comparison in enumerate(run.outputs):
                by_definition = compare(
                    comparison.name, defined[comparison.name], run.actual[comparison.name], comparison.tolerance
                )
                if not comparison.passed and by_definition.passed:
                    run.outputs[number] = by_definition

    def _compare_with_choices(self) -> None:
        """Compare the outputs that failed where the IR's layers get the indices that the reference has chosen.

        Rows of which the keys agree within rounding may be in another order, or be others.
        """
        for run in self._runs:
            compared = Compared() if run.passed else self._sides.layers(run)
            if not compared.chosen or not compared.is_right:
                continue
            comparisons = {layer.comparison.name: layer.comparison for layer in compared.layers}
            for number, comparison in enumerate(run.outputs):
                chosen = comparisons.get(comparison.name, comparison)
                if chosen.passed and not comparison.passed and chosen.shape == comparison.shape:
                    run.outputs[number] = chosen
                    self._sides.notes.append(
                        f"output '{comparison.name}' has rows in another order, whose keys agree within rounding: it "
                        f"was compared with the reference's own indices ({', '.join(compared.chosen)})"
                    )

    def _is_shown(self, name: str, compared: Compared) -> bool:
        """True if the layers before an output that proves nothing were all compared, on values that show something."""
        is_finite = any(np.isfinite(run.expected[name]).any() for run in self._runs)
        is_telling = any(layer.is_telling for layer in compared.layers)
        return is_finite and is_telling and compared.is_right

    def _account(self, of_file: frozenset[Node], compared: Compared) -> WeightAccount | None:
        model = self._sides.processing.core
        if model is None or self._sides.onnx is None:
            return None
        with stage("account"):
            return account_for(model, of_file, self._derivation, compared.layers)

    def _with_part(self, report: Report, run: Run) -> Report:
        """``report`` with the smallest part that shows the first fault written where that was asked for."""
        folder = self._chosen.minimise
        model, onnx, fault = self._sides.processing.core, self._sides.onnx, report.first_fault
        if folder is None or fault is None or model is None or onnx is None:
            return report
        try:
            feeds = self._sides.reference_feeds(run.feeds)
            minimised = minimise(onnx, model, fault, feeds, Path(folder), self._sides.engine)
        except (ModelError, OSError) as error:  # the report must not be lost with it
            return replace(report, unwritten=(f"the smallest part could not be written to {folder}: {error}",))
        return replace(report, minimised=minimised)

    def _other_sizes(self, first: Run) -> list[Run]:
        """Run both sides once for each shape that ``first`` does not have."""
        by_shapes = {str(run.shapes): run for run in reversed(self._runs)}
        by_shapes.pop(str(first.shapes), None)
        return list(by_shapes.values())

    def _compare_errors(self, compared: Compared, compared_shapes: set[str]) -> Compared:
        """Compare the outputs that failed by their errors: how far both sides are from the result in float64.

        Every layer is right from right inputs in the runs of ``compared_shapes``. Those of other failed runs are
        compared before. Returns the layers compared so far.
        """
        sides = self._sides
        failed = [run for run in self._runs if not run.passed]
        for run in failed:
            if str(run.shapes) not in compared_shapes:
                compared_shapes.add(str(run.shapes))
                compared = worst_of(compared, sides.layers(run))
                if not compared.is_right:
                    return compared
        try:
            with stage("float64"):
                conversion = {name: getattr(self._chosen, name) for name in _OF_CONVERSION}
                exact = ExactModel(self._source, conversion)
                for run in failed:
                    self._compare_errors_of(run, exact)
        except ModelError as error:
            sides.notes.append(f"both sides could not be compared with the result in float64: {error}")
        return compared

    def _compare_errors_of(self, run: Run, exact: ExactModel) -> None:
        sides = self._sides
        right = sides.processing.returned(exact.run(sides.reference_feeds(run.feeds)))
        plain = sides.expected(run.feeds, plain=True)
        is_quantized = sides.loss is not None and not sides.loss.is_rounding
        feeds = sides.reference_feeds(run.feeds)
        ties = [
            sides.processing.returned(exact.run_with_rounding(feeds, seed, to_steps=is_quantized))
            for seed in range(_CHANGED_RUNS)
        ]
        for number, comparison in enumerate(run.outputs):
            if comparison.passed or comparison.name not in right:
                continue
            name = comparison.name
            errors = errors_of(
                right[name], run.actual[name], [run.expected[name], plain[name]], [values[name] for values in ties]
            )
            if errors is None:
                continue
            is_equal = errors.are_alike
            run.outputs[number] = replace(
                comparison, passed=is_equal, reason="" if is_equal else comparison.reason, errors=errors
            )
            if is_equal and errors.is_noise:
                gap = max(errors.reference, errors.ties)
                by = f"by {gap / errors.size:.0%} of its size" if errors.size else f"by {gap:.3g}"
                result = "the result in float64" if errors.size else "0, the result in float64"
                sides.notes.append(
                    f"output '{name}': rounding alone moves it {by} from {result}, so that it proves little; "
                    f"layers were compared one by one"
                )

    def _allow(self, loss: Loss) -> None:
        """Compare the outputs that failed again, with the tolerance that ``loss`` allows.

        Every layer is right from right inputs, so the model itself loses what the outputs differ by.
        """
        sides = self._sides
        plain = compile_model(sides.model, optimize=False) if loss.is_rounding else None
        for run in self._runs:
            lost = {} if plain is None else self._lost(run, plain)
            for number, comparison in enumerate(run.outputs):
                if not comparison.passed:
                    allowed = widened(loss.tolerance, lost.get(comparison.name, 0.0))
                    run.outputs[number] = compare(
                        comparison.name, run.expected[comparison.name], run.actual[comparison.name], allowed
                    )
        if all(run.passed for run in self._runs):
            sides.notes.append(
                f"outputs differ by more than rounding, but no layer is wrong from right inputs: {loss.reason}"
            )

    def _lost(self, run: Run, plain: CompiledModel) -> dict[str, float]:
        """Return the differences of the outputs from those of ``plain``, in which each layer rounds."""
        sides = self._sides
        values = plain([run.feeds[port.name] for port in sides.ports]).to_list()
        rounded = by_names(sides.engine.outputs, values)
        return gaps({name: run.actual[name] for name in run.expected}, rounded)

    def _weights(self) -> tuple[tuple[WeightCheck, ...], frozenset[Node]]:
        onnx = self._sides.onnx
        if onnx is None:
            return (), frozenset()
        returned = list(self._runs[0].expected)
        core = self._sides.processing.core
        if core is None:
            self._sides.notes.append(f"weights were not compared: {self._sides.processing.hidden}")
            return (), frozenset()
        with stage("weights"):
            return check_weights(onnx.graph, core, returned, self._derivation)

    def _against(self, other: Engine) -> tuple[Comparison, ...]:
        """The outputs of another IR in the first run, compared with those of the IR.

        Raises :class:`VerificationError` where it has other inputs, or lacks an output.
        """
        sides, loss, run = self._sides, self._sides.loss, self._runs[0]
        by_name = by_names(other.inputs, [port.name for port in other.inputs])
        feeds: dict[str, Array] = {}
        for port in sides.ports:
            reference_name = next((by_name[name] for name in (port.name, *port.names) if name in by_name), None)
            if reference_name is not None:
                feeds[reference_name] = run.feeds[port.name]
        missing = [port.name for port in other.inputs if port.name not in feeds]
        if missing:
            raise VerificationError(f"the other IR has inputs {missing}, which this one does not have")
        theirs = by_names(other.outputs, other.run(feeds))
        comparisons = []
        for name in run.expected:
            if name not in theirs:
                raise VerificationError(f"the other IR has no output '{name}'; it has {list(theirs)}")
            allowed = next(comparison.tolerance for comparison in run.outputs if comparison.name == name)
            comparisons.append(compare(name, run.actual[name], theirs[name], allowed))
        if loss is None or loss.is_rounding or all(comparison.passed for comparison in comparisons):
            return tuple(comparisons)
        if not self._is_right(
            other, {name: feeds[other_name] for name, other_name in by_name.items() if other_name in feeds}, run
        ):
            return tuple(comparisons)
        sides.notes.append(f"the other IR differs by more than rounding, but no layer of it is wrong: {loss.reason}")
        return tuple(
            compare(comparison.name, run.actual[comparison.name], theirs[comparison.name], loss.tolerance)
            for comparison in comparisons
        )

    def _is_right(self, other: Engine, feeds: Mapping[str, Array], run: Run) -> bool:
        """True if every layer of another IR, given right inputs, is right."""
        sides = self._sides
        if sides.onnx is None:
            return False
        inputs_of_other = {output: feeds[port.name] for output, port in zip(other.model.inputs, other.inputs)}
        rounded = RoundedWeights.of(other.model)
        try:
            feeds_of_oracle = sides.reference_feeds(run.feeds)
            compared = LayerComparison(
                sides.onnx, other.model, inputs_of_other, feeds_of_oracle, sides.tolerance, rounded
            ).result()
        except ModelError:
            return False
        return bool(compared.layers) and compared.is_right
