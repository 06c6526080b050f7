import pytest
import torch

from arcset import RunError
from arcset.runs import Run, RunConfig

CONFIG = RunConfig(data="mnist-sample")


def test_create_and_open(tmp_path):
    run = Run.create(tmp_path / "a" / "b", CONFIG)
    assert Run.open(run.path).config == CONFIG
    assert run.metrics() == []
    assert run.epochs() == []


def test_a_run_is_not_overwritten_by_accident(tmp_path):
    run = Run.create(tmp_path / "a", CONFIG)
    run.write_metrics([{"epoch": 1}])
    (run.path / "notes.txt").write_text("mine")
    with pytest.raises(RunError, match="--resume"):
        Run.create(run.path, CONFIG)
    assert run.metrics() == [{"epoch": 1}]
    fresh = Run.create(run.path, CONFIG.replace(dim=3), force=True)
    assert fresh.metrics() == []
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


def test_tensors_round_trip(tmp_path):
    run = Run.create(tmp_path / "a", CONFIG)
    with pytest.raises(RunError, match="weights"):
        run.load_model()
    weights = {"w": torch.randn(3, 2), "n": torch.tensor(4)}
    run.save_model(weights, {"c": torch.eye(2).T})
    network, loss = run.load_model()
    assert torch.equal(network["w"], weights["w"])
    assert torch.equal(loss["c"], torch.eye(2))
    run.save_embeddings(12, {"test": torch.ones(2, 2)})
    run.save_embeddings(0, {"test": torch.zeros(2, 2)})
    assert run.epochs() == [0, 12]
    assert torch.equal(run.embeddings(12)["test"], torch.ones(2, 2))


def test_thresholds_go_with_the_weights_they_were_made_for(tmp_path):
    run = Run.create(tmp_path / "a", CONFIG)
    thresholds = run.path / "threshold.json"
    thresholds.write_text("{}")
    run.save_model({"w": torch.ones(1)}, {})
    assert not thresholds.exists()
    thresholds.write_text("{}")
    Run.create(run.path, CONFIG, force=True)
    assert not thresholds.exists()


def test_damaged_files_are_named(tmp_path):
    run = Run.create(tmp_path / "a", CONFIG)
    run.save_model({"w": torch.ones(2)}, {})
    (run.path / "model.safetensors").write_bytes(b"torn")
    with pytest.raises(RunError, match=r"model\.safetensors"):
        run.load_model()
    (run.path / "metrics.jsonl").write_text('{"epoch": 1}\n{"epo')
    with pytest.raises(RunError, match=r"metrics\.jsonl"):
        run.metrics()
