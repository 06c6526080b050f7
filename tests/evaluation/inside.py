"""What tests of evaluation need from inside the package, imported here and nowhere else.

The slow references draw the same identities as the measures do, and build results by hand.
"""

from arcset.evaluation.bootstrap import FEWEST, SEED, draw_key, identity_weights
from arcset.evaluation.pairs import Roc
from arcset.evaluation.results import Replicates

__all__ = ["FEWEST", "SEED", "Replicates", "Roc", "draw_key", "identity_weights"]
