import json
import math

import pytest
import torch
from sklearn.metrics import roc_auc_score

from arcset import OptionError, evaluation
from arcset.data import Split, load_dataset, select, to_tensors
from arcset.runs import Run, RunConfig
from arcset.runs.assess import measure_run
from arcset.runs.data import selection_for
from arcset.runs.model import TrainedRun, embed
from arcset.training import Comparison, LossSpec, compare, load_model, train
from support.small_data import images

CONFIG = RunConfig(
    data="mnist-sample",
    classes="0-2",
    network="mlp",
    dim=2,
    epochs=1,
    batch=128,
    scale=8.0,
    margin=0.4,
    snapshot=50,
)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    specs = [LossSpec.parse(text) for text in ("softmax:bias=false", "arcface", "triplet")]
    return compare(specs, CONFIG, 2, tmp_path_factory.mktemp("compare"), device="cpu")


def test_runs_and_summary(outcome):
    named = [(run["loss"], run["seed"]) for run in outcome.runs]
    assert named == [
        (loss, s) for loss in ("softmax:bias=false", "arcface", "triplet") for s in (0, 1)
    ]
    arcface = outcome.runs[2]
    assert (arcface["scale"], arcface["margin"], arcface["dim"]) == (8.0, 0.4, 2)
    assert outcome.runs[0]["scale"] is None
    assert outcome.runs[4]["accuracy"] is None
    assert "accuracy" not in outcome.summary["triplet"]
    found = outcome.summary["arcface"]["dunn"]
    values = [run["dunn"] for run in outcome.runs if run["loss"] == "arcface"]
    assert found == {"mean": sum(values) / 2, "low": min(values), "high": max(values)}
    assert json.loads(json.dumps(outcome.json(), allow_nan=False))["runs"][0]["seed"] == 0


def test_measures_are_what_they_say(outcome):
    """Recomputed from the saved weights, with scikit-learn for the AUC."""
    entry = outcome.runs[2]
    run = Run.open(entry["run"])
    network, loss = load_model(run)
    selection = select(load_dataset("mnist-sample"), "0-2")
    images, labels = to_tensors(selection.test)
    known = embed(network, images)
    named = loss.logits(known).argmax(dim=1)
    assert entry["accuracy"] == pytest.approx((named == labels).double().mean().item())
    unit = torch.nn.functional.normalize(known)
    assert entry["dunn"] == pytest.approx(evaluation.dunn_index(unit, labels, trim=None))
    assert entry["dunn_trimmed"] == pytest.approx(evaluation.dunn_index(unit, labels), rel=1e-4)
    images, labels = to_tensors(selection.unseen)
    unit = torch.nn.functional.normalize(embed(network, images).double())
    i, j = torch.triu_indices(len(unit), len(unit), 1)
    cosines = (unit[i] * unit[j]).sum(dim=1)
    expected = roc_auc_score(labels[i] == labels[j], cosines)
    assert entry["unseen_auc"] == pytest.approx(expected, abs=1e-5)
    assert measure_run(TrainedRun.load(run, device="cpu"))["accuracy"] == entry["accuracy"]


def test_softmax_is_measured_on_raw_embeddings(outcome):
    softmax = outcome.runs[0]
    assert softmax["dunn_trimmed"] != softmax["dunn_trimmed_unit"]
    arcface = outcome.runs[2]
    assert arcface["dunn_trimmed"] == arcface["dunn_trimmed_unit"]


def test_no_unseen_classes(tmp_path):
    specs = [LossSpec.parse("softmax")]
    config = CONFIG.replace(classes=None, batch=512, snapshot=0)
    entry = compare(specs, config, 1, tmp_path, device="cpu").runs[0]
    assert entry["unseen_auc"] is None
    assert entry["accuracy"] > 0.1


def test_specs():
    spec = LossSpec.parse("center:base=arcface:weight=0.5:margin=0.2")
    config, ignored = spec.applied(CONFIG)
    assert (config.loss, config.scale, config.margin) == ("center", 8.0, 0.2)
    assert config.options == {"base": "arcface", "weight": 0.5}
    assert ignored == []
    config, ignored = LossSpec.parse("softmax").applied(CONFIG)
    assert (config.scale, config.margin, ignored) == (None, None, ["scale", "margin"])
    assert LossSpec.parse("softmax:bias=false").folder == "softmax-bias=false"
    for text, message in (
        ("arcfac", "'arcface'"),
        ("arcface:fallback", "arcface:OPTION=VALUE"),
        ("arcface:bais=true", "'bais'"),
    ):
        with pytest.raises(OptionError, match=message):
            LossSpec.parse(text)


def test_wrong_use_is_found_before_the_first_run(tmp_path):
    twice = [LossSpec.parse("arcface"), LossSpec.parse("arcface")]
    with pytest.raises(OptionError, match="'arcface'"):
        compare(twice, CONFIG, 1, tmp_path / "out")
    with pytest.raises(OptionError, match="seeds"):
        compare(twice[:1], CONFIG, 0, tmp_path / "out")
    wrong = [LossSpec.parse("arcface"), LossSpec.parse("sphereface:margin=0.5")]
    with pytest.raises(OptionError, match="margin"):
        compare(wrong, CONFIG, 1, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_runs_that_begin_from_another_keep_to_whom_it_held_out(tmp_path):
    data = str(images(tmp_path / "a.npz", classes=12, each=6))
    small = {"dim": 4, "network": "glyph", "epochs": 1, "batch": 16, "snapshot": 0}
    first = RunConfig(data=data, hold_out={"test": 0.34}, **small)
    old = train(first, tmp_path / "old", device="cpu")
    config = first.replace(start=str(old.path), hold_out={"test": 0.5})
    specs = [LossSpec.parse("normface"), LossSpec.parse("arcface")]
    drawn = set(selection_for(config).unseen.class_names)
    assert drawn & set(old.config.class_names)  # the share alone would hold out whom it knew
    found = compare(specs, config, 1, tmp_path / "out", device="cpu")
    for entry in found.runs:
        split = Split.load(Run.open(entry["run"]).split_file)
        assert not set(split.test) & set(old.config.class_names)
        assert set(split.test) == set(Split.load(old.split_file).test)
    wrong = config.replace(hold_out=None, classes=",".join(old.config.class_names[:2]))
    with pytest.raises(OptionError, match="to hold out"):
        compare(specs, wrong, 1, tmp_path / "no", device="cpu")
    with pytest.raises(OptionError, match="dim 4"):
        compare(specs, config.replace(dim=8), 1, tmp_path / "no", device="cpu")
    assert not (tmp_path / "no").exists()


def test_infinite_measures_become_null():
    run = dict.fromkeys(("accuracy", "dunn", "dunn_trimmed", "dunn_trimmed_unit"), math.inf)
    run |= {"unseen_auc": None, "unseen_eer": None, "seconds": 1.0, "loss": "x", "seed": 0}
    found = Comparison([run]).json()
    assert found["runs"][0]["dunn"] is None
    assert found["summary"]["x"]["dunn"]["mean"] is None
