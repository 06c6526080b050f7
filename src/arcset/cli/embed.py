"""`arcset embed`: images to embeddings, in a file that any tool can read."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from arcset.cli import options as o
from arcset.cli.gallery_show import plain, progress_bar
from arcset.cli.model_option import load_model
from arcset.cli.show import print_json, say, tell_skipped, working
from arcset.data.embedding_files import EmbeddingSet, write_embeddings
from arcset.data.own.trees import shown
from arcset.errors import DataError, OptionError
from arcset.recognition.embedder import Embedder
from arcset.runs import Run
from arcset.training.judge import PARTS, judge_run

__all__ = ["embed"]


def embed(
    run: Annotated[
        Path,
        typer.Argument(metavar="RUN|FILE.onnx", help="Folder of a trained run, or an .onnx file."),
    ],
    data: Annotated[
        str | None,
        typer.Argument(
            help="A named dataset, a folder or the like; the run's own if left out. A folder for "
            "an .onnx file, and for photos of faces."
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="FILE.parquet (path, label, embedding) or FILE.npz.")
    ] = Path("embeddings.parquet"),
    part: Annotated[
        str, typer.Option(help=f"Of the run's own data, one of: {', '.join(PARTS)}.")
    ] = "all",
    faces: Annotated[
        str | None,
        typer.Option(
            metavar="auto|FILE",
            help="Embed the largest face in each photo: auto, or YuNet's file.",
        ),
    ] = None,
    device: o.Device = "auto",
    json: o.Json = False,
) -> None:
    """Embed images with a trained run, into a Parquet or npz file.

    Example: arcset embed runs/orl orl --part unseen --out unseen.parquet
    """
    if faces is not None or (run.suffix.lower() == ".onnx" and not run.is_dir()):
        found, skipped = _below(data, load_model(run, faces, device=device))
    else:
        opened = Run.open(run)
        with working("embedding"):
            judged = judge_run(opened, data, part=part, device=device)
        found, skipped = judged.embeddings, judged.skipped
    tell_skipped(skipped)
    write_embeddings(out, found)
    count, dim = found.embeddings.shape
    if json:
        print_json(
            {"file": str(out), "samples": count, "dim": dim, "identities": len(found.class_names)}
        )
        return
    say(f"{count:,} embeddings of {len(found.class_names):,} identities, {dim}-D, are in {out}")


def _below(data: str | None, model: Embedder) -> tuple[EmbeddingSet, Sequence[tuple[str, str]]]:
    """The images below a folder, each of the identity that its own folder names."""
    if data is None or not Path(data).is_dir():
        raise OptionError(
            f"{data or 'no data'}: name a folder with a sub-folder of images per identity"
        )
    root = Path(data)
    with progress_bar("embedding") as progress:
        found = model.embed_files(root, progress=progress)
    skipped = [(plain(path.relative_to(root)), why) for path, why in found.skipped.items()]
    if not len(found):
        path, why = skipped[0]
        raise DataError(f"none of the {len(skipped):,} images in {root} can be used: {path} {why}")
    paths = [shown(path.relative_to(root).as_posix()) for path in found.paths]
    names = [path.rpartition("/")[0] or "." for path in paths]
    return EmbeddingSet.of(found.embeddings, names, paths), skipped
