"""What can be planned, and what is refused."""

import pytest

from arcset import OptionError
from arcset.planning import Setting


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"classes": 0}, "classes"),
        ({"dim": -1}, "dim"),
        ({"processes": 0}, "processes"),
        ({"batch": 0}, "batch"),
        ({"sample": 0.0}, "sample"),
        ({"sample": 1.5}, "sample"),
        ({"sample": float("nan")}, "sample"),
        ({"storage": "float8"}, "storage .*float32, bfloat16.*'float8'"),
        ({"update": "adam"}, "update"),
        ({"optimizer": "lion"}, "optimizer .*sgd, adamw"),
        ({"device": "tpu"}, "device .*cpu, cuda"),
        ({"mode": "magic"}, "mode"),
        ({"loss": "arcfaec"}, "'arcface'"),
        ({"loss": "triplet"}, "'triplet'"),
        ({"network": "iresnet5"}, "'iresnet5'"),
        ({"classes": 3, "processes": 4}, " 4 "),
        ({"classes": 10, "processes": 6}, " 6 .* 5 "),
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
