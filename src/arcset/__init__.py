"""Open-set recognition: train an embedding that recognizes what it has never seen.

>>> import arcset, torch
>>> loss = arcset.build_loss("arcface", dim=512, classes=10_000, scale=64.0, margin=0.5)
>>> value = loss(torch.randn(8, 512), torch.randint(10_000, (8,)))
>>> value.backward()
"""

from typing import TYPE_CHECKING

from arcset.errors import (
    ArcsetError,
    DataError,
    InputError,
    OptionError,
    RunError,
    TrainingError,
)
from arcset.lazy import import_later

if TYPE_CHECKING:
    from arcset import evaluation
    from arcset.api import compare, evaluate, train
    from arcset.client import Client
    from arcset.losses import build_loss, loss_names, loss_options, suspect_samples
    from arcset.recognition import Recognizer
    from arcset.recognition.embed_many import Embedder
    from arcset.recognition.gallery import Gallery

__all__ = [
    "ArcsetError",
    "Client",
    "DataError",
    "Embedder",
    "Gallery",
    "InputError",
    "OptionError",
    "Recognizer",
    "RunError",
    "TrainingError",
    "build_loss",
    "compare",
    "evaluate",
    "evaluation",
    "loss_names",
    "loss_options",
    "suspect_samples",
    "train",
]

__version__ = "0.1.0"

__getattr__ = import_later(
    __name__,
    {
        "arcset.api": ["compare", "evaluate", "train"],
        "arcset.client": ["Client"],
        "arcset.evaluation": ["evaluation"],
        "arcset.losses": ["losses", "build_loss", "loss_names", "loss_options", "suspect_samples"],
        "arcset.recognition": ["Recognizer"],
        "arcset.recognition.embed_many": ["Embedder"],
        "arcset.recognition.gallery": ["Gallery"],
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
