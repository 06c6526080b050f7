"""Draw the pictures of README and docs anew, from the demo's runs.

make docs-pictures
"""

from pathlib import Path

from arcset.cli.demo import LOSSES
from arcset.reports import RunView, write_film
from arcset.reports.stills import (
    angle_picture,
    confidence_picture,
    embedding_picture,
    margin_picture,
    no_threshold_picture,
    roc_picture,
    save,
)
from arcset.training.compare import run_folder

DEMO = Path("runs/demo")
OUT = Path("docs/pictures")


def main() -> None:
    """Everything that a page of the documentation shows."""
    views = {label: RunView(DEMO / run_folder(label, 0), label) for label in LOSSES}
    three = [views[label] for label in ("softmax, no bias", "normface", "arcface")]
    stills = {
        "embedding": embedding_picture(three),
        "margins": margin_picture(),
        "angles": angle_picture(three),
        "roc": roc_picture(list(views.values())),
        "no-threshold": no_threshold_picture(three),
        "confidence": confidence_picture(three),
    }
    for name, figure in stills.items():
        save(figure, OUT / f"{name}.png")
        print(OUT / f"{name}.png")
    write_film(three, OUT / "film.gif", width=720)
    print(OUT / "film.gif")


if __name__ == "__main__":
    main()
