"""Margins: small objects that turn target cosines into what training sees of them.

One margin per file; a file with `@MARGINS.register("name")` on a `Margin` is all that a new one
takes, and `arcset.build_loss("name", ...)` works from then on.
"""

from arcset.margins.base import MARGINS, Margin, Sample, Samples, build_margin

__all__ = ["MARGINS", "Margin", "Sample", "Samples", "build_margin"]
