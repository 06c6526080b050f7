"""From frames to a film file: GIF by Pillow, MP4 by the ffmpeg program."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image

from arcset.errors import OptionError
from arcset.files import replacing

__all__ = ["FORMATS", "Pixels", "check_format", "write_gif", "write_mp4"]

Pixels: TypeAlias = npt.NDArray[np.uint8]  # (H, W, 3), or (K, 3) colours

FORMATS = (".gif", ".mp4")


def check_format(out: Path) -> None:
    """Raise `OptionError` for an ending other than .gif and .mp4, or .mp4 without ffmpeg."""
    if out.suffix.lower() not in FORMATS:
        raise OptionError(f"{out}: a film ends in {' or '.join(FORMATS)}")
    if out.suffix.lower() == ".mp4" and shutil.which("ffmpeg") is None:
        raise OptionError(f"{out}: .mp4 needs the program ffmpeg, which is not found; write a .gif")


def write_gif(frames: Iterator[Pixels], colours: Pixels, out: Path, durations: list[int]) -> None:
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


def write_mp4(frames: Iterator[Pixels], size: tuple[int, int], out: Path, fps: int) -> None:
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
            said = ffmpeg.stderr.read().decode(errors="replace").strip()
            if ffmpeg.wait() != 0:
                raise OptionError(f"{out}: ffmpeg failed: {said or 'it gave no reason'}")
