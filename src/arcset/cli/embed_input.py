"""What `arcset embed` embeds, and with what."""

from pathlib import Path
from typing import TYPE_CHECKING

from arcset.checks import check_choice
from arcset.cli.model_option import load_model
from arcset.errors import OptionError
from arcset.runs import Run
from arcset.runs.assess import PARTS

if TYPE_CHECKING:
    from arcset.data import Source
    from arcset.recognition.bulk import BulkModel

__all__ = ["bulk_model", "bulk_source", "is_onnx"]


def is_onnx(run: Path) -> bool:
    """Whether this is an ONNX file, and not the folder of a run."""
    return run.suffix.lower() == ".onnx" and not run.is_dir()


def bulk_model(run: Path, faces: str | None, device: str) -> "BulkModel":
    """The network of a run, that of an ONNX file, or either on the faces in photos."""
    from arcset.recognition import Recognizer
    from arcset.recognition.bulk import FacesModel, ImagesModel, TrainedModel

    if faces in (None, "none") and not is_onnx(run):
        return TrainedModel(Run.open(run), device)
    recognizer = load_model(run, faces, device=device)
    return ImagesModel(recognizer) if isinstance(recognizer, Recognizer) else FacesModel(recognizer)


def bulk_source(run: Path, data: str | None, part: str, faces: str | None) -> "Source":
    """What is to be embedded; of a run its own data where nobody names other data."""
    from arcset.data import DATASETS, open_source
    from arcset.data.mapping import ClassMapping
    from arcset.data.sources.arrays import ArraySource
    from arcset.runs.data import selection_of

    if is_onnx(run) or faces not in (None, "none"):
        if data is None:
            raise OptionError("no data: name a folder with a sub-folder of images per identity")
        if part != "all":
            raise OptionError(f"--part {part} is for a run and its own data")
        return open_source(data)
    opened = Run.open(run)
    own = opened.config.data
    if not (data in (None, own) or (data not in DATASETS and str(Path(data).resolve()) == own)):
        if part != "all":
            raise OptionError(f"{part} is a part of {own}, the run's own data, and not of {data}")
        return open_source(data)
    if part == "all":
        mapping = opened.config.mapping
        return open_source(own, None if mapping is None else ClassMapping.load(opened.mapping_file))
    check_choice("part", part, PARTS)
    images = getattr(selection_of(opened), part)
    if images is None:
        raise OptionError(
            f"the run has no {part} part: no classes were held out for it; see `arcset data split`"
        )
    return ArraySource(images, f"{Path(own).name}, {part}", "part of a run's data")
