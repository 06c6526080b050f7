"""Real samples to compare a run and its export on."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from arcset.data import ImageSet, Reading, load_dataset
from arcset.data.selection import evaluation_images
from arcset.data.sources.folder import image_files
from arcset.errors import DataError, InputError, OptionError, RunError
from arcset.recognition.inputs import read_in_chunks
from arcset.runs import Run
from arcset.runs.data import reading_of, selection_of
from arcset.runs.model import TrainedRun

__all__ = ["samples_for"]

_IDENTITIES, _EACH = 32, 4
_MOST = _IDENTITIES * _EACH  # 128 samples, 8,128 pairs


def samples_for(run: Run, images: Path | str | None = None) -> npt.NDArray[Any]:
    """Samples (n, H, W[, C]) or (n, F) as the run's network takes them, at most 128.

    They come from the run's own data: validation identities first, then unseen ones, test images,
    and training images, until there are enough. images: a folder of images, or any data that
    `load_dataset` reads, instead. Raises `OptionError` where the data is gone, `DataError` where it
    is too little.
    """
    if images is None:
        found = _own(run)
    elif Path(images).is_dir() and (reading := reading_of(run.config)) is not None:
        found = _from_folder(Path(images), reading)
    else:
        dataset = load_dataset(images, reading=reading_of(run.config), single=True)
        found = _spread(evaluation_images(dataset, everything=True))
    shape = run.config.shape
    if len(found) < 2:
        raise DataError(f"{images or run.config.data} holds one sample, and two are needed")
    if shape is None or _shape(found) != tuple(shape):
        raise DataError(
            f"{images or run.config.data} holds samples of {_shape(found)}, and the run takes "
            f"{shape}"
        )
    return found


def _own(run: Run) -> npt.NDArray[Any]:
    try:
        selection = run.selection if isinstance(run, TrainedRun) else selection_of(run)
    except (DataError, OptionError, RunError, OSError) as error:
        raise OptionError(
            f"the export is compared with the run on real images, and the run's own cannot be "
            f"read ({str(error).rstrip('.')}): name others with --images FOLDER"
        ) from None
    parts = (selection.validation, selection.unseen, selection.test, selection.train)
    found = [_spread(part) for part in parts if part is not None]
    return np.concatenate(found)[:_MOST]


def _spread(images: ImageSet) -> npt.NDArray[Any]:
    """Up to four samples of each of up to 32 identities, evenly chosen; more where these are few.

    Same identity and different ones: both answers must stay what they are.
    """
    order = np.argsort(images.labels, kind="stable")
    starts = np.unique(images.labels[order], return_index=True)[1]
    chosen = starts[_even(len(starts), _IDENTITIES)]
    rows = [place for start in chosen for place in range(start, start + _EACH)]
    kept = sorted({order[place] for place in rows if place < len(order)})
    if len(kept) < min(len(order), _MOST):
        kept = sorted({*kept, *_even(len(order), _MOST - len(kept)).tolist()})
    return np.stack([np.asarray(images.images[int(row)]) for row in kept])


def _from_folder(folder: Path, reading: Reading) -> npt.NDArray[np.uint8]:
    files = image_files(folder)
    files = [files[place] for place in _even(len(files), _MOST)]
    found, why = [], ""
    for _, outcomes in read_in_chunks(files, reading):
        for outcome in outcomes:
            if isinstance(outcome, DataError | InputError):
                why = why or str(outcome)
            else:
                found.append(outcome)
    if not found:
        raise DataError(f"{folder} holds no readable image: {why}")
    return np.stack(found)


def _even(count: int, most: int) -> npt.NDArray[np.int64]:
    """Up to `most` of the numbers below `count`, evenly spread."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))


def _shape(samples: npt.NDArray[Any]) -> tuple[int, ...]:
    """Of one sample as a network takes it."""
    inner = samples.shape[1:]
    if len(inner) == 1:
        return inner
    return (inner[2] if len(inner) == 3 else 1, *inner[:2])
