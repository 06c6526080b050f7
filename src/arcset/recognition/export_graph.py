"""A trained network as an ONNX graph: bytes of images in, unit embeddings out."""

import copy
import tempfile
import warnings
from pathlib import Path
from typing import Any

import onnx
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from arcset.data import as_float
from arcset.errors import RunError

__all__ = ["INPUT", "OPSET", "OUTPUT", "onnx_model"]

OPSET = 17  # from ONNX Runtime 1.12 on
INPUT, OUTPUT = "images", "embeddings"


class _Deployed(nn.Module):
    """(N, H, W, C) or (N, F), as a dataset has them, to unit rows (N, D)."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, samples: Tensor) -> Tensor:
        """Everything that lies between an array and its embedding."""
        if samples.ndim == 4:
            samples = samples.permute(0, 3, 1, 2)  # (N, C, H, W)
        return F.normalize(self.network(as_float(samples)), dim=1)


class _Sloped(nn.Module):
    """PReLU as a·x + (1 − a)·relu(x), which is the same for every slope a.

    ONNX Runtime computes its PRelu one number after the other, which takes half of the time of a
    mobilefacenet; multiplications and sums it merges with its neighbours.
    """

    def __init__(self, slopes: Tensor) -> None:
        super().__init__()
        self.slopes = nn.Parameter(slopes.detach().clone(), requires_grad=False)  # (C,) or (1,)

    def forward(self, values: Tensor) -> Tensor:
        """(N, C, …), which it keeps."""
        slopes = self.slopes.reshape(1, -1, *[1] * (values.ndim - 2))
        return slopes * values + (1 - slopes) * F.relu(values)


def _for_export(network: nn.Module) -> nn.Module:
    """A copy with the layers that ONNX Runtime is quick at."""
    copied = copy.deepcopy(network).cpu().eval()
    for module in list(copied.modules()):
        for name, inner in module.named_children():
            if isinstance(inner, nn.PReLU):
                setattr(module, name, _Sloped(inner.weight))
    return copied


def onnx_model(network: nn.Module, shape: tuple[int, ...], dtype: torch.dtype) -> onnx.ModelProto:
    """The graph of a network as it is in evaluation mode.

    shape: (C, H, W) or (F,). dtype: uint8 for images, float32 for features.
    Raises `RunError` where the network cannot be written as ONNX.
    """
    inner = (*shape[1:], shape[0]) if len(shape) == 3 else shape
    samples = torch.ones((2, *inner), dtype=dtype)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "model.onnx")
        _trace(network, samples, file)
        model: Any = onnx.load_model(file)
    model.producer_name = "arcset"
    return model  # type: ignore[no-any-return]


def _trace(network: nn.Module, samples: Tensor, file: Path) -> None:
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")  # the exporter talks to those who write exporters
            torch.onnx.export(
                _Deployed(_for_export(network)).eval(),
                (samples,),
                file,
                input_names=[INPUT],
                output_names=[OUTPUT],
                dynamic_axes={INPUT: {0: "N"}, OUTPUT: {0: "N"}},
                opset_version=OPSET,
                # By tracing: a quarter of a second, where the other way takes ten and needs
                # another package; our networks have no branches that a trace would lose.
                dynamo=False,
            )
    except (RuntimeError, torch.onnx.errors.OnnxExporterError) as error:
        first = str(error).strip().splitlines()[0]
        raise RunError(f"the network cannot be written as ONNX: {first}") from None
