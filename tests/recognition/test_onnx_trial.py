"""The first run of an ONNX file happens in another process, with limits of time and memory."""

import os
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
from support.onnx_graphs import FLOAT, adopt, external, linear
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


def huge(path, operator, values=2**31):
    """A network that makes a tensor of so many floats on the way, 8 GiB of them."""
    sides = constant("sides", np.array([values], np.int64))
    if operator == "ConstantOfShape":
        grown = helper.make_node("ConstantOfShape", ["sides"], ["large"])
    else:
        grown = helper.make_node("Expand", ["seed", "sides"], ["large"])
    nodes = (
        sides,
        helper.make_node("ReduceMax", ["y"], ["seed"], keepdims=0),
        grown,
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


@pytest.mark.skipif(not LINUX, reason="only Linux limits the memory of a process")
def test_a_network_that_asks_for_gigabytes_is_refused_or_allowed(tmp_path, monkeypatch):
    for operator in ("ConstantOfShape", "Expand"):
        huge(tmp_path / "net.onnx", operator)
        refused(tmp_path / "net.onnx", quoted="memory")
    huge(tmp_path / "net.onnx", "ConstantOfShape", values=10**8)
    monkeypatch.setenv("ARCSET_ONNX_GIGABYTES", "0.3")
    refused(tmp_path / "net.onnx", quoted="ARCSET_ONNX_GIGABYTES")
    monkeypatch.setenv("ARCSET_ONNX_GIGABYTES", "3")
    assert load(tmp_path / "net.onnx").dim == 4


def test_a_loop_that_ends_is_a_network_like_any_other(tmp_path):
    endless(tmp_path / "loop.onnx", count=3)
    images = np.random.default_rng(0).integers(0, 256, (3, 6, 5, 3), np.uint8)
    recognizer = load(tmp_path / "loop.onnx")
    plain = load(tmp_path / "loop.onnx", "y")
    np.testing.assert_allclose(recognizer.embed(images), -plain.embed(images), atol=1e-6)


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


def test_weights_beside_the_file_count(tmp_path, records):
    linear(tmp_path / "net.onnx")
    external(tmp_path / "net.onnx")
    load(tmp_path / "net.onnx", "y")
    content = bytearray((tmp_path / "weights.bin").read_bytes())
    content[5] ^= 1
    (tmp_path / "weights.bin").write_bytes(content)
    load(tmp_path / "net.onnx", "y")
    assert len(list(records.iterdir())) == 2


def test_what_claims_to_be_arcsets_own_is_tried_as_well(tmp_path, monkeypatch):
    """Whoever makes a hostile file can write arcset's metadata into it."""
    monkeypatch.setenv("ARCSET_ONNX_SECONDS", "1.5")
    endless(tmp_path / "short.onnx", count=2)
    adopt(tmp_path / "short.onnx", tmp_path / "own.onnx", preset="unit", output="z")
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


@pytest.mark.parametrize("place", ["file/records", "/proc/arcset", None])
def test_where_records_are(tmp_path, monkeypatch, place):
    """In the cache folder where nothing else is said; where none can be kept, nothing changes."""
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("ARCSET_ONNX_RECORDS")
    if place is not None:
        monkeypatch.setenv("ARCSET_ONNX_RECORDS", str(tmp_path / place))
    linear(tmp_path / "net.onnx")
    for _ in range(2):
        assert load(tmp_path / "net.onnx", "y").dim == 4
    kept = [path for path in (tmp_path / "cache/arcset").rglob("*") if path.is_file()]
    assert bool(kept) == (place is None)


@pytest.mark.parametrize("name", ["ARCSET_ONNX_SECONDS", "ARCSET_ONNX_GIGABYTES"])
def test_limits_that_are_no_numbers_are_refused(tmp_path, monkeypatch, name):
    linear(tmp_path / "net.onnx")
    for value in ("soon", "-1", "0", "nan", "inf", "1e300"):
        monkeypatch.setenv(name, value)
        with pytest.raises(OptionError, match=rf"{name}.*{value}"):
            load(tmp_path / "net.onnx", "y")


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


@pytest.mark.long
@pytest.mark.skipif(not LINUX, reason="looks through /proc")
def test_nothing_runs_on_when_the_waiting_process_is_killed(tmp_path):
    """The limit holds for the processor's time as well, which nobody has to watch."""
    endless(tmp_path / "loop.onnx")
    program = (
        "import sys; from arcset import Recognizer; print('ready', flush=True); "
        f"Recognizer.from_onnx({str(tmp_path / 'loop.onnx')!r}, preset='unit', output='z')"
    )
    env = {**os.environ, "ARCSET_ONNX_SECONDS": "2"}
    waiting = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=env)
    assert waiting.stdout is not None
    waiting.stdout.readline()
    found = until(lambda: children(waiting.pid))
    waiting.send_signal(signal.SIGKILL)
    waiting.communicate()
    assert until(lambda: not any(map(running, found)))


def until(happened, seconds=20):
    end = time.monotonic() + seconds
    while not (found := happened()) and time.monotonic() < end:
        time.sleep(0.05)
    return found


def children(pid):
    path = f"/proc/{pid}/task/{pid}/children"
    with open(path) as listed:  # noqa: PTH123
        return [int(child) for child in listed.read().split()]


def running(pid):
    try:
        with open(f"/proc/{pid}/stat") as said:  # noqa: PTH123
            return said.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
