"""The four convolutions of few-shot learning."""

from torch import nn

from arcset.networks.layers import Shape, image_shape
from arcset.networks.registry import NETWORKS


@NETWORKS.register("conv4")
def conv4(shape: Shape, dim: int) -> nn.Sequential:
    """Four blocks of 3×3 convolution (64), batch norm, ReLU and 2×2 pooling; D outputs.

    The backbone of Vinyals et al., "Matching networks for one shot learning" (NeurIPS 2016), and
    Snell et al., "Prototypical networks for few-shot learning" (NeurIPS 2017), which take its
    flattened output (64 numbers of 28×28 images) as the embedding. Here a linear layer turns that
    into D dimensions.

    The four blocks have 111,936 parameters for grey images and 113,088 for colour, the linear
    layer 65 D more for 28×28. Images need 16 pixels a side.
    """
    channels, height, width = image_shape("conv4", shape, smallest=16)
    layers: list[nn.Module] = []
    for before in (channels, 64, 64, 64):
        layers += [
            # Batch norm makes the bias needless; it is there, as it is in the published network.
            nn.Conv2d(before, 64, kernel_size=3, padding=1),
            nn.BatchNorm2d(64),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
        ]
    return nn.Sequential(
        *layers,
        nn.Flatten(),
        nn.Linear(64 * (height // 16) * (width // 16), dim),
    )
