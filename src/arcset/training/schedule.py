"""Learning rates as a pure function of the step, so that a resumed run needs no state for them."""

import math

__all__ = ["learning_rate"]

_WARM_UP = 0.3  # share of all steps in which one-cycle rises
_START, _END = 1 / 25, 1e-5  # of the peak


def learning_rate(
    step: int, steps: int, peak: float, schedule: str, warm_up: float | None = None
) -> float:
    """The learning rate of step `step` (0 … steps − 1).

    `one-cycle` rises to the peak in the first 30 % of the steps and falls to almost nothing, both
    along a cosine (Smith and Topin, 2018); `cosine` falls from the peak; `constant` stays.
    `warm_up` is another share of the steps for the rise: along a cosine from 1/25 of the peak in
    one-cycle, along a line from next to nothing in the others, where it is 0 if not given.

        >>> [round(learning_rate(step, 10, 1.0, "one-cycle"), 3) for step in (0, 2, 9)]
        [0.04, 1.0, 0.0]
        >>> [round(learning_rate(step, 11, 1.0, "cosine"), 3) for step in (0, 5, 10)]
        [1.0, 0.5, 0.0]
        >>> [round(learning_rate(step, 10, 1.0, "cosine", 0.2), 3) for step in (0, 1, 2, 9)]
        [0.5, 1.0, 1.0, 0.0]
    """
    last = max(steps - 1, 1)
    if schedule == "one-cycle":
        share = _WARM_UP if warm_up is None else warm_up
        warm = share * steps - 1  # the step of the peak, as torch's OneCycleLR counts
        if step < warm:
            return _along_cosine(_START * peak, peak, step / warm)
        return _along_cosine(peak, _END * peak, (step - warm) / (last - warm))
    rising = round((warm_up or 0.0) * steps)
    if step < rising:
        return peak * (step + 1) / rising
    if schedule == "constant":
        return peak
    return _along_cosine(peak, _END * peak, (step - rising) / max(last - rising, 1))


def _along_cosine(start: float, end: float, share: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * share)) / 2
