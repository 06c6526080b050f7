"""`arcset embed`: images to embeddings, in a file or a folder that any tool can read."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from arcset.checks import check_choice, check_count
from arcset.cli import options as o
from arcset.cli.output import print_result, progress_bar, say, tell_skipped
from arcset.data import Source, open_source
from arcset.data.embeddings import SUFFIXES, EmbeddingSet, write_embeddings
from arcset.data.mapping import ClassMapping
from arcset.data.sources.arrays import ArraySource
from arcset.errors import ArcsetError, OptionError
from arcset.launch import is_main_process, rank_and_size
from arcset.recognition.embed_many import Embedder, FolderResult, embed_in_memory, embed_many
from arcset.runs import Run
from arcset.runs.assess import PARTS, is_same_data
from arcset.runs.data import check_not_given, selection_of
from arcset.text import plural, skipped_lines


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
    faces: o.PhotoFaces = None,
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

    Run the same command again to continue a folder where it stopped. With
    --faces, the main face of each photo is embedded.

    Example: arcset embed runs/orl orl --part unseen --out unseen.parquet

    Example: torchrun --nproc-per-node 4 -m arcset embed runs/faces photos.csv --out photos/
    """
    check_choice("--dtype", dtype, ("float32", "float16"))
    if shard_size is not None:
        check_count("--shard-size", shard_size)
    rank, processes = rank_and_size()
    is_folder = _is_folder(out)
    if not is_folder and processes > 1:
        raise OptionError(
            f"{processes} processes write a folder of many files: end the name {out} with a /"
        )
    if not is_folder and (check or force or shard_size is not None):
        raise OptionError(f"--check, --force and --shard-size are for folders, and {out} is a file")
    is_onnx = run.suffix.lower() == ".onnx" and not run.is_dir()
    is_run = not is_onnx and faces in (None, "none")  # whose embeddings keep their lengths
    source = _open_source(run, data, part, is_run)
    embedder = Embedder(run, faces=faces, device=device, normalize=not is_run)
    if not is_folder:
        with progress_bar("embedding") as progress:
            embedded, skipped = embed_in_memory(source, embedder, progress=progress)
        write_embeddings(Path(out), embedded if dtype == "float32" else embedded.as_halves())
        tell_skipped(skipped)
        _print_file(out, embedded, json)
        return
    try:
        with progress_bar("embedding") as progress:
            result = embed_many(
                Path(out),
                source,
                embedder,
                shard_size=shard_size,
                dtype=dtype,
                check=check,
                force=force,
                progress=progress,
            )
    except (ArcsetError, OSError) as error:
        if not is_main_process():  # of which nothing else is heard
            sys.stderr.write(f"arcset: process {rank} of {processes}: {error}\n")
        raise
    _print_folder(result, json)


def _print_folder(result: FolderResult, as_json: bool) -> None:
    """Of several processes, the one that completes the folder speaks for all."""
    console = Console(stderr=True)
    if result.samples is None:
        say(str(result), console)
        return
    more = f"see {result.folder}/_arcset/skipped-*.json"
    for line in skipped_lines(result.first_skipped, count=result.skipped, more=more):
        say(line, console)
    print_result(as_json, result.json(), str(result))


def _open_source(run: Path, data: str | None, part: str, is_run: bool) -> Source:
    """What is to be embedded: any data; or the run's own, which is the default, or a part of it."""
    if not is_run:
        if data is None:
            raise OptionError("no data: name a folder with a sub-folder of images per identity")
        if part != "all":
            raise OptionError(f"--part {part} is for a run and its own data")
        return open_source(data)
    opened = Run.open(run)
    own = opened.config.data
    if data is not None and not is_same_data(data, own):
        if part != "all":
            raise OptionError(f"--part {part} is a part of {own}, the run's data, not of {data}")
        return open_source(data)
    check_not_given(opened)
    if part == "all":
        has_mapping = opened.config.mapping is not None
        return open_source(own, ClassMapping.load(opened.mapping_file) if has_mapping else None)
    check_choice("part", part, PARTS)
    images = getattr(selection_of(opened), part)
    if images is None:
        raise OptionError(
            f"the run has no {part} part: no classes were held out for it; see `arcset data split`"
        )
    return ArraySource(images, f"{Path(own).name}, {part}", "part of a run's data")


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
    embeddings, verb = plural(count, "embedding"), "is" if count == 1 else "are"
    print_result(as_json, content, f"{embeddings} of {of}, {dim}-D, {verb} in {out}")
