"""The classes' colours on light and on dark ground."""

from arcset.reports.style import PALETTE

__all__ = ["COLOURS"]

#: The stills' palette, and the same hues made bright enough for a dark page, in the same order.
COLOURS = {
    "light": PALETTE,
    "dark": (
        "#4A97DB",  # blue
        "#E69F00",  # orange
        "#12B886",  # green
        "#C2527F",  # wine
        "#93D5FF",  # sky
        "#F0692B",  # vermilion
        "#EBA3CD",  # pink
        "#B5B53A",  # olive
        "#E8E8E8",  # white for black
        "#8672EA",  # indigo
    ),
}
