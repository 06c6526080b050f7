"""Networks made elsewhere: what their graphs say, and what must be said about them."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from arcset import DataError, InputError, OptionError, Recognizer
from arcset.recognition import PRESETS, preset_names
from support.onnx_graphs import FLOAT, UINT8, adopt, changed, expected, linear
from support.random_runs import random_run, with_thresholds

RGB = np.random.default_rng(0).integers(0, 256, (7, 6, 5, 3), np.uint8)
GREY = np.random.default_rng(1).integers(0, 256, (7, 6, 5), np.uint8)


def first_channels(images):
    return np.moveaxis(images, 3, 1)


@pytest.mark.parametrize("batch", ["N", None, 1, 3, 16])
def test_any_batch_fixed_or_free(tmp_path, batch):
    matrix = linear(tmp_path / "net.onnx", (batch, 3, 6, 5))
    recognizer = Recognizer.from_onnx(tmp_path / "net.onnx", mean=100, std=50)
    wanted = expected(matrix, first_channels((RGB - 100.0) / 50))
    np.testing.assert_allclose(recognizer.embed(RGB), wanted, atol=1e-5)
    np.testing.assert_allclose(recognizer.embed(RGB[:1]), wanted[:1], atol=1e-5)


@pytest.mark.parametrize("shape", [("N", 3, 6, 5), ("N", 6, 5, 3)])
@pytest.mark.parametrize("order", ["RGB", "BGR", "bgr"])
@pytest.mark.parametrize("kind", [FLOAT, UINT8, TensorProto.FLOAT16, TensorProto.DOUBLE])
def test_layout_order_and_type(tmp_path, shape, order, kind):
    matrix = linear(tmp_path / "net.onnx", shape, dtype=kind)
    values = {} if kind == UINT8 else {"mean": (10, 20, 30), "std": (2, 4, 8)}
    recognizer = Recognizer.from_onnx(tmp_path / "net.onnx", channels=order, **values)
    images = RGB.astype(np.float64) if order == "RGB" else RGB[..., ::-1].astype(np.float64)
    if values:
        images = (images - [10, 20, 30]) / [2, 4, 8]
    wanted = expected(matrix, first_channels(images) if shape[1] == 3 else images)
    close = 2e-3 if kind == TensorProto.FLOAT16 else 1e-5
    np.testing.assert_allclose(recognizer.embed(RGB), wanted, atol=close)
    assert recognizer.name == "net"
    assert recognizer.dim == 4


@pytest.mark.parametrize("shape", [("N", 1, 6, 5), ("N", 6, 5, 1)])
def test_grey(tmp_path, shape):
    matrix = linear(tmp_path / "net.onnx", shape, values=30)
    recognizer = Recognizer.from_onnx(tmp_path / "net.onnx", preset="unit")
    np.testing.assert_allclose(recognizer.embed(GREY), expected(matrix, GREY / 255), atol=1e-5)
    assert recognizer.reading.channels == 1
    with pytest.raises(OptionError, match="mean"):
        Recognizer.from_onnx(tmp_path / "net.onnx", preset="imagenet")


def test_sides_that_are_left_open(tmp_path):
    matrix = linear(tmp_path / "net.onnx", ("N", 3, "H", "W"))
    with pytest.raises(OptionError, match="size"):
        Recognizer.from_onnx(tmp_path / "net.onnx", preset="unit")
    recognizer = Recognizer.from_onnx(tmp_path / "net.onnx", preset="unit", size=(6, 5))
    np.testing.assert_allclose(
        recognizer.embed(RGB), expected(matrix, first_channels(RGB / 255)), atol=1e-5
    )
    linear(tmp_path / "square.onnx", ("N", 3, "H", "W"), values=3 * 112 * 112)
    assert Recognizer.from_onnx(tmp_path / "square.onnx", preset="arcface").reading.height == 112
    linear(tmp_path / "open.onnx", ("N", "C", "H", "W"))
    with pytest.raises(OptionError, match=r"open\.onnx"):
        Recognizer.from_onnx(tmp_path / "open.onnx", preset="unit", size=(6, 5))
    both = Recognizer.from_onnx(tmp_path / "open.onnx", preset="unit", size=(6, 5), layout="NCHW")
    np.testing.assert_allclose(both.embed(RGB), recognizer.embed(RGB), atol=1e-6)


@pytest.mark.parametrize("preset", preset_names())
def test_presets(tmp_path, preset):
    matrix = linear(tmp_path / "net.onnx")
    recognizer = Recognizer.from_onnx(tmp_path / "net.onnx", preset=preset)
    wanted = expected(matrix, first_channels(PRESETS[preset].apply(RGB)))
    np.testing.assert_allclose(recognizer.embed(RGB), wanted, atol=1e-5)
    low, high = (
        PRESETS[preset].apply(np.full((1, 1, 1, 3), value)).mean() for value in (0.0, 255.0)
    )
    wanted = {"arcface": (-1, 1), "sface": (0, 255), "unit": (0, 1), "symmetric": (-1, 1)}
    if preset in wanted:
        assert (low, high) == pytest.approx(wanted[preset])
    else:
        assert 1.9 < high - low < 5  # about four standard deviations


def test_several_outputs(tmp_path):
    outputs = (helper.make_tensor_value_info("z", FLOAT, None),)
    nodes = (helper.make_node("Neg", ["y"], ["z"]),)
    linear(tmp_path / "net.onnx", nodes=nodes, outputs=outputs)
    with pytest.raises(OptionError, match="'y', 'z'"):
        Recognizer.from_onnx(tmp_path / "net.onnx", preset="unit")
    with pytest.raises(OptionError, match=r"'w'.*'y', 'z'"):
        Recognizer.from_onnx(tmp_path / "net.onnx", preset="unit", output="w")
    first, second = (
        Recognizer.from_onnx(tmp_path / "net.onnx", preset="unit", output=name) for name in "yz"
    )
    np.testing.assert_allclose(first.embed(RGB), -second.embed(RGB))
    assert first.digest != second.digest


def test_embeddings_with_sides_of_one_pixel(tmp_path):
    nodes = (helper.make_node("Unsqueeze", ["y", "axes"], ["z"]),)
    outputs = (helper.make_tensor_value_info("z", FLOAT, None),)
    matrix = linear(tmp_path / "net.onnx", nodes=nodes, outputs=outputs)

    def add(model):
        axes = helper.make_tensor("axes", TensorProto.INT64, [2], [2, 3])
        model.graph.initializer.append(axes)

    changed(tmp_path / "net.onnx", add)
    recognizer = Recognizer.from_onnx(tmp_path / "net.onnx", preset="unit", output="z")
    wanted = expected(matrix, first_channels(RGB / 255))
    np.testing.assert_allclose(recognizer.embed(RGB), wanted, atol=1e-5)


def test_vectors(tmp_path):
    matrix = linear(tmp_path / "net.onnx", ("N", 30), values=30)
    rows = np.random.default_rng(0).normal(size=(5, 30))
    embedded = Recognizer.from_onnx(tmp_path / "net.onnx").embed(rows)
    np.testing.assert_allclose(embedded, expected(matrix, rows), atol=1e-5)


@pytest.mark.parametrize(
    ("options", "quoted"),
    [
        ({}, "preset"),
        ({"preset": "arcfase"}, r"'arcfase'.*'arcface'"),
        ({"mean": 127.5}, "std"),
        ({"std": 0.5, "mean": 0.5}, "0.5"),
        ({"std": (1, 2), "mean": 0}, "1, 2"),
        ({"std": 1, "mean": float("nan")}, "mean=nan"),
        ({"preset": "unit", "channels": "GRB"}, "channels='GRB'"),
        ({"preset": "unit", "size": 7}, "6×5.*7, 7"),
        ({"preset": "unit", "layout": "CHW"}, "layout.*'CHW'"),
        ({"preset": "unit", "fit": "bend"}, "'bend'"),
        ({"preset": "unit", "device": "mps"}, "'mps'"),
    ],
)
def test_wrong_options(tmp_path, options, quoted):
    linear(tmp_path / "net.onnx")
    with pytest.raises(OptionError, match=quoted):
        Recognizer.from_onnx(tmp_path / "net.onnx", **options)
    with pytest.raises(DataError, match=r"net\.onnx.*NHWC"):  # which the graph denies
        Recognizer.from_onnx(tmp_path / "net.onnx", preset="unit", layout="NHWC")


def test_bytes_are_scaled_by_the_network_alone(tmp_path):
    linear(tmp_path / "net.onnx", dtype=UINT8)
    with pytest.raises(OptionError, match="preset"):
        Recognizer.from_onnx(tmp_path / "net.onnx", preset="unit")
    recognizer = Recognizer.from_onnx(tmp_path / "net.onnx")
    with pytest.raises(InputError, match=r"uint8.*float32"):
        recognizer.embed_arrays(RGB / 255.0)


def test_digests_tell_models_and_pixels_apart(tmp_path):
    linear(tmp_path / "a.onnx")
    linear(tmp_path / "b.onnx")
    load = Recognizer.from_onnx
    one = load(tmp_path / "a.onnx", preset="unit").digest
    assert load(tmp_path / "b.onnx", preset="unit").digest == one
    assert load(tmp_path / "b.onnx", mean=0, std=255, channels="RGB").digest == one
    for options in ({"channels": "BGR"}, {"mean": 1}, {"fit": "crop"}, {"invert": True}):
        assert load(tmp_path / "a.onnx", preset="unit", **options).digest != one

    def nudge(model):
        weights = bytearray(model.graph.initializer[0].raw_data)
        weights[0] ^= 1
        model.graph.initializer[0].raw_data = bytes(weights)

    changed(tmp_path / "b.onnx", nudge)
    assert load(tmp_path / "b.onnx", preset="unit").digest != one
    changed(tmp_path / "a.onnx", lambda model: setattr(model, "doc_string", "a note"))
    assert load(tmp_path / "a.onnx", preset="unit").digest == one


def test_adopted_files_need_no_further_word(tmp_path):
    linear(tmp_path / "net.onnx", ("N", 3, "H", "W"))
    made = with_thresholds(random_run(tmp_path / "run", dim=4))
    said = {"preset": "arcface", "size": (6, 5), "channels": "BGR", "fit": "crop", "invert": True}
    file = tmp_path / "run" / "threshold.json"
    before = Recognizer.from_onnx(tmp_path / "net.onnx", **said, thresholds=file, name="nets")
    done = adopt(tmp_path / "net.onnx", tmp_path / "ready.onnx", **said, thresholds=made)
    after = Recognizer.load(tmp_path / "ready.onnx")
    assert after.digest == before.digest == done.digest
    assert after.thresholds == before.thresholds == made
    assert after.reading == before.reading
    assert (after.name, before.name) == ("net", "nets")
    np.testing.assert_array_equal(after.embed(RGB), before.embed(RGB))
    with pytest.raises(OptionError, match=r"ready\.onnx.*preset"):
        Recognizer.from_onnx(tmp_path / "ready.onnx", preset="unit")


def test_nothing_is_adopted_that_does_not_work(tmp_path):
    linear(tmp_path / "net.onnx", ("N", 3, "H", "W"))
    with pytest.raises(DataError, match=r"net\.onnx"):
        adopt(tmp_path / "net.onnx", tmp_path / "ready.onnx", preset="unit", size=(9, 9))
    with pytest.raises(OptionError, match="ready"):
        adopt(tmp_path / "net.onnx", tmp_path / "ready", preset="unit", size=(6, 5))
    assert [file.name for file in tmp_path.iterdir()] == ["net.onnx"]
