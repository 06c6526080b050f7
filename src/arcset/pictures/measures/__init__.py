"""Pictures of measures, and the report of an evaluation."""

from arcset.pictures.measures.angles import angles_picture
from arcset.pictures.measures.calibration import reliability_picture
from arcset.pictures.measures.captions import CAPTIONS
from arcset.pictures.measures.differences import difference_picture
from arcset.pictures.measures.few_shot import few_shot_picture
from arcset.pictures.measures.identification import identification_picture
from arcset.pictures.measures.report import write_evaluation
from arcset.pictures.measures.retrieval import retrieval_picture
from arcset.pictures.measures.thresholds import threshold_picture
from arcset.pictures.measures.verification import verification_picture

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
