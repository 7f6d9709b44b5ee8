"""The groups in which ``--help`` lists the options of commands that have many."""

from __future__ import annotations

import click

_PREPROCESSING = (
    *("preprocess", "mean_values", "scale_values", "scale", "reverse_input_channels", "layout", "source_layout"),
    *("target_layout", "resize", "color", "fold_preprocessing"),
)
_SHAPES = ("input_texts", "outputs", "batch", "static")
_GRAPH = ("runtime", "fuse", "exact", "extensions")
_WEIGHTS = ("compress", "group_size", "symmetric", "compress_to_fp16")

GROUPS: dict[str, dict[str, tuple[str, ...]]] = {
    "convert": {
        "Output": ("output_model", "page", "as_json"),
        "Inputs, outputs and shapes": _SHAPES,
        "Layers": _GRAPH,
        "Weights": _WEIGHTS,
        "Preprocessing": _PREPROCESSING,
        "Language models": ("stateful", "stateless"),
        "Verification": ("check", "inputs", "seed"),
    },
    "batch": {
        "Output": ("output_dir", "keeps_nothing", "page", "lines", "annotated"),
        "Processes": ("jobs", "time_limit", "memory_limit", "again"),
        "Inputs, outputs and shapes": _SHAPES,
        "Layers": _GRAPH,
        "Weights": _WEIGHTS,
        "Preprocessing": _PREPROCESSING,
        "Language models": ("stateful",),
        "Verification": ("check", "seed"),
    },
    "verify": {
        "Output": ("report", "minimise", "as_json"),
        "Inputs": ("input_texts", "outputs", "batch", "inputs", "seed", "samples", "ranges", "stress", "steps"),
        "Comparison": ("rtol", "atol", "layers", "weights", "engine", "against"),
    },
}
"""Command -> heading -> names of parameters, in the order of ``--help``."""


def write_options(command: click.Command, context: click.Context, formatter: click.HelpFormatter) -> None:
    """Write the options of a command in its groups, or in one list where it has none."""
    parameters = {str(one.name): one for one in command.get_params(context) if isinstance(one, click.Option)}
    groups = GROUPS.get(str(command.name), {})
    grouped = {name for names in groups.values() for name in names}
    rest = tuple(name for name in parameters if name not in grouped)
    for heading, names in {**groups, "Messages" if groups else "Options": rest}.items():
        records = [record for name in names if (record := parameters[name].get_help_record(context)) is not None]
        if records:
            with formatter.section(heading):
                formatter.write_dl(records)
