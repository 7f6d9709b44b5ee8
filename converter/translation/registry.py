"""Which function translates which operator, in which versions.

A translator's signature is the ONNX schema: inputs are positional parameters (``= None`` where they
are optional, ``*`` where there may be any number), attributes are keyword-only with ONNX's defaults.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any

from converter.errors import ConversionError
from converter.onnx_file import schema_table
from converter.onnx_file.schema_table import Schema
from ir_runtime.records import record

Translate = Callable[..., Any]

REQUIRED: Any = inspect.Parameter.empty


@record
class Translator:
    """One meaning of an operator: the function, and the versions that it claims.

    The rest follows from the function's signature. It is read when it is first asked for: a model
    needs a few of the hundreds of operators, and reading them all would take as long as their import.
    """

    op_type: str
    domain: str
    versions: tuple[int, ...]
    function: Translate
    also: frozenset[str] = frozenset()
    """Types that no version of the schema allows, but that mean something beyond doubt: ``tensor(int64)``."""
    ignored: Mapping[str, Any] = field(default_factory=dict)
    """Attributes outside the schema that cannot change what the node means, with the only value for which that is
    so; None where it is so for any."""
    takes_values: bool = False
    """Whether inputs may be sequences and optionals, too."""

    @cached_property
    def parameters(self) -> tuple[inspect.Parameter, ...]:
        """The function's parameters after the first, which is the context."""
        return tuple(inspect.signature(self.function).parameters.values())[1:]

    @cached_property
    def _inputs(self) -> list[inspect.Parameter]:
        return [p for p in self.parameters if p.kind is p.POSITIONAL_OR_KEYWORD]

    @property
    def named_inputs(self) -> int:
        """How many inputs there are without those of which there may be any number."""
        return len(self._inputs)

    @cached_property
    def least_inputs(self) -> int:
        return sum(1 for p in self._inputs if p.default is p.empty)

    @cached_property
    def most_inputs(self) -> int | None:
        """None where there may be any number; none of those may be left out then."""
        return None if any(p.kind is p.VAR_POSITIONAL for p in self.parameters) else len(self._inputs)

    @cached_property
    def attributes(self) -> dict[str, Any]:
        """Attribute name -> default, :data:`REQUIRED` where there is none."""
        return {p.name: p.default for p in self.parameters if p.kind is p.KEYWORD_ONLY}

    @cached_property
    def required_attributes(self) -> tuple[str, ...]:
        return tuple(name for name, default in self.attributes.items() if default is REQUIRED)


_TRANSLATORS: dict[tuple[str, str], dict[int, Translator]] = {}


def onnx_op(
    op_type: str,
    *,
    versions: Sequence[int],
    domain: str = "",
    replace: bool = False,
    takes_values: bool = False,
    also: Sequence[str] = (),
    ignored: Mapping[str, Any] | None = None,
) -> Callable[[Translate], Translate]:
    """Decorator: the function translates ``op_type`` of ``domain`` in these operator versions.

    A version is the opset in which the schema appeared (``since_version``). Claiming one twice is an
    error unless ``replace`` is set. ``takes_values`` says that inputs may be sequences and optionals,
    ``also`` names element types outside the schema that all the inputs may have, ``ignored`` attributes outside it
    that mean nothing if they have that value (None: any), both with a warning.
    """

    def register(function: Translate) -> Translate:
        module = _registering_module()
        if not module.startswith(_OWN):
            _complete()  # users' operators come after these, and may replace them
        translator = Translator(
            op_type,
            domain,
            tuple(versions),
            function,
            frozenset(f"tensor({name})" for name in also),
            ignored or {},
            takes_values,
        )
        claimed = _TRANSLATORS.setdefault((domain, op_type), {})
        for version in versions:
            if version in claimed and not replace:
                raise ConversionError(f"version {version} of operator {op_type} is claimed twice")
            claimed[version] = translator
        _MODULES.setdefault((domain, op_type), set()).add(module)
        _forget_found()
        return function

    return register


_REFUSED: dict[tuple[str, str], str] = {}
_MODULES: dict[tuple[str, str], set[str]] = {}
_OWN = "converter.operators."


def _registering_module() -> str:
    """The module whose import is under way: functions may be made by factories of other modules."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    return str(frame.f_globals.get("__name__"))


def _complete() -> None:
    """Whoever asks the registry finds the converter's own operators in it, whatever was imported before."""
    importlib.import_module("converter.operators").register_all()


def _register(op_type: str) -> None:
    """As :func:`_complete`, for one operator."""
    importlib.import_module("converter.operators").register(op_type)


def modules_of_operators() -> dict[tuple[str, str], set[str]]:
    """(domain, operator) -> the modules that register or refuse it."""
    _complete()
    return _MODULES


_FORMS: dict[tuple[str, str], dict[int, Translator]] = {}


def onnx_form(op_type: str, *, versions: Sequence[int]) -> Callable[[Translate], Translate]:
    """Decorator: the function translates a form of ``op_type`` that no schema has, but whose meaning leaves no doubt.

    Its signature is the form: other inputs or attributes than the schema's. It is tried where no version of the
    operator takes the node, with a warning, and raises what ``ctx.invalid`` returns where there is doubt. Of an
    operator that ONNX does not have there is version 1, unless somebody registers that operator; it warns itself.
    """

    def register(function: Translate) -> Translate:
        form = Translator(op_type, "", tuple(versions), function)
        _FORMS.setdefault(("", op_type), {}).update(dict.fromkeys(versions, form))
        return function

    return register


def find_form(op_type: str, domain: str, version: int) -> Translator | None:
    """The form outside the schema of that version of an operator."""
    return _FORMS.get((domain, op_type), {}).get(version)


def refuse_op(op_type: str, reason: str, *, domain: str = "") -> None:
    """Say why ``op_type`` cannot be translated in any version; the reason ends the error's sentence."""
    _REFUSED[domain, op_type] = reason
    _MODULES.setdefault((domain, op_type), set()).add(_registering_module())
    _forget_found()


def _forget_found() -> None:
    find_translator.cache_clear()
    find_schema.cache_clear()
    domain_of_operator.cache_clear()
    opset_of_operator.cache_clear()
    own_version.cache_clear()


def normalize_domain(domain: str) -> str:
    """``ai.onnx`` is the long name of the default domain."""
    return "" if domain == "ai.onnx" else domain


@functools.cache
def find_schema(op_type: str, domain: str, opset: int) -> Schema | None:
    """ONNX's schema of the operator in that opset, if it has one."""
    return schema_table.find(op_type, domain, opset)


@functools.cache
def find_translator(op_type: str, domain: str, opset: int) -> tuple[Translator, int] | str:
    """The translator for the operator in a model of that opset, with the version it is used for.

    Where there is none, the answer is the reason.
    """
    _register(op_type)
    claimed = _TRANSLATORS.get((domain, op_type), {})
    schema = find_schema(op_type, domain, opset)
    if not claimed:
        if domain == "" and not schema_table.versions(op_type, domain):
            form = find_form(op_type, domain, 1)
            if form is not None:
                return form, 1
            return f"ONNX has no operator of that name{_of_your_own(domain)}"
        return _REFUSED.get((domain, op_type), f"the operator is not supported{_of_your_own(domain)}")
    candidates = [version for version in claimed if version <= opset]
    if not candidates:
        return f"the operator is supported from opset {min(claimed)} on"
    version = max(candidates)
    if schema is not None and schema.since_version > version:
        if schema.deprecated:
            return f"the operator is deprecated since opset {schema.since_version}"
        return f"version {schema.since_version} of the operator is not supported"
    return claimed[version], version


@functools.cache
def domain_of_operator(op_type: str, domain: str) -> str:
    """The domain that a node means: its own; or, where it names none and ONNX has no such operator, the only one that
    has it."""
    domain = normalize_domain(domain)
    if domain or schema_table.versions(op_type, ""):
        return domain
    _register(op_type)
    having = {other for other, name in (*_TRANSLATORS, *_REFUSED) if name == op_type}
    return having.pop() if len(having) == 1 else domain


@functools.cache
def opset_of_operator(op_type: str, domain: str, opset: int) -> int:
    """The opset that a model of ``opset`` means by the operator: its own, or the first that has the operator."""
    if isinstance(find_translator(op_type, domain, opset), str) and find_schema(op_type, domain, opset) is None:
        later = schema_table.versions(op_type, domain)
        return later[0].since_version if later else opset
    return opset


@functools.cache
def own_version(op_type: str, domain: str, opset: int) -> tuple[int, Schema | None, tuple[Translator, int] | str]:
    """The opset that a model of ``opset`` means by an operator, its schema, its translator or the reason for none."""
    known = opset_of_operator(op_type, domain, opset)
    return known, find_schema(op_type, domain, known), find_translator(op_type, domain, known)


def _of_your_own(domain: str) -> str:
    """How to add an operator, where nobody else can: not for the domains whose operators are all known."""
    if domain in {known for known, _ in _TRANSLATORS} - {""}:
        return ""
    return (
        "; if it is one of your own, write its translator in a Python file (@converter.onnx_op) and give that with "
        "--extension FILE.py, or extension="
    )


def only_version(domain: str) -> int | None:
    """The version of a domain that has just one, as far as its operators are translated."""
    _complete()
    found = {version for (of, _), claimed in _TRANSLATORS.items() if of == domain for version in claimed}
    return found.pop() if len(found) == 1 else None


def refused_operators() -> dict[tuple[str, str], str]:
    """(domain, operator) -> the reason, for operators that are known not to be translatable."""
    _complete()
    return dict(sorted(_REFUSED.items()))


def all_translators() -> Iterator[Translator]:
    """Every translator, by domain and operator, each once."""
    _complete()
    for key in sorted(_TRANSLATORS):
        seen: set[int] = set()
        for version in sorted(_TRANSLATORS[key]):
            translator = _TRANSLATORS[key][version]
            if id(translator) not in seen:
                seen.add(id(translator))
                yield translator
