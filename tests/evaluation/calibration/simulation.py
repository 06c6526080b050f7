"""A world of identities whose law is known, to draw validation sets and tests from."""

import numpy as np


def draw_identities(generator, count, samples, *, dim=64, decay=6.0, spread=0.8, noise=0.8):
    """Unit embeddings (count, samples, dim).

    Mean directions crowd along the first axes (`decay`), so that identities differ in how many
    others look like them; samples lie around them with a `noise` that differs by identity, with a
    standard deviation of its logarithm of `spread`.
    """
    axes = np.exp(-decay * np.arange(dim) / dim)
    means = generator.normal(size=(count, dim)) * axes
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    widths = noise * np.exp(spread * generator.normal(size=count) - spread**2 / 2) / np.sqrt(dim)
    points = means[:, None] + widths[:, None, None] * generator.normal(size=(count, samples, dim))
    return points / np.linalg.norm(points, axis=2, keepdims=True)
