"""Torch networks as something that embeds arrays: that of a trained run, or any module."""

import copy
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from arcset.data.batches import as_tensor
from arcset.devices import choose_device
from arcset.errors import InputError, RunError
from arcset.files import one_line
from arcset.recognition.digest import model_digest
from arcset.recognition.presets import Pixels
from arcset.runs import Run
from arcset.runs.model import TrainedRun, embed, load_model

__all__ = ["ModuleModel", "RunModel", "settings_of"]


class RunModel:
    """The network of a run, on a device: that of a `TrainedRun` is used as it is.

    shape: of one sample as the network takes it, (C, H, W) of images or (F,) of vectors.
    Raises `RunError` where there is no run, or its weights are missing or do not fit.
    """

    def __init__(self, run: Run, device: str = "auto", network: nn.Module | None = None) -> None:
        chosen = choose_device(device)
        if isinstance(run, TrainedRun) and network is None:
            chosen = run.device if device == "auto" else chosen
            network = run.network if chosen == run.device else copy.deepcopy(run.network)
        else:
            network, _ = load_model(run, network=network)
        if run.config.shape is None:
            raise RunError(f"{run.path} does not say what images it is for: train it first")
        self.shape = run.config.shape
        self.dim = run.config.dim
        self.digest = model_digest(settings_of(run), network.state_dict())
        self._device = chosen
        self.network = network.to(chosen)

    def run(self, samples: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Samples as a dataset has them, (N, H, W[, C]) or (N, F), to (N, D), of any length."""
        found = embed(self.network, as_tensor(samples, self._device))
        return found.to("cpu", torch.float32).numpy()


class ModuleModel:
    """Any module that turns images (N, C, H, W) into (N, D), on a device, in evaluation mode.

    pixels: what becomes of an image of 0 … 255 first.
    Raises `InputError` where the module does not take such images, or gives something else.
    """

    def __init__(
        self, network: nn.Module, shape: tuple[int, int, int], pixels: Pixels, device: str = "auto"
    ) -> None:
        self.shape: tuple[int, ...] = shape
        self._pixels = pixels
        self._device = choose_device(device)
        self.network = network.to(self._device).eval()
        channels, height, width = shape
        try:
            rows = self.run(np.zeros((1, height, width, channels), np.uint8))
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            raise InputError(
                f"the network does not take images of {channels}×{height}×{width}: "
                f"{one_line(error)}"
            ) from error
        if rows.ndim != 2 or len(rows) != 1:
            raise InputError(
                f"the network gives {rows.shape} for one image, and an embedding is (1, D)"
            )
        self.dim = rows.shape[1]
        kind = type(self.network)
        settings = {
            "network": f"{kind.__module__}.{kind.__qualname__}",
            "shape": list(shape),
            "dim": self.dim,
            **asdict(pixels),
        }
        self.digest = model_digest(settings, self.network.state_dict())

    def run(self, samples: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Images as they are read, uint8 (N, H, W[, C]), to (N, D), of any length."""
        images = samples if samples.ndim == 4 else samples[..., None]  # (N, H, W, C)
        rows = embed(self.network, as_tensor(self._pixels.apply(images), self._device))
        return rows.to("cpu", torch.float32).numpy()


def settings_of(run: Run) -> dict[str, Any]:
    """Whatever decides embeddings besides the weights."""
    config = run.config
    return {
        "network": config.network,
        "shape": None if config.shape is None else list(config.shape),
        "fit": config.fit,
        "invert": config.invert,
        "dim": config.dim,
    }
