"""`arcset plan`, as typed."""

import json
import re

import pytest
import torch

QUICK = "--no-measure"


def test_tells_in_words(arcset_command):
    done = arcset_command("plan", "--classes", "100M", "--processes", 64, "--memory", "32G", QUICK)
    assert done.code == 0
    for words in ("100,000,000", "512", "arcface", "64 processes", "1,562,500", "3.0 GiB"):
        assert words in done.out
    for words in ("29.8 GiB", "47.6 MiB"):
        assert words in done.out
    enough = re.search(r"(\d+) processes are enough", done.out)
    assert 24 <= int(enough[1]) <= 40  # each needs what this process takes beside the centers


def test_what_does_not_fit_ends_with_one_and_with_advice(arcset_command):
    done = arcset_command("plan", "--classes", "1G", "--memory", "24GiB", QUICK)
    assert done.code == 1
    assert "24.0 GiB" in done.out
    assert "--processes" in done.out


def test_measured_as_json(arcset_command):
    done = arcset_command(
        "plan", "--classes", "1Mi", "--dim", 16, "--storage", "bfloat16", "--update", "adagrad",
        "--sample", 0.1, "--batch", 8, "--network", "simple", "--size", 16, "--json",
    )  # fmt: skip
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["fits"]
    assert found["setting"]["classes"] == 2**20
    assert found["bytes_per_class"] == 16 * 2 + 4
    assert found["total"] == sum(found["parts"].values()) > 1 << 27
    assert found["seconds"].keys() == {"loss", "network"}
    assert found["step"] == pytest.approx(sum(found["seconds"].values()))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is memory to be told here")
def test_what_is_free_is_that_of_the_device(arcset_command):
    done = arcset_command("plan", "--classes", "1k", "--device", "cuda", QUICK)
    assert done.code == 2
    for quoted in ("--device cuda", "--memory"):
        assert quoted in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "quoted"),
    [
        (["--classes", "many"], "'many'"),
        (["--classes", "0.5"], "classes"),
        (["--classes", "9" * 400], "--classes"),
        (["--classes", "1M", "--memory", "lots"], "'lots'"),
        (["--classes", "1M", "--sample", "2"], "2.0"),
        (["--classes", "1M", "--size", "0"], "--size '0'"),
        (["--classes", "1M", "--loss", "softmax"], "'softmax'"),
        (["--classes", "1M", "--network", "iresnet18", "--size", "1,4,4", QUICK], "iresnet18"),
    ],
)
def test_mistakes_are_one_line(arcset_command, words, quoted):
    done = arcset_command("plan", "--memory", "8G", *words)
    assert done.code == 2
    assert quoted in done.err
    assert done.err.count("\n") == 1
    assert done.out == ""
