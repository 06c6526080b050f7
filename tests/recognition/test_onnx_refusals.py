"""ONNX files that are damaged, hostile or for something else: one sentence, and nothing is run."""

import contextlib
import json
import math
import re
import shutil

import numpy as np
import pytest
from onnx import TensorProto, helper

from arcset import DataError, OptionError, Recognizer
from arcset.recognition.export import export
from arcset.recognition.onnx_model import Label
from support.onnx_graphs import FLOAT, adopt, changed, external, linear
from support.pickled_trap import pickled_trap
from support.random_runs import random_run, with_thresholds


def refused(path, quoted=None, error=DataError, **options):
    """One line, which names the file."""
    with pytest.raises(error, match=quoted) as told:
        Recognizer.from_onnx(path, **(options or {"preset": "unit"}))
    assert str(told.value).replace(str(path), "").isprintable()
    assert str(path) in str(told.value)


def test_a_pickle_under_the_name_of_a_model_is_not_unpickled(tmp_path):
    trap = pickled_trap(tmp_path / "model.pt")
    shutil.copy(trap, tmp_path / "model.onnx")
    refused(tmp_path / "model.onnx")
    assert not (tmp_path / "model.pt.ran").exists()


def test_what_is_no_model(tmp_path):
    for content in (b"", b"hello", b"\0" * 100, b"\x08\x07"):
        (tmp_path / "x.onnx").write_bytes(content)
        refused(tmp_path / "x.onnx")
    for path in (tmp_path / "nothing.onnx", tmp_path, "a\0.onnx"):
        refused(path)


def test_a_file_that_is_cut_or_changed_anywhere(tmp_path):
    """Wherever it is cut, and whatever byte is another: an error of ours, or a model that works."""
    linear(tmp_path / "net.onnx", values=30, shape=("N", 30))
    whole = (tmp_path / "net.onnx").read_bytes()
    random = np.random.default_rng(0)
    for cut in [*range(0, len(whole), 47), len(whole) - 1]:
        (tmp_path / "cut.onnx").write_bytes(whole[:cut])
        refused(tmp_path / "cut.onnx")
    for index in [*random.integers(0, 200, 30), *random.integers(0, len(whole), 10)]:
        other = bytearray(whole)
        other[index] ^= 1 << int(random.integers(8))
        (tmp_path / "other.onnx").write_bytes(other)
        with contextlib.suppress(DataError):
            found = Recognizer.from_onnx(tmp_path / "other.onnx").embed(np.ones((2, 30)))
            np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)


def with_function(path, *body):
    """Add a function to a network, and call it."""

    def add(model):
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("evil.corp", 1)]
        model.functions.append(helper.make_function("own", "Turn", ["a"], ["b"], body, opsets))
        model.opset_import.append(helper.make_opsetid("own", 1))
        model.opset_import.append(helper.make_opsetid("evil.corp", 1))
        model.graph.node.append(helper.make_node("Turn", ["y"], ["z"], domain="own"))
        model.graph.output[0].name = "z"

    changed(path, add)


@pytest.mark.parametrize("place", ["graph", "branch", "function", "letters"])
def test_operators_of_their_own_are_not_run(tmp_path, place):
    """Wherever they are called, whatever they are called."""
    evil = helper.make_node("Run", ["y"], ["z"], domain="evil.corp", command="rm")
    inner = helper.make_graph([evil], "b", [], [helper.make_tensor_value_info("z", FLOAT, None)])
    yes = helper.make_tensor("yes", TensorProto.BOOL, [], [True])
    nodes = {
        "graph": [evil],
        "branch": [
            helper.make_node("Constant", [], ["yes"], value=yes),
            helper.make_node("If", ["yes"], ["z"], then_branch=inner, else_branch=inner),
        ],
        "function": [],
        "letters": [helper.make_node("Run\x1b[2J\n", ["y"], ["z"], domain="evil\ncorp")],
    }
    opsets = (helper.make_opsetid("evil.corp", 1),)
    linear(tmp_path / "net.onnx", nodes=tuple(nodes[place]), opsets=opsets)
    if place == "function":
        linear(tmp_path / "net.onnx")
        with_function(
            tmp_path / "net.onnx", helper.make_node("Run", ["a"], ["b"], domain="evil.corp")
        )
    refused(tmp_path / "net.onnx", {"graph": r"evil\.corp"}.get(place))


@pytest.mark.parametrize(
    ("shape", "dtype", "quoted"),
    [
        (("N", 7, 6, 5), FLOAT, "channels"),
        (("N", 3, 6, 5, 2), FLOAT, "3, 6, 5, 2"),
        (("N", 3, 6, 5), TensorProto.INT64, "int64"),
        (("N", "F"), FLOAT, "shape"),
    ],
)
def test_other_inputs(tmp_path, shape, dtype, quoted):
    values = math.prod(side for side in shape if isinstance(side, int))
    linear(tmp_path / "net.onnx", shape, dtype=dtype, values=values)
    refused(tmp_path / "net.onnx", quoted, (DataError, OptionError))
    mask = (helper.make_tensor_value_info("mask", FLOAT, ("N", 4)),)
    linear(tmp_path / "two.onnx", inputs=mask)
    refused(tmp_path / "two.onnx", "'x', 'mask'")


def test_outputs_that_are_no_embeddings(tmp_path):
    linear(tmp_path / "one.onnx", dim=1)
    refused(tmp_path / "one.onnx")
    for name, attributes, quoted in (
        ("ReduceSum", {"keepdims": 0}, None),
        ("ArgMax", {"axis": 1}, None),
        ("Transpose", {}, "4, 1"),
    ):
        nodes = (helper.make_node(name, ["y"], ["z"], **attributes),)
        kind = TensorProto.INT64 if name == "ArgMax" else FLOAT
        outputs = (helper.make_tensor_value_info("z", kind, None),)
        linear(tmp_path / "net.onnx", nodes=nodes, outputs=outputs)
        refused(tmp_path / "net.onnx", quoted, preset="unit", output="z")
    nodes = (helper.make_node("SplitToSequence", ["y"], ["z"], axis=0),)
    outputs = (helper.make_tensor_sequence_value_info("z", FLOAT, None),)
    linear(tmp_path / "net.onnx", nodes=nodes, outputs=outputs)
    refused(tmp_path / "net.onnx", "no array", preset="unit", output="z")


def test_weights_beside_the_file_are_read(tmp_path, monkeypatch):
    linear(tmp_path / "net.onnx")
    images = np.random.default_rng(0).integers(0, 256, (2, 6, 5, 3), np.uint8)
    load = Recognizer.from_onnx
    before = load(tmp_path / "net.onnx", preset="unit").embed(images)
    external(tmp_path / "net.onnx", "weights.bin")
    apart = load(tmp_path / "net.onnx", preset="unit")
    np.testing.assert_allclose(apart.embed(images), before)
    monkeypatch.chdir(tmp_path)
    assert load("net.onnx", preset="unit").digest == apart.digest
    content = bytearray((tmp_path / "weights.bin").read_bytes())
    content[5] ^= 1
    (tmp_path / "weights.bin").write_bytes(content)
    assert load(tmp_path / "net.onnx", preset="unit").digest != apart.digest
    with pytest.raises(DataError, match=r"net\.onnx"):
        adopt(tmp_path / "net.onnx", tmp_path / "out.onnx", preset="unit")
    (tmp_path / "weights.bin").write_bytes(content[:9])
    refused(tmp_path / "net.onnx")


def test_weights_elsewhere_are_not_read(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    linear(folder / "plain.onnx")
    (folder / "link.bin").symlink_to(tmp_path / "weights.bin")
    outside = ("../weights.bin", "/etc/passwd", "link.bin", "", "nothing.bin", "a\0b", ".")
    for location in (*outside, "*/_ORT_MEM_ADDR_/*"):
        shutil.copy(folder / "plain.onnx", folder / "net.onnx")
        external(folder / "net.onnx", location)
        shutil.move(folder / "weights.bin", tmp_path / "weights.bin")
        refused(folder / "net.onnx", re.escape(location.partition("\0")[0]) or None)


def test_weights_elsewhere_are_found_within_nodes(tmp_path):
    value = helper.make_tensor("v", FLOAT, [1], [1.0])
    value.ClearField("float_data")
    value.data_location = TensorProto.EXTERNAL
    value.external_data.add(key="location", value="/etc/passwd")
    nodes = (helper.make_node("Constant", [], ["z"], value=value),)
    linear(tmp_path / "net.onnx", nodes=nodes)
    refused(tmp_path / "net.onnx", "/etc/passwd")


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    place = tmp_path_factory.mktemp("own")
    return export(random_run(place / "run").path, place / "own.onnx").file


def test_an_export_that_somebody_changed_is_refused(own, tmp_path):
    def nudge(model):
        weights = next(each for each in model.graph.initializer if len(each.raw_data) > 100)
        content = bytearray(weights.raw_data)
        content[7] ^= 1
        weights.raw_data = bytes(content)

    shutil.copy(own, tmp_path / "own.onnx")
    changed(tmp_path / "own.onnx", lambda model: setattr(model, "doc_string", "a note"))
    assert Recognizer.load(tmp_path / "own.onnx").digest == Recognizer.load(own).digest
    changed(tmp_path / "own.onnx", nudge)
    with pytest.raises(DataError, match=r"own\.onnx"):
        Recognizer.load(tmp_path / "own.onnx")


def relabelled(source, path, **changes):
    """A copy of a file in which entries of arcset's metadata are others; None: left out."""

    def write(model):
        props = {each.key: each.value for each in model.metadata_props}
        props |= {f"arcset.{key}": value for key, value in changes.items()}
        helper.set_model_props(
            model, {key: value for key, value in props.items() if value is not None}
        )

    shutil.copy(source, path)
    changed(path, write)
    return path


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    """Files with arcset's metadata: of bytes, of floats of any size, and of vectors."""
    place = tmp_path_factory.mktemp("labelled")
    run = random_run(place / "run", dim=4)
    with_thresholds(run)
    export(run.path, place / "bytes.onnx")
    linear(place / "net.onnx", ("N", 3, "H", "W"))
    thresholds = run.path / "threshold.json"
    adopt(
        place / "net.onnx", place / "floats.onnx", preset="unit", size=(6, 5), thresholds=thresholds
    )
    linear(place / "plain.onnx", ("N", 30), values=30)
    adopt(place / "plain.onnx", place / "vectors.onnx")
    return {name: place / f"{name}.onnx" for name in ("bytes", "floats", "vectors")}


KEYS = ("format", "graph", *(key for key in Label.model_fields if key != "name"))
#: Texts that may be anywhere: no JSON, JSON of any type, and pixels that are nearly right.
VALUES = [
    *("", "{", "null", "true", "7", "-1", "0.5", "NaN", "1e999", "9" * 5000),
    *('"text"', "a\nb\x1b[2J", "[]", "{}", '["3", "6", "5"]', "[3, 6, 5.5]", "[null]"),
    *("[NaN, NaN, NaN]", "[3, 1000000000, 1000000000]", "[3, -6, -5]", "[" * 100_000),
    '{"mean": null, "std": null, "channels": null}',
    '{"mean": "abc", "std": "abc", "channels": "RGB"}',
    '{"mean": [1, 2], "std": [1, 2], "channels": "RGB"}',
    '{"mean": [NaN], "std": [1], "channels": "RGB"}',
    '{"mean": [0], "std": [0], "channels": "RGB"}',
    '{"mean": [0], "std": [1e999], "channels": "RGB"}',
    '{"mean": [0], "std": null, "channels": "RGB"}',
    '{"mean": [0], "std": [1], "channels": "GRB"}',
    '{"mean": [0], "std": [1], "channels": "RGB", "more": 1}',
    '{"kind": "arcset thresholds", "version": 1}',
]


@pytest.mark.parametrize("key", KEYS)
def test_metadata_is_refused_in_one_line_or_fits(labelled, tmp_path, key):
    """Whatever an entry holds: `DataError` that names the file, or a model that works."""
    for name, file in labelled.items():
        for number, value in enumerate([None, *VALUES]):
            path = relabelled(file, tmp_path / f"{name}-{number}.onnx", **{key: value})
            found, said = None, ""
            try:
                found = Recognizer.load(path)
            except DataError as error:
                said = str(error)
            if found is None:
                assert str(path) in said
                assert said.isprintable()
                assert len(said) < 1000
                continue
            channels, *sides = found.model.shape
            kind = np.uint8 if sides else np.float32
            assert found.embed_arrays(np.ones((1, *sides, channels), kind)).shape == (1, 4)
            assert found.name.isprintable()


DAMAGED = {
    "format": ["2", None],
    "name": ["", "a\x1b[2J", "a" * 100_000, None],
    "digest": ["xyz"],
    "shape": ["[3, 10, 10]", "[true, true, true]"],
    "fit": ['"bend"', None],
    "invert": ["1", None],
    "pixels": [None, '{"mean": [5], "std": [1], "channels": "RGB"}'],
    "layout": [None, '"NCHW"'],
    "thresholds": ["{}"],
    "output": ['"nothing"'],
    "faces": ["1"],
}


@pytest.mark.parametrize("key", DAMAGED)
def test_damaged_metadata_is_refused(labelled, tmp_path, key):
    for value in DAMAGED[key]:
        path = relabelled(labelled["bytes"], tmp_path / "own.onnx", **{key: value})
        with pytest.raises(DataError, match=re.escape(str(path))) as told:
            Recognizer.load(path)
        assert str(told.value).isprintable()


def test_thresholds_of_another_length_are_refused(labelled, tmp_path):
    """Those of 8 dimensions in a file that embeds in 4."""
    made = with_thresholds(random_run(tmp_path / "run", dim=8))
    path = relabelled(labelled["floats"], tmp_path / "own.onnx", thresholds=json.dumps(made.json()))
    with pytest.raises(DataError, match=re.escape(str(path))):
        Recognizer.load(path)


def test_a_device_that_is_not_there_is_no_damage(labelled):
    with pytest.raises(OptionError, match="'mps'"):
        Recognizer.load(labelled["bytes"], device="mps")
