"""A plain network for vectors of features."""

import math

from torch import nn

from arcset.networks.layers import Shape, dense_block
from arcset.networks.registry import NETWORKS

# Hidden units per layer, and how many standard deviations a value may lie from its mean.
_WIDTH, _FAR = 512, 10.0


@NETWORKS.register("mlp")
def mlp(shape: Shape, dim: int, *, dropout: float = 0.0) -> nn.Sequential:
    """Two hidden layers of 512; takes vectors, and the flattened pixels of images.

    Each value is first brought to mean 0 and variance 1 over the training data, so that features
    of any unit, down to spreads of 1e-5, weigh alike. It is then cut at ten standard deviations:
    a feature that hardly varied in training must not drown the others when it does later.

    362,752 parameters for vectors of 64 values and D = 128.
    """
    values = math.prod(shape)
    return nn.Sequential(
        nn.Flatten(),
        # The plain mean over all steps: a moving one would start from variance 1, whatever the
        # unit. The usual eps of 1e-5 would hide spreads below 3e-3.
        nn.BatchNorm1d(values, eps=1e-12, momentum=None, affine=False),
        nn.Hardtanh(-_FAR, _FAR),
        *dense_block(values, _WIDTH),
        *dense_block(_WIDTH, _WIDTH),
        nn.Dropout(dropout),
        nn.Linear(_WIDTH, dim, bias=False),
        nn.BatchNorm1d(dim),
    )
