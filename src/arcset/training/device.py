"""Where training computes."""

from arcset.devices import choose_device

__all__ = ["choose_device"]
