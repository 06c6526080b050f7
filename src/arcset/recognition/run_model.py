"""A trained run as something that embeds arrays."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from arcset.data.batches import as_tensor
from arcset.devices import choose_device
from arcset.errors import RunError
from arcset.recognition.digest import model_digest
from arcset.runs import Run
from arcset.runs.model import embed, load_model

__all__ = ["RunModel", "settings_of"]


class RunModel:
    """The network of a run folder, on a device.

    shape: of one sample as the network takes it, (C, H, W) of images or (F,) of vectors.
    Raises `RunError` where there is no run, or its weights are missing or do not fit.
    """

    def __init__(self, run: Run, device: str = "auto") -> None:
        network, _ = load_model(run)
        if run.config.shape is None:
            raise RunError(f"{run.path} does not say what images it is for: train it first")
        self.shape = run.config.shape
        self.dim = run.config.dim
        self.digest = model_digest(settings_of(run), network.state_dict())
        self._device = choose_device(device)
        self.network = network.to(self._device)

    def run(self, samples: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Samples as a dataset has them, (N, H, W[, C]) or (N, F), to (N, D), of any length."""
        found = embed(self.network, as_tensor(samples, self._device))
        return found.to("cpu", torch.float32).numpy()


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
