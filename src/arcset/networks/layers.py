"""Pieces that several networks are made of, and what a network consists of."""

from torch import nn

from arcset.errors import OptionError

#: What comes in, without the batch: (channels, height, width) of images, or (values,) of vectors.
Shape = tuple[int, ...]


def conv_block(before: int, after: int) -> list[nn.Module]:
    """3×3 convolution without bias (batch norm has one), batch norm, ReLU; keeps H and W."""
    return [
        nn.Conv2d(before, after, kernel_size=3, padding=1, bias=False),
        nn.BatchNorm2d(after),
        nn.ReLU(inplace=True),
    ]


def dense_block(before: int, after: int) -> list[nn.Module]:
    """Fully connected without bias, batch norm, ReLU."""
    return [
        nn.Linear(before, after, bias=False),
        nn.BatchNorm1d(after),
        nn.ReLU(inplace=True),
    ]


def image_shape(name: str, shape: Shape, smallest: int) -> tuple[int, int, int]:
    """Channels, height and width, where `shape` is that of images with sides ≥ `smallest`.

    >>> image_shape("conv4", (64,), smallest=16)
    Traceback (most recent call last):
    arcset.errors.OptionError: conv4 takes images, not vectors of 64 values: use the network 'mlp'
    """
    if len(shape) != 3:
        raise OptionError(
            f"{name} takes images, not vectors of {shape[0]} values: use the network 'mlp'"
        )
    channels, height, width = shape
    if min(height, width) < smallest:
        raise OptionError(
            f"{name} needs images of at least {smallest} pixels a side, not {min(height, width)}"
        )
    return channels, height, width


def halve(size: int, times: int) -> int:
    """What 3×3 convolutions of stride 2 and padding 1 leave of `size` pixels: halves, rounded up.

    >>> halve(112, times=4), halve(100, times=4)
    (7, 7)
    """
    return -(-size >> times)


def parameter_count(network: nn.Module) -> int:
    """How many numbers training changes: the elements of the parameters that require gradients.

    >>> parameter_count(nn.Linear(3, 2))
    8
    """
    return sum(each.numel() for each in network.parameters() if each.requires_grad)


def network_layers(network: nn.Module) -> list[nn.Module]:
    """The layers from input to output: run one after the other they are the network.

    Sequences are unrolled however deep they are nested; anything else, such as a residual block,
    stays whole, as nothing is known of the order within it.

    >>> [type(each).__name__ for each in network_layers(nn.Sequential(nn.Flatten(), nn.ReLU()))]
    ['Flatten', 'ReLU']
    """
    if not isinstance(network, nn.Sequential):
        return [network]
    return [layer for part in network for layer in network_layers(part)]
