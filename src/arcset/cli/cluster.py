"""`arcset cluster`: group the images that show the same identity."""

import csv
import io
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from json import dumps
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer

from arcset.cli import options as o
from arcset.cli.output import print_result, progress_bar, say, tell_skipped, working
from arcset.data import Reading, open_source
from arcset.data.embeddings import holds_embeddings, read_embeddings
from arcset.data.sources.base import kind_of, printable
from arcset.errors import DataError, InputError, OptionError
from arcset.evaluation.calibration import Thresholds
from arcset.files import finite, write_text
from arcset.recognition import Recognizer
from arcset.recognition.cluster_scores import ClusterScores, score_clusters
from arcset.recognition.clustering import METHODS, Clustering
from arcset.recognition.clustering import cluster as find_groups
from arcset.recognition.clustering_point import (
    ClusteringPoint,
    check_calibrated,
    clustering_point,
)
from arcset.recognition.embedder import Embedder, Progress
from arcset.recognition.gallery.open import load_model
from arcset.recognition.inputs import ImageFile, SourceImage, read_image
from arcset.recognition.working_point import WorkingPoint
from arcset.text import plural

__all__ = ["cluster"]

_SIDE = 112  # pixels of a picture on the contact sheet


def cluster(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="A folder with images below, a table, records, a pack or arrays of images; or "
            "embeddings: .parquet, .npz.",
        ),
    ],
    model: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN|FILE.onnx",
            help="What embeds the images: a run's folder, or an .onnx file.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results. Default: DATA-groups.")
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="Join groups with at least this mean cosine; replaces --far."),
    ] = None,
    far: Annotated[
        float | None,
        typer.Option(help="Use the model's threshold at this false accept rate."),
    ] = None,
    method: Annotated[
        str, typer.Option(help=f"{', '.join(METHODS)}: how groups are joined.")
    ] = "average",
    faces: Annotated[
        str | None,
        typer.Option(
            metavar="auto|none|FILE",
            help="Group all the faces in photos: auto, or YuNet's file; none: images are faces.",
        ),
    ] = None,
    labels: Annotated[
        bool,
        typer.Option(
            "--labels/--no-labels",
            help="Whether sub-folders (or a table's labels) are identities, which the groups are "
            "compared with.",
        ),
    ] = True,
    sheet: Annotated[
        bool, typer.Option("--sheet/--no-sheet", help="Write groups.html, to look at.")
    ] = True,
    device: o.Device = "auto",
    json: o.Json = False,
) -> None:
    """Group the images that show the same identity, without knowing any of them.

    Writes groups.csv (path, group), groups.json, and groups.html to look at.
    Group 1 is the largest. The threshold comes from the model's calibration
    and from the images themselves. Where sub-folders name identities, it
    says how well the groups agree with them.

    Example: arcset cluster photos/ --model runs/faces --out groups
    """
    if threshold is not None and far is not None:
        raise OptionError("--threshold and --far both set the threshold: leave one out")
    items, thresholds = _read_items(source, model, faces, labels, threshold, device)
    point = _choose_point(items, thresholds, threshold, far)
    with working(f"comparing {len(items):,} embeddings"):
        groups = find_groups(items.embeddings, threshold=point.threshold, method=method)
    known = [row for row, label in enumerate(items.labels) if label is not None]
    scores = None
    if known:
        scores = score_clusters(groups.groups[known], [str(items.labels[row]) for row in known])
    name = source.resolve().stem if source.is_file() else source.resolve().name
    folder = out or Path(f"{name}-groups")
    content = _content(items, groups, point, scores)
    write_text(folder / "groups.csv", _csv(items, groups))
    write_text(folder / "groups.json", dumps(finite(content), ensure_ascii=False, indent=1) + "\n")
    files = "groups.csv and groups.json"
    summary = _summary(items, groups, point, scores)
    if sheet and items.picture is not None:
        with working("drawing the contact sheet"):
            _write_sheet(folder / "groups.html", source, items, groups, summary)
        files = "groups.csv, groups.json and groups.html"
    tell_skipped(items.skipped)
    if point.note:
        say(f"note: {point.note}")
    print_result(json, content, summary)
    if not json:
        say(f"wrote {files} in {folder}")


@dataclass(frozen=True, eq=False)
class _Items:
    """What is to be grouped, row by row.

    Fields:
        names: (N,) where each comes from: its path below the folder.
        embeddings: (N, D).
        labels: (N,) the identity, where it is known; all None where none is.
        boxes: (N,) left, top, width and height of faces; empty where whole images are grouped.
        skipped: what could not be read, and why.
        picture: from a row to its pixels for people to look at; None where there are none.
    """

    names: tuple[str, ...]
    embeddings: npt.NDArray[Any]
    labels: tuple[str | None, ...]
    boxes: tuple[tuple[float, ...], ...]
    skipped: Mapping[str, str]
    picture: Callable[[int], npt.NDArray[np.uint8] | None] | None

    def __len__(self) -> int:
        return len(self.names)


def _read_items(
    source: Path,
    model: Path | None,
    faces: str | None,
    labels: bool,
    threshold: float | None,
    device: str,
) -> tuple[_Items, Thresholds | None]:
    """What is to be grouped, and the model's calibration."""
    if holds_embeddings(source):
        if faces is not None:
            raise OptionError(f"{source} holds embeddings: --faces is for photos")
        if model is None and threshold is None:
            raise OptionError(
                f"{source} holds embeddings without a calibrated threshold: name a --threshold, or "
                "the --model that made them"
            )
        thresholds = None if model is None else Recognizer.load(model, device=device).thresholds
        return _embedding_items(source), thresholds
    if model is None:
        raise OptionError("name what embeds the images with --model: a run, or an .onnx file")
    recognizer = load_model(model, faces, device=device)
    if threshold is None:
        check_calibrated(recognizer.thresholds)  # before the images are embedded
    with progress_bar("embedding") as progress:
        return _image_items(source, recognizer, labels, progress), recognizer.thresholds


def _embedding_items(source: Path) -> _Items:
    """The rows of a file of embeddings; raises `DataError` where it cannot be read."""
    stored = read_embeddings(source)
    names = stored.paths or tuple(f"row {row}" for row in range(len(stored)))
    labels = tuple(str(name) for name in stored.names) if len(stored.class_names) > 1 else None
    return _Items(names, stored.embeddings, labels or (None,) * len(names), (), {}, None)


def _image_items(data: Path, model: Embedder, has_labels: bool, progress: Progress) -> _Items:
    """All images below a folder or of another source, or all faces in them where the model finds
    faces.

    has_labels: whether sub-folders are identities; the path of the deepest is the name. Of several
    faces on a photo only the main one is taken for the one that the folder names.
    Raises `DataError` where there is no image, or none that can be read.
    """
    kind = kind_of(data)
    if kind is None:
        raise DataError(f"{data} is not a folder: name a folder of images, or a file of embeddings")
    images: list[ImageFile] = [data]
    skipped: dict[str, str] = {}
    if kind != "folder":
        source = open_source(data)
        entries = list(source.entries())
        images = [SourceImage(source, entry) for entry in entries if not entry.why]
        skipped = {entry.path or "": entry.why for entry in entries if entry.why}
    embed: Any = getattr(model, "embed_all", model.embed_files)  # all faces of a photo
    embedded = embed(images, progress=progress)
    unusable = {**embedded.skipped, **getattr(embedded, "faceless", {})}
    skipped |= {_name(image, data): why for image, why in unusable.items()}
    if not len(embedded):
        path, why = next(iter(skipped.items()))
        raise DataError(f"none of the {len(skipped):,} images in {data} can be used: {path} {why}")
    names = tuple(_name(image, data) for image in embedded.paths)
    faces = getattr(embedded, "faces", ())

    def picture(row: int) -> npt.NDArray[np.uint8] | None:
        try:
            if not faces:
                return read_image(embedded.paths[row], Reading(3, _SIDE, _SIDE))
            from arcset.recognition.faces import align, read_photo

            return align(read_photo(embedded.paths[row]), faces[row].points)
        except (DataError, InputError):
            return None

    labels = _labels(embedded.paths, names) if has_labels else (None,) * len(names)
    boxes = tuple(tuple(round(value, 1) for value in face.box) for face in faces)
    return _Items(names, embedded.embeddings, labels, boxes, skipped, picture)


def _labels(images: Sequence[ImageFile], names: Sequence[str]) -> tuple[str | None, ...]:
    """Whom each image shows: what its source says, or its folder.

    None for images in no folder, and for all where there is one identity only.
    """
    identities = [
        image.entry.label if isinstance(image, SourceImage) else name.rpartition("/")[0] or None
        for image, name in zip(images, names, strict=True)
    ]
    if len(set(identities) - {None}) < 2:
        return (None,) * len(names)
    # The faces of a photo follow each other, the main one first.
    is_first = [row == 0 or images[row - 1] != image for row, image in enumerate(images)]
    return tuple(
        label if first else None for label, first in zip(identities, is_first, strict=True)
    )


def _name(image: ImageFile, folder: Path) -> str:
    if isinstance(image, SourceImage):
        return str(image)
    return printable(image.relative_to(folder).as_posix())


def _choose_point(
    items: _Items, thresholds: Thresholds | None, threshold: float | None, far: float | None
) -> ClusteringPoint:
    if threshold is not None:
        return ClusteringPoint(WorkingPoint.by_hand(threshold).threshold)
    if far is not None:
        return ClusteringPoint(check_calibrated(thresholds).for_far(far).threshold)
    return clustering_point(thresholds, items.embeddings)


def _summary(
    items: _Items, groups: Clustering, point: ClusteringPoint, scores: ClusterScores | None
) -> str:
    sizes = groups.sizes
    several, alone = int((sizes > 1).sum()), int((sizes == 1).sum())
    lines = [
        f"{plural(len(items), 'face' if items.boxes else 'image')}: "
        f"{int(sizes[sizes > 1].sum()):,} in {plural(several, 'group')}, {alone:,} alone",
        str(point),
    ]
    if scores is not None:
        lines.append(f"against the labels: {scores}")
    return "\n".join(lines)


def _content(
    items: _Items, groups: Clustering, point: ClusteringPoint, scores: ClusterScores | None
) -> dict[str, Any]:
    members: list[list[int]] = [[] for _ in range(len(groups))]
    for row, group in enumerate(groups.groups.tolist()):
        members[group].append(row)
    return {
        "point": point.json(),
        "method": groups.method,
        "count": len(items),
        "groups": [
            {"group": number, "size": len(rows), "members": [_member(items, row) for row in rows]}
            for number, rows in enumerate(members, 1)
        ],
        "scores": None if scores is None else scores.json(),
        "skipped": dict(items.skipped),
    }


def _member(items: _Items, row: int) -> dict[str, Any]:
    content: dict[str, Any] = {"path": items.names[row]}
    if items.labels[row] is not None:
        content["label"] = items.labels[row]
    if items.boxes:
        content["box"] = list(items.boxes[row])
    return content


def _csv(items: _Items, groups: Clustering) -> str:
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(["path", "group", *(("left", "top", "width", "height") if items.boxes else ())])
    for row, group in enumerate(groups.groups.tolist()):
        lines.writerow([items.names[row], group + 1, *(items.boxes[row] if items.boxes else ())])
    return text.getvalue()


def _write_sheet(
    out: Path, source: Path, items: _Items, clustering: Clustering, summary: str
) -> None:
    from arcset.reports.cluster_report import Member, write_cluster_report  # slow to import

    assert items.picture is not None
    write_cluster_report(
        out,
        [
            [
                Member(items.names[row], items.labels[row], partial(items.picture, row))
                for row in rows
            ]
            for rows in clustering.by_typicality(items.embeddings)
        ],
        title=f"Who is who in {source.resolve().name}",
        lead=_sentences(summary),
        command=shlex.join(["arcset", *sys.argv[1:]]),
    )


def _sentences(summary: str) -> list[str]:
    """The lines of the summary, those about the labels joined."""
    first, point, *scores = summary.split("\n")
    return [first, point, *(["; ".join(scores)] if scores else [])]
