"""Keys and types of what `--json` prints, and exit codes, are as they were recorded."""

import json
import pickle
import shutil
import tomllib
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import numpy as np
import pytest

from contract.outside import arcset_command, command_tree, json_shape
from contract.recording import recorded
from support.onnx_graphs import linear
from support.patterns import calibrated_run, pictures
from support.random_runs import random_run
from support.small_data import images

SMALL = ["--network", "mlp", "--dim", "4", "--epochs", "1", "--batch", "32", "--device", "cpu"]
SMALL += ["--set", "snapshot=10", "--hold-out", "0.25,0.25", "--no-report"]

#: Verb, what is tried, and the words after the verb.
DATA = [
    ("data list", "", ""),
    ("data split", "", "images.npz --out split.json --fractions 0.5,0.25,0.25"),
    ("data split", "by group", "letters --out groups.json --by group --fractions 0.5,0.25,0.25"),
    ("data check", "", "photos"),
    ("data pack", "", "photos --out photos.pack"),
    ("data suspects", "", "subcenters"),
]
RECOGNITION = [
    ("verify", "the same", "run photos/anna/00.png photos/anna/01.png"),
    ("verify", "different", "run photos/anna/00.png photos/ben/00.png"),
    ("enroll", "", "people.db photos --model run --keep-images"),
    ("enroll", "again", "people.db photos"),
    ("identify", "", "people.db photos stranger"),
    ("identify", "by hand", "people.db stranger --threshold 0.9"),
    ("cluster", "", "photos --model run --out groups --no-sheet"),
    ("embed", "into a file", "run photos --out photos.npz"),
    ("embed", "into a folder", "run photos --out photos.parquet/"),
    ("export", "", "run --out run.onnx"),
    ("export", "from elsewhere", "net.onnx --out known.onnx --preset unit"),
    ("keys add", "", "people.db --role write --name door"),
    ("keys list", "", "people.db"),
    ("gallery list", "", "people.db"),
    ("gallery list", "of one", "people.db anna"),
    ("gallery info", "", "people.db"),
    ("gallery calibrate", "", "people.db calibrating"),
    ("calibrate", "", "other calibrating"),
    ("gallery export", "", "people.db --out people.parquet"),
    ("gallery import", "", "copy.db people.parquet"),
    ("gallery migrate", "", "people.db --model other"),
    ("gallery remove", "", "people.db anna"),
    ("gallery remove", "one sample", "people.db --sample 4"),
]
TRAINING = [
    ("train", "", f"images.npz --out trained {' '.join(SMALL)}"),
    (
        "compare",
        "",
        f"images.npz --out compared --losses arcface,triplet --seeds 2 {' '.join(SMALL)}",
    ),
    ("compare", "a grid", f"images.npz --out grid --set margin=0.2,0.3 {' '.join(SMALL)}"),
    ("evaluate", "", "test.npz --validation tune.npz --no-report"),
    ("evaluate", "against another", "test.npz --against other.npz --no-report"),
    ("evaluate", "by a column", "test.npz --by site --no-intervals --no-report"),
    ("evaluate", "a run", "trained --no-intervals --no-report --device cpu"),
    ("evaluate", "pairs", "trained pairs.bin --device cpu"),
    ("explain", "", "trained 3"),
    ("explain", "an image", "trained photos/anna/00.png"),
    ("explain", "without centers", "compared/triplet-0 3"),
    ("plan", "", "--classes 1k --dim 16 --batch 8 --network simple --size 16 --memory 32G"),
    (
        "plan",
        "of several processes",
        "--classes 10M --processes 4 --no-measure --memory 16G",
    ),
]
#: The real thing, with all its losses.
DEMO = [("demo", "", "--epochs 1 --seeds 1 --device cpu")]

#: Where keys are data: names of subjects, losses and files, values tried, words for people.
BY_NAME = {
    *("removed", "shared", "skipped", "models", "summary"),
    *("formats", "modes", "images_per_identity.histogram"),
    *("verdicts[].differences", "verdicts[].means", "grid", "best.values", "runs[].values"),
    *("changes[].options", "parts", "seconds", "tried.seconds"),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def answers(cases):
    """The shape of what each of the verbs prints, and its exit code."""
    found = {}
    for verb, what, words in cases:
        code, out = arcset_command(*verb.split(), *words.split(), "--json")
        shape = json_shape(json.loads(out), BY_NAME)
        found[f"{verb}, {what}" if what else verb] = {"exit": code, "json": shape}
    return found


def people(folder):
    """Photos with all that may be wrong with them: one unreadable, one under two names."""
    pictures(folder / "photos", ["anna", "ben", "team/carl", "team/dora"], 3)
    (folder / "photos/ben/torn.png").write_bytes(b"\x89PNG")
    shutil.copy(folder / "photos/anna/02.png", folder / "photos/team/carl/03.png")


def test_every_verb_with_json_is_tried_here():
    tried = {verb for verb, _, _ in (*DATA, *RECOGNITION, *TRAINING, *DEMO)}
    found = set()
    for name, group in command_tree().commands.items():
        for sub, command in getattr(group, "commands", {"": group}).items():
            if any("--json" in parameter.opts for parameter in command.params):
                found.add(f"{name} {sub}".rstrip())
    assert tried == found


def test_verbs_about_data(folder):
    images(folder / "images.npz")
    people(folder)
    pictures(folder / "letters", [f"{group}/{number}" for group in "abcd" for number in "12"], 1)
    random_run(folder / "subcenters", data=folder / "images.npz", options={"subcenters": 3})
    recorded("json_keys-data", answers(DATA))


def test_verbs_about_recognition(folder):
    people(folder)
    pictures(folder / "stranger", ["eve"], 1)
    calibrated_run(folder / "run", identities=60)
    linear(folder / "net.onnx")
    random_run(folder / "other", dim=32, seed=1)
    recorded("json_keys-recognition", answers(RECOGNITION))


def test_verbs_about_training(folder):
    images(folder / "images.npz", each=12)
    for name, first, noise in (("test", 0, 0.5), ("other", 0, 0.6), ("tune", 100, 0.5)):
        rng = np.random.default_rng(first)
        labels = np.repeat(np.arange(30), 4)
        rows = rng.normal(size=(30, 8))[labels] + noise * rng.normal(size=(120, 8))
        np.savez(folder / f"{name}.npz", embeddings=rows, labels=labels + first, site=labels % 2)
    pairs = [file.read_bytes() for file in pictures(folder / "photos", ["anna"], 24)]
    (folder / "pairs.bin").write_bytes(pickle.dumps((pairs, [True, False] * 6)))
    for verb, cases in groupby(TRAINING, key=itemgetter(0)):
        recorded(f"json_keys-{verb}", answers(cases))
    settings = tomllib.loads((folder / "trained/config.toml").read_text())
    recorded("json_keys-own_settings", {**settings, "data": Path(settings["data"]).name})


@pytest.mark.long
def test_the_demo(folder):
    recorded("json_keys-demo", answers(DEMO))
