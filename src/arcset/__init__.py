"""Open-set recognition: train an embedding that recognizes what it has never seen.

>>> import arcset, torch
>>> loss = arcset.build_loss("arcface", dim=512, classes=10_000, scale=64.0, margin=0.5)
>>> value = loss(torch.randn(8, 512), torch.randint(10_000, (8,)))
>>> value.backward()
"""

from arcset import evaluation
from arcset.errors import (
    ArcsetError,
    DataError,
    InputError,
    OptionError,
    RunError,
    TrainingError,
)
from arcset.losses import build_loss, loss_names, loss_options, suspect_samples

__all__ = [
    "ArcsetError",
    "DataError",
    "InputError",
    "OptionError",
    "RunError",
    "TrainingError",
    "build_loss",
    "evaluation",
    "loss_names",
    "loss_options",
    "suspect_samples",
]

__version__ = "0.1.0"
