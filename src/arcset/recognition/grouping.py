"""The images of a folder in groups of one identity each: embedded, compared, and put together."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from arcset.data import Reading
from arcset.data.embeddings import holds_embeddings, read_embeddings
from arcset.errors import DataError, InputError, OptionError
from arcset.recognition.clustering import (
    Clustering,
    ClusteringPoint,
    ClusterScores,
    cluster,
    clustering_point,
    score_clusters,
)
from arcset.recognition.decisions import uncalibrated_note
from arcset.recognition.inputs import ImageFile, list_images, read_image
from arcset.recognition.recognizer import Embedded, Progress, Recognizer, load_model
from arcset.text import plural

_SIDE = 112  # pixels of a picture for people to look at


@dataclass(frozen=True, eq=False)
class Items:
    """What is to be grouped: images, faces in photos, or embeddings.

    Fields:
        names: (N,) where each comes from: its path below the folder.
        labels: (N,) the identity, where it is known; all None where none is.
        embedded: the embeddings, and of faces the boxes.
        point: the threshold.
        skipped: what could not be read, and why.
    """

    names: tuple[str, ...]
    labels: tuple[str | None, ...]
    embedded: Embedded
    point: ClusteringPoint
    skipped: dict[str, str]

    def __len__(self) -> int:
        return len(self.names)

    def box(self, row: int) -> list[float]:
        """Left, top, width and height of a face; empty for a whole image."""
        faces = self.embedded.faces
        return [round(value, 1) for value in faces[row].box] if faces else []

    def picture(self, row: int) -> npt.NDArray[np.uint8] | None:
        """An image, or a face, for people to look at; None where it cannot be read."""
        image = self.embedded.paths[row]
        try:
            if not self.embedded.faces:
                return read_image(image, Reading(3, _SIDE, _SIDE))
            from arcset.recognition.faces import align, read_photo

            return align(read_photo(image), self.embedded.faces[row].points)
        except (DataError, InputError):
            return None


@dataclass(frozen=True, eq=False)
class Grouped:
    """Items and their groups. scores: how well these agree with the labels; None without labels."""

    items: Items
    clustering: Clustering
    scores: ClusterScores | None

    def __str__(self) -> str:
        sizes = self.clustering.sizes
        several = sizes[sizes > 1]
        what = plural(len(self.items), "face" if self.items.embedded.faces else "image")
        groups = plural(len(several), "group")
        lines = [
            f"{what}: {int(several.sum()):,} in {groups}, {len(sizes) - len(several):,} alone",
            str(self.items.point),
        ]
        if self.scores is not None:
            lines.append(f"against the labels: {self.scores}")
        return "\n".join(lines)

    def json(self) -> dict[str, Any]:
        """Plain values; groups and their members are numbered from 1, the largest group first."""
        members: list[list[dict[str, Any]]] = [[] for _ in range(len(self.clustering))]
        for row, group in enumerate(self.clustering.groups.tolist()):
            label, box = self.items.labels[row], self.items.box(row)
            member: dict[str, Any] = {"path": self.items.names[row]}
            member |= {} if label is None else {"label": label}
            members[group].append(member | ({"box": box} if box else {}))
        return {
            "point": self.items.point.json(),
            "method": self.clustering.method,
            "count": len(self.items),
            "groups": [
                {"group": number, "size": len(rows), "members": rows}
                for number, rows in enumerate(members, 1)
            ],
            "scores": None if self.scores is None else self.scores.json(),
            "skipped": self.items.skipped,
        }

    def csv(self) -> str:
        """A line for each: path and group, and of faces where they are."""
        text = io.StringIO()
        lines = csv.writer(text, lineterminator="\n")
        sides = ["left", "top", "width", "height"] if self.items.embedded.faces else []
        lines.writerow(["path", "group", *sides])
        for row, group in enumerate(self.clustering.groups.tolist()):
            lines.writerow([self.items.names[row], group + 1, *self.items.box(row)])
        return text.getvalue()


def embed_items(
    data: Path,
    model: Path | None = None,
    faces: str | None = None,
    *,
    labelled: bool = True,
    threshold: float | None = None,
    far: float | None = None,
    device: str = "auto",
    progress: Progress | None = None,
) -> Items:
    """The images of a folder or any other source, or all faces in them; or a file of embeddings.

    labelled: whether sub-folders, or the source's labels, are identities. Of several faces on a
    photo only the main one is taken for the one that the folder names.
    threshold, far: as of `clustering_point`.
    Raises `DataError` where no image can be read, and `OptionError` where a model or a threshold is
    missing.
    """
    if threshold is not None and far is not None:
        raise OptionError("--threshold and --far both set the threshold: leave one out")
    if holds_embeddings(data):
        return _stored_items(data, model, faces, threshold, far, device)
    if model is None:
        raise OptionError("name what embeds the images with --model: a run, or an .onnx file")
    recognizer = load_model(model, faces, device=device)
    known = recognizer.thresholds or (recognizer.published if far is None else None)
    if threshold is None and known is None:  # before the images are embedded
        raise OptionError(uncalibrated_note(recognizer.name))
    listed = list_images(data, labelled=False)
    embedded = recognizer.embed_all(listed.images, progress=progress)
    path_of = dict(zip(listed.images, listed.paths, strict=True))
    unusable = {**embedded.skipped, **embedded.faceless}
    skipped = {**listed.skipped, **{path_of[image]: why for image, why in unusable.items()}}
    if not len(embedded):
        why = " ".join(next(iter(skipped.items())))
        raise DataError(f"none of the {len(skipped):,} images in {data} can be used: {why}")
    name_of = dict(zip(listed.images, listed.names, strict=True)) if labelled else {}
    point = clustering_point(
        recognizer.thresholds,
        embedded.embeddings,
        far=far,
        threshold=threshold,
        published=recognizer.published,
    )
    names = tuple(path_of[image] for image in embedded.paths)
    return Items(names, _labels(embedded.paths, name_of), embedded, point, skipped)


def _labels(
    images: Sequence[ImageFile], name_of: Mapping[ImageFile, str]
) -> tuple[str | None, ...]:
    """None for images without a label, and for all where there is one identity only."""
    # The faces of a photo follow each other, the main one first.
    before: Sequence[ImageFile | None] = [None, *images]
    labels = [
        None if image == last else name_of.get(image) or None
        for last, image in zip(before, images, strict=False)
    ]
    return tuple(labels if len(set(labels) - {None}) > 1 else [None] * len(labels))


def _stored_items(
    data: Path,
    model: Path | None,
    faces: str | None,
    threshold: float | None,
    far: float | None,
    device: str,
) -> Items:
    if faces is not None:
        raise OptionError(f"{data} holds embeddings: --faces is for photos")
    if model is None and threshold is None:
        raise OptionError(
            f"{data} holds embeddings without a calibrated threshold: name a --threshold, or the "
            "--model that made them"
        )
    thresholds = None if model is None else Recognizer.load(model, device=device).thresholds
    stored = read_embeddings(data)
    names = stored.paths or tuple(f"row {row}" for row in range(len(stored)))
    is_labelled = len(stored.class_names) > 1
    labels = tuple(str(name) if is_labelled else None for name in stored.names)
    point = clustering_point(thresholds, stored.embeddings, far=far, threshold=threshold)
    return Items(names, labels, Embedded((), stored.embeddings, {}), point, {})


def group_items(items: Items, method: str = "average") -> Grouped:
    """Put together what looks the same, as `cluster` does."""
    clustering = cluster(items.embedded.embeddings, threshold=items.point.threshold, method=method)
    known = [row for row, label in enumerate(items.labels) if label is not None]
    labels = [str(items.labels[row]) for row in known]
    scores = score_clusters(clustering.groups[known], labels) if known else None
    return Grouped(items, clustering, scores)
