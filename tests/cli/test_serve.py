"""`arcset serve`, as typed: what it refuses before it listens. What it does: tests/service."""

import socket

import pytest
import torch
from threadpoolctl import threadpool_limits

from support.servers import small_gallery, typed


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    return small_gallery(tmp_path_factory.mktemp("serve"), ["anna"], calibrated=False)


@pytest.fixture(autouse=True)
def _threads(monkeypatch):
    """As many as before, for the tests that follow in this process."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    before = torch.get_num_threads()
    with threadpool_limits():  # puts back what it found
        yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_nobody_beyond_this_machine_is_served_without_keys(arcset_command, people, host):
    found = arcset_command("serve", people, "--host", host, "--port", 0)
    assert found.code == 2
    assert "arcset keys add" in found.err
    assert found.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--max-body", 0], "max_body=0"),
        (["--max-pixels", 0], "max_pixels=0"),
        (["--cors", "example.org"], "'example.org'"),
        (["--cors", "*"], "'*'"),
        (["--keys", "missing.json"], "missing.json"),
        (["--host", "no.such.host.invalid"], "no.such.host.invalid"),
        (["--model", "nowhere"], "nowhere"),
        (["--runs", "nowhere"], "nowhere"),
    ],
)
def test_wrong_words_are_one_line(arcset_command, people, words, said):
    run = [] if "--model" in words else ["--model", people.with_name("run")]
    found = arcset_command("serve", people, "--port", 0, *run, *words)
    assert found.code == 2
    assert said in found.err
    assert found.err.count("\n") == 1


def test_a_port_that_is_taken_is_said(arcset_command, people):
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        found = arcset_command("serve", people, "--port", port)
    assert found.code == 2
    assert f"port {port}" in found.err


def test_an_address_that_cannot_be_is_said(arcset_command, people, tmp_path):
    typed("keys", "add", people, "--keys", tmp_path / "keys.json")
    words = ("--keys", "keys.json", "--host", "no.such.host.invalid", "--port", 0)
    found = arcset_command("serve", people, *words)
    assert found.code == 2
    assert "no.such.host.invalid" in found.err
