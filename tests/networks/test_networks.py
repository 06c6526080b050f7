import pytest
import torch
from torch import nn

from arcset import OptionError
from arcset.networks import build_network, network_names


def count(network):
    return sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize("name", network_names())
@pytest.mark.parametrize("dim", [2, 3, 128])
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 40), (1, 8, 8)])
def test_shapes_and_gradients(name, dim, shape):
    network = build_network(name, dim, shape)
    embeddings = network(torch.randn(4, *shape))
    assert embeddings.shape == (4, dim)
    embeddings.sum().backward()
    assert all(parameter.grad is not None for parameter in network.parameters())


@pytest.mark.parametrize(("name", "parameters"), [("simple", 420_834), ("vgg8", 220_498)])
def test_documented_parameter_counts(name, parameters):
    assert count(build_network(name, 2)) == parameters


def test_simple_is_as_described():
    layers = list(build_network("simple", 5))
    convolutions = [layer for layer in layers if isinstance(layer, nn.Conv2d)]
    assert [layer.out_channels for layer in convolutions] == [32, 64]
    assert all(layer.kernel_size == (3, 3) and layer.bias is None for layer in convolutions)
    dense = [layer for layer in layers if isinstance(layer, nn.Linear)]
    assert [layer.out_features for layer in dense] == [128, 5]
    assert sum(isinstance(layer, nn.BatchNorm2d | nn.BatchNorm1d) for layer in layers) == 3
    assert sum(isinstance(layer, nn.MaxPool2d) for layer in layers) == 2


def test_vgg8_has_eight_layers_with_weights():
    layers = list(build_network("vgg8", 5))
    assert sum(isinstance(layer, nn.Conv2d | nn.Linear) for layer in layers) == 8


def test_refused():
    with pytest.raises(OptionError, match="dim must be a whole number of at least 2, not 1"):
        build_network("simple", 1)
    with pytest.raises(OptionError, match="no network is called 'simpel'; did you mean 'simple'"):
        build_network("simpel", 2)
    with pytest.raises(OptionError, match="vgg8 needs images of at least 8 pixels a side, not 4"):
        build_network("vgg8", 2, (1, 28, 4))
    with pytest.raises(OptionError, match="shape must be"):
        build_network("simple", 2, (28, 28))
