"""The small network of the demonstrations."""

from torch import nn

from arcset.networks.layers import Shape, conv_block, dense_block, image_shape
from arcset.networks.registry import NETWORKS


@NETWORKS.register("simple")
def simple(shape: Shape, dim: int) -> nn.Sequential:
    """Two 3×3 convolutions (32, 64) with 2×2 pooling, one dense layer of 128, D outputs.

    420,834 parameters for 28×28 grey images and D = 2.
    """
    channels, height, width = image_shape("simple", shape, smallest=4)
    return nn.Sequential(
        *conv_block(channels, 32),
        nn.MaxPool2d(2),
        *conv_block(32, 64),
        nn.MaxPool2d(2),
        nn.Flatten(),
        *dense_block(64 * (height // 4) * (width // 4), 128),
        nn.Linear(128, dim),
    )
