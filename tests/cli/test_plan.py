"""`arcset plan`, as typed."""

import json

import pytest
import torch

QUICK = ("--machine", "none")
TOLD = ("--flops", "1T", "--bandwidth", "100G")
BAD_NETWORK = ("--network", "simple", "--size", "1,2,2")


def test_tells_in_words(arcset_command):
    done = arcset_command("plan", "--classes", "100M", "--processes", 64, "--memory", "32G", *QUICK)
    assert done.code == 0
    for words in (
        *("100 M", "512", "arcface", "float32", "64 processes", "1.56 M", "8,192"),
        *("3.0 GiB", "all_reduce", "31.5 MiB", "29.8 GiB", "4,096 bytes"),
        "--update adagrad --storage bfloat16",
    ):
        assert words in done.out
    assert "Time of a step" not in done.out


def test_what_does_not_fit_ends_with_one(arcset_command):
    done = arcset_command("plan", "--classes", "1G", "--memory", "24GiB", *QUICK)
    assert done.code == 1
    assert "24.0 GiB" in done.out
    assert "--processes" in done.out


def test_as_json(arcset_command):
    done = arcset_command(
        "plan", "--classes", "10M", "--storage", "bfloat16", "--update", "adagrad",
        "--sample", 0.1, "--memory", "24GiB", "--flops", "1T", "--bandwidth", "100G", "--json",
    )  # fmt: skip
    assert done.code == 0
    found = json.loads(done.out)
    assert found["fits"]
    assert found["bytes_per_class"] == 1028
    assert found["total"] == found["process"] + sum(found["parts"].values())
    assert found["step"] == pytest.approx(sum(found["seconds"].values()))
    assert found["setting"]["sample"] == 0.1
    assert found["process"] > 1 << 27


def test_a_network_is_counted(arcset_command):
    words = ("plan", "--classes", "1k", "--batch", 4, "--memory", "8G", *QUICK, "--json")
    alone = json.loads(arcset_command(*words).out)
    both = json.loads(arcset_command(*words, "--network", "iresnet18", "--size", "3,32,32").out)
    weights = both["moments"]["the forward pass"]["network's weights"]
    assert 4 * 10_000_000 < weights < 4 * 25_000_000
    assert both["total"] - both["process"] > alone["total"] - alone["process"] + 3 * weights


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is memory to be told here")
def test_what_is_free_is_that_of_the_device(arcset_command):
    done = arcset_command("plan", "--classes", "1k", "--device", "cuda", *QUICK)
    assert done.code == 2
    for quoted in ("--device cuda", "--memory"):
        assert quoted in done.err
    assert done.err.count("\n") == 1


def test_what_is_free_here_counts_for_each_process(arcset_command):
    done = arcset_command("plan", "--classes", "1k", "--dim", 8, "--processes", 4, *QUICK)
    assert "4 processes" in done.out
    assert "GiB" in done.out


def test_too_many_processes_are_told(arcset_command):
    words = ("--classes", "1Mi", "--processes", 4096, "--memory", "4G")
    done = arcset_command("plan", *words, *QUICK)
    assert done.code == 1
    assert "4,096 processes" in done.out


def test_measured_kept_and_used_again(arcset_command, tmp_path):
    words = ("plan", "--classes", "20k", "--dim", 64, "--memory", "8G")
    first = arcset_command(*words, "--save-machine", "here.json")
    assert first.code == 0
    assert "Time of a step, at least" in first.out
    again = arcset_command(*words, "--machine", "here.json", "--json")
    kept = json.loads((tmp_path / "here.json").read_text())
    assert json.loads(again.out)["machine"] == kept


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--classes", "many"], "'many'"),
        (["--classes", "1B"], "1G"),
        (["--classes", "1M", "--memory", "lots"], "'lots'"),
        (["--classes", "1M", "--sample", "2"], "2.0"),
        (["--classes", "1M", "--flops", "1T"], "--bandwidth"),
        (["--classes", "1M", "--machine", "nowhere.json"], "nowhere.json"),
        (["--classes", "1M", "--size", "0"], "--size '0'"),
        (["--classes", "1M", "--loss", "softmax"], "'softmax'"),
        (["--classes", "1M", *QUICK, "--network-speed", "3G"], "--network-speed"),
        (["--classes", "1M", *QUICK, "--save-machine", "x.json"], "--save-machine"),
        (["--classes", "1M", "--network", "iresnet18", "--size", "1,4,4", *QUICK], "iresnet18"),
        (["--classes", "1M", *BAD_NETWORK, *TOLD, "--save-machine", "x.json"], "simple"),
    ],
)
def test_mistakes_are_one_line(arcset_command, tmp_path, words, told):
    done = arcset_command("plan", "--memory", "8G", *words)
    assert done.code == 2
    assert told in done.err
    assert done.err.count("\n") == 1
    assert done.out == ""
    assert list(tmp_path.iterdir()) == []
