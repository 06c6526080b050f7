"""The ways to configure a margin softmax that tests go through."""

from arcset.margins import MARGINS

__all__ = ["FUSED", "VARIANTS"]

FUSED = ("store", "recompute")
VARIANTS = {
    **{name: {"name": name} for name in MARGINS.names()},
    "bias": {"name": "arcface", "bias": True},
    "smoothed": {"name": "arcface", "label_smoothing": 0.1},
    "sub-centers": {"name": "cosface", "subcenters": 3},
    "straight through": {"name": "mvsoftmax", "gradient": "straight_through"},
    "everything": {
        "name": "intertopk",
        "subcenters": 2,
        "bias": True,
        "label_smoothing": 0.1,
        "warmup": 4,
    },
}
