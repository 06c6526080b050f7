"""From a rate on validation identities to the rates that fresh identities will show."""

import math
from numbers import Integral, Real

from scipy.special import betaincinv

from arcset.errors import OptionError
from arcset.evaluation.results import LEVEL, Interval

__all__ = ["check_count", "check_rate", "predicted_rates"]


def predicted_rates(rate: float, validation: float, test: float, shown: int) -> Interval:
    """The 95 % prediction interval of the rate that a fresh test will show.

    The threshold was put where the validation set shows `rate`, with the variance `validation`
    between such sets; a test at a fixed threshold has the variance `test`. The test's rate is taken
    as Beta distributed around `rate`, with both variances added. A threshold's error enters by a
    ratio, as the true rate is `rate` divided by the validation set's relative deviation, and a
    ratio varies more: by 1 + 4r where the deviation has the (small) variance r. The borders are
    rounded outward to what a test of `shown` decisions can show.

        >>> print(predicted_rates(0.05, validation=1e-4, test=1e-4, shown=1000))
        [0.0250, 0.0830]
    """
    if not 0 < rate < 1:
        return Interval(rate, rate)
    widest = rate * (1 - rate)
    variance = test + validation * (1 + 4 * validation / widest**2)
    if variance <= 0:
        return Interval(rate, rate)
    size = widest / min(variance, 0.999 * widest) - 1
    low, high = (
        float(betaincinv(rate * size, (1 - rate) * size, share))
        for share in ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
    )
    return Interval(
        math.floor(low * shown + 1e-9) / shown, min(math.ceil(high * shown - 1e-9) / shown, 1.0)
    )


def check_count(name: str, value: object, least: int = 1) -> int:
    """`value` as an int; raises `OptionError` unless it is a whole number ≥ `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise OptionError(f"{name}={value!r}, expected a whole number of at least {least}")
    return int(value)


def check_rate(name: str, value: object) -> float:
    """`value` as a float; raises `OptionError` unless it is a rate in (0, 1)."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < 1:
        raise OptionError(f"{name}={value!r}, expected a rate between 0 and 1")
    return float(value)
