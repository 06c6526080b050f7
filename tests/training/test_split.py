"""Training with a split: what the run keeps, and that it needs the file no more."""

import pytest

from arcset import DataError
from arcset.data import Split, load_dataset, make_split, select
from arcset.runs import Run, RunConfig
from arcset.runs.data import selection_for, selection_of
from arcset.training import resume, train
from support.small_data import Remembers

PARTS = ("train", "test", "unseen", "validation")


@pytest.fixture(scope="module")
def split():
    names = load_dataset("mnist-sample").class_names
    return make_split(names, (0.6, 0.2, 0.2), seed=5, data="mnist-sample")


@pytest.fixture
def config(split, tmp_path):
    split.save(tmp_path / "mine.json")
    return RunConfig(
        data="mnist-sample",
        split=str(tmp_path / "mine.json"),
        network="mlp",
        dim=4,
        epochs=2,
        snapshot=20,
    )


def same(a, b):
    for part in PARTS:
        one, other = getattr(a, part), getattr(b, part)
        assert one.class_names == other.class_names
        assert one.labels.tolist() == other.labels.tolist()


def test_a_run_keeps_its_split_and_is_resumed_without_the_file(config, split, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "run", device="cpu", watcher=Remembers(12))
    (tmp_path / "mine.json").unlink()
    run = resume(tmp_path / "run", device="cpu")
    assert [line["epoch"] for line in run.metrics()] == [1, 2]
    assert Split.load(run.split_file) == split
    assert run.config.class_names == split.train
    selection = selection_of(Run.open(run.path))
    same(selection, select(load_dataset("mnist-sample"), None, split))
    assert set(selection.unseen.class_names) == set(split.test)


def test_the_selection_of_a_run(config, split, tmp_path):
    run = Run.create(tmp_path / "run", config.replace(class_names=split.train))
    with pytest.raises(DataError, match=r"run/split\.json"):
        selection_of(run)
    split.save(run.split_file)
    same(selection_of(run), selection_for(config))
    Run.create(run.path, config.replace(split=None, classes="0-4"), force=True)
    assert not run.split_file.exists()
    plain = Run.open(run.path)
    assert selection_of(plain).train.class_names == tuple("01234")
    plain.config = plain.config.replace(class_names=("0", "1"))
    with pytest.raises(DataError, match=r"2 then, 5 now"):
        selection_of(plain)
