"""Centers shared among processes train as they do in one."""

import json

import pytest

import arcset
from arcset import OptionError
from support.forked import together
from support.sharded import train_together
from support.variants import VARIANTS


def differences(tmp_path, count, steps, names):
    result = tmp_path / "result.json"
    together(count, train_together, result, steps, names, place=tmp_path)
    return json.loads(result.read_text(encoding="utf-8"))


def check(found, count):
    for rank, one in enumerate(found):
        told = one.pop("refused")
        assert ("23" if rank == 0 else "process 0") in told
        for what, (losses, centers) in one.items():
            assert losses < 1e-9, (what, losses)
            assert centers < 1e-8, (what, centers)
    assert len(found) == count


def test_trains_as_one_process(tmp_path):
    check(differences(tmp_path, 2, 4, ["magface", "everything"]), 2)


@pytest.mark.long
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("count", [1, 2, 4])
def test_every_margin_trains_as_one_process(tmp_path, count):
    check(differences(tmp_path, count, 100, list(VARIANTS)), count)


def test_without_processes():
    with pytest.raises(OptionError, match="torchrun"):
        arcset.build_loss("arcface", 4, 10, group=True)
