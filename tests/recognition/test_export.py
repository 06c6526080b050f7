"""A run and its export give the same answers; where they do not, there is no file."""

import json
import re
import shutil

import numpy as np
import onnx
import pytest
import torch
from PIL import Image
from torch import nn

from arcset import DataError, OptionError, Recognizer, RunError
from arcset.networks.registry import NETWORKS, network_names
from arcset.recognition.export import LEAST_COSINE, compare, export
from arcset.runs.model import embed, load_model
from support import small_data
from support.random_runs import random_run, with_thresholds

DEEP = ("iresnet18", "iresnet34", "iresnet50", "iresnet100", "vgg8", "conv4")  # or like others


@pytest.fixture(scope="module")
def colours(tmp_path_factory):
    """Six identities of 32×32 RGB images."""
    place = tmp_path_factory.mktemp("colours") / "colours.npz"
    random = np.random.default_rng(0)
    labels = np.repeat(np.arange(6), 4)
    images = random.integers(0, 256, (6, 32, 32, 3))[labels] + random.normal(0, 9, (24, 32, 32, 3))
    np.savez(place, images=np.clip(images, 0, 255).astype(np.uint8), labels=labels)
    return place


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    made = random_run(tmp_path_factory.mktemp("run") / "mine")
    with_thresholds(made)
    return made


@pytest.fixture(scope="module")
def exported(run, tmp_path_factory):
    out = tmp_path_factory.mktemp("out") / "mine.onnx"
    return export(run.path, out)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.long] if name in DEEP else [])
        for name in network_names()
    ],
)
def test_every_network_exports_and_gives_the_same_embeddings(name, colours, tmp_path):
    run = random_run(tmp_path / name, data=colours, network=name, dim=16)
    run.config.replace(invert=True, fit="stretch").save(run.path / "config.toml")
    done = export(run.path, tmp_path / "model.onnx")
    assert done.min_cosine >= LEAST_COSINE
    assert done.flips == 0
    assert done.decisions > 1000
    first, second = (Recognizer.load(place) for place in (run.path, tmp_path / "model.onnx"))
    assert first.digest == second.digest == done.digest
    assert first.reading == second.reading
    images = np.random.default_rng(1).integers(0, 256, (7, 40, 30, 3), np.uint8)
    found = second.embed(images)
    np.testing.assert_allclose(found, first.embed(images), atol=2e-5)
    for number in range(7):  # any batch will do
        np.testing.assert_allclose(second.embed(images[number])[0], found[number], atol=2e-5)


def test_the_file_needs_no_further_word(run, exported):
    assert list(exported.file.parent.iterdir()) == [exported.file]
    recognizer, original = Recognizer.load(exported.file), Recognizer.load(run.path)
    assert recognizer.name == original.name == "mine"
    assert recognizer.dim == original.dim
    assert recognizer.reading == original.reading
    assert recognizer.thresholds == original.thresholds
    assert exported.calibrated
    assert "96 images" in str(exported)
    assert (exported.bytes, exported.flips) == (exported.file.stat().st_size, 0)
    assert exported.decisions == 96 * 95 // 2 * len(original.thresholds.fars) > 0


def test_anybody_can_run_the_file(run, exported):
    """With nothing of arcset: bytes in, unit embeddings out, and what to know in the metadata."""
    import onnxruntime

    onnx.checker.check_model(onnx.load(exported.file), full_check=True)
    session = onnxruntime.InferenceSession(exported.file.read_bytes())
    (takes,), (gives,) = session.get_inputs(), session.get_outputs()
    assert (takes.name, takes.type, takes.shape) == ("images", "tensor(uint8)", ["N", 10, 10, 1])
    assert (gives.name, gives.type, gives.shape[0]) == ("embeddings", "tensor(float)", "N")
    pictures = np.load(run.config.data)["images"][:3, ..., None]
    (found,) = session.run(None, {"images": pictures})
    np.testing.assert_allclose(found, Recognizer.load(run.path).embed(pictures), atol=1e-5)
    said = session.get_modelmeta().custom_metadata_map
    assert (said["arcset.format"], said["arcset.name"]) == ("1", "mine")
    read = {key: json.loads(said[f"arcset.{key}"]) for key in ("shape", "fit", "thresholds")}
    assert (read["shape"], read["fit"]) == ([1, 10, 10], "pad")
    assert read["thresholds"]["kind"] == "arcset thresholds"


def test_features_of_any_shape(tmp_path):
    sounds = np.random.default_rng(0).normal(size=(24, 8, 9, 2)).astype(np.float32)
    np.savez(tmp_path / "sounds.npz", features=sounds, labels=np.arange(24) // 6)
    run = random_run(tmp_path / "sounds", data=tmp_path / "sounds.npz", dim=4)
    network, _ = load_model(run)
    wanted = embed(network, torch.from_numpy(sounds).permute(0, 3, 1, 2))
    wanted = torch.nn.functional.normalize(wanted).numpy()
    np.testing.assert_allclose(Recognizer.load(run.path).embed(sounds), wanted, atol=1e-6)
    exported = Recognizer.load(export(run.path, tmp_path / "sounds.onnx").file)
    np.testing.assert_allclose(exported.embed(sounds), wanted, atol=1e-5)


@pytest.fixture
def otherwise(run, tmp_path):
    """A function that gives the run a network which, exported, sees images changed by `change`."""

    class Otherwise(nn.Sequential):
        change = None

        def forward(self, images):
            return super().forward(self.change(images) if torch.jit.is_tracing() else images)

    @NETWORKS.register("otherwise")
    def _(shape, dim):
        return Otherwise(*NETWORKS["simple"](shape, dim))

    def make(change):
        Otherwise.change = staticmethod(change)
        place = shutil.copytree(run.path, tmp_path / "changed")
        run.config.replace(network="otherwise").save(place / "config.toml")
        return place

    yield make
    NETWORKS.remove("otherwise")


def test_other_pixels_in_the_graph_are_found_and_no_file_is_left(otherwise, tmp_path):
    run, out = otherwise(lambda images: images / 2 + 1), tmp_path / "model.onnx"
    with pytest.raises(RunError, match=r" -?0\.\d+"):
        export(run, out)
    assert [path.name for path in tmp_path.iterdir()] == ["changed"]
    out.write_bytes(b"what stood here before")
    with pytest.raises(RunError):
        export(run, out)
    assert out.read_bytes() == b"what stood here before"
    assert len(list(tmp_path.iterdir())) == 2


def test_an_answer_that_flips_is_found_and_no_file_is_left(otherwise, tmp_path):
    """Embeddings that are alike enough, with a threshold between a pair's two cosines."""
    noise = torch.randn(1, 1, 10, 10, generator=torch.Generator().manual_seed(0)) * 4e-4
    run = otherwise(lambda images: images + noise)
    (run / "threshold.json").unlink()
    with pytest.raises(RunError, match=r"[1-9]\d* of [\d,]+"):
        export(run, tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()


def test_parity_against_a_slow_reference():
    random = np.random.default_rng(0)
    first = random.normal(size=(9, 5)).astype(np.float32)
    second = first + random.normal(0, 0.05, size=(9, 5)).astype(np.float32)

    def cosine(rows, one, other):
        pair = rows[[one, other]].astype(float)
        return float(pair[0] @ pair[1]) / float(np.prod(np.linalg.norm(pair, axis=1)))

    pairs = [(one, other) for one in range(9) for other in range(one)]
    flips = sum(
        (cosine(first, *pair) >= cut) != (cosine(second, *pair) >= cut)
        for pair in pairs
        for cut in (0.0, 0.3)
    )
    found = compare(first, second, [0.0, 0.3])
    assert found.flips == flips > 0
    assert found.decisions == 2 * len(pairs)
    assert found.min_cosine < 1
    assert not found.holds
    assert compare(first, first).holds


def test_where_the_data_is_gone_images_are_asked_for(tmp_path):
    run = random_run(tmp_path / "run")
    pictures = np.load(run.config.data)["images"]
    (tmp_path / "images.npz").unlink()
    with pytest.raises(OptionError, match=r"images\.npz.*--images"):
        export(run.path, tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()
    (tmp_path / "some").mkdir()
    with pytest.raises(DataError, match="some"):
        export(run.path, tmp_path / "model.onnx", images=tmp_path / "some")
    for number in range(5):
        Image.fromarray(pictures[number * 9]).save(tmp_path / "some" / f"{number}.png")
    (tmp_path / "some" / "bad.png").write_bytes(b"x")
    done = export(run.path, tmp_path / "model.onnx", images=tmp_path / "some")
    assert done.images == 5
    np.savez(tmp_path / "other.npz", images=pictures[:20], labels=np.arange(20) // 2)
    assert export(run.path, done.file, images=tmp_path / "other.npz").images == 20


def test_what_cannot_be_exported_is_refused(run, tmp_path):
    (tmp_path / "folder.onnx").mkdir()
    for out in ("model", "folder.onnx"):
        with pytest.raises(OptionError, match=out):
            export(run.path, tmp_path / out)
    out = tmp_path / "model.onnx"
    Image.new("L", (10, 10)).save(tmp_path / "one.png")
    with pytest.raises(DataError, match=re.escape(str(tmp_path))):  # one sample
        export(run.path, out, images=tmp_path)
    data = small_data.vectors(tmp_path / "vectors.npz")
    with pytest.raises(DataError, match=r"vectors\.npz.*6,"):  # of another shape
        export(run.path, out, images=data)
    shutil.copytree(run.path, tmp_path / "run")
    (tmp_path / "run" / "model.safetensors").unlink()
    with pytest.raises(RunError, match="--resume"):
        export(tmp_path / "run", out)
    assert not out.exists()
