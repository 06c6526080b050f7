import pytest
import torch

from arcset.networks import build_network


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
