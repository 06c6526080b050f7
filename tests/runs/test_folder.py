"""What lies in a run's folder, and how it is written and read."""

import pytest
import torch

from arcset import DataError, RunError
from arcset.runs import Run, RunConfig

CONFIG = RunConfig(data="mnist-sample")


def test_a_run_is_not_overwritten_by_accident(tmp_path):
    run = Run.create(tmp_path / "a", CONFIG)
    run.write_metrics([{"epoch": 1}])
    (run.path / "notes.txt").write_text("mine")
    (run.path / "evaluation").mkdir()
    with pytest.raises(RunError, match="--resume"):
        Run.create(run.path, CONFIG)
    assert run.metrics() == [{"epoch": 1}]
    fresh = Run.create(run.path, CONFIG.replace(dim=3), force=True)
    assert fresh.metrics() == []
    assert not (run.path / "evaluation").exists()  # of the weights that were replaced
    assert Run.open(run.path).config.dim == 3
    assert (run.path / "notes.txt").read_text() == "mine"


def test_other_folders_and_files_are_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(RunError, match=str(tmp_path)):
        Run.create(tmp_path, CONFIG, force=True)
    with pytest.raises(RunError, match=r"thesis\.tex"):
        Run.create(tmp_path / "thesis.tex", CONFIG)
    with pytest.raises(RunError, match=str(tmp_path)):
        Run.open(tmp_path)


def test_what_a_killed_process_has_left_is_not_in_the_way(tmp_path):
    (tmp_path / ".config.toml.0123abcd.part").write_text("data = ")
    run = Run.create(tmp_path, CONFIG)
    assert [file.name for file in run.path.iterdir()] == ["config.toml"]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / ".something.part").write_text("")
    with pytest.raises(RunError, match=str(tmp_path)):
        Run.create(tmp_path / "other", CONFIG)


def test_damaged_files_are_named(tmp_path):
    run = Run.create(tmp_path / "a", CONFIG)
    run.save_model({"w": torch.ones(2)}, {})
    (run.path / "model.safetensors").write_bytes(b"torn")
    with pytest.raises(RunError, match=r"model\.safetensors"):
        run.load_model()
    (run.path / "metrics.jsonl").write_text('{"epoch": 1}\n{"epo')
    with pytest.raises(RunError, match=r"metrics\.jsonl"):
        run.metrics()


def test_measures_are_read_back_and_empty_before(tmp_path):
    run = Run.create(tmp_path / "a", CONFIG)
    assert run.measures == {}
    run.write_measures({"accuracy": 0.5, "dunn": float("inf"), "unseen_auc": None})
    assert run.measures == {"accuracy": 0.5, "dunn": None, "unseen_auc": None}
    (run.path / "threshold.json").write_text("{}")
    run.save_network({"w": torch.ones(1)})
    assert run.measures == {}  # they were those of other weights
    assert run.thresholds is None
    for damaged in ("{", "[1]", '{"accuracy": "good"}'):
        (run.path / "measures.json").write_text(damaged)
        with pytest.raises(DataError, match=r"measures\.json"):
            run.measures  # noqa: B018


def test_a_run_shows_itself_in_a_notebook(tmp_path):
    config = CONFIG.replace(data=str(tmp_path / "<b>faces"), class_names=("a", "b"), epochs=7)
    run = Run.create(tmp_path / "run", config)
    run.write_metrics([{"epoch": 1}])
    run.write_measures({"accuracy": 0.875, "unseen_auc": 0.75, "dunn": None})
    shown = run._repr_html_()
    for text in ("&lt;b&gt;faces, 2 classes", "1 of 7", "87.50 %", "unseen", "0.75"):
        assert text in shown
    assert "dunn" not in shown
    assert str(run.path) in repr(run)
