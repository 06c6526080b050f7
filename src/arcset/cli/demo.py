"""`arcset demo`: the whole family on five digits, with the other five unseen."""

from pathlib import Path
from typing import Annotated, Any

import typer

from arcset.api.compare_runs import comparison_report
from arcset.cli import options as o
from arcset.cli.compare import print_comparison
from arcset.cli.output import print_json, print_text, say, show_progress, working
from arcset.reports import RunView, write_film
from arcset.runs import RunConfig
from arcset.runs.settings import list_layers
from arcset.training.compare import Comparison, compare_variants
from arcset.training.trainer import train

SCALE = 16  # the same for every cosine loss: unmatched scales mislead
LOSSES = {
    "softmax, no bias": "softmax:bias=false",
    "softmax, bias": "softmax:bias=true",
    "normface": f"normface:scale={SCALE}",
    "sphereface": f"sphereface:scale={SCALE}:margin=1.35",
    "cosface": f"cosface:scale={SCALE}:margin=0.35",
    "arcface": f"arcface:scale={SCALE}:margin=0.5",
    "center": "center:weight=0.01",
    "triplet": "triplet:margin=0.5",
}
SPHERE = {"softmax, 3-D": "softmax", "arcface, 3-D": "arcface"}
FILMED = ("softmax, no bias", "normface", "arcface")


def demo(
    out: Annotated[Path, typer.Option(help="Folder for everything; its runs are replaced.")] = Path(
        "runs/demo"
    ),
    epochs: Annotated[int, typer.Option(help="Passes over the training images.")] = 12,
    seeds: Annotated[int, typer.Option(help="Runs per loss.")] = 2,
    device: o.Device = "auto",
    json: o.Json = False,
) -> None:
    """Compare eight losses on the shipped digits: five known, five never seen.

    Ends with a table, a report to look around in, and two films. Works offline and takes a few
    minutes on two cores.

    Example: arcset demo
    """
    settings = {
        "data": "mnist-sample",
        "batch": 64,
        "optimizer": "adamw",  # the one optimizer with which every loss trains, triplet included
        "learning_rate": 0.002,
        "margin_warm_up": 0.0,  # so that the runs differ in nothing but the loss, at every epoch
        "snapshot": 500,
    }
    flat = {"classes": "0-4", "dim": 2, "epochs": epochs}
    solid = {"dim": 3, "epochs": max(1, epochs // 2), "network": "vgg8"}
    with show_progress() as bars:
        layers = list_layers({**settings, **flat})
        options: dict[str, Any] = {"device": device, "force": True, "watcher": bars}
        outcome = compare_variants(layers, out, losses=LOSSES, seeds=seeds, **options)
        for label, loss in SPHERE.items():
            config = RunConfig(loss=loss, **settings, **solid)
            train(config, out / label.replace(", ", "-"), **options)
    conclusion = conclude(outcome.summary)
    _draw(out, outcome, conclusion)
    if json:
        print_json(outcome.json())
        return
    print_comparison(
        outcome, f"MNIST digits 0-4 known, 5-9 never seen; 2-D, scale {SCALE}, {epochs} epochs"
    )
    print_text(f"\n{conclusion}")
    say(f"Look around in {out}/report.html; films and stills lie beside it.")


def _draw(out: Path, outcome: Comparison, conclusion: str) -> None:
    """The report with its stills, and the two films."""
    solid = [RunView(out / label.replace(", ", "-"), label) for label in SPHERE]
    report = comparison_report(
        outcome,
        title="Eight losses on five digits",
        others=solid,
        verdict=conclusion,
        command="arcset demo",
        shown=("softmax, no bias", "arcface"),
    )
    with working("drawing the report"):
        report.write(out, separate=True)
    with working("drawing the films"):
        filmed = [view for view in report.runs if view.title in FILMED]
        write_film(filmed, out / "film-2d.gif", parts=("train", "test"))
        write_film(solid, out / "film-3d.gif")


def conclude(summary: dict[str, dict[str, dict[str, float]]]) -> str:
    """What to make of the table, said from its figures."""

    def means(measure: str) -> dict[str, float]:
        return {
            label: figures[measure]["mean"]
            for label, figures in summary.items()
            if measure in figures
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
    strangers = (
        "on digits never seen, same or different is told with an AUC of "
        f"{worst:.2f} to {best:.2f}, where 0.5 is guessing"
    )
    if best < 0.8:
        strangers += ": a tight embedding of the known is no promise for the unknown"
    return f"What to make of it: {known}; {margin}; {strangers}."
