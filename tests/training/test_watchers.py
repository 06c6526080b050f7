"""What TensorBoard finds in the event files: read back from real ones."""

import sys

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from arcset.errors import OptionError
from arcset.training.watchers import Step, TensorBoardWatcher, Watcher


def step(number, loss=None, **angles):
    loss = 1.0 / number if loss is None else loss
    return Step(number, loss=loss, rate=0.1 * number, images_per_second=100.0 * number, **angles)


def read(folder):
    found = EventAccumulator(str(folder))
    found.Reload()
    return found


def curve(folder, tag):
    return [(event.step, event.value) for event in read(folder).Scalars(tag)]


def texts(folder):
    events = read(folder).Tensors("warning/text_summary")
    return [(event.step, event.tensor_proto.string_val[0].decode()) for event in events]


def test_steps_become_curves(tmp_path):
    with TensorBoardWatcher(tmp_path / "curves") as watcher:
        told: Watcher = watcher
        told.started("arc", 0, 3)
        told.stepped(step(1))
        told.stepped(step(2, target_degrees=40.0, other_degrees=80.5))
        told.stepped(step(3, loss=0.25))
    folder = tmp_path / "curves"
    assert curve(folder, "step/loss") == [(1, 1.0), (2, 0.5), (3, 0.25)]
    assert curve(folder, "step/images_per_second") == [(1, 100.0), (2, 200.0), (3, 300.0)]
    assert curve(folder, "step/other_degrees") == [(2, 80.5)]


def test_the_line_of_an_epoch_is_flattened(tmp_path):
    with TensorBoardWatcher(tmp_path) as watcher:
        watcher.started("arc", 0, 20)
        watcher.stepped(step(10))
        watcher.epoch_ended(
            {
                "epoch": 1,
                "loss": np.float32(0.5),
                "kept": True,
                "best_by": "map",
                "worst": None,
                "validation": {"recall": 0.75, "far": {"0.01": 0.5}, "auc": float("nan")},
            }
        )
    tags = set(read(tmp_path).Tags()["scalars"])
    assert {tag for tag in tags if not tag.startswith("step/")} == {
        "epoch/epoch",
        "epoch/loss",
        "epoch/kept",
        "validation/recall",
        "validation/far/0.01",
    }
    assert curve(tmp_path, "epoch/loss") == [(10, 0.5)]
    assert curve(tmp_path, "epoch/kept") == [(10, 1.0)]
    assert curve(tmp_path, "validation/recall") == [(10, 0.75)]


def test_a_resumed_run_continues_its_curves(tmp_path):
    with TensorBoardWatcher(tmp_path) as watcher:
        watcher.started("arc", 0, 4)
        for number in (1, 2, 3):
            watcher.stepped(step(number))
    with TensorBoardWatcher(tmp_path) as watcher:  # step 3 came after the last checkpoint
        watcher.started("arc", 2, 4)
        watcher.stepped(step(3, loss=0.125))
        watcher.stepped(step(4))
    assert curve(tmp_path, "step/loss") == [(1, 1.0), (2, 0.5), (3, 0.125), (4, 0.25)]


def test_warnings_are_text_those_before_the_start_too(tmp_path):
    with TensorBoardWatcher(tmp_path) as watcher:
        watcher.warned("three files were skipped")
        watcher.started("arc", 5, 10)
        watcher.stepped(step(6))
        watcher.warned("the loss does not fall")
    assert texts(tmp_path) == [(5, "three files were skipped"), (6, "the loss does not fall")]


def test_figures_are_there_before_it_is_closed(tmp_path):
    watcher = TensorBoardWatcher(tmp_path)
    watcher.started("arc", 0, 10)
    watcher.stepped(step(1))
    watcher.epoch_ended({"epoch": 1})
    assert curve(tmp_path, "step/loss") == [(1, 1.0)]
    watcher.close()
    watcher.close()  # twice is fine


def test_without_tensorboard_one_sentence_says_how_to_get_it(tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("torch.utils.tensorboard")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboard", None)  # as where it is not installed
    with pytest.raises(OptionError, match=r"pip install 'arcset\[tensorboard\]'$"):
        TensorBoardWatcher(tmp_path)
