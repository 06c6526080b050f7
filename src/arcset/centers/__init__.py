"""Where the class centers live, and how the softmax over them is computed.

Any margin works on any kind of centers. `Centers` holds them; `plain_losses` is the readable
reference, `fused_losses` computes the same by chunks of classes, fast and in little memory. Both
take all classes, or those that `draw` found.
"""

from arcset.centers.fused import fused_losses
from arcset.centers.modes import MODES, choose_mode
from arcset.centers.plain import margined_logits, plain_logits, plain_losses
from arcset.centers.query import Query
from arcset.centers.sampling import Drawn, draw
from arcset.centers.sharding import Shard
from arcset.centers.storage import Centers
from arcset.centers.update import UPDATES, CenterUpdate

__all__ = [
    "MODES",
    "UPDATES",
    "CenterUpdate",
    "Centers",
    "Drawn",
    "Query",
    "Shard",
    "choose_mode",
    "draw",
    "fused_losses",
    "margined_logits",
    "plain_logits",
    "plain_losses",
]
