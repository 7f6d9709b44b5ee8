"""Writes the index of the operators' families: which modules translate or refuse each operator.

python docs/index_operators.py

A conversion imports the modules that the index names, and all of them for an operator that it does not have.
``docs/generate.py`` runs this script. ``--print`` shows the index instead of writing it.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from converter.from_onnx import translation
from converter.from_onnx.translation import families, registry


def indexed() -> dict[str, dict[str, list[str]]]:
    """Domain -> operator -> modules, found by importing all of them.

    No family may have been imported before.
    """
    modules: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))

    def recording(register: Callable[..., Any]) -> Callable[..., Any]:
        """``register``, which notes the module that calls it."""

        def recorded(op_type: str, *arguments: Any, domain: str = "", **keywords: Any) -> Any:
            module = str(sys._getframe(1).f_globals["__name__"])
            modules[domain][op_type].add(module.removeprefix(f"{families.PACKAGE}."))
            return register(op_type, *arguments, **({"domain": domain} if domain else {}), **keywords)

        return recorded

    for name in ("onnx_op", "onnx_form", "refuse_op"):
        recorded = recording(getattr(registry, name))
        for module in (registry, translation):  # from which the families import it
            setattr(module, name, recorded)
    families.import_all_families()
    return {
        domain: {op_type: sorted(operators[op_type]) for op_type in sorted(operators)}
        for domain, operators in sorted(modules.items())
    }


def text_of(index: dict[str, dict[str, list[str]]]) -> str:
    """The index as JSON, an operator a line."""
    domains = (
        f"{json.dumps(domain)}: {{\n"
        + ",\n".join(f"{json.dumps(op_type)}: {json.dumps(modules)}" for op_type, modules in operators.items())
        + "\n}"
        for domain, operators in index.items()
    )
    return "{" + ",\n".join(domains) + "}\n"


if __name__ == "__main__":
    if "--print" in sys.argv[1:]:
        print(text_of(indexed()), end="")
    else:
        families.INDEX.write_text(text_of(indexed()))
