"""The networks of timm, where it is installed."""

import difflib
import importlib
from typing import Any

import torch
from torch import nn

from arcset.errors import OptionError
from arcset.networks.layers import image_shape
from arcset.networks.registry import Builder, Shape

__all__ = ["timm_builder"]


def timm_builder(name: str) -> Builder:
    """What builds timm's network `name`, up to its features, with a linear layer and batch norm.

    The weights are fresh: none are ever downloaded.

    Raises:
        OptionError: timm cannot be imported, or knows no such network.
    """
    timm = _import_timm(name)
    if not timm.is_model(name):
        near = difflib.get_close_matches(name, timm.list_models(), n=1)  # of a thousand and more
        hint = f"; did you mean 'timm:{near[0]}'?" if near else ""
        raise OptionError(f"timm has no network called {name!r}{hint}")

    def build(shape: Shape, dim: int, *, dropout: float = 0.0) -> nn.Sequential:
        image_shape(f"timm:{name}", shape, smallest=1)
        features = _features(timm, name, shape)
        return nn.Sequential(
            features,
            nn.Dropout(dropout),
            nn.Linear(_width(features, name, shape), dim, bias=False),
            nn.BatchNorm1d(dim),
        )

    return build


def _import_timm(name: str) -> Any:
    try:
        return importlib.import_module("timm")
    except Exception as error:  # a torchvision that does not fit torch raises RuntimeError
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise OptionError(
            f"'timm:{name}' needs timm, which cannot be imported here ({reason}): "
            "pip install 'arcset[timm]', with a torchvision that fits torch"
        ) from None


def _features(timm: Any, name: str, shape: Shape) -> nn.Module:
    """timm's network without its classifier, for images of `shape`."""
    channels, height, width = shape
    # Transformers are built for one size; convolutional networks take any and know no such option.
    fixed = getattr(timm.get_pretrained_cfg(name), "fixed_input_size", False)
    size = {"img_size": (height, width)} if fixed else {}
    try:
        network: nn.Module = timm.create_model(
            name, pretrained=False, num_classes=0, in_chans=channels, **size
        )
    except (AssertionError, RuntimeError, TypeError, ValueError) as error:
        raise _unfit(name, shape, error) from None
    return network


def _width(features: nn.Module, name: str, shape: Shape) -> int:
    """How many features come out, by trying: `num_features` is not always what comes out."""
    try:
        with torch.no_grad():
            out = features.eval()(torch.zeros(1, *shape))
    except (AssertionError, RuntimeError, ValueError) as error:
        raise _unfit(name, shape, error) from None
    features.train()
    if out.ndim != 2:
        raise OptionError(f"'timm:{name}' gives no vector per image but {tuple(out.shape[1:])}")
    return int(out.shape[1])


def _unfit(name: str, shape: Shape, error: Exception) -> OptionError:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return OptionError(f"'timm:{name}' cannot take images of shape {shape}: {reason}")
