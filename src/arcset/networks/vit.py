"""A small vision transformer."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from arcset.networks.layers import Shape, image_shape
from arcset.networks.registry import NETWORKS

_WIDTH, _DEPTH, _HEADS, _MOST_PATCHES = 192, 6, 3, 14


@NETWORKS.register("vit")
def vit(shape: Shape, dim: int, *, dropout: float = 0.0) -> nn.Sequential:
    """Six pre-norm transformer blocks of width 192 with three heads, on at most 14×14 patches.

    Dosovitskiy et al., "An image is worth 16×16 words" (ICLR 2021), with learned positions and,
    for a class token, the mean over the patches, as in Beyer et al., "Better plain ViT baselines"
    (2022). Meant for images of 28×28 to 224×224; `patch_size` says how they are cut.

    The end is a linear layer and a batch norm without weights: the means of any two images point
    nearly the same way at first, and an angular loss needs their differences. A bias could bring
    the common direction back, weights could scale a dimension away, so it has neither.

    2,706,624 parameters for 28×28 grey images and D = 128. Images need 16 pixels a side.
    """
    channels, height, width = image_shape("vit", shape, smallest=16)
    network = nn.Sequential(
        Patches(channels, height, width),
        *(TransformerBlock() for _ in range(_DEPTH)),
        MeanOfPatches(),
        nn.LayerNorm(_WIDTH, bias=False),  # the batch norm would take its bias away again
        nn.Dropout(dropout),
        nn.Linear(_WIDTH, dim, bias=False),
        nn.BatchNorm1d(dim, affine=False),
    )
    for module in network.modules():
        if isinstance(module, nn.Linear):
            nn.init.trunc_normal_(module.weight, std=0.02)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    return network


def patch_size(height: int, width: int) -> int:
    """The smallest power of two, from 4 on, that makes at most 14 patches of the longer side.

    That gives 7 to 14 patches a side from 28 pixels on. Patches of 2×2 pixels would cost four
    times as much on small images, as the work grows with the number of patches.

    >>> [patch_size(side, side) for side in (16, 28, 32, 64, 112, 224)]
    [4, 4, 4, 8, 8, 16]
    """
    size = 4
    while max(height, width) > size * _MOST_PATCHES:
        size *= 2
    return size


class Patches(nn.Module):
    """Images (B, C, H, W) to one vector per patch, with its position: (B, patches, width).

    Where the patches do not fit, the last row and column of pixels are repeated until they do.
    """

    def __init__(self, channels: int, height: int, width: int) -> None:
        super().__init__()
        size = patch_size(height, width)
        self.pad = nn.ReplicationPad2d((0, -width % size, 0, -height % size))
        self.project = nn.Conv2d(channels, _WIDTH, kernel_size=size, stride=size)
        patches = -(-height // size) * -(-width // size)
        self.positions = nn.Parameter(torch.empty(1, patches, _WIDTH))
        nn.init.trunc_normal_(self.positions, std=0.02)

    def forward(self, images: Tensor) -> Tensor:
        """Row by row, from the upper left."""
        patches: Tensor = self.project(self.pad(images))  # (B, width, rows, columns)
        return patches.flatten(2).transpose(1, 2) + self.positions


class TransformerBlock(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)); keeps (B, patches, width)."""

    def __init__(self) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(_WIDTH)
        self.query_key_value = nn.Linear(_WIDTH, 3 * _WIDTH)
        self.project = nn.Linear(_WIDTH, _WIDTH)
        self.mlp = nn.Sequential(
            nn.LayerNorm(_WIDTH),
            nn.Linear(_WIDTH, 4 * _WIDTH),
            nn.GELU(),
            nn.Linear(4 * _WIDTH, _WIDTH),
        )

    def forward(self, patches: Tensor) -> Tensor:
        patches = patches + self._attention(self.attention_norm(patches))
        rethought: Tensor = self.mlp(patches)
        return patches + rethought

    def _attention(self, patches: Tensor) -> Tensor:
        parts: Tensor = self.query_key_value(patches)  # (B, N, 3 width)
        heads = parts.unflatten(2, (3, _HEADS, -1)).permute(2, 0, 3, 1, 4)  # (3, B, heads, N, 64)
        seen = F.scaled_dot_product_attention(*heads.unbind(0))  # (B, heads, N, 64)
        projected: Tensor = self.project(seen.transpose(1, 2).flatten(2))
        return projected


class MeanOfPatches(nn.Module):
    """(B, patches, width) to (B, width)."""

    def forward(self, patches: Tensor) -> Tensor:
        return patches.mean(dim=1)
