"""Films: how embeddings move over the epochs, as GIF by Pillow or as MP4 by the ffmpeg program."""

import math
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.patches import Rectangle
from PIL import Image

from arcset.checks import check_count, check_number
from arcset.errors import OptionError
from arcset.files import replacing
from arcset.reports.embedding_plot import Board, Projection, Scene, epoch_scenes, flatten_scene
from arcset.reports.style import GREY, PALE, film_colours, style
from arcset.reports.view import Floats, RunView, check_alike, titles

Pixels: TypeAlias = npt.NDArray[np.uint8]  # (H, W, 3), or (K, 3) colours

FORMATS = (".gif", ".mp4")

_LONGEST = 8.0  # seconds that all epochs together take where nothing else is asked for
_REST = 2.0  # seconds that the last epoch stays
_TURN = math.radians(14)  # per second, where there are three dimensions


@style()
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
    if out.suffix.lower() not in FORMATS:
        raise OptionError(f"{out}: a film ends in {' or '.join(FORMATS)}")
    if out.suffix.lower() == ".mp4" and shutil.which("ffmpeg") is None:
        raise OptionError(f"{out}: .mp4 needs the program ffmpeg, which is not found; write a .gif")
    check_alike(views, dim=True)
    check_count("fps", fps, 1, 50)
    if seconds_per_epoch is not None:
        check_number("seconds_per_epoch", seconds_per_epoch, 0, 60, closed="right")
    if check_count("width", width, 200, 4000) % 2:
        raise OptionError(f"width must be an even number, not {width}")
    if not parts:
        raise OptionError("parts must name test, train or both")
    timelines = [Timeline(epoch_scenes(view, part)) for part in parts for view in views]
    film = _Film(timelines, parts, titles(views), width)
    turning = timelines[0].scenes[0].kind in ("sphere", "space")
    times = _times(film.last, fps, seconds_per_epoch)
    rest = round(_REST * fps)
    moving = out.suffix.lower() == ".mp4" or turning  # only a GIF can hold one frame for long
    moments = [*times, *[film.last] * (rest if moving else 0)]
    turns = [number / fps * _TURN if turning else 0.0 for number in range(len(moments))]

    def frames() -> Iterator[Pixels]:
        for number, (time, turn) in enumerate(zip(moments, turns, strict=True)):
            yield film.frame(time, turn)
            progress(number + 1, len(moments))

    if out.suffix.lower() == ".mp4":
        _write_mp4(frames(), film.size, out, fps)
        return
    durations = [round(1000 / fps)] * len(moments)
    if not moving:
        durations[-1] += round(1000 * _REST)
    _write_gif(frames(), film_colours(film.classes), out, durations)


class Timeline:
    """The scenes of one run over time, in epochs; between kept epochs they are interpolated.

    More than three dimensions are seen through the principal components of the last epoch.
    """

    def __init__(self, scenes: dict[int, Scene]) -> None:
        last = scenes[max(scenes)]
        plane = Projection.fit(last.known) if last.kind == "shadow" else None
        self.epochs = sorted(scenes)
        self.scenes = [flatten_scene(scenes[epoch], plane) for epoch in self.epochs]

    def at(self, time: float) -> Scene:
        """The scene at `time`; before the first kept epoch and after the last it stands still."""
        after = int(np.searchsorted(self.epochs, time))
        if after == 0 or after == len(self.epochs):
            return self.scenes[min(after, len(self.epochs) - 1)]
        start, end = self.epochs[after - 1 : after + 1]
        return _between(self.scenes[after - 1], self.scenes[after], (time - start) / (end - start))


def _between(a: Scene, b: Scene, share: float) -> Scene:
    """A scene `share` of the way from `a` to `b`; unit vectors stay unit vectors."""
    unit = a.kind in ("circle", "sphere")

    def mix(x: Floats, y: Floats) -> Floats:
        rows = (1 - share) * x + share * y
        if not unit:
            return rows
        lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
        return np.where(lengths > 1e-6, rows / np.maximum(lengths, 1e-6), y)

    return replace(
        b,
        known=mix(a.known, b.known),
        unseen=mix(a.unseen, b.unseen),
        centers=None if a.centers is None or b.centers is None else mix(a.centers, b.centers),
        biases=None
        if a.biases is None or b.biases is None
        else (1 - share) * a.biases + share * b.biases,
    )


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
        headings = [
            f"{name}, {part}" if len(parts) > 1 else name for part in parts for name in names
        ]
        self._board = Board(
            *(ends, headings, columns),
            history=history,
            width=inches,
            header=0.35,
            dpi=width / inches,
        )
        figure = self._board.figure
        pixels = 2 * round(figure.get_figheight() * figure.dpi / 2)  # H.264 wants even numbers
        figure.set_size_inches(inches, pixels / figure.dpi)
        self.size = (width, pixels)
        high = figure.get_figheight()
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


def _write_gif(frames: Iterator[Pixels], colours: Pixels, out: Path, durations: list[int]) -> None:
    """Write an endless GIF; frame i stays for `durations[i]` milliseconds.

    All frames share the palette `colours` (K, 3) with K ≤ 255, and none is dithered: equal places
    then have equal pixels from frame to frame, and cost nothing.
    """
    palette = Image.new("P", (1, 1))
    palette.putpalette(colours.tobytes())
    plain = Image.Dither.NONE
    first, *others = [
        Image.fromarray(frame).quantize(palette=palette, dither=plain) for frame in frames
    ]
    with replacing(out) as part:
        first.save(
            part,
            format="GIF",
            save_all=True,
            append_images=others,
            duration=durations,
            loop=0,
            optimize=False,
            disposal=1,
        )


def _write_mp4(frames: Iterator[Pixels], size: tuple[int, int], out: Path, fps: int) -> None:
    """Write H.264 in MP4 by piping raw frames of `size` (width, height) through ffmpeg."""
    with replacing(out) as part:
        command = [
            *("ffmpeg", "-loglevel", "error", "-y"),
            *("-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{size[0]}x{size[1]}", "-r", str(fps)),
            *("-i", "-", "-an", "-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", "20"),
            *("-movflags", "+faststart", "-fflags", "+bitexact", "-flags:v", "+bitexact"),
            *("-threads", "1", "-f", "mp4", str(part)),
        ]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as ffmpeg:
            assert ffmpeg.stdin is not None
            assert ffmpeg.stderr is not None
            try:
                for frame in frames:
                    ffmpeg.stdin.write(frame.tobytes())
                ffmpeg.stdin.close()
            except BrokenPipeError:
                pass  # ffmpeg gave up; it says why below
            except BaseException:
                ffmpeg.kill()
                raise
            complaint = ffmpeg.stderr.read().decode(errors="replace").strip()
            if ffmpeg.wait() != 0:
                raise OptionError(f"{out}: ffmpeg failed: {complaint or 'it gave no reason'}")
