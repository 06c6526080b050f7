"""Does the margin pay? Three losses on Omniglot, judged on alphabets that none has seen.

    python benchmarks/omniglot.py --tune          six trials of each loss, on validation alphabets
    python benchmarks/omniglot.py                 the best of each, at the recipe's full length
    python benchmarks/omniglot.py --losses arcface --out runs/omniglot

Everything but the loss and its own settings is the omniglot recipe's: network, augmentation,
rotations as classes, schedule, steps. Each loss has the same number of trials (`TRIALS`), of the
same length, judged by MAP@R on the validation alphabets; the test alphabets are looked at only by
the second command, which prints 20-way 1-shot accuracy, recall@1 and TAR at FAR 1e-3 there, with
95 % intervals over characters, and the paired differences between arcface and the others.

What the equal number of trials does not tell: the trials of each loss were extended twice after
the earlier ones had been seen, and network, augmentation, length and the range of scales had been
found before in some ten runs of arcface, four of normface and three of softmax on the same
validation alphabets. So arcface was looked at more often than the others.
"""

import argparse
import json
from pathlib import Path

import torch

from arcset.evaluation import paired
from arcset.networks import parameter_count
from arcset.runs import Run, RunConfig
from arcset.runs.assess import evaluation_data
from arcset.runs.data import selection_for
from arcset.runs.model import TrainedRun, load_model
from arcset.runs.settings import recipe_settings
from arcset.training import train

RESULTS = Path(__file__).parent / "results"
#: What each loss was tried with, and which of it did best.
TRIALS = {
    "arcface": (
        {"scale": 16.0, "margin": 0.4, "learning_rate": 0.1},
        {"scale": 16.0, "margin": 0.5, "learning_rate": 0.1},
        {"scale": 16.0, "margin": 0.3, "learning_rate": 0.1},
        {"scale": 24.0, "margin": 0.4, "learning_rate": 0.1},
        {"scale": 12.0, "margin": 0.5, "learning_rate": 0.1},
        {"scale": 16.0, "margin": 0.5, "learning_rate": 0.1, "weight_decay": 1e-3},
    ),
    "normface": (
        {"scale": 16.0, "learning_rate": 0.1},
        {"scale": 12.0, "learning_rate": 0.1},
        {"scale": 24.0, "learning_rate": 0.1},
        {"scale": 16.0, "learning_rate": 0.05},
        {"scale": 8.0, "learning_rate": 0.1},
        {"scale": 12.0, "learning_rate": 0.1, "weight_decay": 1e-3},
    ),
    "softmax": (
        {"learning_rate": 0.1},
        {"learning_rate": 0.05},
        {"learning_rate": 0.2},
        {"learning_rate": 0.1, "weight_decay": 1e-3},
        {"learning_rate": 0.1, "weight_decay": 2e-3},
        {"learning_rate": 0.1, "weight_decay": 4e-3},
    ),
}
BEST = {"arcface": 5, "normface": 5, "softmax": 4}
#: The last test: drawn by chance before anything was trained, and more than the recipe holds out.
TEST = ("Arcadian/*", "Bengali/*", "Braille/*", "Futurama/*", "Sanskrit/*")
#: For trials: more characters than the recipe's own validation part, so that they tell more.
TUNED_ON = ("Balinese/*", "Latin/*", "Mkhedruli_(Georgian)/*", "Tagalog/*")
#: With fewer characters an epoch is shorter: about as many steps as the recipe's.
FULL = {"epochs": 72, "hold_out": {"validation": ("Latin/*", "Tagalog/*"), "test": TEST}}
MEASURES = (
    ("few_shot", "accuracy", "20-way 1-shot"),
    ("retrieval", "recall_at[1]", "recall@1"),
    ("verification", "tar_at_far[0.001]", "TAR at FAR 1e-3"),
)


def config_of(loss: str, trial: int, **changes) -> RunConfig:
    settings = recipe_settings("omniglot", "omniglot")
    for key in ("scale", "margin"):
        settings.pop(key, None)
    settings |= {"data": "omniglot", "loss": loss, **TRIALS[loss][trial], **changes}
    return RunConfig(**settings)


def tune(losses: list[str], epochs: int, out: Path, trials: list[int]) -> dict:
    print(f"{'':34}{'MAP@R':>8}{'recall@1':>10}{'TAR 1e-3':>10}   (validation, {epochs} epochs)")
    found = {}
    for trial in trials:
        for loss in losses:
            config = config_of(loss, trial, epochs=epochs, validate_every=epochs, snapshot=0)
            held = {"validation": TUNED_ON, "test": TEST}
            place = out / f"{loss}-{trial}"
            run = train(config.replace(hold_out=held), place, device="cpu", force=True)
            measured = run.metrics()[-1]["validation"]
            found[f"{loss}-{trial}"] = {"settings": TRIALS[loss][trial], **measured}
            shown = ", ".join(f"{key} {value:g}" for key, value in TRIALS[loss][trial].items())
            figures = (measured["map"], measured["recall"], measured["tar"])
            print(
                f"{loss + ' ' + shown:34.34}" + "".join(f"{x:10.4f}" for x in figures), flush=True
            )
    return found


def judge(losses: list[str], epochs: int | None, seed: int, out: Path) -> dict:
    changes = FULL | {"seed": seed} | ({"epochs": epochs} if epochs else {})
    assessed, found = {}, {}
    for loss in losses:
        config = config_of(loss, BEST[loss], **changes)
        selection = selection_for(config)
        place = out / loss
        done = (place / "config.toml").exists()
        run = Run.open(place) if done else train(config, place, device="cpu", selection=selection)
        lines = run.metrics()
        minutes = sum(line["seconds"] for line in lines) / 60
        trained = TrainedRun.load(run, device="cpu", selection=selection)
        assessed[loss] = evaluation_data(trained, part="unseen").assess(intervals=True)
        results = assessed[loss].results()
        parameters = parameter_count(load_model(run)[0])
        found[loss] = {"minutes": minutes, "epochs": len(lines), "parameters": parameters}
        text = f"{loss:10}{len(lines)} epochs, {minutes:.1f} min, {parameters:,} parameters"
        for part, name, title in MEASURES:
            value, interval = results[part].measures()[name], results[part].interval(name)
            found[loss][title] = [value, interval.low, interval.high]
            text += f"   {title} {value:.4f} ({interval.low:.4f} to {interval.high:.4f})"
        print(text, flush=True)
    for other in losses[1:]:
        for part, name, title in MEASURES:
            first, second = (assessed[loss].results()[part] for loss in (losses[0], other))
            difference = paired(first, second, name)
            found[f"{losses[0]} against {other}, {title}"] = difference.json()
            print(f"{losses[0]} against {other:10}{title:18}{difference.sentence()}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--losses", default="arcface,normface,softmax")
    parser.add_argument("--trials", default="0,1,2,3,4,5")
    parser.add_argument("--epochs", type=int, help="16 for trials, the recipe's for the comparison")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--out", type=Path, default=Path("runs/benchmark-omniglot"))
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    losses = options.losses.split(",")
    if options.tune:
        trials = [int(trial) for trial in options.trials.split(",")]
        found = tune(losses, options.epochs or 16, options.out / "trials", trials)
    else:
        found = judge(losses, options.epochs, options.seed, options.out)
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / ("omniglot-trials.json" if options.tune else "omniglot.json")
    before = json.loads(file.read_text())["results"] if options.tune and file.exists() else {}
    config = {key: str(value) for key, value in vars(options).items()}
    content = {"config": config, "results": before | found}  # trials may be run one by one
    file.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
