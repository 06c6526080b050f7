"""How often thresholds from some groups keep their promise on other groups.

    python benchmarks/groups.py [--embeddings all.parquet] [--draws 100] [--validation 6] [--test 6]

Omniglot's characters come in alphabets, and some alphabets are far more alike within than others.
So thresholds are made from the characters of a few alphabets, and used on those of other ones: 100
times, alphabets drawn anew among those that the network was not trained on. Counted is how often
the rate realized there lies in the 95 % interval that the threshold comes with: `identities`, made
as if characters were drawn one by one; `groups`, with the alphabets as `groups=`.

Without --embeddings a network is trained on half of the alphabets first (12 epochs, 64 dimensions,
about two minutes on one core).
"""

import argparse
import json
from pathlib import Path

import numpy as np

from arcset import train
from arcset.data import load_dataset, make_split
from arcset.data.embeddings import read_embeddings
from arcset.evaluation import identification, make_thresholds
from arcset.evaluation.pairs import SortedRows, count_all_pairs
from arcset.runs.assess import evaluation_data
from arcset.runs.model import TrainedRun

RESULTS = Path(__file__).parent / "results"
SAMPLES = 5  # of each character
RATES = {"FAR 0.01": 0.01, "FAR 0.001": 0.001, "FPIR 0.1": 0.1}


def embed_other_alphabets(place):
    """Embeddings of all characters whose alphabet was not in training."""
    split = make_split(
        load_dataset("omniglot").class_names, (0.5, 0.1, 0.4), data="omniglot", by="group"
    )
    place.mkdir(parents=True, exist_ok=True)
    split.save(place / "split.json")
    run = train(
        data="omniglot",
        out=place / "run",
        split=str(place / "split.json"),
        dim=64,
        epochs=12,
        device="cpu",
        report=False,
        force=True,
    )
    content = evaluation_data(TrainedRun.load(run, device="cpu"), part="all").embeddings
    return content.keep([*split.validation, *split.test])


class Alphabets:
    """The samples of some alphabets; gallery and probes of an open set among them."""

    def __init__(self, content, alphabets, names):
        kept = np.isin(names, alphabets)
        self.rows, self.labels = content.embeddings[kept], content.labels[kept]
        self.groups = names[kept]
        self.identities = len(np.unique(self.labels))

    def thresholds(self, gallery, groups):
        return make_thresholds(
            self.rows,
            self.labels,
            groups=self.groups if groups else None,
            fars=(0.01, 0.001),
            fpirs=(0.1,),
            galleries=(gallery,),
        )

    def far(self, threshold):
        counts = count_all_pairs(SortedRows.build(self.rows, self.labels))
        return counts.impostor[counts.scores >= threshold].sum() / counts.impostor.sum()

    def fpir(self, threshold, gallery, rng):
        """With a gallery of so many characters, one sample each; the others are unknown."""
        drawn = rng.permutation(np.unique(self.labels))
        enrolled = np.isin(self.labels, drawn[:gallery])
        first = np.zeros(len(self.labels), dtype=bool)
        first[np.unique(self.labels, return_index=True)[1]] = True
        at = enrolled & first
        found = identification(
            self.rows[at], self.labels[at], self.rows[~enrolled], self.labels[~enrolled]
        )
        return found.rates_at(threshold)[0], self.identities - gallery


def draw(content, names, rng, options):
    """One draw of alphabets: by way and rate, what was expected and what was seen."""
    drawn = rng.permutation(np.unique(names))[: options.validation + options.test]
    made, tried = (
        Alphabets(content, part, names)
        for part in (drawn[: options.validation], drawn[options.validation :])
    )
    gallery = min(made.identities, tried.identities) // 2
    lines, trial = [], rng.integers(2**31)
    for way in ("identities", "groups"):
        thresholds = made.thresholds(gallery, way == "groups")
        for name, rate in RATES.items():
            if name.startswith("FAR"):
                item = thresholds.for_far(rate)
                expected = item.expect(tried.identities, SAMPLES)
                seen = tried.far(item.threshold)
            else:
                item = thresholds.for_fpir(rate, gallery)
                seen, unknown = tried.fpir(item.threshold, gallery, np.random.default_rng(trial))
                expected = item.expect(unknown, probes_per_identity=SAMPLES)
            lines.append({"way": way, "rate": name, "threshold": item.threshold})
            lines[-1] |= {"seen": float(seen), "expected": list(expected), "pinned": item.pinned}
    return lines


def summary(lines, way, name):
    """How many intervals held what was seen, and how wide they were beside its own range."""
    chosen = [line for line in lines if (line["way"], line["rate"]) == (way, name)]
    seen = np.array([line["seen"] for line in chosen])
    low, high = np.array([line["expected"] for line in chosen]).T
    held = (low <= seen) & (seen <= high)
    floor = 1e-7
    spread = np.quantile(np.log(np.maximum(seen, floor)), (0.025, 0.975))
    width = np.median(np.log(np.maximum(high, floor)) - np.log(np.maximum(low, floor)))
    return {
        "way": way,
        "rate": name,
        "held": int(held.sum()),
        "below": int((seen < low).sum()),
        "above": int((seen > high).sum()),
        "median": float(np.median(seen)),
        "range": [float(end) for end in np.quantile(seen, (0.025, 0.975))],
        "interval": [float(np.median(low)), float(np.median(high))],
        "width": float(width / np.ptp(spread)),
        "pinned": int(sum(line["pinned"] for line in chosen)),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--embeddings", type=Path, help="of all characters, from an earlier run")
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--validation", type=int, default=6, help="alphabets")
    parser.add_argument("--test", type=int, default=6, help="alphabets")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.embeddings is None:
        content = embed_other_alphabets(options.out / "groups-run")
    else:
        content = read_embeddings(options.embeddings)
        known = set(content.trained_on or ())
        content = content.keep([name for name in content.class_names if name not in known])
    order = np.argsort(content.labels, kind="stable")
    nth = np.empty(len(order), dtype=int)
    sizes = np.bincount(content.labels)
    nth[order] = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    few = np.flatnonzero(nth < SAMPLES)
    content = type(content).of(content.embeddings[few], content.names[few].tolist())
    names = np.array([name.partition("/")[0] for name in content.names])
    rng = np.random.default_rng(options.seed)
    lines = []
    for _ in range(options.draws):
        lines += draw(content, names, rng, options)
    cells = [summary(lines, way, name) for way in ("identities", "groups") for name in RATES]
    count = len(np.unique(names))
    print(
        f"{len(content.class_names)} characters of {count} alphabets that were not in training; "
        f"{options.draws} times {options.validation} for thresholds, {options.test} others to try"
    )
    print(
        f"{'drawn':12}{'rate':11}{'held':>5}{'below':>7}{'above':>7}{'width':>7}"
        f"   seen: median, 95 % range         interval, median ends"
    )
    for cell in cells:
        (first, last), (low, high) = cell["range"], cell["interval"]
        print(
            f"{cell['way']:12}{cell['rate']:11}{cell['held']:5}{cell['below']:7}{cell['above']:7}"
            f"{cell['width']:7.2f}   {cell['median']:.4f}  {first:.4f} to {last:.4f}        "
            f"{low:.4f} to {high:.4f}"
        )
    options.out.mkdir(parents=True, exist_ok=True)
    config = {key: str(value) for key, value in vars(options).items() if key != "out"}
    content = {"config": config, "cells": cells, "draws": lines}
    (options.out / "groups.json").write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
