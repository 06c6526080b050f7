"""What training minimizes: one registry of losses, one file per loss."""

from arcset.losses.base import LOSSES, Loss
from arcset.losses.build import build_loss, loss_names, loss_options
from arcset.losses.mislabelled import Suspects, suspect_samples
from arcset.losses.saving import export_loss, load_loss, save_loss
from arcset.losses.transfer import regrow

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
