"""Layers that stay as they are while the others are trained."""

from torch import nn

from arcset.errors import OptionError
from arcset.networks.layers import network_layers

__all__ = ["Frozen", "freeze"]


class Frozen:
    """The first layers of a network: without gradient, and in evaluation mode at all times."""

    def __init__(self, layers: list[nn.Module]) -> None:
        self.layers = layers
        for layer in layers:
            layer.requires_grad_(False)
        self.settle()

    def settle(self) -> None:
        """Back to evaluation mode, after `network.train()`: batch norms keep their statistics."""
        for layer in self.layers:
            layer.eval()


def freeze(network: nn.Module, count: int) -> Frozen:
    """Freeze the first `count` layers that have weights, and whatever lies before and between them.

    Counted from the input on: a convolution, a batch norm and an activation with weights are one
    layer each, and so is a whole residual block; see `network_layers`. At least one layer remains,
    or `OptionError` is raised.

        >>> network = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
        >>> _ = freeze(network, 1)
        >>> [parameter.requires_grad for parameter in network.parameters()]
        [False, False, True, True]
        >>> freeze(network, 2)
        Traceback (most recent call last):
        arcset.errors.OptionError: freeze=2 leaves nothing to train: the network has 2 layers ...
    """
    layers = network_layers(network)
    weighty = [place for place, layer in enumerate(layers) if any(True for _ in layer.parameters())]
    if count and count >= len(weighty):
        number = f"{len(weighty)} layers" if len(weighty) != 1 else "one layer"
        raise OptionError(
            f"freeze={count} leaves nothing to train: the network has {number} with weights that "
            f"follow each other; freeze at most {max(0, len(weighty) - 1)}"
        )
    return Frozen(layers[: weighty[count - 1] + 1] if count else [])
