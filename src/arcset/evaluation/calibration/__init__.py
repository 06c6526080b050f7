"""From validation identities to a threshold and a probability that hold on fresh ones.

Thresholds are made from *validation identities*, which were neither trained on nor are reported on:

- `threshold_for_far`: a threshold for verification, with the FAR to expect on fresh identities.
- `threshold_for_fpir`: a threshold for identification with a gallery of a given size, likewise.
- `calibrate`: from a cosine to a probability; `reliability` checks it.
- `make_thresholds`: all of this in one object, saved as threshold.json.
"""

from arcset.evaluation.calibration.far import FarThreshold
from arcset.evaluation.calibration.fpir import FpirThreshold
from arcset.evaluation.calibration.probability import (
    Calibration,
    Reliability,
    calibrate,
    reliability,
)
from arcset.evaluation.calibration.table import threshold_for_far, threshold_for_fpir
from arcset.evaluation.calibration.thresholds import (
    EqualError,
    Thresholds,
    make_thresholds,
)
from arcset.evaluation.pairs import pair_cosines

__all__ = [
    "Calibration",
    "EqualError",
    "FarThreshold",
    "FpirThreshold",
    "Reliability",
    "Thresholds",
    "calibrate",
    "make_thresholds",
    "pair_cosines",
    "reliability",
    "threshold_for_far",
    "threshold_for_fpir",
]
