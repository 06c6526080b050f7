import math

import pytest
import torch

from arcset.networks import build_network
from arcset.networks.vit import TransformerBlock, patch_size


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    return build_network("vit", 4, (1, 28, 28))


@pytest.fixture(scope="module")
def images():
    return torch.rand(4, 1, 28, 28, generator=torch.Generator().manual_seed(0)) * 2 - 1


def test_seven_to_fourteen_patches_a_side():
    for side in range(28, 300):
        size = patch_size(side, side // 2)
        assert math.log2(size).is_integer()
        assert 7 <= -(-side // size) <= 14, side
        assert patch_size(side // 2, side) == size


@pytest.mark.parametrize(
    ("shape", "patches"),
    [
        ((1, 28, 28), 7 * 7),
        ((3, 112, 92), 14 * 12),
        ((1, 105, 105), 14 * 14),
        ((3, 16, 60), 2 * 8),
        ((1, 17, 16), 5 * 4),
    ],
)
def test_patches_cover_the_image(shape, patches):
    with torch.device("meta"):
        network = build_network("vit", 4, shape)
        assert network[0](torch.empty(2, *shape)).shape == (2, patches, 192)


def test_attention_is_the_plain_one():
    torch.manual_seed(0)
    block = TransformerBlock().double()
    patches = torch.randn(2, 5, 192, dtype=torch.float64)
    normed = block.attention_norm(patches)
    query, key, value = block.query_key_value(normed).split(192, dim=2)
    heads = []
    for head in range(3):
        part = slice(64 * head, 64 * head + 64)
        scores = query[..., part] @ key[..., part].transpose(1, 2) / math.sqrt(64)
        heads.append(scores.softmax(dim=2) @ value[..., part])
    attended = patches + block.project(torch.cat(heads, dim=2))
    torch.testing.assert_close(block(patches), attended + block.mlp(attended))


@pytest.mark.long
def test_trains_when_compiled_to_machine_code(images):
    torch.manual_seed(0)
    network = build_network("vit", 4, (1, 28, 28))
    compiled = torch.compile(network, fullgraph=True)
    factors = torch.randn(4, 4)
    gradients = []
    for run in (network, compiled):
        network.zero_grad()
        (run(images) * factors).sum().backward()
        gradients.append([parameter.grad.clone() for parameter in network.parameters()])
    for plain, fused in zip(*gradients, strict=True):
        atol = 1e-3 * plain.abs().max().item()
        torch.testing.assert_close(fused, plain, rtol=1e-2, atol=atol)
