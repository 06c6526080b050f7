"""Draw the pictures of README and docs anew: from the demo's runs, and from photos of lfw-sample.

make docs-pictures
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from arcset import Recognizer
from arcset.cli.demo import LOSSES
from arcset.recognition.calibration import calibrate, embed_identities
from arcset.recognition.faces import SFACE, FaceRecognizer, Faces
from arcset.reports import RunView, write_film
from arcset.reports.stills import (
    angle_picture,
    confidence_picture,
    embedding_picture,
    margin_picture,
    no_threshold_picture,
    roc_picture,
)
from arcset.reports.style import GREY, PALETTE, new_figure, save, style
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
        "gallery-size": gallery_picture(),
    }
    for name, figure in stills.items():
        save(figure, OUT / f"{name}.png")
        print(OUT / f"{name}.png")
    write_film(three, OUT / "film.gif", width=720)
    print(OUT / "film.gif")


PEOPLE, LARGEST, DRAWS = 100, 200, 40
WANTED, FIRST = 0.01, 10  # the rate, and the size that the fixed threshold is made for


def gallery_picture() -> Figure:
    """Strangers who are taken for somebody, over the size of the gallery, by three thresholds.

    SFace on lfw-sample. In each of 40 draws 100 people calibrate; of the 252 others 200 are
    enrolled one after the other, by a photo each, and 52 are strangers.
    """
    network = Recognizer.from_onnx(SFACE.find(), preset="sface")
    found = embed_identities(FaceRecognizer(network, Faces.load()), "lfw-sample")
    names, first, labels = np.unique(found.names, return_index=True, return_inverse=True)
    sizes = np.unique(np.geomspace(2, LARGEST, 25).round().astype(int))
    assert network.published is not None
    rates = np.zeros((3, len(sizes)))
    for draw in range(DRAWS):
        order = np.random.default_rng(draw).permutation(len(names))
        chosen = np.isin(labels, order[:PEOPLE])
        made = calibrate(found.embeddings[chosen], labels[chosen], samples=1)
        gallery, strangers = np.split(found.embeddings[first[order[PEOPLE:]]], [LARGEST])
        highest = np.maximum.accumulate(strangers @ gallery.T, axis=1)[:, sizes - 1]
        ours = [made.for_fpir(WANTED, int(size)).threshold for size in sizes]
        fixed = made.for_fpir(WANTED, FIRST).threshold
        for row, limit in enumerate((network.published.threshold, fixed, ours)):
            rates[row] += (highest >= limit).mean(axis=0) / DRAWS
    return _draw_rates(sizes, rates, network.published.threshold)


@style()
def _draw_rates(sizes: np.ndarray, rates: np.ndarray, published: float) -> Figure:
    figure = new_figure(8, 4.2)
    axes = figure.subplots()
    words = (
        f"fixed, published: {published:g}",
        f"fixed, made for {FIRST} people",
        "computed for the size",
    )
    for row, (text, colour) in enumerate(
        zip(words, (PALETTE[1], PALETTE[5], PALETTE[0]), strict=True)
    ):
        axes.plot(sizes, rates[row], color=colour, lw=2)
        end = (sizes[-1], rates[row, -1])
        axes.annotate(
            text, end, xytext=(6, 0), textcoords="offset points", va="center", color=colour
        )
    axes.axhline(WANTED, color=GREY, lw=0.9, ls=":")
    axes.text(sizes[0], WANTED * 1.08, "wanted: 1 in 100", color=GREY, fontsize=8.5)
    axes.set(xscale="log", yscale="log", xlim=(sizes[0], sizes[-1]), ylim=(0.001, 0.3))
    axes.minorticks_off()
    axes.set_xticks([2, 5, 10, 20, 50, 100, 200])
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_yticks([0.001, 0.01, 0.1], ["0.1 %", "1 %", "10 %"])
    axes.set(xlabel="people in the gallery", ylabel="strangers taken for somebody")
    axes.grid(True)
    figure.subplots_adjust(left=0.1, right=0.76, top=0.96, bottom=0.14)
    return figure


if __name__ == "__main__":
    main()
