"""Pictures of measures, and the report of an evaluation."""

from arcset.reports.measures.angles import angles_picture
from arcset.reports.measures.calibration import reliability_picture
from arcset.reports.measures.captions import CAPTIONS
from arcset.reports.measures.differences import difference_picture
from arcset.reports.measures.few_shot import few_shot_picture
from arcset.reports.measures.identification import identification_picture
from arcset.reports.measures.report import write_evaluation
from arcset.reports.measures.retrieval import retrieval_picture
from arcset.reports.measures.thresholds import threshold_picture
from arcset.reports.measures.verification import verification_picture

__all__ = [
    "CAPTIONS",
    "angles_picture",
    "difference_picture",
    "few_shot_picture",
    "identification_picture",
    "reliability_picture",
    "retrieval_picture",
    "threshold_picture",
    "verification_picture",
    "write_evaluation",
]
