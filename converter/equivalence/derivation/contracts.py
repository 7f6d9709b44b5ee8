"""The contracts of the passes and rules that changed a model, added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from converter.passes.decomposition.registry import CONTRACT
from converter.passes.derivation import Derivation
from converter.passes.registry import passes
from converter.targets.registry import RULES
from ir_runtime import Model
from ir_runtime.records import record
from ir_runtime.rewriting.contracts import Contract


@record
class AppliedContract:
    """The contract of a pass or rule that changed a model."""

    name: str
    layers: int
    """The number of layers that it replaced."""
    contract: Contract | None
    """None for a pass that this version does not have."""


def contracts_of(model: Model) -> tuple[AppliedContract, ...]:
    """Return the contracts of what the record of ``model`` has; none where there is no record."""
    contracts = {name: contract for pipeline in (passes, *RULES) for name, contract in pipeline.contracts.items()}
    contracts["decomposition"] = CONTRACT
    counts = Counter[str]()
    for step in Derivation.of(model).steps:
        for changed in (step.passes, step.rules):
            counts.update(dict(changed))
    return tuple(AppliedContract(name, count, contracts.get(name)) for name, count in counts.items())


def contracts_text(applied: Sequence[AppliedContract]) -> str:
    """Return the sum of contracts in one line: how many are exact, the others by name, and all of them together.

    A result differs at most by the sum of what each pass allows at the values of the layers that it replaced or
    emitted: at most by what the sum of all ulps allows at every value of the model.
    """
    if not applied:
        return "no pass or rule is recorded"
    exact = sum(contract_use.contract is not None and contract_use.contract.is_exact for contract_use in applied)
    inexact = [
        (contract_use.name, contract_use.contract)
        for contract_use in applied
        if contract_use.contract is not None and not contract_use.contract.is_exact
    ]
    unknown = [contract_use.name for contract_use in applied if contract_use.contract is None]
    parts = [f"{exact} {'passes and rules are' if exact != 1 else 'pass or rule is'} exact"]
    parts += [f"{name} is {contract.to_text()}" for name, contract in inexact]
    if len(inexact) > 1:
        total = Contract(sum(contract.ulps for _, contract in inexact))
        parts.append(f"together {total.to_text()}")
    parts += [f"no contract is known of {', '.join(unknown)}"] if unknown else []
    return "; ".join(parts)
