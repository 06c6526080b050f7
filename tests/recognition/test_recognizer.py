"""From images of every kind to unit embeddings, and from two of them to an answer."""

import re
import shutil

import numpy as np
import pytest
import torch
from PIL import Image

import arcset
from arcset import DataError, Gallery, InputError, OptionError, Recognizer, RunError
from arcset.data import to_tensors
from arcset.recognition import decide
from arcset.recognition.export import export
from arcset.runs.data import selection_of
from arcset.runs.model import embed, load_model
from support import small_data
from support.onnx_graphs import linear
from support.pickled_trap import pickled_trap
from support.random_runs import random_run, with_thresholds


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    made = random_run(tmp_path_factory.mktemp("run") / "mine")
    with_thresholds(made)
    return made


@pytest.fixture(scope="module")
def recognizer(run):
    return Recognizer.load(run.path, device="cpu")


@pytest.fixture(scope="module")
def pictures(run):
    return np.asarray(selection_of(run).train.images[:6])  # (6, 10, 10)


@pytest.fixture
def folder(tmp_path, pictures):
    """Six images in folders, two files that are none, a hidden one and a text."""
    for number, picture in enumerate(pictures):
        place = tmp_path / "all" / f"who{number // 2}" / f"{number}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(place)
    whole = (tmp_path / "all" / "who0" / "0.png").read_bytes()
    (tmp_path / "all" / "who1" / "cut.png").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "all" / "who1" / "empty.jpg").touch()
    (tmp_path / "all" / "who1" / ".hidden.png").write_bytes(whole)
    (tmp_path / "all" / "who1" / "notes.txt").write_text("no image")
    return tmp_path / "all"


def test_embeddings_are_those_of_the_network(run, recognizer, pictures):
    network, _ = load_model(run)
    images, _ = to_tensors(selection_of(run).train)
    wanted = torch.nn.functional.normalize(embed(network, images[:6])).numpy()
    found = recognizer.embed(pictures)
    assert found.dtype == np.float32
    assert found.shape == (6, recognizer.dim) == (6, 8)
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)
    assert recognizer.name == "mine"


def test_every_kind_of_image_gives_the_same(recognizer, pictures, folder):
    wanted = recognizer.embed(pictures)
    files = [folder / f"who{number // 2}" / f"{number}.png" for number in range(6)]
    for images in (
        files,
        [file.read_bytes() for file in files],
        [Image.fromarray(picture) for picture in pictures],
        (picture for picture in pictures),
        np.repeat(pictures[..., None], 3, axis=3),  # grey as RGB
    ):
        np.testing.assert_allclose(recognizer.embed(images), wanted, atol=1e-6)
    for one in (str(files[0]), pictures[0], pictures[0][..., None], Image.fromarray(pictures[0])):
        np.testing.assert_allclose(recognizer.embed(one), wanted[:1], atol=1e-6)
    shutil.rmtree(folder / "who1")
    np.testing.assert_allclose(recognizer.embed(folder), wanted[[0, 1, 4, 5]], atol=1e-6)


def test_what_is_no_image_is_told(recognizer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for images, error, quoted in (
        ("nowhere.png", DataError, "nowhere.png"),
        (b"GIF89a", DataError, None),
        ("a\0b", DataError, None),
        ([], InputError, None),
        (np.zeros((0, 10, 10), np.uint8), InputError, None),
        (np.zeros((2, 2, 10, 10, 3), np.uint8), InputError, "uint8.*2, 2, 10, 10, 3"),
        (np.zeros((10, 10)), InputError, "float64.*10, 10"),
        ([None], InputError, "NoneType"),
    ):
        with pytest.raises(error, match=quoted):
            recognizer.embed(images)
    for ask in (recognizer.embed, recognizer.embed_files):
        with pytest.raises(DataError, match=re.escape(str(tmp_path))):  # no image is in it
            ask(tmp_path)


@pytest.mark.parametrize("invert", [False, True])
def test_arrays_that_fit_come_out_as_images_do(tmp_path, invert):
    for shape, inner in (((1, 7, 5), (7, 5)), ((1, 7, 5), (7, 5, 1)), ((3, 7, 5), (7, 5, 3))):
        linear(tmp_path / "net.onnx", ("N", *shape), values=np.prod(shape))
        recognizer = Recognizer.from_onnx(tmp_path / "net.onnx", preset="unit", invert=invert)
        array = np.random.default_rng(0).integers(0, 256, inner, np.uint8)
        found = recognizer.embed(array)
        assert np.array_equal(found, recognizer.embed(Image.fromarray(array.squeeze())))
        plain = Recognizer.from_onnx(tmp_path / "net.onnx", preset="unit")
        assert np.array_equal(found, plain.embed(255 - array if invert else array))


def test_files_that_cannot_be_read_are_listed(recognizer, folder):
    seen = []
    found = recognizer.embed_files(folder, progress=lambda done, total: seen.append((done, total)))
    assert [path.name for path in found.paths] == [f"{number}.png" for number in range(6)]
    np.testing.assert_allclose(found.embeddings, recognizer.embed(list(found.paths)), atol=1e-6)
    assert {path.name for path in found.skipped} == {"cut.png", "empty.jpg"}
    assert seen[-1] == (8, 8)
    # Named twice is embedded once; a file that is not there is one more that cannot be read.
    found = recognizer.embed_files([folder / "who0", folder / "who0" / "0.png", "nowhere.png"])
    assert len(found) == 2
    assert [str(path) for path in found.skipped] == ["nowhere.png"]


def test_verify(recognizer, pictures):
    same = recognizer.verify(pictures[0], pictures[0])
    assert same.same
    assert same.cosine == pytest.approx(1, abs=1e-6)
    assert same.probability > 0.9
    assert same.far == 1e-3
    assert same.threshold == recognizer.thresholds.for_far(1e-3).threshold
    other = recognizer.verify(pictures[0], 255 - pictures[0], far=0.01)
    assert other.far == 0.01
    assert other.same == (other.cosine >= recognizer.thresholds.for_far(0.01).threshold)
    assert str(other).startswith("same" if other.same else "different")


def test_a_cosine_at_the_threshold_is_the_same(recognizer):
    assert decide(0.25, None, threshold=0.25).same
    assert not decide(0.25 - 2**-21, None, threshold=0.25).same
    # Rounding must not make a cosine of 1.0000001 of two equal images.
    assert decide(1.0000001, recognizer.thresholds).cosine == 1


def test_wrong_thresholds(recognizer, pictures):
    for options, error, quoted in (
        ({"far": 0.1, "threshold": 0.5}, OptionError, r"far=0\.1.*threshold=0\.5"),
        ({"far": 2}, OptionError, "far .* 2"),
        ({"threshold": 3}, OptionError, "threshold .* 3"),
    ):
        with pytest.raises(error, match=quoted):
            recognizer.verify(pictures[0], pictures[1], **options)


def test_without_a_calibration_verify_is_undecided_and_says_how_to_get_one(tmp_path, pictures):
    recognizer = Recognizer.load(random_run(tmp_path / "plain").path, device="cpu")
    assert recognizer.thresholds is None
    answer = recognizer.verify(pictures[0], pictures[1])
    assert (answer.same, answer.decided, answer.reason) == (None, False, "no calibration")
    assert not answer
    assert -1 <= answer.cosine <= 1
    assert "arcset calibrate MODEL FOLDER" in answer.note
    with pytest.raises(OptionError, match=r"far=0\.01.*plain"):
        recognizer.verify(pictures[0], pictures[1], far=0.01)
    answer = recognizer.verify(pictures[0], pictures[1], threshold=0.2)
    assert answer.probability is None
    assert answer.decided


def test_of_few_identities_the_lowest_rate_that_they_can_pin_down_is_used():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(12), 3)
    points = rng.normal(size=(12, 8))[labels] + 0.3 * rng.normal(size=(36, 8))
    made = arcset.evaluation.make_thresholds(points, labels)
    lowest = made.rates.lowest_far
    assert 1e-3 < lowest < 0.1
    answer = decide(0.5, made)
    assert lowest <= answer.far <= 1.1 * lowest  # rounded, so that it can be asked for
    assert answer.threshold == made.for_far(answer.far).threshold
    assert f"FAR 0.001 cannot be pinned down by 12 identities: {answer.far:g}" in answer.note
    asked = decide(0.5, made, far=0.001)
    assert (asked.far, asked.rough) == (0.001, True)
    assert asked.expected[0] < 0.001 < asked.expected[1]
    assert "cannot be pinned down" in asked.note


def test_four_identities_give_the_equal_error_threshold_and_a_wide_range():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 10)
    points = rng.normal(size=(4, 8))[labels] + 0.3 * rng.normal(size=(40, 8))
    made = arcset.evaluation.make_thresholds(points, labels, made_from={"part": "validation"})
    answer = decide(0.99, made)
    assert (answer.same, answer.rough) == (True, True)
    low, high = answer.expected
    assert answer.far is None  # not even its order of magnitude is known
    assert high > 100 * low
    assert answer.threshold == arcset.evaluation.verification(points, labels).eer_threshold
    assert "4 validation identities" in answer.note
    assert decide(0.99, made, far=0.001).threshold > answer.threshold


def test_what_is_no_model_is_refused(tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file.pt").write_bytes(b"x")
    (tmp_path / "empty").mkdir()
    for name in ("nowhere", "file.pt", "empty"):
        with pytest.raises(RunError, match=name):
            Recognizer.load(name)
    fresh = random_run(tmp_path / "run")
    with_thresholds(random_run(tmp_path / "other", dim=5))
    shutil.copy(tmp_path / "other" / "threshold.json", fresh.path)
    with pytest.raises(RunError, match=r"run.* 5 .* 8"):  # thresholds of another model
        Recognizer.load(fresh.path)
    (fresh.path / "threshold.json").write_text("{}")
    with pytest.raises(RunError, match=r"threshold\.json"):
        Recognizer.load(fresh.path)


def test_weights_that_are_a_pickle_are_not_unpickled(tmp_path):
    run = random_run(tmp_path / "run")
    shutil.copy(pickled_trap(tmp_path / "trap.pt"), run.path / "model.safetensors")
    with pytest.raises(RunError, match=r"model\.safetensors"):
        Recognizer.load(run.path)
    assert not (tmp_path / "trap.pt.ran").exists()


def test_the_digest_is_of_what_decides_embeddings(tmp_path, run, recognizer):
    assert len(recognizer.digest) == 64
    shutil.copytree(run.path, tmp_path / "copy")
    assert Recognizer.load(tmp_path / "copy").digest == recognizer.digest
    config = run.config.replace(learning_rate=0.01, loss="cosface", epochs=7)
    config.save(tmp_path / "copy" / "config.toml")  # how it was trained does not matter
    assert Recognizer.load(tmp_path / "copy").digest == recognizer.digest
    network, loss = load_model(run)
    state = {key: value.clone() for key, value in network.state_dict().items()}
    weight = next(key for key in state if key.endswith("weight"))
    flat = state[weight].view(-1)
    flat[0] = torch.nextafter(flat[0], torch.tensor(10.0))  # the least of changes
    run.__class__(tmp_path / "copy", config).save_model(state, loss.state_dict())
    assert Recognizer.load(tmp_path / "copy").digest != recognizer.digest
    shutil.copy(run.path / "model.safetensors", tmp_path / "copy")
    for change in ({"invert": True}, {"fit": "crop"}):
        config.replace(**change).save(tmp_path / "copy" / "config.toml")
        assert Recognizer.load(tmp_path / "copy").digest != recognizer.digest


def test_vectors(tmp_path):
    data = small_data.vectors(tmp_path / "vectors.npz")
    run = random_run(tmp_path / "run", data=data, network="mlp", dim=4)
    recognizer = Recognizer.load(run.path, device="cpu")
    rows = np.load(data)["features"][:5]
    found = recognizer.embed(rows)
    assert found.shape == (5, 4)
    for given in (rows.tolist(), [rows[0], *rows[1:]]):
        np.testing.assert_allclose(recognizer.embed(given), found, atol=1e-6)
        np.testing.assert_allclose(arcset.Embedder(run.path)(given), found, atol=1e-6)
    assert recognizer.verify(rows[0], rows[0], threshold=0.9).same
    for ask in (recognizer.embed_files, arcset.Embedder(run.path)):
        with pytest.raises(OptionError, match="6"):
            ask(["a.png"])
    with pytest.raises(InputError, match=r"1, 5, 6"):
        arcset.Embedder(run.path)([rows])
    for wrong in (rows[:, :5], rows[:0], [[1, 2], [3]], ["a"], rows * np.nan):
        with pytest.raises(InputError):
            recognizer.embed(wrong)


def test_a_network_that_gives_nothing_is_told(tmp_path, pictures):
    run = random_run(tmp_path / "run")
    network, loss = load_model(run)
    state = {key: torch.zeros_like(value) for key, value in network.state_dict().items()}
    run.save_model(state, loss.state_dict())
    with pytest.raises(DataError, match=r"\brun\b(?!/)"):  # by its name, not within a path
        Recognizer.load(run.path, device="cpu").embed(pictures)


def test_very_many_images_are_embedded_some_at_a_time(recognizer, pictures):
    many, seen = np.tile(pictures, (100, 1, 1)), []
    found = recognizer.embed(many, progress=lambda done, total: seen.append((done, total)))
    np.testing.assert_allclose(found, np.tile(recognizer.embed(pictures), (100, 1)), atol=1e-6)
    assert len(seen) > 1
    assert seen == sorted(seen)
    assert seen[-1] == (600, 600)


def test_a_gallery_remembers_the_model_that_it_was_opened_with(tmp_path):
    """A run or a file comes back by itself; what nobody can load again has to be given again."""
    run = random_run(tmp_path / "run")
    image = np.random.default_rng(0).integers(0, 256, (10, 10), dtype=np.uint8)
    exported = tmp_path / "model.onnx"
    export(run.path, exported)
    for number, origin in enumerate((run.path, exported)):
        place = tmp_path / f"{number}.db"
        with Gallery.open(place, Recognizer.load(origin)) as gallery:
            gallery.enroll("anna", image)
        with Gallery.open(place) as gallery:
            assert gallery.identify(image, threshold=0.9).subject == "anna"
    module = Recognizer.from_module(load_model(run)[0], size=10, channels="grey")
    with Gallery.open(tmp_path / "module.db", module) as gallery:
        gallery.enroll("anna", image)
    with (
        Gallery.open(tmp_path / "module.db") as gallery,
        pytest.raises(OptionError, match=r"module\.db"),
    ):
        gallery.identify(image, threshold=0.9)
