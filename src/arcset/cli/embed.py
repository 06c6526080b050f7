"""`arcset embed`: images to embeddings, in a file that any tool can read."""

from pathlib import Path
from typing import Annotated

import typer

from arcset.cli import options as o
from arcset.cli.show import print_json, say, tell_skipped, working
from arcset.data.embedding_files import write_embeddings
from arcset.runs import Run
from arcset.training.judge import PARTS, judge_run

__all__ = ["embed"]


def embed(
    run: Annotated[Path, typer.Argument(help="Folder of a trained run.")],
    data: Annotated[
        str | None,
        typer.Argument(help="A named dataset, a folder or the like; the run's own if left out."),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="FILE.parquet (path, label, embedding) or FILE.npz.")
    ] = Path("embeddings.parquet"),
    part: Annotated[
        str, typer.Option(help=f"Of the run's own data, one of: {', '.join(PARTS)}.")
    ] = "all",
    device: o.Device = "auto",
    json: o.Json = False,
) -> None:
    """Embed images with a trained run, into a Parquet or npz file.

    Example: arcset embed runs/orl orl --part unseen --out unseen.parquet
    """
    opened = Run.open(run)
    with working("embedding"):
        judged = judge_run(opened, data, part=part, device=device)
    found = judged.embeddings
    tell_skipped(judged.skipped)
    write_embeddings(out, found)
    count, dim = found.embeddings.shape
    if json:
        print_json(
            {"file": str(out), "samples": count, "dim": dim, "identities": len(found.class_names)}
        )
        return
    say(f"{count:,} embeddings of {len(found.class_names):,} identities, {dim}-D, are in {out}")
