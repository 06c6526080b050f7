"""`arcset train FOLDER`, on a folder as people have them."""

import json

import numpy as np
import pyarrow.parquet as pq
from PIL import Image, ImageDraw

from arcset.data import Split
from arcset.runs import Run

IDENTITIES, EACH, BROKEN = 24, 6, 7


def drawing(identity: int, number: int) -> Image.Image:
    """A polygon of its own for each identity, a little moved; no two pictures are as large."""
    random = np.random.default_rng(identity)
    corners = random.uniform(0.1, 0.9, (5, 2))
    moved = corners + np.random.default_rng((identity, number)).normal(0, 0.03, (5, 2))
    width, height = 16 + number % 3, 16 + (identity + number) % 5
    image = Image.new("L", (width, height), 20)
    points = [(float(x) * width, float(y) * height) for x, y in moved]
    ImageDraw.Draw(image).polygon(points, fill=230)
    return image


def folder(place):
    """24 identities of 6 pictures in all kinds of pixels, 7 files that are none, and one alone."""
    for identity in range(IDENTITIES):
        home = place / f"group {identity % 2}" / f"id{identity:02d}"
        home.mkdir(parents=True)
        for number in range(EACH):
            image = drawing(identity, number)
            kind = (identity + number) % 5
            if kind == 0:
                image.convert("RGBA").save(home / f"{number}.png")
            elif kind == 1:
                image.convert("CMYK").save(home / f"{number}.jpg")
            elif kind == 2:
                deep = np.asarray(image).astype(np.uint16) * 257
                Image.fromarray(deep).save(home / f"{number}.png")
            elif kind == 3:
                image.convert("RGB").save(home / f"{number}.jpeg", quality=95)
            else:
                image.save(home / f"{number}.png")
    for number in range(BROKEN):
        home = place / "group 0" / f"id{2 * number:02d}"
        (home / f"broken{number}.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"no picture" * number)
    (place / "alone").mkdir()
    drawing(99, 0).save(place / "alone" / "only.png")
    return place


def test_a_folder_is_trained_judged_embedded_and_resumed(arcset_command, tmp_path) -> None:
    folder(tmp_path / "mine")
    words = ["train", "mine", "--out", "run", "--epochs", "2", "--device", "cpu", "--no-report"]
    done = arcset_command(*words, "--licence", "CC0")
    assert done.code == 0, done.err
    assert f"skipped {BROKEN} files" in done.err
    assert "broken0.png" in done.err
    assert "Traceback" not in done.err
    assert "unseen AUC" in done.out

    run = Run.open(tmp_path / "run")
    assert run.config.data == str(tmp_path / "mine")
    assert run.config.network == "glyph"
    split = Split.load(run.split_file)
    assert (len(split.validation), len(split.test)) == (2, 2)
    assert "alone" in split.train
    assert run.config.class_names == split.train
    lines = run.metrics()
    assert [line["epoch"] for line in lines] == [1, 2]
    assert all(0 <= line["validation"]["map"] <= 1 for line in lines)
    assert lines[0]["kept"]
    card = (tmp_path / "run" / "README.md").read_text(encoding="utf-8")
    assert "CC0" in card
    assert "arcface" in card
    assert {"config.toml", "split.json", "metrics.jsonl", "model.safetensors"} <= {
        file.name for file in run.path.iterdir()
    }

    done = arcset_command("embed", "run", "mine", "--out", "all.parquet", "--json")
    assert done.code == 0, done.err
    table = pq.read_table(tmp_path / "all.parquet").to_pydict()
    assert len(table["path"]) == len(set(table["path"])) == IDENTITIES * EACH + 1
    for path, label in zip(table["path"], table["label"], strict=True):
        assert label in path
        assert not path.rpartition("/")[2].startswith("broken")
    assert len(set(table["label"])) == IDENTITIES + 1

    done = arcset_command("evaluate", "run", "--json", "--no-report")
    assert done.code == 0, done.err
    assert json.loads(done.out)
    done = arcset_command("train", "--resume", "run", "--no-report", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["run"] == "run"
    assert run.metrics() == lines
