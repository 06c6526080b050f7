"""Error rates of accept-or-reject decisions, from two sorted lists of scores.

Genuine pairs should score high, impostor pairs low; a pair is accepted if score ≥ threshold.
TAR is the share of genuine pairs accepted, FRR = 1 − TAR, FAR the share of impostors accepted.
Both lists are float32 and ascending throughout.
"""

import math

import numpy as np

from arcset.evaluation.pairs.scores import Scores

__all__ = ["area_and_equal_error", "tar_at_far"]


def area_and_equal_error(genuine: Scores, impostor: Scores) -> tuple[float, float]:
    """AUC and EER.

    AUC is the chance that a genuine pair scores higher than an impostor pair; a tie counts half.

    EER: with the threshold falling from above the highest score to the lowest, (FAR, FRR) steps
    from (0, 1) to (1, 0); where genuine and impostor scores tie it steps in both at once.
    Joined by straight lines these points cross FAR = FRR exactly once, and EER is the rate there.

        >>> scores = [np.array(s, np.float32) for s in ([0.2, 0.8], [0.1, 0.2])]
        >>> area_and_equal_error(*scores)
        (0.875, 0.25)
    """
    below = np.searchsorted(impostor, genuine, side="left")  # impostors < each genuine score
    up_to = np.searchsorted(impostor, genuine, side="right")  # impostors ≤ each genuine score
    pairs = len(genuine) * len(impostor)
    auc = (int(below.sum()) + int(up_to.sum())) / (2 * pairs)

    # FRR changes at genuine scores only, so the corners of the line all lie at one of these:
    # with the threshold at it, and just above it. Ascending scores walk the line backwards.
    first = np.flatnonzero(np.diff(genuine, prepend=np.float32(-np.inf)))
    last = np.append(first[1:], len(genuine)) - 1
    false_accepts = np.stack((len(impostor) - below[first], len(impostor) - up_to[first]), axis=1)
    false_rejects = np.stack((first, last + 1), axis=1)
    far = np.concatenate(([1.0], false_accepts.ravel() / len(impostor), [0.0]))
    frr = np.concatenate(([0.0], false_rejects.ravel() / len(genuine), [1.0]))
    eer = np.interp(0.0, (far - frr)[::-1], far[::-1])
    return auc, float(eer)


def tar_at_far(genuine: Scores, impostor: Scores, far: float) -> tuple[float, float]:
    """The highest TAR over thresholds whose FAR does not exceed `far`, and such a threshold.

    Both are NaN if there are fewer than 1/far impostors: no threshold shows such a rate then. The
    threshold lies halfway between the highest score that must be rejected and the lowest that
    is accepted, so that it holds for scores computed in another precision as well.

        >>> scores = [np.array(s, np.float32) for s in ([0.25, 0.75], [0.0, 0.5])]
        >>> tar_at_far(*scores, far=0.5)
        (1.0, 0.125)
    """
    allowed = int(far * len(impostor))
    if (allowed + 1) / len(impostor) <= far:  # 0.29 · 100 is below 29 in floating point
        allowed += 1
    elif allowed / len(impostor) > far:
        allowed -= 1
    if allowed == 0:
        return math.nan, math.nan
    if allowed == len(impostor):
        return 1.0, -1.0
    rejected = impostor[-1 - allowed]
    above = [
        scores[np.searchsorted(scores, rejected, side="right") :] for scores in (genuine, impostor)
    ]
    lowest = [float(scores[0]) for scores in above if len(scores)]
    if lowest:
        threshold = (float(rejected) + min(lowest)) / 2
    else:
        threshold = float(np.nextafter(rejected, np.float32(np.inf)))
    return len(above[0]) / len(genuine), threshold
