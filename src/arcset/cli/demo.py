"""`arcset demo`: the whole family on five digits, with the other five unseen."""

from json import dumps
from pathlib import Path
from typing import Annotated, Any

import typer

from arcset import training
from arcset.cli import train_options as o
from arcset.cli.output import comparison_table, print_json, print_table, say, show_progress, working
from arcset.evaluation.measures import figure_meanings
from arcset.files import write_text
from arcset.reports import RunView, Story, write_film
from arcset.runs import RunConfig
from arcset.training import LossSpec

__all__ = ["demo"]

SCALE = 16.0  # the same for every cosine loss: unmatched scales mislead
SPECS = [
    LossSpec("softmax", {"bias": False}, "softmax, no bias"),
    LossSpec("softmax", {"bias": True}, "softmax, bias"),
    LossSpec("normface", {}, "normface"),
    LossSpec("sphereface", {"margin": 1.35}, "sphereface"),
    LossSpec("cosface", {"margin": 0.35}, "cosface"),
    LossSpec("arcface", {"margin": 0.5}, "arcface"),
    LossSpec("center", {"weight": 0.01}, "center"),
    LossSpec("triplet", {"margin": 0.5}, "triplet"),
]


SPHERE = [LossSpec("softmax", {}, "softmax, 3-D"), LossSpec("arcface", {}, "arcface, 3-D")]
FILMED = ("softmax, no bias", "normface", "arcface")


def demo(
    out: Annotated[Path, typer.Option(help="Folder for everything; its runs are replaced.")] = Path(
        "runs/demo"
    ),
    epochs: o.Epochs = 12,
    seeds: Annotated[int, typer.Option(help="Runs per loss.")] = 2,
    device: o.Device = "auto",
    json: o.Json = False,
) -> None:
    """Compare eight losses on the shipped digits: five known, five never seen.

    Ends with a table, a report to look around in, and two films. Works offline and takes a few
    minutes on two cores.

    Example: arcset demo
    """
    config = RunConfig(
        data="mnist-sample",
        classes="0-4",
        dim=2,
        epochs=epochs,
        batch=64,
        scale=SCALE,
        optimizer="adamw",  # the one optimizer with which every loss trains, triplet included
        learning_rate=0.002,
        margin_warm_up=0.0,  # so that the runs differ in nothing but the loss, at every epoch
        snapshot=500,
    )
    solid = config.replace(
        classes=None, dim=3, network="vgg8", epochs=max(1, epochs // 2), scale=None
    )
    with show_progress() as bars:
        options: dict[str, Any] = {"device": device, "force": True, "watcher": bars}
        outcome = training.compare(SPECS, config, seeds, out, **options)
        for spec in SPHERE:
            training.train(spec.applied(solid)[0], out / spec.folder, **options)
    content = outcome.json()
    write_text(out / "comparison.json", dumps(content, indent=2) + "\n")
    _draw(out, outcome, verdict(outcome.summary))
    if json:
        print_json(content)
        return
    title = f"MNIST digits 0-4 known, 5-9 never seen; 2-D, scale {SCALE:g}, {epochs} epochs" + (
        f"; mean ± half the range of {seeds} seeds" if seeds > 1 else ""
    )
    print_table(comparison_table(outcome.summary, title))
    typer.echo(verdict(outcome.summary))
    say(f"Look around in {out}/report.html; films and stills lie beside it.")


def _draw(out: Path, outcome: training.Comparison, conclusion: str) -> None:
    """The report with its stills, and the two films."""
    flat = {spec.label: RunView(out / f"{spec.folder}-0", spec.label) for spec in SPECS}
    solid = [RunView(out / spec.folder, spec.label) for spec in SPHERE]
    with working("drawing the report"):
        Story(
            title="Eight losses on five digits",
            runs=list(flat.values()),
            others=solid,
            comparison=outcome.json(),
            measures=figure_meanings(),
            verdict=conclusion,
            **outcome.told(),
            command="arcset demo",
            shown=("softmax, no bias", "arcface"),
        ).write(out, separate=True)
    with working("drawing the films"):
        write_film([flat[label] for label in FILMED], out / "film-2d.gif", parts=("train", "test"))
        write_film(solid, out / "film-3d.gif")


def verdict(summary: dict[str, dict[str, dict[str, float]]]) -> str:
    """What to make of the table, said from its figures."""

    def means(measure: str) -> dict[str, float]:
        return {
            label: found[measure]["mean"] for label, found in summary.items() if measure in found
        }

    accuracy, dunn, unseen = means("accuracy"), means("dunn_trimmed"), means("unseen_auc")
    low, high = min(accuracy.values()), max(accuracy.values())
    known = f"the classifiers name the digits they know with an accuracy of {low:.3f} to {high:.3f}"
    if low > 0.95 and high - low < 0.02:
        known += ", so accuracy does not choose between them"
    arcface, normface = dunn["arcface"], dunn["normface"]
    more = "more" if arcface > normface else "no more"
    margin = (
        f"at the same scale the margin makes classes {more} compact for their distance (trimmed "
        f"Dunn index: arcface {arcface:.1f}, normface {normface:.1f})"
    )
    best, worst = max(unseen.values()), min(unseen.values())
    told = (
        "on digits never seen, same or different is told with an AUC of "
        f"{worst:.2f} to {best:.2f}, where 0.5 is guessing"
    )
    if best < 0.8:
        told += ": a tight embedding of the known is no promise for the unknown"
    return f"What to make of it: {known}; {margin}; {told}."
