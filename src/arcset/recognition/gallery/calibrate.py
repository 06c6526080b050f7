"""A calibration for a gallery: from its subjects, from embeddings, or from images of others."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from arcset.data.embeddings import holds_embeddings
from arcset.evaluation.calibration import Thresholds, pair_cosines
from arcset.recognition.calibration import Alike, Identities, most_alike, read_identities
from arcset.recognition.decisions import WorkingPoint, working_point
from arcset.recognition.gallery.base import Gallery, GalleryPath
from arcset.recognition.recognizer import Progress

_COMPARED = 10_000  # samples of which all pairs are looked at


@dataclass(frozen=True)
class CalibratedGallery:
    """A gallery with a calibration of its own.

    Fields:
        size: the gallery's, as `working_point` takes it.
        point: its default threshold now.
        alike: subjects that look like one as much as one subject's samples do, the likest first.
        identities: whom it was made from, with what was left out.
    """

    path: GalleryPath
    thresholds: Thresholds
    point: WorkingPoint
    size: dict[str, Any]
    alike: tuple[Alike, ...]
    identities: Identities

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
    Raises `InputError` where nobody has two samples, or there is only one identity; then nothing is
    changed.
    """
    needs_model = data is not None and not holds_embeddings(data)
    used = model if needs_model else None
    with Gallery.open(path, used, faces=faces, device=device, create=False) as gallery:
        identities = _identities(gallery, data, progress)
        size = gallery.extent()
        each = -(-gallery.sample_count // max(1, len(gallery)))
        thresholds = identities.calibrate(max(1, each), gallery.scoring)
        point = working_point(thresholds, **size)
        gallery.set_thresholds(thresholds)
    alike = () if data is not None else _find_alike(identities.embeddings, identities.names)
    return CalibratedGallery(path, thresholds, point, size, alike, identities)


def _identities(gallery: Gallery, data: Path | None, progress: Progress | None) -> Identities:
    if data is None:
        embeddings, names = gallery.labelled()
        return Identities(embeddings, names, {"gallery": gallery.path.name}, {})
    return read_identities(
        data,
        None if holds_embeddings(data) else gallery.model(),
        name=gallery.model_name or str(gallery.path),
        digest=gallery.model_digest,
        dim=gallery.dim,
        progress=progress,
    )


def _find_alike(embeddings: Any, names: Sequence[str]) -> tuple[Alike, ...]:
    """Not among very many samples, of which all pairs would have to be compared."""
    if len(names) > _COMPARED:
        return ()
    cosines, same, _ = pair_cosines(embeddings, np.unique(names, return_inverse=True)[1])
    return most_alike(embeddings, names, least=float(np.median(cosines[same])))
