"""The bridge to timm: really, where timm can be imported, and the sentence where it cannot."""

import importlib.util
import sys

import pytest
import torch

from arcset import OptionError
from arcset.networks import build_network


def can_import_timm():
    if importlib.util.find_spec("timm") is None:
        return False
    try:
        importlib.import_module("timm")
    except Exception:
        return False
    return True


with_timm = pytest.mark.skipif(not can_import_timm(), reason="timm cannot be imported here")


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


FAKE = """
from types import SimpleNamespace
from torch import nn

def list_models():
    return ["resnet18", "vit", "map"]

def is_model(name):
    return name in list_models()

def get_pretrained_cfg(name):
    return SimpleNamespace(fixed_input_size=name == "vit")

def create_model(name, pretrained, num_classes, in_chans, img_size=None):
    assert not pretrained and num_classes == 0
    assert (img_size is not None) == (name == "vit"), f"{name} and {img_size}"
    layers = [nn.Conv2d(in_chans, 4, 9), nn.Flatten()]
    return nn.Sequential(*layers[: 1 if name == "map" else 2])
"""


def test_what_is_asked_of_timm_and_made_of_its_answer(tmp_path, monkeypatch):
    """Against a stand-in, so that it is tested where timm is not installed."""
    (tmp_path / "timm.py").write_text(FAKE)
    monkeypatch.syspath_prepend(tmp_path)
    for module in [each for each in sys.modules if each.partition(".")[0] == "timm"]:
        monkeypatch.delitem(sys.modules, module)
    try:
        for name in ("timm:resnet18", "timm:vit"):
            network = build_network(name, 5, (2, 10, 12), dropout=0.1)
            assert all(module.training for module in network.modules())
            assert network(torch.randn(4, 2, 10, 12)).shape == (4, 5)
        for arguments, quoted in [
            (("timm:resnet81", 2), "'resnet81'.*'timm:resnet18'"),
            (("timm:resnet18", 2, (8,)), "timm:resnet18 .* 8 "),
            (("timm:resnet18", 2, (1, 8, 8)), r"'timm:resnet18' .*\(1, 8, 8\)"),
            (("timm:map", 2, (1, 9, 9)), r"'timm:map' .*\(4, 1, 1\)"),
        ]:
            with pytest.raises(OptionError, match=quoted):
                build_network(*arguments)
    finally:
        sys.modules.pop("timm", None)
