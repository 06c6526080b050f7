"""What a network consists of: how many parameters, which layers."""

from torch import nn

__all__ = ["network_layers", "parameter_count"]


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
