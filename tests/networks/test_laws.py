"""What every network owes, whichever it is."""

import functools

import pytest
import torch
from torch import nn

from arcset import OptionError
from arcset.networks import build_network, network_layers, network_names

SMALLEST = {
    "conv4": 16,
    "glyph": 8,
    "iresnet18": 16,
    "iresnet34": 16,
    "iresnet50": 16,
    "iresnet100": 16,
    "mlp": 1,
    "mobilefacenet": 32,
    "simple": 4,
    "vgg8": 8,
    "vit": 16,
}
# These differ from iresnet18 in their number of blocks only, and take seconds.
DEEPER = ("iresnet34", "iresnet50", "iresnet100")
every_network = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.long] if name in DEEPER else [])
        for name in network_names()
    ],
)


def build(name, dim, shape, seed=0):
    torch.manual_seed(seed)
    return build_network(name, dim, shape)


@functools.cache
def smallest(name):
    """The least number of pixels a side that the network does not refuse."""
    with torch.device("meta"):  # weights without memory
        for side in range(1, 65):
            try:
                build_network(name, 2, (1, side, side))
            except OptionError:
                continue
            return side
    raise AssertionError(f"{name} refuses even 64×64 images")


@functools.cache
def trained(name):
    """A network in evaluation mode that has seen one batch, and that batch; not to be changed."""
    side = smallest(name)
    network = build(name, 3, (2, side, side))
    for module in network.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            module.momentum = None  # its statistics become those of the batch, at once
    images = torch.rand(4, 2, side, side) * 2 - 1
    with torch.no_grad():
        network(images)
    return network.eval(), images


@pytest.mark.parametrize("name", network_names())
def test_smallest_images_are_as_documented(name):
    assert smallest(name) == SMALLEST.get(name, smallest(name))
    side = smallest(name) - 1
    if side:
        expected = f"{name} .*{side + 1} .*{side}"
        for shape in [(1, side, side + 9), (1, side + 9, side)]:
            with pytest.raises(OptionError, match=expected):
                build_network(name, 2, shape)


@every_network
def test_embeddings_are_finite_and_gradients_reach_every_parameter(name):
    side = smallest(name)
    shape = (3, side, side + 7)  # neither square nor even
    network = build(name, 5, shape)
    embeddings = network(torch.rand(6, *shape) * 2 - 1)
    assert embeddings.shape == (6, 5)
    assert embeddings.dtype == torch.float32
    assert embeddings.isfinite().all()
    network.double()  # in which a gradient that is but rounding shows
    embeddings = network(torch.rand(6, *shape, dtype=torch.float64) * 2 - 1)
    (embeddings * torch.randn(6, 5)).sum().backward()
    for key, parameter in network.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad is not None, key
            assert parameter.grad.isfinite().all(), key
            if not key.endswith("bias"):  # which a later batch norm may take away again
                assert parameter.grad.abs().max() > 1e-9, key


@every_network
def test_an_embedding_does_not_depend_on_its_batch(name):
    network, images = trained(name)
    with torch.no_grad():
        together, alone = network(images), network(images[2:3])
        turned = network(images.flip(0)).flip(0)
    torch.testing.assert_close(alone, together[2:3], rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(turned, together, rtol=1e-3, atol=1e-4)
    assert (together - together[:1]).abs().amax(1)[1:].min() > 0.01  # and does on its image


@every_network
def test_layers_in_sequence_are_the_network(name):
    network, images = trained(name)
    with torch.no_grad():
        expected, out = network(images), images
        for layer in network_layers(network):
            assert not isinstance(layer, nn.Sequential)
            out = layer(out)
    assert torch.equal(out, expected)
    layers = network_layers(network)
    assert len(layers) > 5  # fine enough to freeze a part of them
    kept = {id(each) for layer in layers for each in layer.parameters()}
    assert kept == {id(each) for each in network.parameters()}


@every_network
def test_equal_seeds_give_equal_weights_and_others_do_not(name):
    side = smallest(name)
    first, same, other = (build(name, 2, (1, side, side), seed).state_dict() for seed in (1, 1, 2))
    assert first.keys() == same.keys()
    assert all(torch.equal(first[key], same[key]) for key in first)
    matrices = [key for key in first if first[key].ndim > 1]
    assert matrices
    assert not any(torch.equal(first[key], other[key]) for key in matrices)


@every_network
def test_channels_last_changes_nothing(name):
    network, images = trained(name)
    with torch.device("meta"):
        turned = build_network(name, 3, tuple(images.shape[1:])).eval()
    turned.load_state_dict(network.state_dict(), assign=True)
    turned = turned.to(memory_format=torch.channels_last)
    with torch.no_grad():
        out = turned(images.to(memory_format=torch.channels_last))
        torch.testing.assert_close(out, network(images), rtol=1e-3, atol=1e-4)
