"""`arcset embed`: images to embeddings, in a file or a folder that any tool can read."""

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from arcset.checks import check_choice, check_count
from arcset.cli import options as o
from arcset.cli.output import print_result, progress_bar, tell_skipped
from arcset.data import Source
from arcset.data.embeddings import SUFFIXES, EmbeddingSet, write_embeddings
from arcset.errors import ArcsetError, OptionError
from arcset.recognition.bulk import (
    BulkModel,
    SaidByChiefError,
    embed_folder,
    embed_source,
    join_crew,
    open_inputs,
    open_model,
)
from arcset.runs.assess import PARTS
from arcset.text import plural

__all__ = ["embed"]


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
    crew = join_crew()
    check_choice("--dtype", dtype, ("float32", "float16"))
    if shard_size is not None:
        check_count("--shard-size", shard_size)

    def open_both() -> tuple[Source, BulkModel]:
        return open_inputs(run, data, part, faces), open_model(run, faces, device)

    if not _is_folder(out):
        if crew.count > 1:
            raise OptionError(
                f"{crew.count} processes write a folder of many files: end the name {out} with a /"
            )
        if check or force or shard_size is not None:
            raise OptionError(
                f"--check, --force and --shard-size are for folders, and {out} is a file"
            )
        source, network = open_both()
        with progress_bar("embedding") as progress:
            embedded, skipped = embed_source(source, network, progress=progress)
        write_embeddings(Path(out), embedded if dtype == "float32" else embedded.as_halves())
        tell_skipped(skipped)
        _print_file(out, embedded, json)
        return
    try:
        opened: list[tuple[Source, BulkModel]] = []
        # By one first, which may have to download the data, and which says what is wrong for all.
        crew.shared(lambda: opened.append(open_both()))
        source, network = opened[0] if opened else open_both()
        with progress_bar("embedding") if crew.chief else nullcontext() as watch:
            result = embed_folder(
                Path(out),
                source,
                network,
                crew,
                shard_size=shard_size,
                dtype=dtype,
                check=check,
                force=force,
                progress=watch,
            )
    except (ArcsetError, OSError) as error:
        if not crew.chief and not isinstance(error, SaidByChiefError):
            sys.stderr.write(f"arcset: process {crew.rank} of {crew.count}: {error}\n")
        raise
    if result is not None:  # to the chief
        more = f"see {result.folder}/_arcset/skipped-*.json"
        tell_skipped(result.first_skipped, count=result.skipped, more=more)
        print_result(json, result.json(), str(result))


def _is_folder(out: str) -> bool:
    """Whether a name means a folder: it ends in a slash, or has no suffix.

    >>> _is_folder("faces"), _is_folder("faces.parquet/"), _is_folder("faces.npz")
    (True, True, False)
    """
    suffix = Path(out).suffix
    if out.endswith("/") or Path(out).is_dir() or not suffix:
        return True
    if suffix not in SUFFIXES:
        raise OptionError(
            f"{out} is neither .npz nor .parquet, the files that hold embeddings; for a folder of "
            "them, end the name with a /"
        )
    return False


def _print_file(out: str, embedded: EmbeddingSet, as_json: bool) -> None:
    (count, dim), identities = embedded.embeddings.shape, len(embedded.class_names)
    content = {"file": out, "samples": count, "dim": dim, "identities": identities}
    of = plural(identities, "identity", "identities")
    print_result(as_json, content, f"{count:,} embeddings of {of}, {dim}-D, are in {out}")
