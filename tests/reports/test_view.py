"""A run that is in memory is looked at without reading it again."""

import numpy as np

from arcset.reports import RunView
from arcset.runs import model
from arcset.runs.model import TrainedRun


def test_a_run_in_memory_is_neither_loaded_nor_embedded_again(views, monkeypatch):
    trained = TrainedRun.load(views["arcface"].run, device="cpu")
    test, unseen = trained.embed_part("test"), trained.embed_part("unseen")
    for name in ("load_model", "selection_of", "embed"):
        monkeypatch.setattr(model, name, None)
    view = RunView(trained, "in memory")
    assert view.title == "in memory"
    assert view.loss is trained.loss
    assert view.selection is trained.selection
    for part, rows in ((view.test, test.embeddings), (view.unseen, unseen.embeddings)):
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        np.testing.assert_allclose(part.embeddings, rows / lengths, atol=1e-6)


def test_a_run_folder_is_read_when_something_is_asked_of_it(views, monkeypatch):
    path = views["arcface"].run.path
    monkeypatch.setattr(model, "load_model", None)
    view = RunView(path)
    assert view.title == "arcface"
    assert view.config.loss == "arcface"
