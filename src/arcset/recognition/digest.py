"""One number for all that decides a model's embeddings."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

__all__ = ["model_digest"]


def model_digest(settings: Mapping[str, Any], weights: Mapping[str, Tensor]) -> str:
    """SHA-256 over the settings that decide embeddings and all weights by name, in hexadecimal.

    It depends on names, types, shapes and values: not on the device, the order or the memory layout
    of the weights, nor on the file that they came from. Counters of batches, which batch norms
    keep, change no embedding and are left out.

    >>> import torch
    >>> weight = torch.arange(6.0).reshape(2, 3)
    >>> one = model_digest({"dim": 2}, {"weight": weight})
    >>> one == model_digest({"dim": 2}, {"weight": weight.t().contiguous().t()})
    True
    >>> one == model_digest({"dim": 2}, {"weight": -weight})
    False
    """
    found = hashlib.sha256(json.dumps(dict(settings), sort_keys=True).encode())
    for name in sorted(weights):
        if name.endswith("num_batches_tracked"):
            continue
        values = weights[name].detach().cpu().contiguous().numpy()
        little = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
        head = {"name": name, "type": values.dtype.name, "shape": list(values.shape)}
        found.update(json.dumps(head, sort_keys=True).encode())
        found.update(little.reshape(-1).view(np.uint8).data)
    return found.hexdigest()
