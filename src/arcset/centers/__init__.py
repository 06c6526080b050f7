"""Where the class centers live, and how the softmax over them is computed.

Any margin works on any kind of centers. `PlainCenters` is the readable reference.
"""

from arcset.centers.plain import PlainCenters

__all__ = ["PlainCenters"]
