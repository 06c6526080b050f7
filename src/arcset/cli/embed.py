"""`arcset embed`: images to embeddings, in a file or a folder that any tool can read."""

import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from arcset.cli import options as o
from arcset.cli.embed_input import bulk_model, bulk_source, is_onnx
from arcset.cli.gallery_show import plain, progress_bar
from arcset.cli.output import print_json, say, tell_skipped, working
from arcset.data.embeddings import SUFFIXES, EmbeddingSet, write_embeddings
from arcset.errors import ArcsetError, DataError, OptionError
from arcset.runs.assess import PARTS, evaluation_data
from arcset.runs.model import TrainedRun
from arcset.text import plural

if TYPE_CHECKING:
    from arcset.data import Source
    from arcset.recognition.bulk import BulkModel, Crew, FolderResult

__all__ = ["embed"]

# What somebody who ends a name like this does not mean to be a folder.
_NO_FOLDER = {".csv", ".tsv", ".json", ".jsonl", ".npy", ".pt", ".pkl", ".h5", ".txt", ".feather"}


def embed(
    run: Annotated[
        Path,
        typer.Argument(metavar="RUN|FILE.onnx", help="Folder of a trained run, or an .onnx file."),
    ],
    data: Annotated[
        str | None,
        typer.Argument(
            help="A named dataset, a folder, a CSV or Parquet table, a pack or the like; the run's "
            "own if left out."
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
        str, typer.Option(help=f"Of the run's own data, one of: {', '.join(PARTS)}.")
    ] = "all",
    faces: Annotated[
        str | None,
        typer.Option(
            metavar="auto|none|FILE",
            help="Embed the main face of each photo: auto, or YuNet's file; none: of crops.",
        ),
    ] = None,
    dtype: Annotated[str, typer.Option(help="float32, or float16 for half the size.")] = "float32",
    shard_size: Annotated[
        int | None,
        typer.Option(
            help="For a folder: samples in each of its files; by default from 256 up to 10,000."
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="For a folder: read all that is there, not only file ends."),
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

    A folder goes on where it stopped, when the same is called again.

    Example: arcset embed runs/orl orl --part unseen --out unseen.parquet

    Example: torchrun --nproc-per-node 4 -m arcset embed runs/faces photos.csv --out photos/
    """
    from arcset.recognition.bulk import SaidByChiefError, join_crew

    crew = join_crew()
    place = Path(out)
    if dtype not in ("float32", "float16"):
        raise OptionError(f"--dtype must be float32 or float16, not {dtype!r}")
    if shard_size is not None and shard_size < 1:
        raise OptionError(f"--shard-size must be at least 1, not {shard_size}")
    if _is_folder(out):
        try:
            _to_folder(
                crew,
                lambda: bulk_source(run, data, part, faces),
                lambda: bulk_model(run, faces, device),
                json,
                folder=place,
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
    _to_file(place, run, data, part, faces, dtype, device, json)


def _is_folder(out: str) -> bool:
    """Whether a name is that of a folder: it ends in a slash, or not as a file of embeddings.

    >>> _is_folder("faces"), _is_folder("faces.parquet/"), _is_folder("faces.npz")
    (True, True, False)
    """
    suffix = Path(out).suffix
    if out.endswith("/") or Path(out).is_dir():
        return True
    if suffix.lower() in (*_NO_FOLDER, *SUFFIXES) and suffix not in SUFFIXES:
        raise OptionError(
            f"{out} is neither .npz nor .parquet, the files that hold embeddings; if it is to be a "
            "folder of them, end the name with a /"
        )
    return suffix not in SUFFIXES


def _to_folder(
    crew: "Crew",
    open_source: Callable[[], "Source"],
    open_model: Callable[[], "BulkModel"],
    as_json: bool,
    **options: Any,
) -> None:
    from arcset.recognition.bulk import embed_folder

    opened: list[tuple[Source, BulkModel]] = []
    # By one first, who may have to download the data, and who says what is wrong for all.
    crew.shared(lambda: opened.append((open_source(), open_model())))
    source, model = opened[0] if opened else (open_source(), open_model())
    with progress_bar("embedding") if crew.chief else nullcontext() as progress:
        found = embed_folder(source=source, model=model, crew=crew, progress=progress, **options)
    if found is None:
        return
    _tell_skipped(found)
    if as_json:
        print_json(found.json())
        return
    identities = found.manifest.identities
    of = "" if identities is None else f" of {plural(identities, 'identity', 'identities')}"
    made = "" if found.made == found.manifest.shards else f", {found.made:,} of them made now"
    say(
        f"{found.samples:,} embeddings{of}, {found.manifest.dim}-D, are in {found.folder}: "
        f"{plural(found.manifest.shards, 'file')}{made}"
    )


def _tell_skipped(found: "FolderResult") -> None:
    if not found.skipped:
        return
    say(f"skipped {found.skipped:,} of {found.manifest.inputs:,} that cannot be read:")
    for path, why in found.first_skipped:
        say(f"  {plain(path)}: {plain(why)}")
    if found.skipped > len(found.first_skipped):
        say(f"  … see {found.folder}/_arcset/skipped-*.json")


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
    if faces not in (None, "none") or is_onnx(run):
        from arcset.recognition.bulk import embed_source

        source = bulk_source(run, data, part, faces)
        with progress_bar("embedding") as progress:
            found, skipped = embed_source(source, bulk_model(run, faces, device), progress=progress)
        tell_skipped([(plain(path), plain(why)) for path, why in skipped])
    else:
        with working("embedding"):
            content = evaluation_data(TrainedRun.load(run, device=device), data, part=part)
        found = content.embeddings
        tell_skipped(content.skipped)
    write_embeddings(out, _as(found, dtype))
    count, dim = found.embeddings.shape
    if as_json:
        print_json(
            {"file": str(out), "samples": count, "dim": dim, "identities": len(found.class_names)}
        )
        return
    say(f"{count:,} embeddings of {len(found.class_names):,} identities, {dim}-D, are in {out}")


def _as(found: EmbeddingSet, dtype: str) -> EmbeddingSet:
    if dtype == "float32":
        return found
    with np.errstate(over="ignore"):
        halves = found.embeddings.astype(np.float16)
    if not np.isfinite(halves).all():
        raise DataError("the model gives values beyond ±65,504, which float16 cannot hold")
    return replace(found, embeddings=halves)
