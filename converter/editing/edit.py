"""Editing an ONNX model or an IR: :func:`edit`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter.conversion.from_ir import is_ir
from converter.errors import ConversionError
from converter.onnx_file.reader import ModelSource
from converter.options.conversion import options_from, takes
from converter.options.editing import EditOptions, SplitData
from converter.options.input_forms import OptionError
from converter.stages import about, stage
from ir_runtime.boundary import boundary
from ir_runtime.graph import Model
from ir_runtime.records import record

if TYPE_CHECKING:
    import onnx

    from converter.editing.edits import Editable
    from converter.editing.onnx_model import EditedOnnx


@record
class Edited:
    """An edited model: what :func:`edit` returns."""

    model: EditedOnnx | Model
    """An ONNX model whose weights stay in their files, or an IR."""
    notes: tuple[str, ...]
    """What else to know: names that got a prefix, inputs that are gone."""

    def to_onnx(self) -> onnx.ModelProto:
        """The ONNX model with its weights: up to 2 GB. :meth:`save` writes models of any size."""
        return self._onnx("to_onnx").with_weights()

    def to_ir(self) -> Model:
        """The IR."""
        if not isinstance(self.model, Model):
            raise OptionError("to_ir: the model is ONNX; converter.convert_model makes an IR of it")
        return self.model

    def _onnx(self, function: str) -> EditedOnnx:
        if isinstance(self.model, Model):
            raise OptionError(f"{function}: the model is an IR, which has no such thing")
        return self.model

    @boundary(error=ConversionError)
    def save(
        self,
        path: str | os.PathLike[str],
        *,
        external_data: bool | None = None,
        split_size: str | int | None = None,
    ) -> list[Path]:
        """Write the model; weights go from file to file. The files that were written, all of them or none.

        ``external_data`` writes the weights of an ONNX model to files beside it; by default where the source has them
        so, and from 2 GB on. ``split_size`` is the most bytes of such a file, ``"1GB"``.
        """
        target = Path(path)
        if isinstance(self.model, Model):
            if external_data is not None or split_size is not None:
                raise OptionError("external_data and split_size are for ONNX: an IR has one .bin")
            from ir_runtime.files.xml_writer import check_destination, write_model

            check_destination(self.model, target)
            write_model(self.model, target)
            return [target, target.with_suffix(".bin")]
        from converter.to_onnx.file import write_onnx

        size = SplitData(split_size).most_bytes
        if size is not None and external_data is False:
            raise OptionError("split_size needs external data")
        if external_data is None and (size is not None or self.model.has_external_data):
            external_data = True
        self.model.check_target(target)
        return write_onnx(self.model, target, external_data, size)


@boundary(error=ConversionError)
@takes(EditOptions)
def edit(model: ModelSource | Model, *, options: EditOptions | None = None, **keywords: Any) -> Edited:
    """Edit an ONNX model or an IR: cut, rename, join, insert, replace.

    ``model`` is a path, the file's bytes, a binary file object, an ``onnx.ModelProto``, the path of an IR's ``.xml`` or
    a :class:`ir_runtime.Model`; it stays as it is.

    ``options`` are :class:`converter.EditOptions`, or the keywords are their fields:

    {options}

    Raises :class:`ConversionError`, which names the tensor and near names, for what the model does not have, and for
    edits after which the model would be invalid.
    """
    chosen = options_from(EditOptions, options, keywords, "edit")
    source = os.fspath(model) if isinstance(model, os.PathLike) else model
    if is_ir(source):
        from converter.conversion.from_ir import read_ir
        from converter.editing.ir_model import EditedIr
        from converter.passes.derivation import Derivation, Step

        with stage("read"):
            ir = read_ir(source)
            Derivation.begin(ir)
        with about(ir.name if isinstance(source, Model) else str(source)), stage("edit"):
            edited_ir = EditedIr(ir)
            _apply(edited_ir, chosen)
            if "metadata" not in chosen.names("strip"):
                Derivation.of(ir).then(Step("edit", options=chosen.to_dict()), ir).write(ir)
        return Edited(ir, tuple(edited_ir.notes))
    from converter.editing.onnx_model import EditedOnnx, check_edited

    with stage("read"):
        edited = EditedOnnx(source)  # type: ignore[arg-type]
    with about(edited.name), stage("edit"):
        before = edited.message()
        _apply(edited, chosen)
        check_edited(edited, before)
    return Edited(edited, tuple(edited.notes))


def _apply(model: Editable, options: EditOptions) -> None:
    """Do what the options say, in the order of the fields."""
    from converter.editing.edits import EDITS

    for option, edit_model in EDITS.items():
        if getattr(options, option):
            edit_model(model, options)
