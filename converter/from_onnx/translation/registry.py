"""Registry of translators by operator and version.

A translator's signature is the ONNX schema: inputs are positional parameters (``= None`` where they
are optional, ``*`` where there may be any number), attributes are keyword-only with ONNX's defaults,
and annotated as ``Literal`` where they may have a few values only.
Inputs annotated as ``Expression`` are expressions, of which formulas make layers.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, fields
from functools import cached_property
from typing import Any, TypeVar, get_args

from converter.errors import ConversionError
from converter.onnx_file import schema_table
from converter.onnx_file.domains import MICROSOFT, normalize_domain
from converter.onnx_file.schema_table import Schema
from ir_runtime.records import record
from ir_runtime.registry import Registry

from .families import import_all_families, import_families, import_families_of_any_domain, is_imported

Translate = Callable[..., Any]
F = TypeVar("F", bound=Translate)

REQUIRED: Any = inspect.Parameter.empty
_SCALARS: Mapping[str, tuple[type, ...]] = {"float": (float, int), "int": (int,), "str": (str,)}
"""Annotation of an attribute -> types of its value; ONNX's integers stand for floats as well."""


@record
class Translator:
    """A function that translates an operator, and the versions of the operator that it claims.

    The rest follows from the function's signature, which is read when it is first needed: a model needs a few of the
    hundreds of operators, and reading all signatures would take as long as importing the functions.
    """

    op_type: str
    domain: str
    versions: tuple[int, ...]
    function: Translate
    also: frozenset[str] = frozenset()
    """Types that no version of the schema allows, but that have only one possible meaning: ``tensor(int64)``."""
    ignored: Mapping[str, Any] = field(default_factory=dict)
    """Attributes outside the schema that do not change the node's meaning if they have this value; None: any value."""
    takes_values: bool = False
    """True if inputs may also be sequences and optionals."""
    without: frozenset[str] = frozenset()
    """Parameters of the function that these versions do not have."""
    replaces: bool = False
    """True if it replaces other translators of its versions, registered before or after it."""
    has_kernel: bool = True
    """False if onnxruntime has no CPU kernel for the operator: a function of the model of that name counts then."""

    @cached_property
    def parameters(self) -> tuple[inspect.Parameter, ...]:
        """The function's parameters that these versions have; the first, which is the context, is left out."""
        return tuple(p for p in _parameters(self.function)[1:] if p.name not in self.without)

    @cached_property
    def _inputs(self) -> list[inspect.Parameter]:
        return [p for p in self.parameters if p.kind is p.POSITIONAL_OR_KEYWORD]

    @property
    def named_inputs(self) -> int:
        """The number of inputs without those of which there may be any number."""
        return len(self._inputs)

    @cached_property
    def takes_expressions(self) -> bool:
        """True if an input is annotated as Expression: by the class, or by its name where annotations are text."""
        return any(re.search(r"\bExpression\b", str(p.annotation)) for p in self._inputs)

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
    def scalar_attributes(self) -> dict[str, tuple[type, ...]]:
        """Attribute name -> the types that a single number or text may have; other annotations are not looked at."""
        named = {p.name: getattr(p.annotation, "__name__", p.annotation) for p in self.parameters}
        return {name: _SCALARS[named[name]] for name in self.attributes if named[name] in _SCALARS}

    @cached_property
    def choices(self) -> dict[str, tuple[Any, ...]]:
        """Attribute name -> the only values that it may have, where its annotation is ``Literal`` or a name of one."""
        named = {p.name: self.function.__globals__.get(str(p.annotation), p.annotation) for p in self.parameters}
        literals = {name: annotation for name, annotation in named.items() if "Literal[" in str(annotation)}
        return {
            name: ast.literal_eval(f"({text[8:-1]},)") if isinstance(text, str) else get_args(text)
            for name, text in literals.items()
        }

    @cached_property
    def required_attributes(self) -> tuple[str, ...]:
        return tuple(name for name, default in self.attributes.items() if default is REQUIRED)


_SHARED_ATTRIBUTES: dict[Translate, tuple[Translate | type, frozenset[str]]] = {}


def attributes_of(source: Translate | type, *, without: Sequence[str] = ()) -> Callable[[F], F]:
    """Decorator: ``**attributes`` of a translator stand for the keyword-only parameters of ``source``.

    The translator passes them on to ``source``, so that names and defaults are written there alone. ``source`` may be a
    record, whose fields are attributes. ``without`` lists those that the operator does not have; a parameter of the
    translator itself replaces that of ``source``.
    """

    def register(function: F) -> F:
        _SHARED_ATTRIBUTES[function] = source, frozenset(without)
        return function

    return register


def _parameters(function: Translate | type) -> list[inspect.Parameter]:
    """The function's parameters, with those that ``**attributes`` stand for; those of a record are its fields."""
    if isinstance(function, type):
        return [
            inspect.Parameter(entry.name, inspect.Parameter.KEYWORD_ONLY, default=entry.default, annotation=entry.type)
            for entry in fields(function)
        ]
    parameters = list(inspect.signature(function).parameters.values())
    if function in _SHARED_ATTRIBUTES:
        source, without = _SHARED_ATTRIBUTES[function]
        parameters = [p for p in parameters if p.kind is not p.VAR_KEYWORD]
        hidden = without | {p.name for p in parameters}
        parameters += [p for p in _parameters(source) if p.kind is p.KEYWORD_ONLY and p.name not in hidden]
    return parameters


def _check_without(op_type: str, function: Translate, without: Sequence[str]) -> None:
    """A parameter can be left out where the function has a default for it, an input only behind those that stay."""
    parameters = _parameters(function)[1:]
    unknown = sorted(set(without) - {p.name for p in parameters if p.default is not p.empty})
    if unknown:
        raise ConversionError(f"the translator of {op_type} needs parameters with defaults called {unknown}")
    inputs = [p.name in without for p in parameters if p.kind is not p.KEYWORD_ONLY]
    if inputs != sorted(inputs):
        raise ConversionError(f"inputs of {op_type} that a version does not have must be the last: {list(without)}")


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
    without: Sequence[str] = (),
    has_kernel: bool = True,
) -> Callable[[Translate], Translate]:
    """Decorator: the function translates ``op_type`` of ``domain`` in these operator versions.

    A version is the opset in which the schema appeared (``since_version``). Claiming one twice is an
    error unless ``replace`` is set. With ``takes_values`` inputs may be sequences and optionals. ``also`` lists element
    types outside the schema that all the inputs may have, ``ignored`` attributes outside it that are ignored if they
    have that value (None: any); both give a warning.

    ``has_kernel`` is False for operators of onnxruntime that its CPU provider does not run.

    Several versions may share a function that has the parameters of all: ``without`` names the inputs and
    attributes that these versions do not have. They need defaults, which the function then finds in them.
    """

    def register(function: Translate) -> Translate:
        if without:
            _check_without(op_type, function, without)
        if not is_imported(op_type, domain):
            # The caller is a user: what they may replace is registered first, so that a conflict is their error.
            import_families(op_type, domain)
        translator = Translator(
            op_type,
            domain,
            tuple(versions),
            function,
            frozenset(f"tensor({name})" for name in also),
            ignored or {},
            takes_values,
            frozenset(without),
            replaces=replace,
            has_kernel=has_kernel,
        )
        claimed = _TRANSLATORS.setdefault((domain, op_type), {})
        for version in versions:
            present = claimed.get(version)
            if present is None or replace:
                claimed[version] = translator
            elif not present.replaces:
                raise ConversionError(f"version {version} of operator {op_type} is claimed twice")
        _forget_found()
        return function

    return register


_REFUSALS = Registry[tuple[str, str], str]("refusal")
"""(domain, operator) -> why no version of it can be translated."""
_FORMS = Registry[tuple[str, str, int], Translator]("form")
"""(domain, operator, version) -> a form that no schema has."""


def onnx_form(op_type: str, *, versions: Sequence[int]) -> Callable[[Translate], Translate]:
    """Decorator: the function translates a form of ``op_type`` that no schema has, but that has one possible meaning.

    Its signature is the form: inputs or attributes that are not the schema's. It is tried with a warning where no
    version of the operator takes the node, and raises ``ctx.invalid(...)`` if the meaning is not clear. An operator
    that ONNX does not have can have a form of version 1; it warns itself, and a registered operator goes first.
    """

    def register(function: Translate) -> Translate:
        form = Translator(op_type, "", tuple(versions), function)
        _FORMS.of(("", op_type, version) for version in versions)(form)
        return function

    return register


def find_form(op_type: str, domain: str, version: int) -> Translator | None:
    """The form outside the schema of that version of an operator."""
    return _FORMS.get((domain, op_type, version))


def refuse_op(op_type: str, reason: str, *, domain: str = "") -> None:
    """Register the reason why no version of ``op_type`` can be translated; it ends the sentence of the error."""
    _REFUSALS.add((domain, op_type), reason)
    _forget_found()


def _forget_found() -> None:
    find_translator.cache_clear()
    find_schema.cache_clear()
    domain_of_operator.cache_clear()
    opset_of_operator.cache_clear()
    own_version.cache_clear()


@functools.cache
def find_schema(op_type: str, domain: str, opset: int) -> Schema | None:
    """ONNX's schema of the operator in that opset, if it has one."""
    return schema_table.find(op_type, domain, opset)


@functools.cache
def find_translator(op_type: str, domain: str, opset: int) -> tuple[Translator, int] | str:
    """The translator for the operator in a model of that opset, with the version it is used for.

    Where there is none, the answer is the reason.
    """
    import_families(op_type, domain)
    translator = _registered_translator(op_type, domain, opset)
    if isinstance(translator, str):
        import_all_families()
        translator = _registered_translator(op_type, domain, opset)
    return translator


def _registered_translator(op_type: str, domain: str, opset: int) -> tuple[Translator, int] | str:
    """As :func:`find_translator`, from the modules that have been imported."""
    claimed = _TRANSLATORS.get((domain, op_type), {})
    schema = find_schema(op_type, domain, opset)
    if not claimed:
        if domain == "" and not schema_table.versions(op_type, domain):
            form = find_form(op_type, domain, 1)
            if form is not None:
                return form, 1
            return f"ONNX has no operator of that name{_of_your_own(domain)}"
        return _REFUSALS.get((domain, op_type)) or f"the operator is not supported{_of_your_own(domain)}"
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
    """Return the domain that a node names, or the only one that has its operator.

    The latter where the node names none and ONNX has no such operator.
    """
    domain = normalize_domain(domain)
    if domain or schema_table.versions(op_type, ""):
        return domain
    import_families_of_any_domain(op_type)
    having = {other for other, name in (*_TRANSLATORS, *_REFUSALS.entries()) if name == op_type}
    return having.pop() if len(having) == 1 else domain


@functools.cache
def opset_of_operator(op_type: str, domain: str, opset: int) -> int:
    """The opset in which the operator is read: ``opset``, or the first one that has the operator."""
    if isinstance(find_translator(op_type, domain, opset), str) and find_schema(op_type, domain, opset) is None:
        later = schema_table.versions(op_type, domain)
        return later[0].since_version if later else opset
    return opset


@functools.cache
def own_version(op_type: str, domain: str, opset: int) -> tuple[int, Schema | None, tuple[Translator, int] | str]:
    """The opset in which an operator is read, its schema in that, and its translator or the reason for none."""
    own_opset = opset_of_operator(op_type, domain, opset)
    return own_opset, find_schema(op_type, domain, own_opset), find_translator(op_type, domain, own_opset)


def counts_before_function(op_type: str, domain: str, opset: int) -> bool:
    """True if an operator counts, and no function of the model that has its name.

    ONNX leaves it to runtimes which of both counts. onnxruntime runs its own operators by kernels where it has any:
    builders of models add functions for other runtimes.
    """
    if domain != MICROSOFT or not opset:
        return False
    translator = find_translator(op_type, domain, opset)
    return not isinstance(translator, str) and translator[0].has_kernel


def _of_your_own(domain: str) -> str:
    """Advice to register a translator; empty for domains of which some operators are translated here."""
    if domain in {own_domain for own_domain, _ in _TRANSLATORS} - {""}:
        return ""
    return (
        "; if it is one of your own, write its translator in a Python file (@converter.onnx_op) and give that with "
        "--extension FILE.py, or extension="
    )


def only_version(domain: str) -> int | None:
    """The version of a domain if all its translated operators have the same one."""
    import_all_families()
    versions = {version for (of, _), claimed in _TRANSLATORS.items() if of == domain for version in claimed}
    return versions.pop() if len(versions) == 1 else None


def refused_operators() -> dict[tuple[str, str], str]:
    """(domain, operator) -> the reason, for operators that are known not to be translatable."""
    import_all_families()
    return dict(sorted(_REFUSALS.entries().items()))


def all_translators() -> Iterator[Translator]:
    """Every translator, by domain and operator, each once."""
    import_all_families()
    for key in sorted(_TRANSLATORS):
        seen: set[int] = set()
        for version in sorted(_TRANSLATORS[key]):
            translator = _TRANSLATORS[key][version]
            if id(translator) not in seen:
                seen.add(id(translator))
                yield translator
