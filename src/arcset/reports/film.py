"""Films: how embeddings move over the epochs."""

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.patches import Rectangle

from arcset.checks import check_count, check_number
from arcset.errors import OptionError
from arcset.reports.board import Board
from arcset.reports.encode import Pixels, check_format, write_gif, write_mp4
from arcset.reports.scene import check_alike, epoch_scenes, titles
from arcset.reports.theme import GREY, PALE, film_colours, styled
from arcset.reports.timeline import Timeline
from arcset.reports.view import RunView

__all__ = ["write_film"]

_LONGEST = 8.0  # seconds that all epochs together take where nothing else is asked for
_REST = 2.0  # seconds that the last epoch stays
_TURN = math.radians(14)  # per second, where there are three dimensions


@styled
def write_film(
    views: Sequence[RunView],
    out: Path | str,
    *,
    parts: Sequence[str] = ("test",),
    fps: int = 10,
    seconds_per_epoch: float | None = None,
    width: int = 800,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Write a film of the kept epochs to `out`, a .gif, or an .mp4 where there is ffmpeg.

    One column per run, one row per part; a single part wraps after three runs. Axes stay the same
    over all frames, and for all losses of the same kind. Three dimensions turn slowly. Equal runs
    give equal bytes.

    Parameters:
        parts: `test`, `train`, or both.
        seconds_per_epoch: half a second if left out, and less where that takes longer than 8.
        width: pixels; the height follows.
        progress: is told the frames done and their number.

    Raises `OptionError` for runs that differ in data, classes or dimension, options outside their
    range, and a format that cannot be written; `RunError` for a run that kept no epochs.
    """
    out = Path(out)
    check_format(out)
    check_alike(views, dim=True)
    _check_options(parts, fps, seconds_per_epoch, width)
    timelines = [Timeline(epoch_scenes(view, part)) for part in parts for view in views]
    film = _Film(timelines, parts, titles(views), width)
    turning = timelines[0].scenes[0].kind in ("sphere", "space")
    times = _times(film.last, fps, seconds_per_epoch)
    rest = round(_REST * fps)
    moving = out.suffix.lower() == ".mp4" or turning  # only a GIF can hold one frame for long
    shown = [*times, *[film.last] * (rest if moving else 0)]
    turns = [number / fps * _TURN if turning else 0.0 for number in range(len(shown))]

    def frames() -> Iterator[Pixels]:
        for number, (time, turn) in enumerate(zip(shown, turns, strict=True)):
            yield film.frame(time, turn)
            progress(number + 1, len(shown))

    if out.suffix.lower() == ".mp4":
        write_mp4(frames(), film.size, out, fps)
        return
    durations = [round(1000 / fps)] * len(shown)
    if not moving:
        durations[-1] += round(1000 * _REST)
    write_gif(frames(), film_colours(film.classes), out, durations)


class _Film:
    """A board whose background is drawn once; only what moves is drawn for each frame."""

    def __init__(
        self, timelines: list[Timeline], parts: Sequence[str], names: list[str], width: int
    ) -> None:
        self._timelines, runs = timelines, len(names)
        self.last = float(max(timeline.epochs[-1] for timeline in timelines))
        columns = runs if len(parts) > 1 or runs <= 3 else 2 if runs == 4 else 3
        inches = 8.0 if columns > 1 else 5.0
        history = [scene for timeline in timelines for scene in timeline.scenes]
        ends = [timeline.scenes[-1] for timeline in timelines]
        self.classes = max(len(end.names) + len(end.unseen_names) for end in ends)
        self._board = Board(
            ends, columns, history=history, width=inches, header=0.35, dpi=width / inches
        )
        figure = self._board.figure
        pixels = 2 * round(figure.get_figheight() * figure.dpi / 2)  # H.264 wants even numbers
        figure.set_size_inches(inches, pixels / figure.dpi)
        self.size = (width, pixels)
        high = figure.get_figheight()
        headings = [(name, part) for part in parts for name in names]
        for panel, (name, part) in zip(self._board.panels, headings, strict=True):
            panel.axes.set_title(f"{name}, {part}" if len(parts) > 1 else name)
        self._epoch = figure.text(0.02, 1 - 0.24 / high, "", fontsize=12, va="center")
        track = (0.2, 1 - 0.26 / high, 0.77, 0.04 / high)
        figure.add_artist(Rectangle(track[:2], *track[2:], color=PALE, lw=0))
        self._bar = Rectangle(track[:2], 0, track[3], color=GREY, lw=0)
        self._track = track[2]
        figure.add_artist(self._bar)
        self._moving = [artist for panel in self._board.panels for artist in panel.moving]
        for artist in (*self._moving, self._epoch, self._bar):
            artist.set_animated(True)
        self._canvas = canvas = cast(Any, FigureCanvasAgg(figure))
        canvas.draw()
        self._background = canvas.copy_from_bbox(figure.bbox)

    def frame(self, time: float, turn: float) -> Pixels:
        """One frame, `time` in epochs."""
        self._board.show([timeline.at(time) for timeline in self._timelines], turn)
        self._epoch.set_text(f"epoch {math.floor(time + 1e-9)}")
        self._bar.set_width(self._track * (time / self.last if self.last else 1.0))
        self._canvas.restore_region(self._background)
        for artist in sorted(self._moving, key=lambda artist: artist.get_zorder()):
            artist.draw(self._canvas.get_renderer())
        for artist in (self._epoch, self._bar):
            artist.draw(self._canvas.get_renderer())
        return np.array(self._canvas.buffer_rgba())[..., :3].copy()


def _times(last: float, fps: int, seconds_per_epoch: float | None) -> list[float]:
    """The time of every frame, in epochs, from 0 to the last."""
    pace = seconds_per_epoch or min(0.5, _LONGEST / max(1.0, last))
    steps = max(1, round(last * pace * fps))
    return [last * step / steps for step in range(steps + 1)] if last else [0.0]


def _check_options(
    parts: Sequence[str], fps: int, seconds_per_epoch: float | None, width: int
) -> None:
    if not parts or len(set(parts)) != len(parts):
        raise OptionError(
            f"parts must name test, train or both, each once, not {','.join(parts)!r}"
        )
    check_count("fps", fps, 1, 50)
    if seconds_per_epoch is not None:
        check_number("seconds_per_epoch", seconds_per_epoch, 0, 60, closed="right")
    if check_count("width", width, 200, 4000) % 2:
        raise OptionError(f"width must be an even number, not {width}")
