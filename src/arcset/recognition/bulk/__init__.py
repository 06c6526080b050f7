"""Millions of samples embedded, by one process or by many, into a folder of Parquet shards."""

from arcset.recognition.bulk.crew import Crew, SaidByChiefError, join_crew
from arcset.recognition.bulk.folder import FolderResult, embed_folder
from arcset.recognition.bulk.memory import embed_source
from arcset.recognition.bulk.models import (
    BulkModel,
    FacesModel,
    ImagesModel,
    TrainedModel,
    open_inputs,
    open_model,
)

__all__ = [
    "BulkModel",
    "Crew",
    "FacesModel",
    "FolderResult",
    "ImagesModel",
    "SaidByChiefError",
    "TrainedModel",
    "embed_folder",
    "embed_source",
    "join_crew",
    "open_inputs",
    "open_model",
]
