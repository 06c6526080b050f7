"""The one list of networks, and beside it those of timm, where it is installed."""

import importlib
import inspect
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from arcset.checks import check_count, check_number
from arcset.devices import check_memory
from arcset.errors import OptionError
from arcset.files import one_line
from arcset.networks.layers import Shape, image_shape
from arcset.registry import Registry, did_you_mean

#: Takes the shape and the dimension of the embedding; also `dropout`, by name, where it has any.
Builder = Callable[..., nn.Module]

# Beyond these sizes, which are rare, weights are counted before memory is asked for.
_LARGE_INPUT = 2**20  # values per sample
_LARGE_OUTPUT = 2**26  # the same times the dimension of the embedding

NETWORKS: Registry[Builder] = Registry("network", "arcset.networks", group="arcset.networks")


def network_names() -> list[str]:
    """Every registered network; `timm:NAME` opens those of timm besides."""
    return NETWORKS.names()


def build_network(
    name: str, dim: int, shape: Shape = (1, 28, 28), *, dropout: float | None = None
) -> nn.Module:
    """Build a network that embeds images or vectors of `shape` in `dim` ≥ 2 dimensions.

    `shape` is (channels, height, width) for images (B, C, H, W), or (values,) for vectors (B, D);
    floats come in, of images in −1..1. `dropout` is the probability with which, in training, an
    input of the last linear layer is dropped; None leaves it to the network. `timm:NAME` builds
    timm's network of that name, with fresh weights, where timm is installed.

    >>> import torch
    >>> network = build_network("simple", dim=2)
    >>> network(torch.zeros(4, 1, 28, 28)).shape
    torch.Size([4, 2])

    Raises:
        OptionError: the name is unknown, `dim` is below 2, `shape` is neither of the two or too
            small or too large for the network, it has no dropout, or timm cannot be imported.
    """
    dim = check_count("dim", dim, least=2)
    if len(shape) not in (1, 3) or min(shape) < 1:
        raise OptionError(
            "shape must be (channels, height, width) of images or (values,) of vectors, "
            f"not {shape!r}"
        )
    builder = _timm_builder(name) if name.startswith("timm:") else NETWORKS[name]
    if math.prod(shape) > _LARGE_INPUT or math.prod(shape) * dim > _LARGE_OUTPUT:
        _check_memory(name, builder, shape, dim)
    if dropout is None:
        return builder(shape, dim)
    dropout = check_number("dropout", dropout, 0, 1)
    if not _has_dropout(builder):
        having = [known for known in network_names() if _has_dropout(NETWORKS[known])]
        raise OptionError(f"{name} has no dropout; these networks have: {', '.join(having)}")
    return builder(shape, dim, dropout=dropout)


def network_module(name: str) -> str | None:
    """The module that a network comes from, where it is neither arcset's nor timm's."""
    if name not in NETWORKS:
        return None
    module = str(getattr(NETWORKS[name], "__module__", ""))
    return None if module.partition(".")[0] == "arcset" else module or None


def _check_memory(name: str, builder: Builder, shape: Shape, dim: int) -> None:
    """Refuse a network whose weights cannot be held in memory."""
    with torch.device("meta"):
        network = builder(shape, dim)
    needed = 2 * sum(weight.nbytes for weight in network.parameters())  # beside a file's content
    what = f"{name} for inputs of {'×'.join(map(str, shape))} and dim={dim}"
    check_memory(what, needed, torch.device("cpu"), "choose smaller images or another network")


def _has_dropout(builder: Builder) -> bool:
    return "dropout" in inspect.signature(builder).parameters


def _timm_builder(name: str) -> Builder:
    """What builds timm's network, up to its features, with a linear layer and batch norm.

    The weights are fresh: none are ever downloaded.
    """
    short, timm = name.removeprefix("timm:"), _import_timm(name)
    if not timm.is_model(short):
        known = [f"timm:{each}" for each in timm.list_models()]  # too many to list
        hint = did_you_mean(name, known)
        raise OptionError(f"timm has no network called {short!r}{f'; {hint}' if hint else ''}")

    def build(shape: Shape, dim: int, *, dropout: float = 0.0) -> nn.Sequential:
        channels, height, width = image_shape(name, shape, smallest=1)
        # Transformers are built for one size; convolutional networks take any, and no such option.
        fixed = getattr(timm.get_pretrained_cfg(short), "fixed_input_size", False)
        size = {"img_size": (height, width)} if fixed else {}
        try:
            features: nn.Module = timm.create_model(
                short, pretrained=False, num_classes=0, in_chans=channels, **size
            )
            with torch.no_grad():  # by trying: `num_features` is not always what comes out
                out = features.eval()(torch.zeros(1, *shape))
        except (AssertionError, RuntimeError, TypeError, ValueError) as error:
            raise OptionError(
                f"{name!r} cannot take images of shape {shape}: {one_line(error)}"
            ) from None
        if out.ndim != 2:
            raise OptionError(f"{name!r} gives no vector per image but {tuple(out.shape[1:])}")
        return nn.Sequential(
            features.train(),
            nn.Dropout(dropout),
            nn.Linear(out.shape[1], dim, bias=False),
            nn.BatchNorm1d(dim),
        )

    return build


def _import_timm(name: str) -> Any:
    try:
        return importlib.import_module("timm")
    except Exception as error:  # a torchvision that does not fit torch raises RuntimeError
        raise OptionError(
            f"{name!r} needs timm, which cannot be imported here ({one_line(error)}): "
            "pip install 'arcset[timm]', with a torchvision that fits torch"
        ) from None
