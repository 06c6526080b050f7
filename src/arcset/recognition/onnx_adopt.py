"""A network from elsewhere, with what must be known about it written into its file."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import onnx

from arcset.errors import DataError, OptionError
from arcset.files import replacing
from arcset.recognition.onnx_file import read_onnx
from arcset.recognition.onnx_label import Label
from arcset.recognition.onnx_model import OnnxModel
from arcset.recognition.onnx_trial import remember
from arcset.recognition.recognizer import Recognizer

__all__ = ["Adopted", "adopt"]


@dataclass(frozen=True)
class Adopted:
    """An ONNX file that says itself how it takes images.

    Fields:
        file: where it lies. bytes: its size.
        digest: of the model, as `Recognizer.from_onnx` gives it for the file as it was.
        dim: the length of an embedding.
        calibrated: whether thresholds are in it.
    """

    file: Path
    bytes: int
    digest: str
    dim: int
    calibrated: bool

    def __str__(self) -> str:
        kept = "with" if self.calibrated else "without"
        return f"{self.file}: {self.bytes / 1e6:.1f} MB, {self.dim}-D, {kept} thresholds"

    def json(self) -> dict[str, Any]:
        """The fields as JSON knows them."""
        return {**vars(self), "file": str(self.file)}


def adopt(path: Path | str, out: Path | str, **said: Any) -> Adopted:
    """Write an ONNX file anew, with how it takes images, its name and thresholds in it.

    said: what `Recognizer.from_onnx` is told about such a network: preset, mean, std, size,
        channels, fit, invert, layout, output, thresholds, name.

    Afterwards `Recognizer.load(out)` and every verb with a --model need no further word. Raises
    what `from_onnx` raises, and `DataError` for weights that are kept in other files.
    """
    path, out = Path(path), Path(out)
    if out.suffix.lower() != ".onnx" or out.is_dir():
        raise OptionError(f"{out} is no name for an ONNX file: write FILE.onnx")
    file = read_onnx(path)
    if file.external:
        raise DataError(
            f"{path} keeps weights in other files: join them first, with onnx.load and onnx.save"
        )
    recognizer = Recognizer.from_onnx(path, **said, device="cpu")
    computing = recognizer.model
    assert isinstance(computing, OnnxModel)  # for the type checker
    model = onnx.load_model_from_string(file.content)
    Label(
        name=recognizer.name,
        digest=recognizer.digest,
        shape=computing.shape,
        pixels=None if computing.pixels is None else replace(computing.pixels, size=None),
        layout=None if computing.input.layout == "NF" else computing.input.layout,
        output=computing.output,
        thresholds=recognizer.thresholds,
        takes_faces=computing.takes_faces,
    ).write(model)
    with replacing(out) as part:
        content = model.SerializeToString()
        part.write_bytes(content)
        remember(content)  # its graph has just run
        Recognizer.from_onnx(part, device="cpu")  # or nothing is written
    return Adopted(
        out,
        out.stat().st_size,
        recognizer.digest,
        recognizer.dim,
        recognizer.thresholds is not None,
    )
