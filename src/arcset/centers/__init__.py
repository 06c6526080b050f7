"""Where the class centers live, and how the softmax over them is computed.

Any margin works on any kind of centers. `Centers` holds them; `plain_losses` is the readable
reference, `fused_losses` computes the same by chunks of classes, fast and in little memory. Both
take all classes, or those that `sample_classes` found.
"""

from arcset.centers.fused import MODES, choose_mode, fused_losses
from arcset.centers.plain import MarginBatch, margined_logits, plain_logits, plain_losses
from arcset.centers.sampled import SampledClasses, sample_classes
from arcset.centers.sharded import Shard, SharedShard
from arcset.centers.storage import Centers
from arcset.centers.update import UPDATES, CenterUpdate

__all__ = [
    "MODES",
    "UPDATES",
    "CenterUpdate",
    "Centers",
    "MarginBatch",
    "SampledClasses",
    "Shard",
    "SharedShard",
    "choose_mode",
    "fused_losses",
    "margined_logits",
    "plain_logits",
    "plain_losses",
    "sample_classes",
]
