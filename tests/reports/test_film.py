"""Films of small but real runs."""

import shutil

import numpy as np
import pytest
from PIL import Image

from arcset.errors import OptionError, RunError
from arcset.reports.embedding_plot import epoch_scenes
from arcset.reports.film import Timeline, write_film
from arcset.reports.view import RunView

needs_ffmpeg = pytest.mark.skipif(
    shutil.which("ffmpeg") is None, reason="ffmpeg is not installed: no .mp4 can be written"
)


def test_a_film_has_the_frames_and_size_asked_for_and_the_same_bytes_twice(views, tmp_path):
    told = []
    for copy in ("a.gif", "b.gif"):
        write_film(
            [RunView(views[name].run.path) for name in ("softmax", "arcface")],
            tmp_path / copy,
            fps=5,
            seconds_per_epoch=1.0,
            width=400,
            progress=lambda done, total: told.append((done, total)),
        )
    assert (tmp_path / "a.gif").read_bytes() == (tmp_path / "b.gif").read_bytes()
    assert told[:11] == [(frame + 1, 11) for frame in range(11)]  # epochs 0 to 2, 5 steps each
    with Image.open(tmp_path / "a.gif") as film:
        assert film.n_frames == 11
        assert film.width == 400
        assert film.info["loop"] == 0
        assert film.info["duration"] == 200
        first = np.array(film.convert("RGB"))
        film.seek(10)
        assert film.info["duration"] == 2200  # the end stays for a while
        assert (np.array(film.convert("RGB")) != first).any()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.gif", "b.gif"]


@pytest.mark.parametrize("name", ["sphere", "wide"])
def test_other_dimensions_are_filmed_too(views, name, tmp_path):
    write_film([views[name]], tmp_path / "film.gif", fps=4, width=300)
    with Image.open(tmp_path / "film.gif") as film:
        assert film.n_frames >= 3


def test_between_epochs_unit_vectors_stay_unit_vectors(views):
    timeline = Timeline(epoch_scenes(views["arcface"]))
    assert timeline.epochs == [0, 1, 2]
    kept = views["arcface"].frames[1]
    assert timeline.at(1.0).known == pytest.approx(kept.parts["test"], abs=1e-6)
    halfway = timeline.at(0.5)
    for rows in (halfway.known, halfway.unseen, halfway.centers):
        assert np.linalg.norm(rows, axis=1) == pytest.approx(1, abs=1e-5)
    raw = Timeline(epoch_scenes(views["softmax"]))
    mean = (raw.at(0).known + raw.at(1).known) / 2
    assert raw.at(0.5).known == pytest.approx(mean, abs=1e-5)
    short = Timeline(epoch_scenes(views["short"]))
    assert (short.at(2.0).known == short.at(1.0 + 1e-9).known).all()  # it has ended: it waits


def test_runs_that_do_not_fit_are_refused(views, tmp_path):
    with pytest.raises(OptionError, match=r"arcface.*2.*sphere.*3"):
        write_film([views["arcface"], views["sphere"]], tmp_path / "film.gif")
    with pytest.raises(RunError, match="nothing"):
        write_film([views["nothing"]], tmp_path / "film.gif")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fps": 0}, "fps.*0"),
        ({"width": 100}, "width"),
        ({"seconds_per_epoch": -1.0}, "seconds_per_epoch"),
        ({"parts": ()}, "parts"),
        ({"parts": ("validation",)}, "'validation'"),
    ],
)
def test_options_out_of_range(views, tmp_path, options, message):
    with pytest.raises(OptionError, match=message):
        write_film([views["arcface"]], tmp_path / "film.gif", **options)


def test_formats_that_cannot_be_written(views, tmp_path, monkeypatch):
    with pytest.raises(OptionError, match=r"film\.avi"):
        write_film([views["arcface"]], tmp_path / "film.avi")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OptionError, match="ffmpeg"):
        write_film([views["arcface"]], tmp_path / "film.mp4")


def test_a_film_that_is_stopped_leaves_nothing(views, tmp_path):
    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_film([views["arcface"]], tmp_path / "film.gif", width=300, progress=stop)
    assert not list(tmp_path.iterdir())


def test_mp4_pipes_whole_frames(views, tmp_path, monkeypatch):
    """With a stand-in for ffmpeg, which keeps what it is given."""
    program = tmp_path / "bin" / "ffmpeg"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nfor last; do :; done\nexec cat > "$last"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    write_film([views["short"]], tmp_path / "film.mp4", fps=4, width=300)
    write_film([views["short"]], tmp_path / "same.gif", fps=4, width=300)
    with Image.open(tmp_path / "same.gif") as gif:
        frame = gif.width * gif.height * 3
    assert (tmp_path / "film.mp4").stat().st_size == frame * (3 + 8)  # 2 seconds of rest
    program.write_text("#!/bin/sh\necho no such encoder >&2\nexit 1\n")
    with pytest.raises(OptionError, match="no such encoder"):
        write_film([views["short"]], tmp_path / "bad.mp4", fps=4, width=300)
    assert not (tmp_path / "bad.mp4").exists()
