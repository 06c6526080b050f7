"""`arcset demo`: the whole family on five digits, with the other five unseen."""

from json import dumps
from pathlib import Path
from typing import Annotated

import typer

from arcset import training
from arcset.cli import options as o
from arcset.cli.show import ProgressBars, comparison_table, print_json, print_table, say
from arcset.files import write_text
from arcset.runs import RunConfig
from arcset.training import LossSpec

__all__ = ["demo"]

SCALE = 4.0  # the same for every cosine loss: unmatched scales mislead
SPECS = [
    LossSpec("softmax", {"bias": False}, "softmax, no bias"),
    LossSpec("softmax", {"bias": True}, "softmax, bias"),
    LossSpec("normface", {}, "normface"),
    LossSpec("sphereface", {"margin": 1.35}, "sphereface"),
    LossSpec("cosface", {"margin": 0.35}, "cosface"),
    LossSpec("arcface", {"margin": 0.5}, "arcface"),
    LossSpec("center", {"weight": 0.1}, "center"),
    LossSpec("triplet", {"margin": 0.5}, "triplet"),
]


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the runs; replaced if there.")] = Path(
        "runs/demo"
    ),
    epochs: o.Epochs = 12,
    seeds: Annotated[int, typer.Option(help="Runs per loss.")] = 2,
    device: o.Device = "auto",
    json: o.Json = False,
) -> None:
    """Compare eight losses on the shipped digits: 0-4 known, 5-9 never seen, 2-D embeddings.

    Works offline and takes a few minutes on two cores.

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
    )
    with ProgressBars() as bars:
        outcome = training.compare(
            SPECS, config, seeds, out, device=device, force=True, watcher=bars
        )
    content = outcome.json()
    write_text(out / "comparison.json", dumps(content, indent=2) + "\n")
    if json:
        print_json(content)
        return
    title = (
        f"MNIST digits 0-4 known, 5-9 never seen; 2-D, scale {SCALE:g}, {epochs} epochs"
        + (f"; mean ± half the range of {seeds} seeds" if seeds > 1 else "")
    )
    print_table(comparison_table(outcome.summary, title))
    typer.echo(verdict(outcome.summary))
    say(f"the runs and comparison.json are in {out}")


def verdict(summary: dict[str, dict[str, dict[str, float]]]) -> str:
    """What to make of the table, said from its figures."""

    def means(measure: str) -> dict[str, float]:
        return {
            label: found[measure]["mean"] for label, found in summary.items() if measure in found
        }

    accuracy, dunn, unseen = means("accuracy"), means("dunn_trimmed"), means("unseen_auc")
    gain = dunn["arcface"] / dunn["normface"]
    best = max(unseen, key=unseen.__getitem__)
    return (
        f"What to make of it: every classifier names the digits it knows (accuracy "
        f"{min(accuracy.values()):.3f} to {max(accuracy.values()):.3f}), so accuracy does not "
        f"choose between them. At the same scale the margin makes classes "
        f"{gain:.1f} times as compact for their distance (arcface {dunn['arcface']:.0f}, normface "
        f"{dunn['normface']:.0f}). On digits never seen, two dimensions and five classes teach "
        f"little: same or different is told with an AUC of {min(unseen.values()):.2f} to "
        f"{max(unseen.values()):.2f} ({best}), where 0.5 is guessing; a tight embedding of the "
        f"known is no promise for the unknown."
    )
