"""Where training computes, and what is drawn there."""

import torch

from arcset.devices import choose_device

__all__ = ["choose_device", "seed_draws"]


def seed_draws(seed: int, device: torch.device) -> None:
    """Decide what layers and losses draw from here on, on the CPU and on `device`.

    As `torch.manual_seed`, which tries every kind of device there is and takes about as long as a
    small step for it.

        >>> seed_draws(3, torch.device("cpu"))
        >>> drawn = torch.rand(2)
        >>> torch.equal(drawn, torch.rand(2, generator=torch.Generator().manual_seed(3)))
        True
    """
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)
    elif device.type == "mps":
        torch.mps.manual_seed(seed)
