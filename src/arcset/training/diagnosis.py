"""When training breaks: what went wrong, where, and what to try."""

import torch
from torch import Tensor, nn

from arcset.data import as_float
from arcset.errors import TrainingError

__all__ = ["broken", "check_health", "first_broken_layer"]


def broken(what: str, network: nn.Module, images: Tensor, epoch: int, rate: float) -> TrainingError:
    """The error for a run that cannot go on. `images` are uint8 (N, C, H, W), for the diagnosis."""
    layer = first_broken_layer(network, images)
    place = f"; the first values that are not finite come out of layer {layer}" if layer else ""
    dtype = next(network.parameters()).dtype
    return TrainingError(
        f"training stopped in epoch {epoch}: {what}{place}; the learning rate was {rate:.3g} and "
        f"the weights are {dtype}: try a tenth of that rate (the epochs before are kept)"
    )


def check_health(network: nn.Module, images: Tensor, epoch: int, rate: float) -> None:
    """Refuse to keep an epoch whose weights or embeddings are not finite."""
    layer = first_broken_layer(network, images)
    if layer is not None:
        raise broken("the embeddings are not finite", network, images, epoch, rate)


@torch.no_grad()
def first_broken_layer(network: nn.Module, images: Tensor) -> str | None:
    """The first layer with a weight or an output that is not finite, as "NAME (KIND)"."""
    found: list[str] = []

    def look(name: str, layer: nn.Module) -> None:
        def hook(_: nn.Module, __: object, output: Tensor) -> None:
            weights = [*layer.parameters(recurse=False), *layer.buffers(recurse=False), output]
            if not all(bool(tensor.isfinite().all()) for tensor in weights):
                found.append(f"{name} ({type(layer).__name__})")

        handles.append(layer.register_forward_hook(hook))

    handles: list[torch.utils.hooks.RemovableHandle] = []
    for name, layer in network.named_modules():
        if not list(layer.children()):
            look(name or "network", layer)
    training = network.training
    try:
        network.eval()(as_float(images))
    finally:
        network.train(training)
        for handle in handles:
            handle.remove()
    return found[0] if found else None
