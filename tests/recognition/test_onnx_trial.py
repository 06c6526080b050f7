"""The first run of an ONNX file happens in another process, with limits of time and memory."""

import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from arcset import DataError, OptionError, Recognizer
from arcset.recognition.export import export
from arcset.recognition.onnx_model import graph_digest
from support.onnx_graphs import FLOAT, adopt, linear
from support.random_runs import random_run

LINUX = sys.platform == "linux"


@pytest.fixture(autouse=True)
def records(tmp_path, monkeypatch):
    """A folder of its own for the files that have passed."""
    monkeypatch.setenv("ARCSET_ONNX_RECORDS", str(tmp_path / "records"))
    return tmp_path / "records"


def endless(path, count=2**62):
    """A network that turns its output's sign `count` times."""
    values = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Neg", ["a"], ["b"])],
        "body",
        [
            values("i", TensorProto.INT64, []),
            values("go", TensorProto.BOOL, []),
            values("a", FLOAT, None),
        ],
        [values("on", TensorProto.BOOL, []), values("b", FLOAT, None)],
    )
    nodes = (
        constant("count", np.int64(count)),
        constant("yes", np.bool_(True)),
        helper.make_node("Loop", ["count", "yes", "y"], ["z"], body=body),
    )
    return linear(path, nodes=nodes, outputs=(values("z", FLOAT, None),))


def huge(path, values=2**31):
    """A network that makes a tensor of so many floats on the way, 8 GiB of them."""
    nodes = (
        constant("sides", np.array([values], np.int64)),
        helper.make_node("ReduceMax", ["y"], ["seed"], keepdims=0),
        helper.make_node("Expand", ["seed", "sides"], ["large"]),
        helper.make_node("ReduceSum", ["large"], ["sum"], keepdims=0),
        helper.make_node("Add", ["y", "sum"], ["z"]),
    )
    return linear(path, nodes=nodes, outputs=(helper.make_tensor_value_info("z", FLOAT, None),))


def constant(name, value):
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value))


def load(path, output="z"):
    return Recognizer.from_onnx(path, preset="unit", output=output, device="cpu")


def refused(path, output="z", quoted=None):
    with pytest.raises(DataError, match=quoted) as told:
        load(path, output)
    assert str(path) in str(told.value)
    assert "\n" not in str(told.value)


def test_a_network_that_never_ends_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setenv("ARCSET_ONNX_SECONDS", "1.5")
    endless(tmp_path / "loop.onnx")
    started = time.monotonic()
    refused(tmp_path / "loop.onnx", quoted=r"1\.5 seconds")
    assert time.monotonic() - started < 10
    endless(tmp_path / "three.onnx", count=3)  # a loop that ends is a network like any other
    monkeypatch.delenv("ARCSET_ONNX_SECONDS")
    image = np.random.default_rng(0).integers(0, 256, (6, 5, 3), np.uint8)
    turned, plain = (load(tmp_path / "three.onnx", name).embed(image) for name in "zy")
    np.testing.assert_allclose(turned, -plain, atol=1e-6)


@pytest.mark.skipif(not LINUX, reason="only Linux limits the memory of a process")
def test_a_network_that_asks_for_gigabytes_is_refused_or_allowed(tmp_path, monkeypatch):
    huge(tmp_path / "net.onnx")
    refused(tmp_path / "net.onnx", quoted="memory")
    huge(tmp_path / "net.onnx", values=10**8)
    monkeypatch.setenv("ARCSET_ONNX_GIGABYTES", "0.3")
    refused(tmp_path / "net.onnx", quoted="ARCSET_ONNX_GIGABYTES")
    monkeypatch.setenv("ARCSET_ONNX_GIGABYTES", "3")
    assert load(tmp_path / "net.onnx").dim == 4


def test_a_file_is_tried_once(tmp_path, records, monkeypatch):
    linear(tmp_path / "net.onnx")
    load(tmp_path / "net.onnx", "y")
    (record,) = records.iterdir()
    monkeypatch.setenv("ARCSET_ONNX_SECONDS", "0.001")  # nothing can be tried in so little time
    shutil.copy(tmp_path / "net.onnx", tmp_path / "copy.onnx")
    load(tmp_path / "copy.onnx", "y")
    record.unlink()
    refused(tmp_path / "net.onnx", "y")
    monkeypatch.delenv("ARCSET_ONNX_SECONDS")
    load(tmp_path / "net.onnx", "y")  # what failed is tried again
    assert len(list(records.iterdir())) == 1


def test_what_claims_to_be_arcsets_own_is_tried_as_well(tmp_path, monkeypatch):
    """Whoever makes a hostile file can write arcset's metadata into it."""
    endless(tmp_path / "short.onnx", count=2)
    adopt(tmp_path / "short.onnx", tmp_path / "own.onnx", preset="unit", output="z")
    monkeypatch.setenv("ARCSET_ONNX_SECONDS", "1.5")
    model = onnx.load(tmp_path / "own.onnx")
    count = next(node for node in model.graph.node if node.output[0] == "count")
    count.attribute[0].t.CopyFrom(numpy_helper.from_array(np.int64(2**62)))
    props = {each.key: each.value for each in model.metadata_props}
    helper.set_model_props(model, props | {"arcset.graph": graph_digest(model)})
    (tmp_path / "own.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(DataError, match=r"own\.onnx.*1\.5 seconds"):
        Recognizer.load(tmp_path / "own.onnx")


def test_what_this_machine_exported_need_not_wait(tmp_path, monkeypatch):
    export(random_run(tmp_path / "run").path, tmp_path / "own.onnx")
    linear(tmp_path / "net.onnx")
    adopt(tmp_path / "net.onnx", tmp_path / "adopted.onnx", preset="unit")
    monkeypatch.setenv("ARCSET_ONNX_SECONDS", "0.001")
    Recognizer.load(tmp_path / "own.onnx")
    Recognizer.load(tmp_path / "adopted.onnx")


def test_where_no_records_can_be_kept_a_file_is_tried_each_time(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("ARCSET_ONNX_RECORDS", str(tmp_path / "file/records"))
    linear(tmp_path / "net.onnx")
    for _ in range(2):
        assert load(tmp_path / "net.onnx", "y").dim == 4


@pytest.mark.parametrize("name", ["ARCSET_ONNX_SECONDS", "ARCSET_ONNX_GIGABYTES"])
def test_limits_that_are_no_numbers_are_refused(tmp_path, monkeypatch, name):
    linear(tmp_path / "net.onnx")
    for value in ("soon", "0", "nan", "inf"):
        monkeypatch.setenv(name, value)
        with pytest.raises(OptionError, match=rf"{name}.*{value}"):
            load(tmp_path / "net.onnx", "y")


@pytest.mark.skipif(not LINUX, reason="signals as on POSIX")
def test_the_limit_holds_without_anybody_who_waits():
    """For the time of the processor, whatever becomes of the process that started it."""
    program = "from arcset.recognition.onnx_trial import limit\nlimit(0, 2**40)\nwhile True: pass"
    assert subprocess.run([sys.executable, "-c", program]).returncode == -signal.SIGKILL


def test_a_free_batch_that_only_takes_one_image_still_embeds_one(tmp_path):
    nodes = (
        constant("one", np.array([1, 4], np.int64)),
        helper.make_node("Reshape", ["y", "one"], ["z"]),
    )
    outputs = (helper.make_tensor_value_info("z", FLOAT, None),)
    linear(tmp_path / "net.onnx", nodes=nodes, outputs=outputs)
    picture = np.zeros((6, 5, 3), np.uint8)
    picture[0] = 200
    assert load(tmp_path / "net.onnx").embed(picture).shape == (1, 4)
