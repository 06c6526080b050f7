"""What training minimizes: one registry of losses, one file per loss."""

from arcset.losses.base import Loss
from arcset.losses.build import build_loss, loss_names, loss_options
from arcset.losses.elastic import load_loss, save_loss
from arcset.losses.exporting import export_loss
from arcset.losses.registry import LOSSES
from arcset.losses.regrowing import regrow
from arcset.losses.suspects import Suspects, suspect_samples

__all__ = [
    "LOSSES",
    "Loss",
    "Suspects",
    "build_loss",
    "export_loss",
    "load_loss",
    "loss_names",
    "loss_options",
    "regrow",
    "save_loss",
    "suspect_samples",
]
