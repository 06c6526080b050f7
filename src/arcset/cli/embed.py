"""`arcset embed`: images to embeddings, in a file or a folder that any tool can read."""

import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from arcset.checks import check_choice
from arcset.cli import options as o
from arcset.cli.output import print_result, progress_bar, tell_skipped, working
from arcset.data import DATASETS, Source, open_source
from arcset.data.embeddings import SUFFIXES, EmbeddingSet, write_embeddings
from arcset.data.mapping import ClassMapping
from arcset.data.sources.arrays import ArraySource
from arcset.errors import ArcsetError, DataError, OptionError
from arcset.recognition import Recognizer
from arcset.recognition.gallery.open import load_model
from arcset.runs import Run
from arcset.runs.assess import PARTS, evaluation_data
from arcset.runs.data import selection_of
from arcset.runs.model import TrainedRun
from arcset.text import plural

if TYPE_CHECKING:
    from arcset.recognition.bulk import BulkModel, Crew

__all__ = ["embed"]

# A name that ends like this is not meant as a folder.
_FILE_SUFFIXES = {
    *(".csv", ".tsv", ".json", ".jsonl", ".npy", ".pt", ".pkl", ".h5", ".txt", ".feather"),
}


def embed(
    run: Annotated[
        Path,
        typer.Argument(metavar="RUN|FILE.onnx", help="Folder of a trained run, or an .onnx file."),
    ],
    data: Annotated[
        str | None,
        typer.Argument(
            help="A named dataset, a folder, a CSV or Parquet table, a pack or the like. Default: "
            "the run's data."
        ),
    ] = None,
    out: Annotated[
        str,
        typer.Option(
            metavar="FILE|FOLDER",
            help="FILE.parquet (path, label, embedding) or FILE.npz; or a folder of many Parquet "
            "files, for data of any size: resumable, and shared by the processes of torchrun.",
        ),
    ] = "embeddings.parquet",
    part: Annotated[
        str, typer.Option(help=f"Which part of the run's data: {', '.join(PARTS)}.")
    ] = "all",
    faces: Annotated[
        str | None,
        typer.Option(
            metavar="auto|none|FILE",
            help="Embed the main face of each photo: auto, or YuNet's file; none: they are faces.",
        ),
    ] = None,
    dtype: Annotated[str, typer.Option(help="float32, or float16 for half the size.")] = "float32",
    shard_size: Annotated[
        int | None,
        typer.Option(help="For a folder: samples per file. Default: 256 to 10,000."),
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="For a folder: verify complete files by reading all of them."),
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="For a folder: replace embeddings of another model or other data."
        ),
    ] = False,
    device: o.Device = "auto",
    json: o.Json = False,
) -> None:
    """Embed images with a trained run, into a file, or a folder for millions.

    Run the same command again to continue a folder where it stopped.

    Example: arcset embed runs/orl orl --part unseen --out unseen.parquet

    Example: torchrun --nproc-per-node 4 -m arcset embed runs/faces photos.csv --out photos/
    """
    from arcset.recognition.bulk import SaidByChiefError, join_crew

    crew = join_crew()
    if dtype not in ("float32", "float16"):
        raise OptionError(f"--dtype must be float32 or float16, not {dtype!r}")
    if shard_size is not None and shard_size < 1:
        raise OptionError(f"--shard-size must be at least 1, not {shard_size}")
    if _is_folder(out):
        try:
            _to_folder(
                crew,
                lambda: _open_source(run, data, part, faces),
                lambda: _open_model(run, faces, device),
                json,
                folder=Path(out),
                shard_size=shard_size,
                dtype=dtype,
                check=check,
                force=force,
            )
        except (ArcsetError, OSError) as error:
            if not crew.chief and not isinstance(error, SaidByChiefError):
                sys.stderr.write(f"arcset: process {crew.rank} of {crew.count}: {error}\n")
            raise
        return
    if crew.count > 1:
        raise OptionError(
            f"{crew.count} processes write a folder of many files: end the name {out} with a /"
        )
    if check or force or shard_size is not None:
        raise OptionError(f"--check, --force and --shard-size are for folders, and {out} is a file")
    _to_file(Path(out), run, data, part, faces, dtype, device, json)


def _is_folder(out: str) -> bool:
    """Whether a name means a folder: it ends in a slash, or has no suffix of an embeddings file.

    >>> _is_folder("faces"), _is_folder("faces.parquet/"), _is_folder("faces.npz")
    (True, True, False)
    """
    suffix = Path(out).suffix
    if out.endswith("/") or Path(out).is_dir():
        return True
    if suffix.lower() in (*_FILE_SUFFIXES, *SUFFIXES) and suffix not in SUFFIXES:
        raise OptionError(
            f"{out} is neither .npz nor .parquet, the files that hold embeddings; for a folder of "
            "them, end the name with a /"
        )
    return suffix not in SUFFIXES


def _to_folder(
    crew: "Crew",
    open_source: Callable[[], Source],
    open_model: Callable[[], "BulkModel"],
    as_json: bool,
    **options: Any,
) -> None:
    from arcset.recognition.bulk import embed_folder

    opened: list[tuple[Source, BulkModel]] = []
    # By one first, which may have to download the data, and which says what is wrong for all.
    crew.shared(lambda: opened.append((open_source(), open_model())))
    source, model = opened[0] if opened else (open_source(), open_model())
    with progress_bar("embedding") if crew.chief else nullcontext() as progress:
        result = embed_folder(source=source, model=model, crew=crew, progress=progress, **options)
    if result is None:
        return
    more = f"see {result.folder}/_arcset/skipped-*.json"
    tell_skipped(result.first_skipped, count=result.skipped, more=more)
    manifest = result.manifest
    identities = "" if manifest.identities is None else _of_identities(manifest.identities)
    new = "" if result.made == manifest.shards else f", {result.made:,} of them new"
    text = (
        f"{result.samples:,} embeddings{identities}, {manifest.dim}-D, are in {result.folder}: "
        f"{plural(manifest.shards, 'file')}{new}"
    )
    print_result(as_json, result.json(), text)


def _of_identities(count: int) -> str:
    return f" of {plural(count, 'identity', 'identities')}"


def _to_file(
    out: Path,
    run: Path,
    data: str | None,
    part: str,
    faces: str | None,
    dtype: str,
    device: str,
    as_json: bool,
) -> None:
    if faces not in (None, "none") or _is_onnx(run):
        from arcset.recognition.bulk import embed_source

        source, model = _open_source(run, data, part, faces), _open_model(run, faces, device)
        with progress_bar("embedding") as progress:
            embedded, skipped = embed_source(source, model, progress=progress)
    else:
        with working("embedding"):
            measured = evaluation_data(TrainedRun.load(run, device=device), data, part=part)
        embedded, skipped = measured.embeddings, list(measured.skipped)
    tell_skipped(skipped)
    write_embeddings(out, _convert(embedded, dtype))
    (count, dim), identities = embedded.embeddings.shape, len(embedded.class_names)
    content = {"file": str(out), "samples": count, "dim": dim, "identities": identities}
    text = f"{count:,} embeddings{_of_identities(identities)}, {dim}-D, are in {out}"
    print_result(as_json, content, text)


def _convert(embedded: EmbeddingSet, dtype: str) -> EmbeddingSet:
    if dtype == "float32":
        return embedded
    with np.errstate(over="ignore"):
        halves = embedded.embeddings.astype(np.float16)
    if not np.isfinite(halves).all():
        raise DataError("the model gives values beyond ±65,504, which float16 cannot hold")
    return replace(embedded, embeddings=halves)


def _is_onnx(run: Path) -> bool:
    """Whether this is an ONNX file, and not the folder of a run."""
    return run.suffix.lower() == ".onnx" and not run.is_dir()


def _open_model(run: Path, faces: str | None, device: str) -> "BulkModel":
    """The network of a run, that of an ONNX file, or either on the faces in photos."""
    from arcset.recognition.bulk import FacesModel, ImagesModel, TrainedModel

    if faces in (None, "none") and not _is_onnx(run):
        return TrainedModel(Run.open(run), device)
    recognizer = load_model(run, faces, device=device)
    return ImagesModel(recognizer) if isinstance(recognizer, Recognizer) else FacesModel(recognizer)


def _open_source(run: Path, data: str | None, part: str, faces: str | None) -> Source:
    """What is to be embedded; by default the data of the run."""
    if _is_onnx(run) or faces not in (None, "none"):
        if data is None:
            raise OptionError("no data: name a folder with a sub-folder of images per identity")
        if part != "all":
            raise OptionError(f"--part {part} is for a run and its own data")
        return open_source(data)
    opened = Run.open(run)
    trained_on = opened.config.data
    is_same = data in (None, trained_on) or (
        data not in DATASETS and str(Path(str(data)).resolve()) == trained_on
    )
    if data is not None and not is_same:
        if part != "all":
            raise OptionError(
                f"--part {part} is a part of {trained_on}, the run's data, not {data}"
            )
        return open_source(data)
    if part == "all":
        has_mapping = opened.config.mapping is not None
        mapping = ClassMapping.load(opened.mapping_file) if has_mapping else None
        return open_source(trained_on, mapping)
    check_choice("part", part, PARTS)
    images = getattr(selection_of(opened), part)
    if images is None:
        raise OptionError(
            f"the run has no {part} part: no classes were held out for it; see `arcset data split`"
        )
    return ArraySource(images, f"{Path(trained_on).name}, {part}", "part of a run's data")
