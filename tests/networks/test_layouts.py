"""That networks are laid out as their papers and docstrings say; see test_counts for the others."""

import pytest
import torch
from torch import nn

from arcset.networks import build_network, network_layers
from arcset.networks.iresnet import ResidualBlock
from arcset.networks.mobilefacenet import Bottleneck


def build(name, dim, shape):
    with torch.device("meta"):
        return build_network(name, dim, shape)


def kinds(layers):
    return [type(layer).__name__ for layer in layers]


def sizes(network, shape, kind):
    """Channels, height and width that come out of each layer of a kind, in order of execution."""
    seen = []
    for layer in network.modules():
        if isinstance(layer, kind):
            layer.register_forward_hook(lambda _, __, out: seen.append(tuple(out.shape[1:])))
    network(torch.empty(2, *shape, device="meta"))
    return seen


@pytest.mark.parametrize(
    ("name", "depths"), [("iresnet18", (2, 2, 2, 2)), ("iresnet34", (3, 4, 6, 3))]
)
def test_iresnet_stages_begin_by_halving(name, depths):
    stages = zip((64, 128, 256, 512), (56, 28, 14, 7), depths, strict=True)
    expected = [(after, side, side) for after, side, depth in stages for _ in range(depth)]
    assert sizes(build(name, 4, (3, 112, 112)), (3, 112, 112), ResidualBlock) == expected


def test_iresnet_keeps_the_last_weights_at_one():
    torch.manual_seed(0)
    network = build_network("iresnet18", 3, (1, 16, 16))
    last = network_layers(network)[-1]
    before, bias = last.weight.clone(), last.bias.clone()
    assert (before == 1).all()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    (network(torch.randn(4, 1, 16, 16)) * torch.randn(4, 3)).sum().backward()
    optimizer.step()
    assert torch.equal(last.weight, before)
    assert not torch.equal(last.bias, bias)


def test_mobilefacenet_follows_the_papers_table():
    network = build("mobilefacenet", 128, (3, 112, 112))
    expected = [(64, 28, 28)] * 5 + [(128, 14, 14)] * 7 + [(128, 7, 7)] * 3
    assert sizes(network, (3, 112, 112), Bottleneck) == expected
    blocks = [layer for layer in network if isinstance(layer, Bottleneck)]
    within = [block.layers[0].out_channels for block in blocks]
    assert within == [128] * 5 + [256] + [256] * 6 + [512] + [256] * 2
    # All but those that halve the sides; the first halves without changing the channels.
    assert [block.residual for block in blocks] == (
        [False] + [True] * 4 + [False] + [True] * 6 + [False] + [True] * 2
    )
    everywhere = [layer for layer in network if isinstance(layer, nn.Conv2d)][-1]
    assert everywhere.kernel_size == (7, 7)
    assert everywhere.groups == 512
    assert kinds(list(network)[-5:]) == (
        ["Conv2d", "BatchNorm2d", "Flatten", "Linear", "BatchNorm1d"]
    )


@pytest.mark.parametrize("shape", [(1, 28, 28), (1, 27, 28), (2, 9, 30), (3, 31, 8)])
def test_glyph_folds_2_by_2_pixels_and_pools_once(shape):
    channels, height, width = shape
    network = build("glyph", 8, shape)
    rows, columns = (height + 1) // 2, (width + 1) // 2
    seen = sizes(network, shape, nn.Conv2d)
    assert network_layers(network)[2].in_channels == 4 * channels
    assert seen == [(64, rows, columns)] * 2 + [(128, rows // 2, columns // 2)] * 2
