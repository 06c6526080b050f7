"""`arcset compare` and `arcset demo` from the outside."""

import json

from arcset.cli.demo import SPECS

SMALL = [
    "mnist-sample",
    "--classes",
    "0-1",
    "--dim",
    "2",
    "--epochs",
    "1",
    "--device",
    "cpu",
    "--no-report",
]


def test_json_has_the_promised_shape(arcset_command):
    done = arcset_command(
        *["compare", *SMALL, "--losses", "softmax,arcface", "--scale", "2", "--margin", "0.3"],
        *["--seeds", "2", "--json"],
    )
    assert done.code == 0
    assert "softmax has no margin: --margin is ignored" in done.err
    content = json.loads(done.out)
    promised = {"loss", "seed", "dim", "scale", "margin", "accuracy", "dunn", "dunn_trimmed"}
    assert all(promised <= run.keys() for run in content["runs"])
    assert [run["seed"] for run in content["runs"]] == [0, 1, 0, 1]
    assert set(content["summary"]) == {"softmax", "arcface"}
    for measure in ("accuracy", "dunn", "dunn_trimmed", "unseen_auc"):
        found = content["summary"]["arcface"][measure]
        assert found["low"] <= found["mean"] <= found["high"]


def test_table(arcset_command, tmp_path):
    done = arcset_command(
        "compare", *SMALL, "--losses", "normface,triplet", "--seeds", "1", "--out", "runs/x"
    )
    assert done.code == 0
    row = next(line for line in done.out.splitlines() if "triplet" in line)
    assert "–" in row  # no classifier, no accuracy
    assert sorted(path.name for path in (tmp_path / "runs" / "x").iterdir()) == [
        "normface-0",
        "triplet-0",
    ]


def test_demo(arcset_command, tmp_path):
    """The real thing, one epoch long; twice, as people do."""
    for _ in range(2):
        done = arcset_command("demo", "--epochs", "1", "--seeds", "1", "--device", "cpu")
        assert done.code == 0
    for spec in SPECS:
        assert any(spec.label in line for line in done.out.splitlines())
    assert "What to make of it: " in done.out
    saved = json.loads((tmp_path / "runs" / "demo" / "comparison.json").read_text())
    assert [run["loss"] for run in saved["runs"]] == [spec.label for spec in SPECS]
    scales = {run["scale"] for run in saved["runs"] if run["scale"] is not None}
    assert len(scales) == 1, "the demo compares at a matched scale"
