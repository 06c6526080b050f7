"""Samples as pictures: images as they are, other features as shades of grey."""

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["pictured"]


def pictured(samples: Any) -> Any:
    """Samples of an `ImageSet` as uint8 (N, H, W) or (N, H, W, 3), to look at.

    uint8 pictures are given back as they are. Features are scaled together so that the least is
    black and the greatest white; a vector fills rows of about equal length, channels other than
    three are averaged.

        >>> pictured(np.array([[0.0, 1.0, 0.5]], np.float32))[0].tolist()
        [[0, 255], [128, 0]]
    """
    if samples.dtype == np.uint8:
        return samples
    values: npt.NDArray[Any] = np.asarray(samples, np.float64)
    low, high = float(values.min()), float(values.max())
    shades = (values - low) / (high - low or 1.0) * 255
    if shades.ndim == 2:
        columns = int(np.ceil(np.sqrt(shades.shape[1])))
        rows = -(-shades.shape[1] // columns)
        padded = np.zeros((len(shades), rows * columns))
        padded[:, : shades.shape[1]] = shades
        shades = padded.reshape(len(shades), rows, columns)
    if shades.ndim == 4 and shades.shape[-1] != 3:
        shades = shades.mean(axis=-1)
    return np.rint(shades).astype(np.uint8)
