"""`arcset evaluate` and `arcset embed` from the outside."""

import json

import numpy as np
import pytest

from arcset.data.embeddings import read_embeddings
from arcset.evaluation import Thresholds
from support.patterns import pictures
from support.random_runs import random_run

TRAIN = ["train", "mnist-sample", "--dim", "4", "--epochs", "1", "--device", "cpu", "--no-report"]
TRAIN += ["--network", "mlp", "--set", "snapshot=10"]


def some_file(path, noise, identities=25, first=0):
    rng = np.random.default_rng(first)
    labels = np.repeat(np.arange(identities), 5)
    means = rng.normal(size=(identities, 16))
    rows = means[labels] + noise * rng.normal(size=(len(labels), 16))
    np.savez(path, embeddings=rows, labels=labels + first)


def test_from_split_to_report(arcset_command, tmp_path):
    """What a new user does: split, train, evaluate; then the same embeddings from a file."""
    split = ["data", "split", "mnist-sample", "--fractions", "0.4,0.3,0.3", "--out", "split.json"]
    assert arcset_command(*split).code == 0
    assert arcset_command(*TRAIN, "--split", "split.json", "--out", "runs/a").code == 0
    done = arcset_command("evaluate", "runs/a", "--device", "cpu", "--json")
    assert done.code == 0, done.err
    content = json.loads(done.out)
    assert content["identities"] == 3
    assert content["note"] == ""
    low, high = content["verification"]["intervals"]["auc"]
    assert low <= content["verification"]["auc"] <= high
    place = tmp_path / "runs" / "a"
    made = Thresholds.load(place / "threshold.json")
    assert made.origin == "6 held-out identities"  # three digits are too few
    assert content["cross_fitted"]
    assert json.loads((place / "evaluation" / "evaluation.json").read_text()) == content
    assert (place / "evaluation" / "report.html").stat().st_size > 10_000

    done = arcset_command("embed", "runs/a", "--out", "all.parquet", "--device", "cpu")
    assert done.code == 0, done.err
    assert len(read_embeddings(tmp_path / "all.parquet")) == 5000
    done = arcset_command(
        "embed", "runs/a", "--part", "unseen", "--out", "unseen.npz", "--device", "cpu"
    )
    assert done.code == 0
    done = arcset_command("evaluate", "unseen.npz", "--json", "--no-report")
    assert json.loads(done.out)["verification"]["auc"] == content["verification"]["auc"]


def test_thresholds_from_a_second_file(arcset_command, tmp_path):
    some_file(tmp_path / "test.npz", 0.5)
    some_file(tmp_path / "tune.npz", 0.5, identities=150, first=1000)
    done = arcset_command("evaluate", "test.npz", "--validation", "tune.npz", "--out", "judged")
    assert done.code == 0, done.err
    made = Thresholds.load(tmp_path / "judged" / "threshold.json")
    assert made.made_from["identities"] == 150
    assert made.made_from["file"] == "tune.npz"
    content = json.loads((tmp_path / "judged" / "evaluation.json").read_text())
    for item in content["realized"]:
        assert f"{item['threshold']:.4f}" in done.out
    assert {item["kind"] for item in content["realized"]} == {"FAR", "FPIR"}
    assert sum(item["kept"] for item in content["realized"]) >= len(content["realized"]) - 1
    assert (tmp_path / "judged" / "pictures" / "threshold.png").exists()


def test_training_identities_are_refused_or_marked(arcset_command, tmp_path):
    assert arcset_command(*TRAIN, "--out", "runs/b").code == 0
    done = arcset_command("evaluate", "runs/b", "--device", "cpu")
    assert done.code == 2
    assert "10 of 10" in done.err
    assert not (tmp_path / "runs" / "b" / "evaluation").exists()
    done = arcset_command(
        "evaluate", "runs/b", "--device", "cpu", "--allow-overlap", "--no-intervals"
    )
    assert done.code == 0
    assert "10 of 10" in done.err
    place = tmp_path / "runs" / "b" / "evaluation"
    note = json.loads((place / "evaluation.json").read_text())["note"]
    assert "10 of 10" in note
    assert note in (place / "report.html").read_text()


def test_two_models_compared(arcset_command, tmp_path):
    some_file(tmp_path / "good.npz", 0.3)
    some_file(tmp_path / "poor.npz", 1.5)
    done = arcset_command("evaluate", "good.npz", "--against", "poor.npz", "--no-report")
    assert done.code == 0, done.err
    assert "good against poor" in done.out
    line = next(line for line in done.out.splitlines() if line.startswith("  auc "))
    assert "better by" in line


def test_by_group_on_page_in_text_and_in_json(arcset_command, tmp_path):
    """At the working point of the validation identities; whole groups are drawn on request."""
    for name, first in (("test", 0), ("tune", 1000)):
        some_file(tmp_path / f"{name}.npz", 0.5, identities=60, first=first)
        arrays = dict(np.load(tmp_path / f"{name}.npz"))
        site = np.array([f"site {label % 6}" for label in arrays["labels"]])
        np.savez(tmp_path / f"{name}.npz", **arrays, site=site)
    words = ["evaluate", "test.npz", "--validation", "tune.npz", "--by", "site", "--out", "judged"]
    done = arcset_command(*words)
    assert done.code == 0, done.err
    content = json.loads((tmp_path / "judged" / "evaluation.json").read_text())
    found = content["by_group"]
    groups = [f"site {number}" for number in range(6)]
    assert [rate["group"] for rate in found["rates"]] == ["all", *groups, "across groups"]
    page = (tmp_path / "judged" / "report.html").read_text()
    for text in (*groups, f"{found['threshold']:.4f}", found["basis"]):
        assert text in done.out
        assert text in page
    made = Thresholds.load(tmp_path / "judged" / "threshold.json")
    assert found["threshold"] == pytest.approx(made.for_far(1e-3).threshold)
    assert made.rates.groups is None
    more = ["--group", "site", "--threshold", "0.5", "--json", "--no-report"]
    drawn = json.loads(arcset_command(*words, *more).out)
    assert drawn["verification"]["identities"] == 6
    assert drawn["by_group"]["threshold"] == 0.5
    assert Thresholds.load(tmp_path / "judged" / "threshold.json").rates.groups == 6


def test_a_run_is_judged_by_a_column_of_a_table(arcset_command, tmp_path):
    random_run(tmp_path / "run", dim=8)
    paths = pictures(tmp_path / "photos", [f"p{number}" for number in range(12)], 4)
    lines = [f"{path},{path.parent.name},{'AB'[path.stem < '02']}" for path in paths]
    (tmp_path / "faces.csv").write_text("\n".join(["path,label,camera", *lines]))
    words = ["evaluate", "run", "faces.csv", "--by", "camera", "--json", "--no-report"]
    done = arcset_command(*words, "--device", "cpu")
    assert done.code == 0, done.err
    rates = {rate["group"]: rate for rate in json.loads(done.out)["by_group"]["rates"]}
    assert rates["A"]["samples"] == rates["B"]["samples"] == 24
    assert rates["across groups"]["fnmr"]["pairs"] == 12 * 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["evaluate", "good.npz", "--by", "lables"], "'labels'"),
        (["evaluate", "good.npz", "--group", "embeddings"], "embeddings"),
        (["evaluate", "good.npz", "--far", "0.1"], "--by"),
        (["evaluate", "nosuch.npz"], "nosuch.npz"),
        (["evaluate", "good.npz", "orl"], "good.npz"),
        (["evaluate", "good.npz", "--against", "small.npz"], "small 20 of 4"),
        (["evaluate", "good.npz", "--against", "good.npz", "--no-intervals"], "intervals"),
        (["evaluate", "good.npz", "--against", "turned.npz"], "turned 125 of 25"),
        (["evaluate", "good.npz", "--against", "good.npz", "--validation", "x.npz"], "validation"),
        (["embed", "nosuch"], "nosuch"),
    ],
)
def test_wrong_use(arcset_command, tmp_path, words, message):
    some_file(tmp_path / "good.npz", 0.3)
    some_file(tmp_path / "small.npz", 0.3, identities=4)
    good = np.load(tmp_path / "good.npz")
    turned = {name: good[name][::-1] for name in good.files}
    np.savez(tmp_path / "turned.npz", **turned)
    before = sorted(tmp_path.iterdir())
    done = arcset_command(*words)
    assert done.code == 2
    assert message in done.err
    assert sorted(tmp_path.iterdir()) == before
