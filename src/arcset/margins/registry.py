"""The one list of margins."""

from arcset.margins.base import Margin
from arcset.registry import Registry

__all__ = ["MARGINS", "build_margin"]

MARGINS: Registry[type[Margin]] = Registry("margin", "arcset.margins")


def build_margin(name: str, **options: object) -> Margin:
    """Build a margin by name.

    >>> build_margin("arcface", margin=0.3)
    ArcFace(margin=0.3, fallback=default)
    """
    return MARGINS[name](**options)
