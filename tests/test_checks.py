"""Checks of options: what they let through, as which type, and that they name the option."""

import math

import numpy as np
import pytest
import torch

from arcset import OptionError
from arcset.checks import (
    check_bool,
    check_choice,
    check_count,
    check_counts,
    check_number,
    check_rate,
    check_rates,
)


def test_numbers_of_every_kind_become_floats():
    for value in (0, 0.5, np.float32(0.5), np.int64(0)):
        checked = check_number("share", value, 0, 1)
        assert type(checked) is float
        assert checked == value


@pytest.mark.parametrize("value", [-1e-9, 1.0, math.nan, math.inf, True, "0.5", None])
def test_what_is_no_number_in_the_interval_is_refused(value):
    with pytest.raises(OptionError, match=r"share .*\[0, 1\)"):
        check_number("share", value, 0, 1)


def test_closed_says_which_ends_belong_to_the_interval():
    for closed, low, high in (
        ("left", True, False),
        ("right", False, True),
        ("both", True, True),
        ("neither", False, False),
    ):
        for end, belongs in ((0, low), (1, high)):
            if belongs:
                assert check_number("share", end, 0, 1, closed) == end
            else:
                with pytest.raises(OptionError):
                    check_number("share", end, 0, 1, closed)


def test_whole_numbers_of_every_kind_become_ints():
    for value in (3, np.int32(3), np.array(3), torch.tensor(3)):
        checked = check_count("k", value)
        assert type(checked) is int
        assert checked == 3


@pytest.mark.parametrize("value", [0, 2.0, True, "2", None, 2**63, np.array([1.5]), math.nan])
def test_what_is_no_count_is_refused(value):
    with pytest.raises(OptionError, match="k must be"):
        check_count("k", value)


def test_counts_and_rates_come_one_or_several():
    assert check_counts("ks", 5) == check_counts("ks", (5,)) == [5]
    assert check_rates("fars", np.array([0.1, 1])) == [0.1, 1.0]
    assert check_rate("far", 0.1) == 0.1
    with pytest.raises(OptionError, match="far"):
        check_rate("far", 1)
    for check, values in ((check_counts, [1, 0]), (check_rates, [0.1, 0]), (check_rates, "0.1")):
        with pytest.raises(OptionError, match="each of these"):
            check("these", values)


def test_choices_are_named():
    assert check_choice("kind", "arc", {"arc": 1, "cos": 2}) == "arc"
    for value in ("sin", None, ["arc"]):
        with pytest.raises(OptionError, match="kind must be one of arc, cos"):
            check_choice("kind", value, ("arc", "cos"))


def test_only_bools_are_bools():
    assert check_bool("bias", True) is True
    for value in (1, "true", None):
        with pytest.raises(OptionError, match="bias"):
            check_bool("bias", value)
