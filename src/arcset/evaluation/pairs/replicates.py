"""AUC, EER and TAR at FAR of every draw, from what a row of thresholds accepts in it."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from arcset.evaluation.pairs.draws import Accepted

__all__ = ["replicate"]

AT_ONCE = 2**18  # draws × thresholds, which a processor's own memory holds

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _Lines:
    """FAR and TAR (B, T + 2) in each draw, from the highest threshold to the lowest; both rise."""

    far: Floats
    tar: Floats
    impostor: Floats  # (B,)

    def area(self) -> Floats:
        """Under the straight lines between the points, which is what counting ties half gives."""
        steps = np.diff(self.far, axis=1)
        area: Floats = (steps * (self.tar[:, 1:] + self.tar[:, :-1])).sum(axis=1) / 2
        return area

    def equal_error(self) -> Floats:
        """Where the lines meet FAR = FRR."""
        ahead = self.far + self.tar - 1  # FAR − FRR, from −1 to 1
        after = np.argmax(ahead >= 0, axis=1)  # at least 1, as the first point is (0, 0)
        low, high = (_pick(ahead, after - step) for step in (1, 0))
        far, next_far = (_pick(self.far, after - step) for step in (1, 0))
        return far - low / (high - low) * (next_far - far)

    def tar_at(self, rate: float, *, between: bool) -> Floats:
        """The highest TAR whose FAR does not exceed `rate`; on the line where `between`."""
        last = (self.far <= rate).sum(axis=1) - 1
        tar = _pick(self.tar, last)
        if between:
            after = np.minimum(last + 1, self.far.shape[1] - 1)
            far, step = _pick(self.far, last), _pick(self.far, after) - _pick(self.far, last)
            share = np.divide(rate - far, step, out=np.zeros_like(step), where=step > 0)
            tar = tar + share * (_pick(self.tar, after) - tar)
        return np.where(1 / self.impostor > rate, np.nan, tar)


def replicate(
    accepted: Accepted, point: Mapping[str, float], rates: Mapping[str, float], *, complete: bool
) -> dict[str, Floats]:
    """Every measure in every draw.

    Parameters:
        accepted: what the thresholds accept; its first row is the data itself, not a draw.
        point: the measures of the data, by name: `auc`, `eer` and those of TAR at FAR.
        rates: the false accept rate of each of the latter.
        complete: whether the thresholds are all the scores. Otherwise TAR is read off between
            two of them, as the highest below would be too low by half a step; and what the
            thresholds make of the data itself, less what is known of it, is subtracted.

    NaN in draws without genuine or impostor pairs, or with fewer than 1/FAR impostor pairs, and
    throughout where the data do not support a rate.
    """
    count, thresholds = accepted.impostor.shape
    step = max(1, AT_ONCE // (thresholds + 2))
    found = {name: np.empty(count) for name in ("auc", "eer", *rates)}
    for start in range(0, count, step):
        some = slice(start, start + step)
        with np.errstate(invalid="ignore", divide="ignore"):
            lines = _lines(accepted, some)
            found["auc"][some], found["eer"][some] = lines.area(), lines.equal_error()
            for name, rate in rates.items():
                found[name][some] = lines.tar_at(rate, between=not complete)
    empty = (accepted.all_genuine == 0) | (accepted.all_impostor == 0)
    replicates = {}
    for name, values in found.items():
        shift = 0.0 if complete else point[name] - values[0]
        drawn = np.clip(values[1:] + shift, 0.0, 1.0)
        replicates[name] = np.where(empty[1:] | np.isnan(point[name]), np.nan, drawn)
    return replicates


def _lines(accepted: Accepted, some: slice) -> _Lines:
    """Of some of the draws."""
    far = _rising(accepted.impostor[some], accepted.all_impostor[some])
    tar = _rising(accepted.genuine[some], accepted.all_genuine[some])
    return _Lines(far, tar, accepted.all_impostor[some])


def _rising(counts: Floats, total: Floats) -> Floats:
    """Shares of the total (B, T + 2), with the highest threshold first, from 0 to 1."""
    found = np.empty((len(counts), counts.shape[1] + 2))
    found[:, 0], found[:, -1] = 0, 1
    shares = found[:, 1:-1]
    np.divide(counts[:, ::-1], total[:, None], out=shares)
    np.clip(shares, 0.0, 1.0, out=shares)
    # Without the small terms that `draws` leaves out, a step could lead backwards.
    np.maximum.accumulate(shares, axis=1, out=shares)
    return found


def _pick(values: Floats, places: npt.NDArray[np.intp]) -> Floats:
    """One of each row."""
    return np.take_along_axis(values, places[:, None], axis=1)[:, 0]
