"""What can be planned, and what is refused."""

import pytest

from arcset import OptionError
from arcset.planning import Setting


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"classes": 0}, "classes must be a whole number"),
        ({"dim": -1}, "dim must be a whole number"),
        ({"processes": 0}, "processes must be"),
        ({"batch": 0}, "batch must be"),
        ({"sample": 0.0}, "sample must be a finite number greater than 0"),
        ({"sample": 1.5}, "sample must lie in"),
        ({"sample": float("nan")}, "sample must be"),
        ({"storage": "float8"}, "storage must be one of float32, bfloat16, not 'float8'"),
        ({"update": "adam"}, "update must be one of none, sgd, adagrad"),
        ({"optimizer": "lion"}, "optimizer must be one of sgd, adamw"),
        ({"device": "tpu"}, "device must be one of cpu, cuda"),
        ({"mode": "magic"}, "mode must be one of"),
        ({"loss": "arcfaec"}, "did you mean 'arcface'"),
        ({"loss": "triplet"}, "no margin is called 'triplet'"),
        ({"network": "iresnet5"}, "did you mean"),
        ({"classes": 3, "processes": 4}, "cannot be divided"),
        ({"classes": 10, "processes": 6}, "among 6 processes: 5 would have all of them"),
        ({"mode": "plain", "processes": 2}, "mode=plain"),
    ],
)
def test_refused_in_one_sentence(options, told):
    with pytest.raises(OptionError, match=told) as raised:
        Setting(**{"classes": 1000, **options})
    assert "\n" not in str(raised.value)


def test_shares():
    setting = Setting(classes=1001, processes=4, batch=10, subcenters=2, sample=0.5)
    assert setting.own_classes == 251
    assert setting.rows == 502
    assert setting.together == 40
    assert setting.taking_part == round(10 + 0.5 * 241)
    assert setting.drawn == 2 * setting.taking_part
    assert setting.but(sample=1.0).taking_part == 251
    assert Setting(classes=5, batch=100, sample=0.5).taking_part == 5  # all are the batch's own
