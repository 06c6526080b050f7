"""MobileFaceNet: faces with a million parameters."""

from torch import Tensor, nn

from arcset.networks.layers import Shape, halve, image_shape
from arcset.networks.registry import NETWORKS

# The bottlenecks of the paper's table 1: expansion, channels, repetitions, stride of the first.
_TABLE = ((2, 64, 5, 2), (4, 128, 1, 2), (2, 128, 6, 1), (4, 128, 1, 2), (2, 128, 2, 1))


@NETWORKS.register("mobilefacenet")
def mobilefacenet(shape: Shape, dim: int) -> nn.Sequential:
    """Inverted bottlenecks with PReLU, and a weighted rather than a plain mean over the places.

    Chen et al., "MobileFaceNets: efficient CNNs for accurate real-time face verification on mobile
    devices" (CCBR 2018): the main network, whose global depthwise convolution is as large as the
    map it meets, 7×7 for 112×112. Its last step, a linear 1×1 convolution, meets a single place,
    where it is a linear layer.

    1,003,136 parameters at 112×112 colour and D = 128; 993,344 once each batch norm is merged into
    the convolution before it, which is the paper's 0.99 million. Images need 32 pixels a side.
    """
    channels, height, width = image_shape("mobilefacenet", shape, smallest=32)
    layers: list[nn.Module] = [
        *_convolution(channels, 64, kernel=3, stride=2),
        nn.PReLU(64),
        *_convolution(64, 64, kernel=3, groups=64),
        nn.PReLU(64),
    ]
    before = 64
    for expansion, after, repetitions, first_stride in _TABLE:
        for block in range(repetitions):
            stride = 1 if block else first_stride
            layers.append(Bottleneck(before, before * expansion, after, stride))
            before = after
    everywhere = (halve(height, 4), halve(width, 4))
    return nn.Sequential(
        *layers,
        *_convolution(before, 512, kernel=1),
        nn.PReLU(512),
        nn.Conv2d(512, 512, kernel_size=everywhere, groups=512, bias=False),  # (B, 512, 1, 1)
        nn.BatchNorm2d(512),
        nn.Flatten(),
        nn.Linear(512, dim, bias=False),
        nn.BatchNorm1d(dim),
    )


class Bottleneck(nn.Module):
    """1×1 convolution to more channels, 3×3 depthwise, 1×1 to few; the last without PReLU.

    Sandler et al., "MobileNetV2" (CVPR 2018). Where the shape stays, the input is added.
    """

    def __init__(self, before: int, within: int, after: int, stride: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *_convolution(before, within, kernel=1),
            nn.PReLU(within),
            *_convolution(within, within, kernel=3, stride=stride, groups=within),
            nn.PReLU(within),
            *_convolution(within, after, kernel=1),
        )
        self.residual = stride == 1 and before == after

    def forward(self, images: Tensor) -> Tensor:
        """(B, before, H, W) to (B, after, ⌈H / stride⌉, ⌈W / stride⌉)."""
        out: Tensor = self.layers(images)
        return images + out if self.residual else out


def _convolution(
    before: int, after: int, *, kernel: int, stride: int = 1, groups: int = 1
) -> list[nn.Module]:
    return [
        nn.Conv2d(
            before, after, kernel, stride=stride, padding=kernel // 2, groups=groups, bias=False
        ),
        nn.BatchNorm2d(after),
    ]
