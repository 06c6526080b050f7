"""`arcset cluster`: images that show the same, put together."""

import csv
import io
import shlex
import sys
from collections import Counter
from json import dumps
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from arcset.cli import options as o
from arcset.cli.cluster_input import Items, embedding_items, image_items
from arcset.cli.gallery_show import plain, progress_bar
from arcset.cli.gallery_sources import source_of_images
from arcset.cli.model_option import load_model
from arcset.cli.output import print_json, print_text, say, tell_skipped, working
from arcset.data.embeddings import holds_embeddings
from arcset.errors import OptionError
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
from arcset.recognition.working_point import WorkingPoint
from arcset.text import plural

__all__ = ["cluster"]


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
        Path | None, typer.Option(help="Folder for the results; FOLDER-groups if left out.")
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="Join groups with at least this mean cosine; replaces --far."),
    ] = None,
    far: Annotated[
        float | None,
        typer.Option(help="The threshold at this false accept rate of the model's calibration."),
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
    """Put together the images that show the same, without being told who is who.

    Writes groups.csv (path, group), groups.json, and groups.html to look at.
    Group 1 is the largest. The threshold comes from the model's calibration
    and from the images themselves. Where sub-folders name identities, it
    says how well the groups agree with them.

    Example: arcset cluster photos/ --model runs/faces --out groups
    """
    if threshold is not None and far is not None:
        raise OptionError("--threshold and --far both say where groups are one: leave one out")
    items, thresholds = _items(source, model, faces, labels, threshold, device)
    point = _point(items, thresholds, threshold, far)
    with working(f"comparing {len(items):,} embeddings"):
        found = find_groups(items.embeddings, threshold=point.threshold, method=method)
    known = [row for row, label in enumerate(items.labels) if label is not None]
    scores = None
    if known:
        scores = score_clusters(found.groups[known], [str(items.labels[row]) for row in known])
    place = out or Path(
        f"{source.resolve().stem if source.is_file() else source.resolve().name}-groups"
    )
    content = _content(items, found, point, scores)
    write_text(place / "groups.csv", _csv(items, found))
    write_text(place / "groups.json", dumps(finite(content), ensure_ascii=False, indent=1) + "\n")
    written = ["groups.csv", "groups.json"]
    if sheet and items.picture is not None:
        with working("drawing the contact sheet"):
            _write_sheet(place / "groups.html", source, items, found, point, scores)
        written.append("groups.html")
    tell_skipped([(plain(path), why) for path, why in items.skipped.items()])
    if point.note:
        say(f"note: {point.note}")
    if json:
        print_json(content)
        return
    print_text(_summary(items, found, point))
    if scores is not None:
        print_text(f"against the labels: {scores}")
    say(f"wrote {', '.join(written[:-1])} and {written[-1]} in {place}")


def _items(
    source: Path,
    model: Path | None,
    faces: str | None,
    labels: bool,
    threshold: float | None,
    device: str,
) -> tuple[Items, Thresholds | None]:
    """What is to be grouped, and the model's calibration."""
    if holds_embeddings(source) and source_of_images(source) is None:
        if faces is not None:
            raise OptionError(f"{source} holds embeddings: --faces is for photos")
        if model is None and threshold is None:
            raise OptionError(
                f"{source} holds embeddings without a calibrated threshold: name a --threshold, or "
                "the --model that made them"
            )
        thresholds = None if model is None else Recognizer.load(model, device=device).thresholds
        return embedding_items(source), thresholds
    if model is None:
        raise OptionError("name what embeds the images with --model: a run, or an .onnx file")
    recognizer = load_model(model, faces, device=device)
    if threshold is None:
        check_calibrated(recognizer.thresholds)  # before anybody waits for embeddings
    with progress_bar("embedding") as progress:
        return image_items(source, recognizer, labels, progress), recognizer.thresholds


def _point(
    items: Items, thresholds: Thresholds | None, threshold: float | None, far: float | None
) -> ClusteringPoint:
    if threshold is not None:
        return ClusteringPoint(WorkingPoint.by_hand(threshold).threshold)
    if far is not None:
        return ClusteringPoint(check_calibrated(thresholds).for_far(far).threshold)
    return clustering_point(thresholds, items.embeddings)


def _summary(items: Items, found: Clustering, point: ClusteringPoint) -> str:
    what = ("face", "image")[not items.boxes]
    sizes = found.sizes
    several, alone = int((sizes > 1).sum()), int((sizes == 1).sum())
    together = int(sizes[sizes > 1].sum())
    groups = f"{together:,} in {plural(several, 'group')}, {alone:,} alone"
    return f"{plural(len(items), what)}: {groups}\n{point}"


def _content(
    items: Items, found: Clustering, point: ClusteringPoint, scores: ClusterScores | None
) -> dict[str, Any]:
    members: list[list[int]] = [[] for _ in range(len(found))]
    for row, group in enumerate(found.groups.tolist()):
        members[group].append(row)
    return {
        "point": point.json(),
        "method": found.method,
        "count": len(items),
        "groups": [
            {"group": number, "size": len(rows), "members": [_member(items, row) for row in rows]}
            for number, rows in enumerate(members, 1)
        ],
        "scores": None if scores is None else scores.json(),
        "skipped": dict(items.skipped),
    }


def _member(items: Items, row: int) -> dict[str, Any]:
    content: dict[str, Any] = {"path": items.names[row]}
    if items.labels[row] is not None:
        content["label"] = items.labels[row]
    if items.boxes:
        content["box"] = list(items.boxes[row])
    return content


def _csv(items: Items, found: Clustering) -> str:
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(["path", "group", *(("left", "top", "width", "height") if items.boxes else ())])
    for row, group in enumerate(found.groups.tolist()):
        lines.writerow([items.names[row], group + 1, *(items.boxes[row] if items.boxes else ())])
    return text.getvalue()


def _write_sheet(
    out: Path,
    source: Path,
    items: Items,
    found: Clustering,
    point: ClusteringPoint,
    scores: ClusterScores | None,
) -> None:
    from arcset.reports import cluster_sheet as sheet  # slow to import

    assert items.picture is not None
    order = found.by_typicality(items.embeddings)
    several = int((found.sizes > 1).sum())

    def pictured(row: int) -> sheet.SheetPicture:
        assert items.picture is not None
        return sheet.SheetPicture(items.picture(row), items.names[row], items.labels[row])

    groups = []
    for number, rows in enumerate(order[: min(several, sheet.GROUPS)], 1):
        labels = Counter(label for row in rows if (label := items.labels[row]) is not None)
        shown = [pictured(row) for row in sheet.evenly(rows.tolist(), sheet.PICTURES)]
        groups.append(sheet.SheetGroup(number, len(rows), labels, shown))
    alone = np.concatenate([*order[several:], np.empty(0, np.int64)]).astype(int).tolist()
    sentences = [*_summary(items, found, point).split("\n")]
    if scores is not None:
        sentences += [f"against the labels: {scores}".replace("\n", "; ")]
    sheet.write_cluster_sheet(
        out,
        groups,
        [pictured(row) for row in sheet.evenly(alone, sheet.ALONE)],
        title=f"Who is who in {source.resolve().name}",
        lead=sentences,
        count=(several, len(alone)),
        command=shlex.join(["arcset", *sys.argv[1:]]),
    )
