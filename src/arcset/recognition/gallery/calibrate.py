"""A calibration for a gallery: from its subjects, from embeddings, or from images of others."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from arcset.data.embeddings import holds_embeddings
from arcset.errors import InputError, OptionError
from arcset.evaluation.calibration import Thresholds, pair_cosines
from arcset.recognition.calibration import Alike, calibrate, most_alike
from arcset.recognition.decisions import WorkingPoint, working_point
from arcset.recognition.gallery.base import Gallery, GalleryPath
from arcset.recognition.gallery.samples import read_embeddings_for
from arcset.recognition.inputs import list_images
from arcset.recognition.recognizer import Progress

_USELESS = 0.5  # of the unknown: a calibration that supports no lower rate is not kept
_COMPARED = 10_000  # samples of which all pairs are looked at


@dataclass(frozen=True)
class CalibratedGallery:
    """A gallery with a calibration of its own.

    Fields:
        size: subjects, samples and scoring of the gallery, as `working_point` takes them.
        point: its default threshold now.
        alike: subjects that look like one as much as one subject's samples do, the likest first.
        skipped: images that could not be read, and why.
    """

    path: GalleryPath
    thresholds: Thresholds
    point: WorkingPoint
    size: dict[str, Any]
    alike: tuple[Alike, ...]
    skipped: dict[str, str]

    def point_for(self, fpir: float) -> WorkingPoint:
        """The threshold for a rate at the gallery's size."""
        return working_point(self.thresholds, **self.size, fpir=fpir)

    def json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "gallery": str(self.path),
            "point": self.point.json(),
            "note": self.point.note,
            "alike": [pair.json() for pair in self.alike],
            **self.thresholds.summary(),
        }


def calibrate_gallery(
    path: GalleryPath,
    data: Path | None = None,
    *,
    model: Path | None = None,
    faces: str | None = None,
    device: str = "auto",
    progress: Progress | None = None,
) -> CalibratedGallery:
    """Calibrate a gallery from its own subjects, or from other identities.

    data: images of others, with a folder per identity or a label each; or a file of embeddings.
    model, faces: as `Gallery.open` takes them.
    Raises `InputError` where there are too few, or the default threshold would accept nearly
    everybody; then nothing is changed.
    """
    skipped: dict[str, str] = {}
    needs_model = data is not None and not holds_embeddings(data)
    used = model if needs_model else None
    with Gallery.open(path, used, faces=faces, device=device, create=False) as gallery:
        if data is None:
            embeddings, names = gallery.labelled()
        elif not needs_model:
            stored = read_embeddings_for(gallery, data)
            embeddings, names = stored.embeddings, tuple(stored.names.tolist())
        else:
            embeddings, names = _embed(gallery, data, skipped, progress)
        thresholds = _calibrate(gallery, embeddings, names, data)
        size: dict[str, Any] = {
            "subjects": len(gallery),
            "samples": gallery.sample_count,
            "scoring": gallery.scoring,
        }
        point = working_point(thresholds, **size)
        if point.fpir is not None and point.fpir > _USELESS:
            raise InputError(f"{point.note.partition(':')[0]}; nothing was changed")
        gallery.set_thresholds(thresholds)
    alike = _find_alike(embeddings, names) if data is None else ()
    return CalibratedGallery(path, thresholds, point, size, alike, skipped)


def _embed(
    gallery: Gallery, data: Path, skipped: dict[str, str], progress: Progress | None
) -> tuple[Any, tuple[str, ...]]:
    listed = list_images(data)
    embedded = gallery.model().embed_files(listed.images, progress=progress)
    skipped |= listed.skipped | {str(image): why for image, why in embedded.skipped.items()}
    names = dict(zip(listed.images, listed.names, strict=True))
    return embedded.embeddings, tuple(names[image] for image in embedded.paths)


def _calibrate(
    gallery: Gallery, embeddings: Any, names: tuple[str, ...], data: Path | None
) -> Thresholds:
    """For galleries with as many samples per subject as this one has, if the data have so many."""
    if embeddings.shape[1] != gallery.dim:
        raise OptionError(
            f"{data} holds embeddings of {embeddings.shape[1]} dimensions, and {gallery.path} of "
            f"{gallery.dim}"
        )
    subjects = max(1, len(gallery))
    per_subject = 1 if gallery.scoring == "mean" else -(-gallery.sample_count // subjects)
    available = int(np.median(list(Counter(names).values()))) if names else 1
    origin = {"gallery": gallery.path.name} if data is None else {"data": data.name}
    samples = max(1, min(per_subject, available))
    return calibrate(embeddings, names, samples=samples, made_from=origin)


def _find_alike(embeddings: Any, names: tuple[str, ...]) -> tuple[Alike, ...]:
    """Not among very many samples, of which all pairs would have to be compared."""
    if len(names) > _COMPARED:
        return ()
    cosines, same, _ = pair_cosines(embeddings, np.unique(names, return_inverse=True)[1])
    return most_alike(embeddings, names, least=float(np.median(cosines[same])))
