"""Torch networks as something that embeds arrays: that of a trained run, or any module."""

import copy
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from arcset.data.batches import as_tensor
from arcset.devices import choose_device
from arcset.errors import InputError, RunError
from arcset.files import one_line
from arcset.recognition.inputs import Pixels
from arcset.runs import Run
from arcset.runs.model import TrainedRun, embed, load_network


class TorchModel:
    """A network on a device, in evaluation mode.

    shape: of one sample as the network takes it, (C, H, W) of images or (F,) of vectors.
    dim: the length of an embedding.
    pixels: what becomes of images of 0 … 255 first, where the network does not scale them itself.
    settings: what decides embeddings beside the weights.
    """

    takes_faces = False

    def __init__(
        self,
        network: nn.Module,
        shape: tuple[int, ...],
        dim: int,
        device: torch.device,
        *,
        pixels: Pixels | None = None,
        settings: Mapping[str, Any],
    ) -> None:
        self.network, self.shape, self.dim = network.to(device).eval(), shape, dim
        self._device, self._pixels = device, pixels
        self.digest = model_digest(
            {**settings, "shape": list(shape), "dim": dim}, network.state_dict()
        )

    @classmethod
    def of_run(
        cls, run: Run, device: str = "auto", network: nn.Module | None = None
    ) -> "TorchModel":
        """The network of a run: that of a `TrainedRun` is used as it is.

        Raises `RunError` where there is no run, or its weights are missing or do not fit.
        """
        chosen = choose_device(device)
        if isinstance(run, TrainedRun) and network is None:
            chosen = run.device if device == "auto" else chosen
            network = run.network if chosen == run.device else copy.deepcopy(run.network)
        else:
            network = load_network(run, network=network)
        config = run.config
        if config.shape is None:
            raise RunError(f"{run.path} does not say what images it is for: train it first")
        settings = {"network": config.network, "fit": config.fit, "invert": config.invert}
        return cls(network, config.shape, config.dim, chosen, settings=settings)

    @classmethod
    def of_module(
        cls,
        network: nn.Module,
        shape: tuple[int, int, int],
        pixels: Pixels,
        device: str = "auto",
    ) -> "TorchModel":
        """Any module that turns images (N, C, H, W) into (N, D).

        Raises `InputError` where it does not take such images, or gives something else.
        """
        chosen = choose_device(device)
        channels, height, width = shape
        black = pixels.apply(np.zeros((1, height, width, channels), np.uint8))
        try:
            rows = embed(network.to(chosen).eval(), as_tensor(black, chosen))
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            raise InputError(
                f"the network does not take images of {channels}×{height}×{width}: "
                f"{one_line(error)}"
            ) from error
        if rows.ndim != 2 or len(rows) != 1:
            raise InputError(
                f"the network gives {tuple(rows.shape)} for one image, and an embedding is (1, D)"
            )
        kind = type(network)
        settings = {"network": f"{kind.__module__}.{kind.__qualname__}", **asdict(pixels)}
        return cls(network, shape, rows.shape[1], chosen, pixels=pixels, settings=settings)

    def run(self, samples: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Samples as a dataset has them, (N, H, W[, C]) or (N, F), to (N, D), of any length."""
        if self._pixels is not None:
            images = samples if samples.ndim == 4 else samples[..., None]  # (N, H, W, C)
            samples = self._pixels.apply(images)
        rows = embed(self.network, as_tensor(samples, self._device))
        return rows.to("cpu", torch.float32).numpy()


def model_digest(settings: Mapping[str, Any], weights: Mapping[str, Tensor]) -> str:
    """SHA-256 over the settings that decide embeddings and all weights by name, in hexadecimal.

    It depends on names, types, shapes and values: not on the device, the order or the memory layout
    of the weights, nor on the file that they came from. Counters of batches, which batch norms
    keep, change no embedding and are left out.

    >>> weight = torch.arange(6.0).reshape(2, 3)
    >>> one = model_digest({"dim": 2}, {"weight": weight})
    >>> one == model_digest({"dim": 2}, {"weight": weight.t().contiguous().t()})
    True
    >>> one == model_digest({"dim": 2}, {"weight": -weight})
    False
    """
    digest = hashlib.sha256(json.dumps(dict(settings), sort_keys=True).encode())
    for name in sorted(weights):
        if name.endswith("num_batches_tracked"):
            continue
        values = weights[name].detach().cpu().contiguous().numpy()
        little = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
        head = {"name": name, "type": values.dtype.name, "shape": list(values.shape)}
        digest.update(json.dumps(head, sort_keys=True).encode())
        digest.update(little.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
