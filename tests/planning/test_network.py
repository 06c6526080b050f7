"""What networks need, found out without memory for them."""

import pytest

from arcset import OptionError
from arcset.networks import build_network, network_names
from arcset.planning.network import network_cost

SHAPE = (3, 112, 112)
DEEP = {"iresnet34", "iresnet50", "iresnet100"}  # built as iresnet18 is
QUICK = {"simple", "vit", "iresnet18"}


@pytest.mark.parametrize(
    "name",
    [
        name if name in QUICK else pytest.param(name, marks=pytest.mark.long)
        for name in sorted({*network_names()} - DEEP)
    ],
)
def test_every_network(name):
    one, many = (network_cost(name, 64, SHAPE, batch) for batch in (1, 100))
    held = build_network(name, 64, SHAPE).state_dict().values()
    assert one.weights == many.weights == sum(tensor.nbytes for tensor in held)
    assert one.kept > 3 * 112 * 112 * 4 * 0.9
    assert many.kept == pytest.approx(100 * one.kept, rel=1e-6)
    assert many.flops == pytest.approx(100 * one.flops, rel=1e-6)
    assert many.flops > 100 * 64


def test_any_batch_and_no_larger_images_than_torch_can_count():
    assert network_cost("simple", 64, SHAPE, 10**15).kept > 10**18
    with pytest.raises(OptionError, match="simple") as raised:
        network_cost("simple", 64, (3, 10**8, 10**8), 1)
    assert "\n" not in str(raised.value)
