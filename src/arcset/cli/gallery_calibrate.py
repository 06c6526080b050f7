"""`arcset gallery calibrate`: where "known" begins, from people at hand."""

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from arcset.cli import options as o
from arcset.cli.gallery_show import columns, plain, progress_bar
from arcset.cli.gallery_sources import list_wanted
from arcset.cli.model_option import (
    FacesOption,
    GalleryFile,
    ModelOption,
    Place,
    existing,
    open_gallery,
)
from arcset.cli.output import print_json, print_text, say, tell_skipped, working
from arcset.data.embeddings import holds_embeddings, read_embeddings
from arcset.errors import InputError, OptionError
from arcset.evaluation.calibration import Thresholds, pair_cosines
from arcset.recognition.calibrating import Alike, most_alike
from arcset.recognition.calibrating import calibrate as make
from arcset.recognition.gallery import Gallery
from arcset.recognition.working_point import WorkingPoint, working_point
from arcset.text import plural

__all__ = ["calibrate"]

_SHOWN = 5  # pairs of subjects that look like one
_USELESS = 0.5  # of the unknown: a calibration that supports no lower rate is not kept
_RATES = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
_COMPARED = 10_000  # samples of which all pairs are looked at


def calibrate(
    file: GalleryFile,
    data: Annotated[
        Path | None,
        typer.Argument(
            help="A folder with a sub-folder per identity, or their embeddings (.parquet, .npz); "
            "best of identities that are not enrolled. Left out: the subjects enrolled."
        ),
    ] = None,
    model: ModelOption = None,
    faces: FacesOption = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="Forget the gallery's calibration: use the model's.")
    ] = False,
    device: o.Device = "auto",
    json: o.Json = False,
) -> None:
    """Give a gallery a calibration of its own: thresholds and probabilities.

    For models that have none, and where those whom the gallery meets look
    otherwise than those the model was calibrated on. It takes ten identities
    with two images each, and some hundred for low rates.

    Example: arcset gallery calibrate people.db others/
    """
    if remove:
        if data is not None:
            raise OptionError(f"--remove forgets the calibration, and {data} would make one")
        with existing(file) as opened:
            opened.set_thresholds(None)
        print_text(f"{file} has no calibration of its own any more")
        return
    if data is None or holds_embeddings(data):
        gallery = existing(file)
    else:
        gallery = open_gallery(file, model, faces, device=device)
    with gallery as opened:
        if data is None:
            embeddings, names = opened.labelled()
        elif holds_embeddings(data):
            found = read_embeddings(data)
            embeddings, names = found.embeddings, tuple(found.names.tolist())
        else:
            embeddings, names = _embedded(opened, data)
        made = _calibrated(opened, embeddings, names, data)
        size: dict[str, Any] = {
            "subjects": len(opened),
            "samples": opened.sample_count,
            "scoring": opened.scoring,
        }
        twins = _twins(embeddings, names) if data is None else ()
        for twin in twins[:_SHOWN]:
            say(f"note: are these one? {twin}; if so, use `arcset gallery merge`")
        point = _point(made, size)
        opened.set_thresholds(made)
    if json:
        content = {"gallery": str(file), "point": point.json(), "note": point.note}
        print_json({**content, "alike": [twin.json() for twin in twins], **made.summary()})
        return
    print_text(_table(file, made, size))
    print_text(f"\n{point}")
    if point.note:
        say(f"note: {point.note}")


def _point(made: Thresholds, size: dict[str, Any]) -> WorkingPoint:
    """Where "known" begins by default; raises `InputError` where that accepts nearly everybody."""
    point = working_point(made, **size)
    if point.fpir is not None and point.fpir > _USELESS:
        raise InputError(f"{point.note.partition(':')[0]}; nothing was changed")
    return point


def _table(file: Place, made: Thresholds, size: dict[str, Any]) -> str:
    """What the calibration does for the gallery at its present size."""
    origin = made.made_from
    identities = plural(origin["identities"], "identity", "identities")
    title = f"from {identities}, {plural(origin['samples'], 'sample')}; {file} has "
    title += plural(size["subjects"], "subject")
    rows = []
    for fpir in _RATES:
        try:
            found = working_point(made, fpir=fpir, **size)
            low, high = made.for_fpir(fpir, found.gallery or 1).expect(1000)
            rows.append([f"{fpir:g}", f"{found.threshold:.4f}", f"{low:.2g} to {high:.2g}"])
        except InputError:
            rows.append([f"{fpir:g}", "–", "takes more identities"])
    heading = ["FPIR", "threshold", "of 1,000 unknown (95 %)"]
    return "\n".join([title, "", columns(heading, rows)])


def _embedded(opened: Gallery, data: Path) -> tuple[Any, tuple[str, ...]]:
    """Embeddings of the identities below a folder, and their names."""
    wanted = list_wanted([data], None)
    recognizer: Any = opened.recognizer
    with progress_bar("embedding") as progress:
        found = recognizer.embed_files(wanted.paths, progress=progress)
    skipped = {**wanted.skipped, **found.skipped}
    tell_skipped([(plain(path), why) for path, why in skipped.items()])
    names = dict(zip(wanted.paths, wanted.names, strict=True))
    return found.embeddings, tuple(names[path] for path in found.paths)


def _calibrated(
    opened: Gallery, embeddings: Any, names: tuple[str, ...], data: Path | None
) -> Thresholds:
    """For galleries with as many samples per subject as this one has, if the data have so many."""
    if embeddings.shape[1] != opened.dim:
        raise OptionError(
            f"{data} holds embeddings of {embeddings.shape[1]} dimensions, and {opened.path} of "
            f"{opened.dim}"
        )
    held = 1 if opened.scoring == "mean" else -(-opened.sample_count // max(1, len(opened)))
    there = int(np.median(list(Counter(names).values()))) if names else 1
    origin = {"gallery": opened.path.name} if data is None else {"data": data.name}
    with working("calibrating"):
        return make(embeddings, names, samples=max(1, min(held, there)), made_from=origin)


def _twins(embeddings: Any, names: tuple[str, ...]) -> tuple[Alike, ...]:
    """Subjects that look like one as much as one subject's samples do, the likest first.

    Not looked for among very many samples, of which all pairs would have to be compared.
    """
    if len(names) > _COMPARED:
        return ()
    cosines, same, _ = pair_cosines(embeddings, np.unique(names, return_inverse=True)[1])
    return most_alike(embeddings, names, least=float(np.median(cosines[same])))
