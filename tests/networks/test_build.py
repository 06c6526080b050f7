"""Names, shapes and options: what is built and what is refused, in which words."""

import pytest
import torch

from arcset import OptionError
from arcset.networks import build_network, network_names

WITH_DROPOUT = ["glyph", "iresnet100", "iresnet18", "iresnet34", "iresnet50", "mlp", "vit"]
WITHOUT = sorted(set(network_names()) - set(WITH_DROPOUT))


def test_dropout_acts_in_training_only():
    torch.manual_seed(0)
    network = build_network("mlp", 4, (8,), dropout=0.5)
    vectors = torch.randn(16, 8)
    assert not torch.equal(network(vectors), network(vectors))
    network.eval()
    assert torch.equal(network(vectors), network(vectors))


@pytest.mark.parametrize("name", WITHOUT)
def test_dropout_is_refused_where_there_is_none(name):
    with pytest.raises(OptionError, match=f"{name} .*dropout.*glyph, "):
        build_network(name, 2, (3, 32, 32), dropout=0.1)


@pytest.mark.parametrize("name", [name for name in network_names() if name != "mlp"])
def test_networks_for_images_refuse_vectors(name):
    expected = f"{name} .*64 .*'mlp'"
    with pytest.raises(OptionError, match=expected):
        build_network(name, 2, (64,))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("simple", 1), "dim .* 1$"),
        (("simpel", 2), "'simpel'.*'simple'"),
        (("simple", 2, (28, 28)), r"shape .*\(28, 28\)"),
        (("mlp", 2, (0,)), r"shape .*\(0,\)"),
    ],
)
def test_refused(arguments, sentence):
    with pytest.raises(OptionError, match=sentence):
        build_network(*arguments)


@pytest.mark.parametrize("name", ["simple", "iresnet18", "vit"])
def test_weights_that_no_memory_holds_are_refused_before_they_are_asked_for(name):
    with pytest.raises(OptionError, match=f"{name}.*65536×65536"):
        build_network(name, dim=512, shape=(3, 65536, 65536))


@pytest.fixture
def network():
    torch.manual_seed(0)
    return build_network("mlp", 4, (6,))


def test_features_of_any_unit_weigh_alike(network):
    torch.manual_seed(1)
    vectors = torch.randn(64, 6)
    scales = torch.tensor([1e-5, 1e-3, 1.0, 10.0, 1e4, 1e6])
    offsets = torch.tensor([0.0, 1e-3, 5.0, -20.0, 0.0, 1e7])
    expected = network(vectors)
    torch.testing.assert_close(network(vectors * scales + offsets), expected, rtol=0, atol=0.05)


def test_evaluation_uses_the_units_seen_from_the_first_step_on(network):
    vectors = torch.randn(256, 6) * 1e-4 + 3e-4
    network(vectors)
    standardize = network[:2].eval()
    torch.testing.assert_close(standardize(vectors).std(0), torch.ones(6), rtol=0.02, atol=0)
    torch.testing.assert_close(standardize(vectors).mean(0), torch.zeros(6), rtol=0, atol=0.02)


def test_a_feature_that_never_varied_does_not_drown_the_others(network):
    vectors = torch.randn(32, 6)
    vectors[:, 3] = 7.0
    for _ in range(3):
        network(vectors)
    network.eval()
    stray = vectors.clone()
    stray[:, 3] = 8.0
    assert network(stray).isfinite().all()
    assert network[:3](stray).abs().max() == 10.0
    assert network[:3](vectors).abs().max() < 5.0
