"""What the toolkit shows, on digits: from softmax's rays to ArcFace's arcs."""

import json
import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from matplotlib.collections import LineCollection
from PIL import Image
from safetensors.numpy import load_file

import arcset
from arcset import evaluation
from contract.pages import drawing, outline, typed
from contract.recording import recorded

LOSSES = ("softmax", "softmax:bias=false", "normface", "arcface")


def test_a_cosine_of_059_becomes_01307_with_a_margin_of_05():
    loss = arcset.build_loss("arcface", dim=2, classes=3, scale=1.0, margin=0.5).double()
    (x, y), sine = loss.centers[0].tolist(), math.sqrt(1 - 0.59**2)
    embedding = 7 * torch.tensor([[0.59 * x - sine * y, 0.59 * y + sine * x]], dtype=torch.double)
    assert loss.logits(embedding)[0, 0].item() == pytest.approx(0.59)
    target = loss.logits(embedding, torch.tensor([0]))[0, 0].item()
    assert target == pytest.approx(0.1307, abs=5e-5)
    assert target == pytest.approx(math.cos(math.acos(0.59) + 0.5))


def test_no_threshold_is_right_on_rays_and_one_is_on_their_directions():
    """Softmax's embeddings: where rays of two classes begin, they are near each other."""
    angles = np.radians(np.repeat([10.0, 130.0, 250.0], 40))
    lengths = np.tile(np.linspace(0.5, 20, 40), 3)
    directions = np.stack((np.cos(angles), np.sin(angles)), axis=1)
    rays, labels = directions * lengths[:, None], np.repeat(np.arange(3), 40)
    found = evaluation.no_threshold(rays, labels)
    assert found.found
    a, b, c = found.worst
    assert labels[a] == labels[b] != labels[c]
    assert np.linalg.norm(rays[a] - rays[c]) < np.linalg.norm(rays[a] - rays[b])
    for rows, metric in ((directions, "euclidean"), (rays, "cosine")):
        none = evaluation.no_threshold(rows, labels, metric)
        assert not none.found
        assert none.share == 0


def test_classes_are_tighter_for_their_distance_from_softmax_to_arcface(tmp_path, monkeypatch):
    """The comparison of README.md, shortened; with eight seeds, each by itself, it is the same.

    Of these, the least gain of the margin was 11 % of the Dunn index, 29 % of the trimmed one.
    """
    monkeypatch.chdir(tmp_path)
    said = typed(
        "compare mnist-sample --classes 0-2 --losses softmax,normface,arcface --scale 1 "
        "--margin 0.5 --epochs 3 --batch 64 --dim 2 --seeds 1 --set snapshot=0 --no-report --json "
        "--device cpu"
    )
    summary = json.loads(said)["summary"]
    for measure, gain in (("dunn", 1.0), ("dunn_trimmed", 1.1)):
        softmax, normface, arcface = (found[measure]["mean"] for found in summary.values())
        assert softmax * 1.5 < normface
        assert normface * gain < arcface


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """A folder of runs in two dimensions, and what was drawn for their report."""
    folder = tmp_path_factory.mktemp("story")
    with pytest.MonkeyPatch.context() as patch, drawing() as drawn:
        patch.chdir(folder)
        typed(
            f"compare mnist-sample --classes 0-2 --losses {','.join(LOSSES)} --network mlp --dim 2 "
            "--epochs 1 --batch 64 --seeds 1 --out told --device cpu"
        )
    return folder / "told", drawn


def test_the_report_of_a_comparison(compared):
    recorded("story-comparison", outline(compared[0] / "report.html"))


@pytest.mark.parametrize("loss", LOSSES)
def test_borders_in_two_dimensions_lie_where_the_class_changes(compared, loss):
    folder, drawn = compared
    boards = [{axes.get_title(): axes for axes in figure.axes} for figure in drawn.figures]
    axes = next(board for board in boards if tuple(board) == LOSSES)[loss]
    (borders,) = (item for item in axes.collections if isinstance(item, LineCollection))
    start, end = np.array(borders.get_segments()).swapaxes(0, 1)  # (S, 2) each
    run = folder / f"{loss.replace(':', '-')}-0"
    kept = load_file(run / "embeddings" / "epoch-0001.safetensors")

    def named(points):
        return (points @ kept["centers"].T + kept.get("biases", 0)).argmax(axis=1)

    along = end - start
    across = 1e-3 * np.stack((-along[:, 1], along[:, 0]), axis=1)
    middle = (start + end) / 2
    assert (named(middle + across) != named(middle - across)).all()
    # Around the origin the class changes three times, each time at a border.
    turns, radius = np.linspace(0, 2 * np.pi, 3601), np.ptp(axes.get_xlim()) / 4
    circle = radius * np.stack((np.cos(turns), np.sin(turns)), axis=1)
    changes = circle[:-1][np.diff(named(circle)) != 0][:, None]  # (C, 1, 2)
    share = ((changes - start) * along).sum(axis=2) / (along**2).sum(axis=1)  # (C, S)
    nearest = start + share.clip(0, 1)[..., None] * along
    distances = np.linalg.norm(changes - nearest, axis=2)
    assert distances.shape == (3, 3)
    assert (distances.min(axis=0) < radius / 100).all()
    assert (distances.min(axis=1) < radius / 100).all()


@pytest.mark.long
def test_a_film_of_vgg8_in_three_dimensions(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    typed(
        "train mnist-sample --network vgg8 --dim 3 --epochs 2 --out solid --device cpu --no-report"
    )
    with drawing() as drawn:
        typed("film solid --out solid.gif --fps 5 --width 300")
    assert drawn.figures[0].axes[0].get_title() == "solid"
    with Image.open(tmp_path / "solid.gif") as film:
        frames = []
        for number in range(film.n_frames):
            film.seek(number)
            frames.append(np.array(film.convert("RGB")))
    assert len(frames) > 5
    assert all((one != other).any() for one, other in pairwise(frames))
