"""Who is in image files: the answers of a gallery to all of them."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from arcset.data.embeddings import holds_embeddings
from arcset.errors import DataError, OptionError
from arcset.recognition.decisions import NO_FACE, Match, WorkingPoint, uncalibrated_note
from arcset.recognition.gallery.base import Gallery, GalleryPath
from arcset.recognition.gallery.samples import read_embeddings_for, unit_rows
from arcset.recognition.recognizer import Embedded, Progress

_CSV = ("path", "subject", "cosine", "probability", "threshold", "fpir", "reason", "nearest")


@dataclass(frozen=True)
class Probe:
    """An image, or a face in a photo, and who it shows.

    box: left, top, width and height of the face; None for whole images.
    """

    path: str
    match: Match
    face: dict[str, Any] | None = None
    note: str = ""

    @property
    def box(self) -> list[float] | None:
        return None if self.face is None else list(self.face["box"])

    def json(self) -> dict[str, Any]:
        """Plain values."""
        face = {} if self.face is None and self.match.reason != NO_FACE else {"face": self.face}
        note = {"note": self.note} if self.note else {}
        return {"path": self.path, **face, **self.match.json(), **note}


@dataclass(frozen=True)
class Identified:
    """The answers to all images.

    point: the threshold; None without a calibration. skipped: files that cannot be read, and why.
    note: a sentence where something is not as people may expect; else empty.
    """

    probes: tuple[Probe, ...]
    point: WorkingPoint | None
    skipped: dict[str, str]
    note: str = ""

    def __bool__(self) -> bool:
        return any(probe.match for probe in self.probes)

    @property
    def has_faces(self) -> bool:
        """Whether faces were looked for in photos."""
        return any(probe.face or probe.match.reason == NO_FACE for probe in self.probes)

    def json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "point": None if self.point is None else self.point.json(),
            "probes": [probe.json() for probe in self.probes],
            "skipped": self.skipped,
        }

    def csv(self) -> str:
        """A line for each; the subject is empty where it is unknown or undecided."""
        out = io.StringIO()
        names = [*_CSV, *(["box"] if self.has_faces else [])]
        writer = csv.DictWriter(out, names, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        for probe in self.probes:
            candidates = probe.match.candidates
            box = " ".join(f"{side:g}" for side in probe.box or ())
            nearest = candidates[0].subject if candidates else None
            writer.writerow({**probe.json(), "nearest": nearest, "box": box})
        return out.getvalue().removesuffix("\n")


def identify_files(
    path: GalleryPath,
    sources: Sequence[Path],
    *,
    model: Path | None = None,
    faces: str | None = None,
    fpir: float | None = None,
    threshold: float | None = None,
    candidates: int = 5,
    device: str = "auto",
    progress: Progress | None = None,
) -> Identified:
    """Who each image shows: of files and folders, every face of photos, or files of embeddings.

    model, faces: as `Gallery.open` takes them. fpir, threshold, candidates: as of
    `Gallery.identify_many`. Raises `DataError` where nothing can be read, and `OptionError` for
    images and embeddings together.
    """
    with _open(path, sources, model, faces, device) as gallery:
        point = gallery.point_for(fpir, threshold)  # before the images are embedded
        embedded = _embed(gallery, sources, progress)
        if not len(embedded) and not embedded.faceless:
            why = next((f": {path}: {why}" for path, why in embedded.skipped.items()), "")
            raise DataError(f"no image could be read{why}")
        matches: list[Match] = []
        if len(embedded):
            matches = gallery.identify_many(
                embeddings=embedded.embeddings,
                fpir=fpir,
                threshold=threshold,
                candidates=candidates,
            )
        note = uncalibrated_note(gallery.model_name, path) if point is None else point.note
    boxes = [face.json() for face in embedded.faces]
    probes = [
        Probe(str(image), match, boxes[row] if boxes else None)
        for row, (image, match) in enumerate(zip(embedded.paths, matches, strict=True))
    ]
    probes += [
        Probe(str(image), Match.without_face(point), note=why)
        for image, why in embedded.faceless.items()
    ]
    skipped = {str(image): why for image, why in embedded.skipped.items()}
    return Identified(tuple(probes), point, skipped, note)


def _open(
    path: GalleryPath, sources: Sequence[Path], model: Path | None, faces: str | None, device: str
) -> Gallery:
    for source in sources:
        if not source.exists():
            raise DataError(f"{source} does not exist; name images, or a folder of them")
    files = [source for source in sources if holds_embeddings(source)]
    if files and len(files) < len(sources):
        raise OptionError(f"{files[0]} holds embeddings: name embeddings or images, not both")
    return Gallery.open(path, model, faces=faces, device=device, read_only=True)


def _embed(gallery: Gallery, sources: Sequence[Path], progress: Progress | None) -> Embedded:
    if not holds_embeddings(sources[0]):
        return gallery.model().embed_all(sources, progress=progress)
    parts = [read_embeddings_for(gallery, source) for source in sources]
    paths = [
        Path(part.paths[row] if part.paths else f"{source}:{row}")
        for source, part in zip(sources, parts, strict=True)
        for row in range(len(part))
    ]
    rows = np.concatenate([unit_rows(part.embeddings, gallery.dim) for part in parts])
    return Embedded(tuple(paths), rows, {})
