"""Growing a run by new identities, beside training anew: what is forgotten, and what time it takes.

    python benchmarks/grow.py                                 700 characters, then 964
    python benchmarks/grow.py --epochs 1 --old 30 --all 40    to see that it works

Everything is the omniglot recipe's, but that all alphabets are known and that drawings 17 to 20 of
every character are kept from training. A first run learns the first 700 characters; a second goes
on from it with all 964, for a quarter of the epochs; a third learns the 964 anew. Printed are
recall@1 on the first 700's kept drawings before and after growing, and of the run anew, and the
time of growing (the new centers' means included) over that of training anew. The bar: recall falls
by at most one point, in at most a third of the time.
"""

import argparse
import json
import time
from pathlib import Path

import torch

from arcset.data import Split, load_dataset
from arcset.runs import RunConfig
from arcset.runs.settings import inherited_settings, recipe_settings
from arcset.training import train
from arcset.training.fine_tune import measure_forgetting

RESULTS = Path(__file__).parent / "results"
POINTS, SHARE = 1.0, 1 / 3  # the bar


def characters(count):
    """The first so many of the background alphabets, which are what training may see."""
    dataset = load_dataset("omniglot")
    apart = {name for names in dataset.apart.values() for name in names}
    return [name for name in dataset.class_names if name not in apart][:count]


def settings(options):
    values = recipe_settings("omniglot", "omniglot")
    values |= {"data": "omniglot", "train_on": "train", "seed": options.seed, "hold_out": None}
    if options.epochs is not None:
        values["epochs"] = options.epochs
    return RunConfig(**values)


def known(names, place):
    """The path of a split in which these are known; what is held out beside them is of no use."""
    rest = [name for name in load_dataset("omniglot").class_names if name not in set(names)]
    shares = [len(part) / (len(names) + len(rest)) for part in (names, rest)]
    split = Split("omniglot", 0, (shares[0], 0.0, shares[1]), "names", tuple(sorted(names)), (),
                  tuple(sorted(rest)))  # fmt: skip
    split.save(place)
    return str(place)


def timed(config, place):
    started = time.perf_counter()
    run = train(config, place, device="cpu", force=True)
    return run, time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, help="of the runs from nothing; the recipe's")
    parser.add_argument("--grow-epochs", type=int, help="of growing; a quarter of those")
    parser.add_argument("--old", type=int, default=700)
    parser.add_argument("--all", type=int, default=964)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path, default=Path("runs/grow"))
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    options.out.mkdir(parents=True, exist_ok=True)

    base = settings(options)
    names = characters(options.all)
    few = known(names[: options.old], options.out / "few.json")
    every = None if len(names) == len(characters(None)) else known(names, options.out / "all.json")
    old, first = timed(base.replace(split=few), options.out / "old")
    print(f"{options.old} characters: {first:.0f} s", flush=True)
    goes_on = inherited_settings(old, "omniglot") | {
        "data": "omniglot",
        "split": every,
        "seed": options.seed,
        "epochs": options.grow_epochs or max(1, base.epochs // 4),
    }
    grown, growing = timed(RunConfig(**goes_on), options.out / "grown")
    print(f"grown to {len(names)}: {growing:.0f} s", flush=True)
    anew, whole = timed(base.replace(split=every), options.out / "anew")
    print(f"{len(names)} anew: {whole:.0f} s\n", flush=True)

    kept, beside = measure_forgetting(grown, old), measure_forgetting(anew, old)
    for row in kept:
        print("  ".join(row.row()))
    before, after, fresh = kept[0].before, kept[0].after, beside[0].after
    fall, share = 100 * (before - after), growing / whole
    print(f"\nrecall@1 on the first {options.old}: {before:.4f} before, {after:.4f} after growing, "
          f"{fresh:.4f} anew")  # fmt: skip
    print(f"falls by {fall:.2f} points (at most {POINTS:g}): {'yes' if fall <= POINTS else 'NO'}")
    print(
        f"takes {share:.3f} of the time (at most {SHARE:.3f}): {'yes' if share <= SHARE else 'NO'}"
    )
    content = {
        "old": options.old,
        "all": len(names),
        "epochs": base.epochs,
        "grow_epochs": grown.config.epochs,
        "seed": options.seed,
        "threads": options.threads,
        "torch": torch.__version__,
        "seconds": {"old": first, "grown": growing, "anew": whole},
        "recall": {"before": before, "after": after, "anew": fresh},
        "fall_in_points": fall,
        "time_share": share,
        "forgetting": [row.json() for row in kept],
        "anew_beside_old": [row.json() for row in beside],
    }
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / "grow.json").write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
