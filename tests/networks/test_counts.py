"""Numbers of parameters, against the published ones and those the docstrings name.

Built on the meta device, where weights take neither time nor memory.
"""

import pytest
import torch
from torch import nn

from arcset.networks import build_network, network_layers, parameter_count
from arcset.networks.iresnet import ResidualBlock
from arcset.networks.mobilefacenet import Bottleneck

FACES = (3, 112, 112)


def build(name, dim, shape):
    with torch.device("meta"):
        return build_network(name, dim, shape)


def all_parameters(network):
    return sum(each.numel() for each in network.parameters())


def merged(network):
    """All parameters once each batch norm is merged into the convolution or linear layer before.

    The layer's bias and the norm's two vectors become one bias; the running statistics, which are
    no parameters, vanish in it.
    """
    count, previous = all_parameters(network), None
    for layer in network.modules():
        if next(layer.children(), None) is not None:
            continue
        is_norm = isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d)
        if is_norm and isinstance(previous, nn.Conv2d | nn.Linear):
            count -= layer.num_features * (1 if previous.bias is None else 2)
        previous = layer
    return count


@pytest.mark.parametrize(
    ("name", "dim", "shape", "parameters"),
    [
        ("simple", 2, (1, 28, 28), 420_834),
        ("vgg8", 2, (1, 28, 28), 220_498),
        ("conv4", 128, (1, 28, 28), 111_936 + 65 * 128),
        ("glyph", 128, (1, 28, 28), 1_064_192),
        ("vit", 128, (1, 28, 28), 2_706_624),
        ("mlp", 128, (64,), 362_752),
    ],
)
def test_documented(name, dim, shape, parameters):
    assert parameter_count(build(name, dim, shape)) == parameters


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("iresnet18", 24_025_600),
        ("iresnet34", 34_139_328),
        ("iresnet50", 43_590_848),
        ("iresnet100", 65_156_160),
    ],
)
def test_iresnets_have_as_many_as_arcface_torch(name, parameters):
    """What counting InsightFace's recognition/arcface_torch/backbones/iresnet.py gives.

    They count every parameter; 512 of them, the last batch norm's weights, are fixed.
    """
    network = build(name, 512, FACES)
    assert all_parameters(network) == parameters
    assert parameter_count(network) == parameters - 512


@pytest.mark.parametrize(
    ("name", "dim", "published"),
    [("iresnet34", 512, 34.129), ("iresnet100", 512, 65.131), ("mobilefacenet", 128, 0.993)],
)
def test_merged_for_inference_as_many_as_in_the_open_model_zoo(name, dim, published):
    """OpenVINO's figures, in millions and cut, for InsightFace's models, batch norms merged.

    https://docs.openvino.ai/2021.3/omz_models_model_face_recognition_resnet100_arcface.html, the
    page of resnet34, and open_model_zoo's face-recognition-mobilefacenet-arcface.md.
    """
    assert merged(build(name, dim, FACES)) // 1000 == round(published * 1000)


@pytest.mark.parametrize(("channels", "parameters"), [(1, 111_936), (3, 113_088)])
def test_conv4_has_as_many_as_published(channels, parameters):
    """The four blocks: weights and biases of convolutions and batch norms; not our linear layer."""
    *blocks, linear = network_layers(build("conv4", 64, (channels, 84, 84)))
    assert isinstance(linear, nn.Linear)
    assert linear.in_features == 1600  # as the papers have it for 84×84
    assert sum(parameter_count(layer) for layer in blocks) == parameters


def test_only_what_is_trained_counts():
    network = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    assert parameter_count(network) == 12
    network[0].weight.requires_grad = False
    assert parameter_count(network) == 6


# That networks are laid out as their papers and docstrings say; see test_counts for the others.


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
