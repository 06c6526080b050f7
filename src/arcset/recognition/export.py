"""A trained run as one ONNX file that gives the same answers, or no file."""

import copy
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from arcset.data import ImageSet, Reading, as_float, open_source
from arcset.data.decode_many import decode_many
from arcset.data.sources.base import Entry
from arcset.errors import ArcsetError, DataError, OptionError, RunError
from arcset.recognition.inputs import Pixels, SourceImage, read_image
from arcset.recognition.onnx_model import Label, OnnxExport, check_out, replacing_model
from arcset.recognition.recognizer import Embeddings, Recognizer
from arcset.recognition.torch_models import TorchModel
from arcset.runs import Run
from arcset.runs.data import reading_of, selection_of
from arcset.runs.model import TrainedRun

LEAST_COSINE = 0.99999  # between an image's two embeddings
# Cosines of float32 embeddings are rounded by about this much: a pair so near to a threshold is
# decided by the rounding, by either of the two.
_ROUNDING = 1e-6
# Where the run has no thresholds: cosines at which a user might set one.
_CUTS = tuple(np.linspace(0.0, 0.9, 10).tolist())

_OPSET = 17  # from ONNX Runtime 1.12 on
_INPUT, _OUTPUT = "images", "embeddings"
_MOST, _EACH = 128, 4  # samples, which make 8,128 pairs; and of one identity


@dataclass(frozen=True)
class Parity:
    """How alike two models' embeddings of the same images are.

    Fields:
        images: how many were compared.
        min_cosine: the least cosine between the two embeddings of an image.
        decisions: "same or different" of pairs of images, times thresholds, by both models.
        flips: decisions in which they differ.
    """

    images: int
    min_cosine: float
    decisions: int
    flips: int

    @property
    def holds(self) -> bool:
        """Whether the two may stand for each other."""
        return self.min_cosine >= LEAST_COSINE and self.flips == 0


@dataclass(frozen=True)
class Exported(OnnxExport, Parity):
    """A run in an ONNX file, and how it compares with the run."""

    def __str__(self) -> str:
        return (
            f"{super().__str__()}\n"
            f"compared on {self.images:,} images: least cosine {self.min_cosine:.8f}, "
            f"{self.flips:,} of {self.decisions:,} decisions differ"
        )


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
    check_out(out)
    opened = run if isinstance(run, Run) else Run.open(run)
    original = Recognizer.load(opened, device="cpu", network=network)
    samples = _samples(opened, images)
    is_images = samples.dtype == np.uint8
    trained = original.model
    assert isinstance(trained, TorchModel)  # for the type checker
    model = _graph(trained.network, trained.shape, torch.uint8 if is_images else torch.float32)
    Label.of(
        original.name,
        Pixels(fit=opened.config.fit, invert=opened.config.invert) if is_images else None,
        digest=original.digest,
        shape=trained.shape,
        layout="NHWC" if len(trained.shape) == 3 else None,
        output=None,
        thresholds=original.thresholds,
    ).write(model)
    with replacing_model(out, model) as (part, size):
        parity = _check_parity(original, Recognizer.from_onnx(part, device="cpu"), samples)
    return Exported(
        **vars(parity),
        file=out,
        bytes=size,
        digest=original.digest,
        calibrated=original.thresholds is not None,
    )


# The graph: bytes of images in, unit embeddings out


class _Deployed(nn.Module):
    """(N, H, W, C) or (N, F), as a dataset has them, to unit rows (N, D)."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = copy.deepcopy(network).cpu()
        for module in list(self.network.modules()):
            for name, inner in module.named_children():
                if isinstance(inner, nn.PReLU):
                    setattr(module, name, _Sloped(inner.weight))

    def forward(self, samples: Tensor) -> Tensor:
        """Everything that lies between an array and its embedding."""
        if samples.ndim == 4:
            samples = samples.permute(0, 3, 1, 2)  # (N, C, H, W)
        return F.normalize(self.network(as_float(samples)), dim=1)


class _Sloped(nn.Module):
    """PReLU as a·x + (1 − a)·relu(x), which is the same for every slope a.

    ONNX Runtime computes its PRelu one number after the other, which takes half of the time of a
    mobilefacenet; multiplications and sums it merges with its neighbours.
    """

    def __init__(self, slopes: Tensor) -> None:
        super().__init__()
        self.slopes = nn.Parameter(slopes.detach().clone(), requires_grad=False)  # (C,) or (1,)

    def forward(self, values: Tensor) -> Tensor:
        """(N, C, …), which it keeps."""
        slopes = self.slopes.reshape(1, -1, *[1] * (values.ndim - 2))
        return slopes * values + (1 - slopes) * F.relu(values)


def _graph(network: nn.Module, shape: tuple[int, ...], dtype: torch.dtype) -> Any:
    """An `onnx.ModelProto` of a network as it is in evaluation mode.

    shape: (C, H, W) or (F,). dtype: uint8 for images, float32 for features.
    Raises `RunError` where the network cannot be written as ONNX.
    """
    inner = (*shape[1:], shape[0]) if len(shape) == 3 else shape
    try:
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")  # the exporter talks to those who write exporters
            torch.onnx.export(
                _Deployed(network).eval(),
                (torch.ones((2, *inner), dtype=dtype),),
                file := Path(folder, "model.onnx"),
                input_names=[_INPUT],
                output_names=[_OUTPUT],
                dynamic_axes={_INPUT: {0: "N"}, _OUTPUT: {0: "N"}},
                opset_version=_OPSET,
                # By tracing: a quarter of a second, where the other way takes ten and needs
                # another package; our networks have no branches that a trace would lose.
                dynamo=False,
            )
            model = onnx.load_model(file)
    except (RuntimeError, torch.onnx.errors.OnnxExporterError) as error:
        first = str(error).strip().splitlines()[0]
        raise RunError(f"the network cannot be written as ONNX: {first}") from None
    model.producer_name = "arcset"
    return model


# Whether run and file give the same answers


def compare(first: Embeddings, second: Embeddings, thresholds: Sequence[float] = ()) -> Parity:
    """Compare unit embeddings (N, D) of the same images by two models.

    Every pair of images is decided at each threshold; where there is none, at ten cosines from 0 to
    0.9. Pairs that lie nearer to a threshold than float32 can tell are left out.

        >>> rows = np.float32([[1, 0], [0.6, 0.8]])
        >>> compare(rows, rows, [0.5])
        Parity(images=2, min_cosine=1.0, decisions=1, flips=0)
    """
    pairs = np.triu_indices(len(first), k=1)
    one, other = (
        rows.astype(np.float64) / np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
        for rows in (first, second)
    )
    cosines, others = (one @ one.T)[pairs], (other @ other.T)[pairs]
    decisions = flips = 0
    for threshold in thresholds or _CUTS:
        clear = np.abs(cosines - threshold) > _ROUNDING
        decisions += int(clear.sum())
        flips += int(((cosines >= threshold) != (others >= threshold))[clear].sum())
    return Parity(len(first), float(min(1.0, (one * other).sum(axis=1).min())), decisions, flips)


def _check_parity(original: Recognizer, exported: Recognizer, samples: Any) -> Parity:
    """Raises `RunError` where the two do not give the same answers."""
    rows = exported.embed_arrays(samples)
    rows[-1:] = exported.embed_arrays(samples[-1:])  # a batch of one must do as well
    fars = () if original.thresholds is None else original.thresholds.fars
    parity = compare(original.embed_arrays(samples), rows, [far.threshold for far in fars])
    if parity.holds:
        return parity
    what = f"{parity.flips:,} of {parity.decisions:,} pairs are decided otherwise"
    if parity.min_cosine < LEAST_COSINE:
        what = f"an image's embeddings by the two have a cosine of {parity.min_cosine:.6f} only"
    raise RunError(
        f"the exported network does not do what the run does, and was not written: {what}, on "
        f"{parity.images:,} images"
    )


# The images that they are compared on


def _samples(run: Run, images: Path | str | None) -> npt.NDArray[Any]:
    """Samples (n, H, W[, C]) or (n, F) as the run's network takes them, at most 128.

    They come from the run's own data: validation identities first, then unseen ones, test images,
    and training images, until there are enough. images: any data that `open_source` reads, instead.
    Raises `OptionError` where the data is gone, `DataError` where it is too little.
    """
    samples = _samples_of(run) if images is None else _samples_in(images, reading_of(run.config))
    name, inner = images or run.config.data, samples.shape[1:]
    shape = inner if len(inner) == 1 else (inner[2] if len(inner) == 3 else 1, *inner[:2])
    if len(samples) < 2:
        raise DataError(f"{name} holds one sample, and two are needed")
    if run.config.shape is None or shape != tuple(run.config.shape):
        raise DataError(f"{name} holds samples of {shape}, and the run takes {run.config.shape}")
    return samples


def _samples_of(run: Run) -> npt.NDArray[Any]:
    try:
        selection = run.selection if isinstance(run, TrainedRun) else selection_of(run)
    except (DataError, OptionError, RunError, OSError) as error:
        raise OptionError(
            f"the export is compared with the run on real images, and the run's own cannot be "
            f"read ({str(error).rstrip('.')}): name others with --images FOLDER"
        ) from None
    parts = (selection.validation, selection.unseen, selection.test, selection.train)
    return np.concatenate([_spread(part) for part in parts if part is not None])[:_MOST]


def _samples_in(data: Path | str, reading: Reading | None) -> npt.NDArray[Any]:
    source = open_source(data, labelled=False)
    entries = source.list_samples().entries

    def read(entry: Entry) -> npt.NDArray[Any]:
        if source.features or reading is None:
            return np.asarray(source.content(entry))
        return read_image(SourceImage(source, entry), reading)

    chosen = [entries[number] for number in _even(len(entries), _MOST)]
    outcomes = [outcome for chunk in decode_many([chosen], read) for _, outcome in chunk]
    readable = [each for each in outcomes if not isinstance(each, ArcsetError)]
    if not readable:
        raise DataError(f"{data} holds nothing that can be read: {outcomes[0]}")
    return np.stack(readable)


def _spread(images: ImageSet) -> npt.NDArray[Any]:
    """Up to 128 samples, of up to four of each identity, evenly chosen; more where these are few.

    Same identity and different ones: both answers must stay what they are.
    """
    order = np.argsort(images.labels, kind="stable")
    starts = np.unique(images.labels[order], return_index=True)[1]
    chosen = starts[_even(len(starts), _MOST // _EACH)]
    rows = np.concatenate([order[start : start + _EACH] for start in chosen])
    rows = np.unique([*rows, *_even(len(order), _MOST - len(rows))])
    return np.stack([np.asarray(images.images[int(row)]) for row in rows])


def _even(count: int, most: int) -> npt.NDArray[np.int64]:
    """Up to `most` of the numbers below `count`, evenly spread."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))
