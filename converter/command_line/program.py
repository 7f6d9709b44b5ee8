"""The ``onnx2ir`` command itself, which the commands join."""

from __future__ import annotations

import click

from converter.command_line.state import State


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("-q", "--quiet", is_flag=True, help="Print results and errors only.")
@click.option("-v", "--verbose", is_flag=True, help="Print details, and tracebacks of errors.")
@click.version_option(package_name="onnx2ir")
@click.pass_context
def main(context: click.Context, quiet: bool, verbose: bool) -> None:
    """Convert ONNX models to OpenVINO IR and prove that both compute the same.

    \b
    Examples:
      onnx2ir convert model.onnx -o model.xml --verify
      onnx2ir verify model.onnx model.xml
      onnx2ir ops model.onnx
    """
    if quiet and verbose:
        raise click.UsageError("--quiet and --verbose exclude each other")
    import logging

    level = logging.ERROR if quiet else logging.INFO if verbose else logging.WARNING
    logging.basicConfig(level=level, format="%(levelname)s: %(message)s", force=True)
    context.obj = State(quiet, verbose)
