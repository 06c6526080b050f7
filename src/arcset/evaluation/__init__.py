"""Measures of an embedding: pure functions on arrays.

Each takes numpy arrays or torch tensors and returns a number or a frozen result object. Embeddings
are (N, D) of any float type, labels (N,) integers. `InputError` refuses arrays of another kind or
shape, values that are not finite and, where directions count, rows of zeros; `OptionError` refuses
options out of range. What a function refuses besides, it says.

Same or different?
- `verification`: accept rates, thresholds, EER and AUC over all pairs, or over given ones.
- `fold_accuracy`: accuracy by the protocol of LFW.

Who is it, or nobody?
- `identification`: ranks in a closed set, detection and false positives in an open one.
- `trial`: makes such an open set of any labelled one.
- `retrieval`: recall, precision and MAP@R of search by example.
- `few_shot`: accuracy over episodes with a few examples per identity.

How do classes lie?
- `angles`: the ArcFace paper's table. `silhouette`, `dunn_index`: compactness against distance.
- `no_threshold`: samples nearer to another class than to their own, about which no threshold on
  a distance can be right.
- `confidence`: how sure a closed-set classifier is of what it has never seen.

Which threshold, and how sure is all that?
- `threshold_for_far`, `threshold_for_fpir`, `calibrate`, `make_thresholds`: from validation
  identities.
- `by_group`: whether one threshold works for everybody.
- `assess`: everything at once. `paired`, `differences`: two models on the same draws.
"""

from arcset.evaluation.assessment import Assessment, assess, differences
from arcset.evaluation.bootstrap import Difference, paired
from arcset.evaluation.calibration import (
    Calibration,
    FarThreshold,
    FpirThreshold,
    Thresholds,
    calibrate,
    make_thresholds,
    reliability,
    threshold_for_far,
    threshold_for_fpir,
)
from arcset.evaluation.confidence import Confidence, confidence
from arcset.evaluation.few_shot import FewShot, few_shot
from arcset.evaluation.geometry import (
    Angles,
    NoThreshold,
    angle_samples,
    angles,
    dunn_index,
    no_threshold,
    silhouette,
)
from arcset.evaluation.groups import ByGroup, by_group
from arcset.evaluation.identification import Identification, Trial, identification, trial
from arcset.evaluation.realized import Realized
from arcset.evaluation.results import Interval, Result
from arcset.evaluation.retrieval import Retrieval, retrieval
from arcset.evaluation.verification import (
    FoldAccuracy,
    Verification,
    fold_accuracy,
    verification,
)

__all__ = [
    "Angles",
    "Assessment",
    "ByGroup",
    "Calibration",
    "Confidence",
    "Difference",
    "FarThreshold",
    "FewShot",
    "FoldAccuracy",
    "FpirThreshold",
    "Identification",
    "Interval",
    "NoThreshold",
    "Realized",
    "Result",
    "Retrieval",
    "Thresholds",
    "Trial",
    "Verification",
    "angle_samples",
    "angles",
    "assess",
    "by_group",
    "calibrate",
    "confidence",
    "differences",
    "dunn_index",
    "few_shot",
    "fold_accuracy",
    "identification",
    "make_thresholds",
    "no_threshold",
    "paired",
    "reliability",
    "retrieval",
    "silhouette",
    "threshold_for_far",
    "threshold_for_fpir",
    "trial",
    "verification",
]
