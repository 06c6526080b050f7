"""The bridge to timm: really, where timm can be imported, and the sentence where it cannot."""

import importlib.util
import sys

import pytest
import torch

from arcset import OptionError
from arcset.networks import build_network, network_names


def can_import_timm():
    if importlib.util.find_spec("timm") is None:
        return False
    try:
        importlib.import_module("timm")
    except Exception:
        return False
    return True


with_timm = pytest.mark.skipif(not can_import_timm(), reason="timm cannot be imported here")


def test_timm_is_not_listed():
    assert not any("timm" in name for name in network_names())


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("raise ModuleNotFoundError(\"No module named 'timm'\")", "No module named 'timm'"),
        (
            'raise RuntimeError("no operator torchvision::nms\\nor so")',
            "no operator torchvision::nms",
        ),
    ],
)
def test_where_timm_cannot_be_imported_one_sentence_says_so(tmp_path, monkeypatch, fault, reason):
    """An installation of timm that fails, as one beside an unfitting torchvision does."""
    (tmp_path / "timm.py").write_text(fault)
    monkeypatch.syspath_prepend(tmp_path)
    for module in [each for each in sys.modules if each.partition(".")[0] == "timm"]:
        monkeypatch.delitem(sys.modules, module)
    with pytest.raises(OptionError) as caught:
        build_network("timm:resnet18", 2)
    for quoted in ("'timm:resnet18'", reason, "pip install 'arcset[timm]'"):
        assert quoted in str(caught.value)
    assert "\n" not in str(caught.value)


@with_timm
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("resnet18", (1, 28, 28)),
        ("mobilenetv3_small_100", (3, 64, 48)),  # whose features are not `num_features`
        ("vit_tiny_patch16_224", (3, 64, 64)),  # which is built for one size
    ],
)
def test_timm_networks_embed(name, shape):
    torch.manual_seed(0)
    network = build_network(f"timm:{name}", 5, shape, dropout=0.1)
    assert all(module.training for module in network.modules())
    embeddings = network(torch.randn(4, *shape))
    assert embeddings.shape == (4, 5)
    embeddings.square().sum().backward()
    assert all(parameter.grad is not None for parameter in network.parameters())


@with_timm
def test_timm_refusals():
    with pytest.raises(OptionError, match="'resnet81'"):
        build_network("timm:resnet81", 2)
    with pytest.raises(OptionError, match=" 8 "):
        build_network("timm:resnet18", 2, (8,))
    with pytest.raises(OptionError, match=r"'timm:vgg11' .*\(3, 8, 8\)"):
        build_network("timm:vgg11", 2, (3, 8, 8))
