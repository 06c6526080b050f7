"""The ArcFace paper's improved residual networks, at four depths."""

from torch import Tensor, nn

from arcset.networks.layers import Shape, halve, image_shape
from arcset.networks.registry import NETWORKS


@NETWORKS.register("iresnet18")
def iresnet18(shape: Shape, dim: int, *, dropout: float = 0.0) -> nn.Sequential:
    """2, 2, 2 and 2 residual blocks: 24.03 million parameters at 112×112 colour, D = 512."""
    return _iresnet("iresnet18", (2, 2, 2, 2), shape, dim, dropout)


@NETWORKS.register("iresnet34")
def iresnet34(shape: Shape, dim: int, *, dropout: float = 0.0) -> nn.Sequential:
    """3, 4, 6 and 3 residual blocks: 34.14 million parameters at 112×112 colour, D = 512."""
    return _iresnet("iresnet34", (3, 4, 6, 3), shape, dim, dropout)


@NETWORKS.register("iresnet50")
def iresnet50(shape: Shape, dim: int, *, dropout: float = 0.0) -> nn.Sequential:
    """3, 4, 14 and 3 residual blocks: 43.59 million parameters at 112×112 colour, D = 512."""
    return _iresnet("iresnet50", (3, 4, 14, 3), shape, dim, dropout)


@NETWORKS.register("iresnet100")
def iresnet100(shape: Shape, dim: int, *, dropout: float = 0.0) -> nn.Sequential:
    """3, 13, 30 and 3 residual blocks: 65.16 million parameters at 112×112 colour, D = 512."""
    return _iresnet("iresnet100", (3, 13, 30, 3), shape, dim, dropout)


class ResidualBlock(nn.Module):
    """x + residual(x), the residual BN – conv 3×3 – BN – PReLU – conv 3×3 with `stride` – BN.

    Han et al., "Deep pyramidal residual networks" (CVPR 2017), as the ArcFace paper uses it. Where
    the shape changes, a 1×1 convolution and batch norm take x along.
    """

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            nn.BatchNorm2d(before),
            nn.Conv2d(before, after, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(after),
            nn.PReLU(after),
            nn.Conv2d(after, after, kernel_size=3, padding=1, stride=stride, bias=False),
            nn.BatchNorm2d(after),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(
                nn.Conv2d(before, after, kernel_size=1, stride=stride, bias=False),
                nn.BatchNorm2d(after),
            )

    def forward(self, images: Tensor) -> Tensor:
        """(B, before, H, W) to (B, after, ⌈H / stride⌉, ⌈W / stride⌉)."""
        shortcut: Tensor = self.shortcut(images)
        residual: Tensor = self.residual(images)
        return shortcut + residual


def _iresnet(
    name: str, depths: tuple[int, ...], shape: Shape, dim: int, dropout: float
) -> nn.Sequential:
    """Deng et al., "ArcFace: additive angular margin loss for deep face recognition" (CVPR 2019).

    Four stages of 64, 128, 256 and 512 channels, each of which halves height and width; the first
    convolution halves nothing, as faces come cropped to 112×112. Then BN – dropout – linear – BN:
    the weights of that last batch norm are fixed at 1, so that no dimension of the embedding can
    be scaled away. Layers, first weights and the dropout of 0 are those of InsightFace's
    arcface_torch, with which its published models were trained on millions of faces; the paper
    itself drops 0.4, which suits smaller data. Images need 16 pixels a side.
    """
    channels, height, width = image_shape(name, shape, smallest=16)
    layers: list[nn.Module] = [
        nn.Conv2d(channels, 64, kernel_size=3, padding=1, bias=False),
        nn.BatchNorm2d(64),
        nn.PReLU(64),
    ]
    before = 64
    for after, depth in zip((64, 128, 256, 512), depths, strict=True):
        for block in range(depth):
            layers.append(ResidualBlock(before, after, stride=1 if block else 2))
            before = after
    embedding_norm = nn.BatchNorm1d(dim)
    embedding_norm.weight.requires_grad = False
    network = nn.Sequential(
        *layers,
        nn.BatchNorm2d(512),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(512 * halve(height, 4) * halve(width, 4), dim),
        embedding_norm,
    )
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.normal_(module.weight, std=0.1)
    return network
