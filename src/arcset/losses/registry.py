"""The list of losses that are not a margin on class centers (those come from the margins)."""

from arcset.losses.base import Loss
from arcset.registry import Registry

__all__ = ["LOSSES"]

LOSSES: Registry[type[Loss]] = Registry("loss", "arcset.losses")
