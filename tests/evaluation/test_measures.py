"""The table of measures: a new one is an entry and a function, and stands wherever measures do."""

import json

import numpy as np
import pytest

from arcset import OptionError
from arcset.evaluation import assess
from arcset.evaluation.measures import MEASURES, PARTS, Measure, short_name
from arcset.reports.evaluation_report import write_evaluation
from arcset.reports.model_card import write_card
from arcset.reports.tables import headline
from arcset.runs import RunConfig
from arcset.runs.assess import measure_run
from arcset.runs.model import TrainedRun
from arcset.runs.settings import list_layers
from arcset.training import train
from arcset.training.compare import compare_variants


def mean_length(units, labels):
    return float(np.linalg.norm(np.asarray(units).mean(axis=0)))


TOY = Measure(
    "mean_length",
    "shape",
    "mean length",
    "length of the mean of all embeddings",
    "it says nothing of classes",
    unit="number",
    lower_is_better=True,
    weight="headline",
    key="toy",
    validate=True,
    function=mean_length,
)


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.setitem(MEASURES, TOY.name, TOY)
    return TOY


@pytest.fixture
def found(toy):
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(8), 6)
    rows = rng.normal(size=(8, 5))[labels] + 0.3 * rng.normal(size=(48, 5))
    return rows, assess(rows, labels, draws=50)


def test_every_entry_says_what_it_means_and_when_it_misleads():
    for one in MEASURES.values():
        assert one.part in PARTS
        assert len(one.meaning) > 20
        assert len(one.misleads) > 20
        assert "{" not in short_name(one.full_name)


def test_a_toy_is_in_an_evaluation_its_table_its_page_and_the_card(found, tmp_path):
    rows, assessment = found
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    value = f"{mean_length(units, None):.4f}"
    assert assessment.shape["mean_length"] == pytest.approx(mean_length(units, None))
    assert f"mean length          {value}" in assessment.table()
    assert "mean_length" in assessment.json()["shape"]
    assert [one.label for one in headline(assessment)][-1] == "mean length"
    write_evaluation(tmp_path, {"a": assessment}, title="toy", command="arcset evaluate")
    page = (tmp_path / "report.html").read_text()
    assert "mean length" in page
    assert "length of the mean of all embeddings; lower is better" in page


def test_a_toy_is_measured_on_validation_and_unseen_identities_and_may_choose_the_epoch(
    toy, found, tmp_path
):
    config = RunConfig(
        data="mnist-sample", dim=4, network="mlp", epochs=2, batch=256, best_by="toy"
    ).replace(hold_out={"validation": 0.3, "test": 0.3})
    run = train(config, tmp_path / "run", device="cpu")
    lines = [line["validation"]["toy"] for line in run.metrics()]
    kept = [line["kept"] for line in run.metrics()]
    assert kept == [True, lines[1] < lines[0]]
    assert "| mean length " in write_card(run, None, found[1]).read_text(encoding="utf-8")
    figures = measure_run(TrainedRun.load(run, device="cpu"))
    assert 0 <= figures["unseen_toy"] <= 1
    layers = list_layers({"data": "mnist-sample", "classes": "0-3", "network": "mlp", "epochs": 1})
    compared = compare_variants(layers, tmp_path / "out", losses=["arcface"], seeds=1, device="cpu")
    assert "unseen mean length" in compared.rows()[0]
    json.dumps(figures)


def test_without_the_entry_nothing_is_left_of_it():
    assert "mean_length" not in MEASURES
    with pytest.raises(OptionError, match="best_by='toy'"):
        RunConfig(data="mnist-sample", best_by="toy")
