"""Who is it: one embedding against many."""

from arcset.evaluation.search.few_shot import FewShot, few_shot
from arcset.evaluation.search.identification import Identification, identification
from arcset.evaluation.search.open_set import IdentificationCurve
from arcset.evaluation.search.retrieval import Retrieval, retrieval
from arcset.evaluation.search.trial import Trial, trial

__all__ = [
    "FewShot",
    "Identification",
    "IdentificationCurve",
    "Retrieval",
    "Trial",
    "few_shot",
    "identification",
    "retrieval",
    "trial",
]
