"""`arcset compare` and `arcset demo` from the outside."""

import json

import pytest

from arcset.cli import demo
from arcset.networks import NETWORKS

SMALL = [
    "mnist-sample",
    "--classes",
    "0-1",
    "--dim",
    "2",
    "--epochs",
    "1",
    "--network",
    "mlp",
    "--set",
    "snapshot=10",
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
    assert "--margin" in done.err
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
        "comparison.json",
        "normface-0",
        "triplet-0",
    ]


@pytest.fixture
def small_demo(monkeypatch):
    """The demo with the losses that its film shows, and networks that train in no time."""
    few = [spec for spec in demo.SPECS if spec.label in demo.FILMED]
    monkeypatch.setattr(demo, "SPECS", few)
    monkeypatch.setattr(demo, "SPHERE", demo.SPHERE[1:])
    before = {name: NETWORKS[name] for name in ("simple", "vgg8")}
    for name in before:
        NETWORKS.remove(name)
        NETWORKS.add(name, NETWORKS["mlp"])
    yield few
    for name, network in before.items():
        NETWORKS.remove(name)
        NETWORKS.add(name, network)


def test_a_small_demo(arcset_command, tmp_path, small_demo):
    """One epoch long, over an earlier one that was stopped, as people do.

    The whole demo is run in tests/contract.
    """
    assert len(small_demo) > 2
    (tmp_path / "runs" / "demo" / "arcface-0").mkdir(parents=True)
    (tmp_path / "runs" / "demo" / "arcface-0" / "config.toml").write_text("")
    done = arcset_command("demo", "--epochs", "1", "--seeds", "1", "--device", "cpu")
    assert done.code == 0
    for spec in small_demo:
        assert any(spec.label in line for line in done.out.splitlines())
    summary = json.loads((tmp_path / "runs" / "demo" / "comparison.json").read_text())["summary"]
    assert demo.verdict(summary) in done.out
    made = {path.name for path in (tmp_path / "runs" / "demo").iterdir()}
    assert {"report.html", "film-2d.gif", "film-3d.gif", "pictures"} <= made
    saved = json.loads((tmp_path / "runs" / "demo" / "comparison.json").read_text())
    assert [run["loss"] for run in saved["runs"]] == [spec.label for spec in small_demo]
    scales = {run["scale"] for run in saved["runs"] if run["scale"] is not None}
    assert len(scales) == 1, "the demo compares at a matched scale"


def summary(**measures):
    losses = ("arcface", "normface")
    return {
        loss: {name: {"mean": values[place]} for name, values in measures.items()}
        for place, loss in enumerate(losses)
    }


def test_the_verdict_follows_the_figures():
    good = demo.verdict(
        summary(accuracy=(0.99, 0.985), dunn_trimmed=(18, 11), unseen_auc=(0.6, 0.7))
    )
    assert "so accuracy does not choose between them" in good
    assert "makes classes more compact" in good
    assert "no promise for the unknown" in good
    bad = demo.verdict(summary(accuracy=(0.2, 0.3), dunn_trimmed=(0, 0), unseen_auc=(0.9, 0.95)))
    assert "does not choose" not in bad
    assert "makes classes no more compact" in bad
    assert "no promise" not in bad


def test_a_folder_in_the_way_is_found_before_the_first_run(arcset_command, tmp_path):
    (tmp_path / "out" / "arcface-0").mkdir(parents=True)
    (tmp_path / "out" / "arcface-0" / "config.toml").write_text("")
    done = arcset_command("compare", *SMALL, "--losses", "softmax,arcface", "--out", "out")
    assert done.code == 2
    assert "arcface-0" in done.err
    assert not (tmp_path / "out" / "softmax-0").exists()
