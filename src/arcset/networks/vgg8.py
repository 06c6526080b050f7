"""A small VGG: eight layers with weights."""

from torch import nn

from arcset.networks.layers import Shape, conv_block, dense_block, image_shape
from arcset.networks.registry import NETWORKS


@NETWORKS.register("vgg8")
def vgg8(shape: Shape, dim: int) -> nn.Sequential:
    """Three pairs of 3×3 convolutions (16, 32, 64) with 2×2 pooling, one dense layer, D outputs.

    After the VGG networks of Simonyan and Zisserman (2015), shrunk for small images, with batch
    norm; the dense layer has 256 units. 220,498 parameters for 28×28 grey images and D = 2.
    """
    channels, height, width = image_shape("vgg8", shape, smallest=8)
    layers: list[nn.Module] = []
    for before, after in ((channels, 16), (16, 32), (32, 64)):
        layers += [*conv_block(before, after), *conv_block(after, after), nn.MaxPool2d(2)]
    return nn.Sequential(
        *layers,
        nn.Flatten(),
        *dense_block(64 * (height // 8) * (width // 8), 256),
        nn.Linear(256, dim),
    )
