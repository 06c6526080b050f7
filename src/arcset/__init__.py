"""Open-set recognition: train an embedding that recognizes what it has never seen.

>>> import arcset, torch
>>> loss = arcset.build_loss("arcface", dim=512, classes=10_000, scale=64.0, margin=0.5)
>>> value = loss(torch.randn(8, 512), torch.randint(10_000, (8,)))
>>> value.backward()
"""

import importlib
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from arcset.client import Client
    from arcset.recognition import Recognizer
    from arcset.recognition.gallery import Gallery

__all__ = [
    "ArcsetError",
    "Client",
    "DataError",
    "Gallery",
    "InputError",
    "OptionError",
    "Recognizer",
    "RunError",
    "TrainingError",
    "build_loss",
    "evaluation",
    "loss_names",
    "loss_options",
    "suspect_samples",
]

__version__ = "0.1.0"

# Imported when asked for: training needs none, and search and image decoding take a second.
_LATER = {
    "Client": "arcset.client",
    "Gallery": "arcset.recognition.gallery",
    "Recognizer": "arcset.recognition",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LATER[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
