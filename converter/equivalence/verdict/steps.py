"""Language models step by step: a prompt, then tokens, the ONNX model with its caches against the IR with its own.

Both sides are given the same tokens, those that the ONNX model finds the likeliest. The rows of a batch, and beams, are
compared with rows by themselves.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np

from converter.equivalence.comparison.compare import Comparison, compare
from converter.equivalence.comparison.exact import exact_model, rounded_model
from converter.equivalence.comparison.layers import LayerDifference
from converter.equivalence.comparison.rounded_weights import RUNS, RoundedWeights, allowance_of, perturbed_model
from converter.equivalence.comparison.tolerances import chosen_by
from converter.equivalence.derivation.contracts import contracts_of, contracts_text
from converter.equivalence.derivation.rederivation import (
    DERIVED,
    DIFFERENT,
    INAPPLICABLE,
    DerivationCheck,
    check_derivation,
)
from converter.equivalence.reference.references import OnnxReference
from converter.equivalence.verdict.decoders import POSITIONS, Feeds, IrDecoder, OnnxDecoder, caches_of
from converter.equivalence.verdict.report import EQUAL, UNPROVEN, changes_text, headline
from converter.equivalence.verdict.verification import verify
from converter.errors import VerificationError
from converter.onnx_file.reader import ModelSource
from converter.options.input_forms import shown
from converter.options.verification import VerificationOptions
from converter.passes.states.stateful import make_stateful
from converter.passes.states.stateless import make_stateless
from converter.stages import inform, silent, stage, verbosely
from ir_runtime import Model, ModelError, read_model
from ir_runtime.boundary import boundary
from ir_runtime.displayed import Printed
from ir_runtime.graph import Array
from ir_runtime.operations.elementwise import Comparison as ComparisonOperation
from ir_runtime.records import record

_MIN_PROMPT, _MAX_WINDOW = 24, 1024
_PRECISIONS = {"float16": "f16", "bfloat16": "bf16"}
_SHORT_STEPS = 3
"""The number of tokens in the runs behind the first one."""


@record
class Step:
    """The logits of one step, compared: ``number`` 0 is the prompt; ``row`` is that of a batch."""

    run: str
    number: int
    tokens: int
    row: int
    comparison: Comparison


@record
class StepsReport(Printed):
    """The result of :func:`verify_steps`.

    ``verdict`` and ``reason`` are as those of :class:`converter.Report`.
    """

    oracle: str
    """The engine of the ONNX model."""
    engine: str
    """The engine of the IR."""
    seed: int
    """The seed of the random tokens."""
    steps: tuple[Step, ...]
    """The steps of all runs."""
    layer: LayerDifference | None = None
    """The first layer of a wrong step that is wrong although its inputs are right, or the first that differs."""
    layer_problem: str = ""
    """Why no layer is named."""
    derivation: DerivationCheck = DerivationCheck(INAPPLICABLE, "the derivation was not repeated")
    """The IR beside its derivation."""
    accept_unproven: bool = False
    """True if a verdict of ``unproven`` passes."""

    @property
    def passed(self) -> bool:
        """True if all steps agree and nothing is unproven, or if that is accepted."""
        return self.verdict in (DERIVED, EQUAL) or (self.verdict == UNPROVEN and self.accept_unproven)

    @property
    def first_wrong(self) -> Step | None:
        """The first step that differs; None where none does."""
        return next((step for step in self.steps if not step.comparison.passed), None)

    @property
    def verdict(self) -> str:
        """``derived``, ``equal``, ``unproven`` or ``different``."""
        if self.first_wrong is not None:
            return DIFFERENT
        return {DERIVED: DERIVED, DIFFERENT: UNPROVEN}.get(self.derivation.state, EQUAL)

    @property
    def headline(self) -> str:
        """``PASSED``, ``FAILED`` or, where neither is shown, ``UNPROVEN``."""
        return headline(self.verdict, self.passed)

    @property
    def reason(self) -> str:
        """Why the verdict is what it is, and what would settle it, in one sentence."""
        wrong, changes = self.first_wrong, self.derivation.differences
        if wrong is None and not changes:
            return f"all steps agree, and {self.derivation.reason}"
        changed = changes_text(changes)
        if wrong is None:
            return f"all steps agree, but {self.derivation.reason}: {changed}; convert the model again"
        where = "the prompt" if wrong.number == 0 else f"token {wrong.number}"
        layer = "" if self.layer is None else f"; the first layer is '{self.layer.layer}' ({self.layer.type})"
        derived = f"; from its derivation {changed}" if changes else ""
        return f"{wrong.run}: {where} differs: {wrong.comparison.reason}{layer}{derived}"

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values, ready for JSON."""
        wrong = self.first_wrong
        return {
            **asdict(self),
            "passed": self.passed,
            "verdict": self.verdict,
            "reason": self.reason,
            "first_wrong": None if wrong is None else asdict(wrong),
        }

    def __repr__(self) -> str:
        return f"StepsReport({self.verdict} against {self.oracle}, {len(self.steps)} steps)"


@verbosely
@boundary(error=VerificationError)
def verify_steps(
    onnx_model: ModelSource,
    ir: Model | str | os.PathLike[str],
    *,
    steps: int,
    seed: int = 0,
    rtol: float | None = None,
    atol: float | None = None,
    engine: str = "numpy",
    device: str | None = None,
    config: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    accept_unproven: bool = False,
    verbose: bool = False,
) -> StepsReport:
    """Compare a language model with its stateful IR over a prompt and ``steps`` tokens.

    Runs: a prompt (longer than the windows that the IR's masks have, up to 1024 tokens) and tokens behind it; the same
    after a reset; a prompt in two parts; a batch of prompts of different lengths, padded on the left, where a row
    may be that of the ONNX model with the padding, and is left out of recurrent models that padding changes; beams that
    continue with the state of other rows. ``rtol`` and ``atol`` replace the tolerance of the logits' type; ``engine``,
    ``device``, ``config``, ``accept_unproven`` and ``verbose`` are those of :func:`verify`.

    Raises :class:`converter.VerificationError` where a side is no language model, or cannot be run.
    """
    for name, number, least in (("steps", steps, 1), ("seed", seed, 0)):
        if not isinstance(number, (int, np.integer)) or isinstance(number, bool) or number < least:
            raise VerificationError(f"{name} must be a whole number of {least} or more, but is {shown(number)}")
    chosen = VerificationOptions(rtol=rtol, atol=atol, engine=engine, device=device, config=config)
    stored = None if isinstance(ir, Model) else ir
    with stage("read"):
        model = ir if isinstance(ir, Model) else read_model(ir)
        reference = OnnxReference(onnx_model)
    caches = caches_of(reference, model)
    onnx_side = OnnxDecoder(reference, caches)
    ir_side = _WithRounding(model, chosen, stored, onnx_side)
    runs = partial(_Runs, onnx_side, ir_side, chosen, seed, _prompt_length(model))
    done: list[Step] = []
    layer, problem, is_rounding = None, "", False
    with stage("steps"):
        for step, feeds in runs().all(steps):
            done.append(step)
            if not step.comparison.passed and all(other.comparison.passed for other in done[:-1]):
                with stage("layers"), silent():
                    layer, problem, is_rounding = _first_layer(onnx_model, model, feeds, chosen)
    if is_rounding:
        with stage("rounding"):
            ir_side.add_rounding(model, onnx_model)
            done = [step for step, _ in runs().all(steps)]
    derivation, _ = check_derivation(model, onnx_model, {})
    inform("contracts: %s", contracts_text(contracts_of(model)))
    names = reference.name, ir_side.name
    report = StepsReport(*names, seed, tuple(done), layer, problem, derivation, bool(accept_unproven))
    inform("%s: %s", report.verdict, report.reason)
    return report


def _prompt_length(model: Model) -> int:
    """More tokens than any window has that a mask of the model compares with."""
    windows = [0]
    for node in model.nodes():
        if isinstance(node.op, ComparisonOperation):
            constants = [source.type.constant for side in node.inputs for source in side.node.inputs]
            windows += [
                int(abs(constant.reshape(-1)[0]))
                for constant in constants
                if constant is not None and constant.size == 1 and constant.dtype.kind == "i"
            ]
    return max(_MIN_PROMPT, max(window for window in windows if window <= _MAX_WINDOW) + 8)


@record
class _Logits:
    """The logits of a step, and what rounding may change."""

    values: Array
    allowance: Array
    """For each row how much rounding may change its logits in the IR."""
    exact: Array | None
    """The logits of the ONNX model in float64, where rounding is measured."""

    def row(self, place: int, expected: Array) -> tuple[Array, float]:
        """The logits of a row for the last tokens, those that ``expected`` ``[1, s, vocabulary]`` has.

        And how far rounding may move them from ``expected``, which is rounded, too.
        """
        count = expected.shape[1]
        error = 0.0 if self.exact is None else float(np.abs(self.exact[place][-count:] - expected[0]).max())
        return self.values[place][None, -count:], float(self.allowance[place]) + error


class _WithRounding:
    """The IR, and copies of it with weights changed by as much as their compression may have rounded them.

    Where each layer is right and a result is not, copies whose layers round at random, and the ONNX model in float64,
    tell what rounding does: in recurrent models it adds up from token to token.
    """

    def __init__(
        self, model: Model, chosen: VerificationOptions, path: str | os.PathLike[str] | None, onnx_side: OnnxDecoder
    ) -> None:
        self._decoder = IrDecoder(model, path, onnx_side.output, engine=chosen.engine, **chosen.running)
        is_rounded = bool(RoundedWeights.of(model)) and not onnx_side.is_narrow
        copies = [perturbed_model(model, seed) for seed in range(RUNS if is_rounded else 0)]
        self._copies = [IrDecoder(copy, None, onnx_side.output) for copy in copies]
        self._exact: list[IrDecoder] = []
        self._output = onnx_side.output
        self.name = self._decoder.engine.name

    def add_rounding(self, model: Model, source: ModelSource) -> None:
        """Measure what rounding does, too."""
        copies = [rounded_model(model, seed) for seed in range(RUNS)]
        self._copies += [IrDecoder(copy, None, self._output) for copy in copies]
        try:
            exact = exact_model(source, {})
            make_stateful(exact)
            self._exact = [IrDecoder(exact, None, self._output)]
        except ModelError:  # some layer has no float64: the copies decide
            self._exact = []

    def reset(self) -> None:
        for decoder in (self._decoder, *self._copies, *self._exact):
            decoder.engine.reset()

    def __call__(self, tokens: Array, mask: Array, beams: Sequence[int] | None = None) -> _Logits:
        logits = self._decoder(tokens, mask, beams)
        others = [decoder(tokens, mask, beams) for decoder in self._copies]
        allowance = [allowance_of(row, [np.abs(other[at] - row) for other in others]) for at, row in enumerate(logits)]
        exact = [decoder(tokens, mask, beams) for decoder in self._exact]
        return _Logits(logits, np.array(allowance), exact[0] if exact else None)


class _Runs:
    """The runs, each step of which is yielded with the ONNX model's inputs for it."""

    def __init__(
        self,
        onnx_side: OnnxDecoder,
        ir_side: _WithRounding,
        chosen: VerificationOptions,
        seed: int,
        length: int,
    ) -> None:
        self._onnx, self._ir, self._chosen = onnx_side, ir_side, chosen
        self._random = np.random.default_rng(seed)
        self._length = length
        self._vocabulary = self._onnx(np.zeros((1, 1), np.int64)).shape[-1]
        self._takes_prompts = self._takes(np.zeros((1, 2), np.int64))

    def all(self, steps: int) -> Iterator[tuple[Step, Feeds]]:
        prompt = self._prompt(self._length)
        if not self._takes_prompts:
            parts = np.split(prompt, self._length, axis=1)
            yield from self._alone("a prompt token by token, then tokens", parts, steps)
            yield from self._alone("after a reset", parts[:_SHORT_STEPS], 0)
            prompts = [self._prompt(1) for _ in range(3)]
            yield from self._together("beams", prompts, min(steps, _SHORT_STEPS), [2, 0, 0])
            return
        yield from self._alone("a prompt, then tokens", [prompt], steps)
        yield from self._alone("after a reset", [prompt], min(steps, _SHORT_STEPS))
        half = self._length // 3
        yield from self._alone("a prompt in two parts", [prompt[:, :half], prompt[:, half:]], 0)
        lengths = (self._length, 3, self._length // 2)
        prompts = [self._prompt(length) for length in lengths]
        yield from self._together("a batch padded on the left", prompts, min(steps, _SHORT_STEPS), None)
        prompts = [self._prompt(7) for _ in range(3)]
        yield from self._together("beams", prompts, min(steps, _SHORT_STEPS), [2, 0, 0])

    def _takes(self, tokens: Array) -> bool:
        """True if the ONNX model takes these tokens in one step; some take one token at a time."""
        self._onnx.reset()
        try:
            self._onnx(tokens)
        except VerificationError:
            return False
        return True

    def _prompt(self, length: int) -> Array:
        return self._random.integers(0, self._vocabulary, (1, length))

    def _alone(self, run: str, parts: list[Array], steps: int) -> Iterator[tuple[Step, Feeds]]:
        self._onnx.reset()
        self._ir.reset()
        mask = np.zeros((1, 0), np.int64)
        tokens = parts[0]
        for number in range(len(parts) + steps):
            tokens = parts[number] if number < len(parts) else tokens
            mask = np.concatenate([mask, np.ones_like(tokens)], axis=1)
            feeds = self._onnx.feeds(tokens)
            expected = self._onnx(tokens)
            actual = self._ir(tokens, mask)
            yield self._step(run, number, tokens, 0, expected, *actual.row(0, expected)), feeds
            tokens = expected[:, -1:].argmax(-1)

    def _together(
        self, run: str, prompts: list[Array], steps: int, beams: list[int] | None
    ) -> Iterator[tuple[Step, Feeds]]:
        """A batch; with ``beams`` each row continues with the state of the row that it names, after the prompt."""
        rows = range(len(prompts))
        longest = max(prompt.shape[1] for prompt in prompts)
        tokens, mask = (np.zeros((len(prompts), longest), np.int64) for _ in range(2))
        for row, prompt in enumerate(prompts):
            tokens[row, longest - prompt.shape[1] :], mask[row, longest - prompt.shape[1] :] = prompt, 1
        self._ir.reset()
        outputs_of_steps = [self._ir(tokens, mask)]
        drawn_tokens = [self._random.integers(0, self._vocabulary, (len(prompts), 1)) for _ in range(steps)]
        for number, step in enumerate(drawn_tokens):
            mask = np.concatenate([mask, np.ones_like(step)], axis=1)
            outputs_of_steps.append(self._ir(step, mask, beams if number == 0 else None))
        padded = [] if beams is not None else self._run_padded([tokens, *drawn_tokens], mask)
        for row in rows:
            self._onnx.reset()
            source = row if beams is None else beams[row]
            for number, logits in enumerate(outputs_of_steps):
                tokens = prompts[source] if number == 0 else drawn_tokens[number - 1][row : row + 1]
                feeds = self._onnx.feeds(tokens)
                expected = self._onnx(tokens)[:, -1:]
                at = source if number == 0 else row
                step_result = self._step(run, number, tokens, row, expected, *logits.row(at, expected))
                if padded and not step_result.comparison.passed:
                    # Padding may change what the ONNX model itself computes, as it does a recurrent state.
                    own = padded[number][row][None, -1:]
                    if self._onnx.is_recurrent and not self._compare(expected, own, 0.0).passed:
                        break
                    step_result = self._step(run, number, tokens, row, own, *logits.row(at, own))
                yield step_result, feeds

    def _run_padded(self, parts: list[Array], mask: Array) -> list[Array]:
        """The logits of the ONNX model with the padded batch; none where it does not take one."""
        self._onnx.reset(len(mask))
        padded_rows, end = [], 0
        try:
            for tokens in parts:
                end += tokens.shape[1]
                padded_rows.append(self._onnx(tokens, mask[:, :end]))
        except VerificationError:
            return []
        return padded_rows

    def _step(
        self, run: str, number: int, tokens: Array, row: int, expected: Array, actual: Array, rounding: float
    ) -> Step:
        return Step(run, number, tokens.shape[1], row, self._compare(expected, actual, rounding))

    def _compare(self, expected: Array, actual: Array, rounding: float) -> Comparison:
        choose = chosen_by(self._chosen.rtol, self._chosen.atol, _PRECISIONS.get(expected.dtype.name, ""))
        allowed = replace(choose(expected), rounding=rounding)
        return compare(self._onnx.output, expected, actual.astype(expected.dtype), allowed)


def _first_layer(
    onnx_model: ModelSource, model: Model, feeds: Feeds, chosen: VerificationOptions
) -> tuple[LayerDifference | None, str, bool]:
    """The first layer that is wrong in a step, with the caches of the ONNX model; or why none is named.

    Also whether each layer was compared, and is right by itself.
    """
    plain = model.clone()
    try:
        make_stateless(plain)
        element_types = {name: node.outputs[0].element_type for node in plain.parameters for name in node.end_names}
        inputs_in_types = {
            name: value.astype(element_types[name].dtype) for name, value in feeds.items() if name in element_types
        }
        if POSITIONS in element_types and POSITIONS not in inputs_in_types:
            keys = next(value.shape[1] for name, value in feeds.items() if name == "attention_mask")
            places = np.arange(keys - feeds["input_ids"].shape[1], keys, dtype=element_types[POSITIONS].dtype)
            inputs_in_types[POSITIONS] = places[None]
        options = replace(chosen, inputs=inputs_in_types, layers=True, weights=False)
        report = verify(onnx_model, plain, options=options)
    except ModelError as error:
        return None, str(error), False
    layer = report.first_fault or report.first_divergence
    is_right = report.first_fault is None and not report.layers_problem
    if layer is None:
        problem = report.layers_problem or "no layer differs with the caches of the ONNX model: the caches differ"
        return None, problem, is_right
    return layer, "", is_right
