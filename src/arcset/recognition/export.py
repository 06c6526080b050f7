"""A trained run as one ONNX file that gives the same answers, or no file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from arcset.errors import OptionError, RunError
from arcset.files import replacing
from arcset.recognition.export_graph import onnx_model
from arcset.recognition.export_parity import LEAST_COSINE, Parity, compare
from arcset.recognition.export_samples import samples_for
from arcset.recognition.onnx_label import Label
from arcset.recognition.onnx_trial import remember
from arcset.recognition.presets import Pixels
from arcset.recognition.recognizer import Recognizer
from arcset.recognition.run_model import RunModel
from arcset.runs import Run

__all__ = ["Exported", "export"]


@dataclass(frozen=True)
class Exported:
    """An ONNX file, and how it compares with the run.

    Fields:
        file: where it lies. bytes: its size.
        digest: of the model, the run's own.
        calibrated: whether the run's thresholds are in it.
        images: how many real ones it was compared on.
        min_cosine: the least cosine between the embeddings of an image by the run and by the file.
        decisions: "same or different" on pairs of these images. flips: on which the two differ.
    """

    file: Path
    bytes: int
    digest: str
    calibrated: bool
    images: int
    min_cosine: float
    decisions: int
    flips: int

    def __str__(self) -> str:
        kept = "with" if self.calibrated else "without"
        return (
            f"{self.file}: {self.bytes / 1e6:.1f} MB, {kept} thresholds\n"
            f"compared on {self.images:,} images: least cosine {self.min_cosine:.8f}, "
            f"{self.flips:,} of {self.decisions:,} decisions differ"
        )

    def json(self) -> dict[str, Any]:
        """The fields as JSON knows them."""
        return {**vars(self), "file": str(self.file)}


def export(
    run: Run | Path | str,
    out: Path | str,
    *,
    images: Path | str | None = None,
    network: nn.Module | None = None,
) -> Exported:
    """Write a trained run as an ONNX file, unless it would answer otherwise than the run.

    The graph takes uint8 images (N, H, W, C), read as `Recognizer.reading` reads them, or float32
    features; it gives unit embeddings (N, D), for any N. Thresholds, and how images are read, are
    written into the file: `Recognizer.load` needs nothing else.

    Before the file takes its place, the two are compared on real images, of the run's validation or
    unseen identities, else of its other data; `images` names a folder of others. The least cosine
    must be 0.99999 or more and no decision at the run's thresholds may flip; else `RunError` is
    raised, and no file is left. Raises `OptionError` where the run's data is gone and no images are
    given. `network` is the module of a run whose network was given in Python.
    """
    out = Path(out)
    if out.suffix.lower() != ".onnx" or out.is_dir():
        raise OptionError(f"{out} is no name for an ONNX file: write FILE.onnx")
    opened = run if isinstance(run, Run) else Run.open(run)
    original = Recognizer.load(opened, device="cpu", network=network)
    samples = samples_for(opened, images)
    pictures = samples.dtype == np.uint8
    computing = original.model
    assert isinstance(computing, RunModel)  # for the type checker
    model = onnx_model(
        computing.network, computing.shape, torch.uint8 if pictures else torch.float32
    )
    Label(
        name=original.name,
        digest=original.digest,
        shape=original.model.shape,
        pixels=Pixels(fit=opened.config.fit, invert=opened.config.invert) if pictures else None,
        layout="NHWC" if len(original.model.shape) == 3 else None,
        thresholds=original.thresholds,
    ).write(model)
    with replacing(out) as part:
        content = model.SerializeToString()
        part.write_bytes(content)
        remember(content)
        parity = _parity(original, Recognizer.from_onnx(part, device="cpu"), samples)
        if not parity.holds:
            raise RunError(_differ(parity))
    return Exported(
        file=out,
        bytes=out.stat().st_size,
        digest=original.digest,
        calibrated=original.thresholds is not None,
        **vars(parity),
    )


def _parity(original: Recognizer, exported: Recognizer, samples: Any) -> Parity:
    wanted = original.embed_arrays(samples)
    found = exported.embed_arrays(samples)
    found[-1:] = exported.embed_arrays(samples[-1:])  # a batch of one must do as well
    known = original.thresholds
    return compare(wanted, found, [] if known is None else [far.threshold for far in known.fars])


def _differ(parity: Parity) -> str:
    if parity.min_cosine < LEAST_COSINE:
        what = f"an image's embeddings by the two have a cosine of {parity.min_cosine:.6f} only"
    else:
        what = f"{parity.flips:,} of {parity.decisions:,} pairs are decided otherwise"
    return (
        f"the exported network does not do what the run does, and was not written: {what}, on "
        f"{parity.images:,} images"
    )
