"""What tests of evaluation need from inside the package, imported here and nowhere else.

The slow references draw the same identities as the measures do, build results by hand, and check
the variances behind intervals, which no measure shows.
"""

from arcset.evaluation.bootstrap import FEWEST, SEED, draw_key, identity_weights
from arcset.evaluation.calibration import pair_cosines
from arcset.evaluation.calibration.far import PairSpread, pair_spread
from arcset.evaluation.calibration.fpir import BetaBinomial, OpenSet, gallery_sizes
from arcset.evaluation.geometry.angles import PAPER
from arcset.evaluation.pairs import ImpostorPairs
from arcset.evaluation.rates import Roc
from arcset.evaluation.results import Replicates, share_interval

__all__ = [
    "FEWEST",
    "PAPER",
    "SEED",
    "BetaBinomial",
    "ImpostorPairs",
    "OpenSet",
    "PairSpread",
    "Replicates",
    "Roc",
    "draw_key",
    "gallery_sizes",
    "identity_weights",
    "pair_cosines",
    "pair_spread",
    "share_interval",
]
