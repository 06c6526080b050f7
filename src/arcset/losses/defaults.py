"""Scale and margin where the user names none: from the number of classes C and the dimension D.

How far apart can C centers lie on the sphere of R^D? `center_spacing` estimates the angle φ
between neighbours. The scale is then the one at which a sample a third of the way from its own
center to the next is classified with 99 % certainty, if all other centers were as near as that
next one:

    s = ln((C − 1) · 0.99 / 0.01) / (cos(φ/3) − cos(2φ/3)), kept within 8 … 64.

A smaller scale bounds the logits so tightly that the loss cannot fall (`lowest_loss`), and keeps
pulling at classes long since separated; a larger one stops pulling as soon as they are.
"""

import math

from arcset.centers.init import center_spacing

__all__ = ["default_scale", "lowest_loss"]


def default_scale(classes: int, dim: int) -> float:
    """The scale that this module's rule gives.

    >>> default_scale(5, 2), default_scale(1_000, 128), default_scale(100_000, 512)
    (24.5, 31.4, 44.0)
    """
    spacing = center_spacing(classes, dim)
    lead = math.cos(spacing / 3) - math.cos(2 * spacing / 3)
    wanted = math.log(max(classes - 1, 1) * 99)
    return round(min(max(wanted / max(lead, 1e-9), 8.0), 64.0), 1)


def lowest_loss(scale: float, classes: int) -> float:
    """The lowest loss that normalized softmax can reach at this scale, however well it separates.

    ln(1 + (C − 1) · exp(−s · C/(C − 1))), reached where every sample lies on its center and the
    centers form a regular simplex (D ≥ C − 1); with fewer dimensions it is higher still.
    Paper: Wang et al.: NormFace, 2017, proposition 2.

        >>> round(lowest_loss(1.0, 10), 3), round(lowest_loss(16.0, 10), 6)
        (1.377, 0.0)
    """
    if classes < 2:
        return 0.0
    return math.log1p((classes - 1) * math.exp(-scale * classes / (classes - 1)))
