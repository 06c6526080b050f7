"""Numbers of parameters, against the published ones and those the docstrings name.

Built on the meta device, where weights take neither time nor memory.
"""

import pytest
import torch
from torch import nn

from arcset.networks import build_network, network_layers, parameter_count

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
