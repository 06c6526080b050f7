"""Losses on the disk: written by some processes, read by others, in one file, for other classes."""

import json
import re

import pytest
import torch
from safetensors.torch import load_file, save_file

from arcset import OptionError, RunError
from arcset.losses import build_loss, export_loss, load_loss, regrow, save_loss, saving
from arcset.losses.saving import save_sharded
from support import saved_losses as saved
from support.forked import together


def same(found, expected, **rounding):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, **(rounding or {"rtol": 0, "atol": 0}))


@pytest.fixture(autouse=True)
def small(monkeypatch):
    for name, value in saved.SMALL.items():
        monkeypatch.setattr(saving, name, value)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Written by two processes, read by three and by this one alone."""
    place = tmp_path_factory.mktemp("kept")
    together(2, saved.write_together, place, place=place)
    together(3, saved.read_together, place, place=place)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in saved.SMALL.items():
            patch.setattr(saving, name, value)
        saved.read(place)
    assert len(list((place / "rich").glob("*.safetensors"))) > 10
    return place


@pytest.mark.parametrize("variant", saved.VARIANTS)
def test_another_number_of_processes_reads_the_same(folder, variant):
    written = load_file(folder / f"{variant}.noted")
    same(load_file(folder / f"{variant}.read-3"), written)
    same(load_file(folder / f"{variant}.read-0"), written)
    loss = saved.built(variant)
    load_loss(loss, folder / variant)
    exported = load_file(folder / f"{variant}.safetensors")
    state = {
        name: value
        for name, value in loss.state_dict().items()
        if name.split(".")[-1] not in ("momentum", "squares")
    }
    same(exported, state)
    whole = saved.built(variant)
    whole.load_state_dict(exported)
    same(saved.noted(whole.eval()), written)
    each = loss.subcenters
    first = load_file(folder / f"{variant}-first.safetensors")
    assert torch.equal(first["head.weight"], exported["head.weight"][: 7 * each])


def test_where_one_process_cannot_all_give_up(folder):
    refused = folder / "refused"
    every = json.loads((refused / "said.json").read_text(encoding="utf-8"))
    assert [len(said) for said in every] == [4, 4]
    for said in every:
        for name, one in zip(["file", "file", "nothing", "torn"], said, strict=True):
            assert name in one
    assert every[1][0].startswith("process 0: ")
    assert (refused / "alone").is_dir()
    assert not list(refused.rglob(".*.part"))


def test_a_saved_loss_without_all_of_its_files(tmp_path, monkeypatch):
    """Of a slice in the middle nothing else would tell: its rows would stay as they are."""
    monkeypatch.setattr(saving, "_BLOCK", 1 << 20)
    loss = saved.built("plain")
    for name, rows in (("first", slice(0, 8)), ("second", slice(8, 16)), ("third", slice(16, 23))):
        content = {"head.weight": loss.head.weight.detach()[rows]}
        place = {"head.weight": {"saved_offsets": [rows.start, 0]}}
        save_file(
            content, tmp_path / f"{name}.safetensors", {"DCP_SHARDING_INFO": json.dumps(place)}
        )
    save_file({"step": loss.step}, tmp_path / "step.safetensors")
    other = saved.built("plain")
    torch.nn.init.zeros_(other.head.weight)
    load_loss(other, tmp_path)
    assert torch.equal(other.head.weight, loss.head.weight)
    (tmp_path / "second.safetensors").unlink()
    with pytest.raises(RunError, match=r"head\.weight"):
        load_loss(other, tmp_path)


@pytest.mark.parametrize("variant", saved.VARIANTS)
def test_other_classes(folder, variant):
    file = folder / f"{variant}.safetensors"
    loss, new, length = saved.grown(variant, file)
    old = saved.built(variant)
    old.load_state_dict(load_file(file))
    assert new.tolist() == [2, 21, 22, 23, 24, 25]
    rows = old.head.weight.view(saved.CLASSES, loss.subcenters, -1)
    found = loss.head.weight.view(saved.GROWN, loss.subcenters, -1)
    assert torch.equal(found[0], rows[1])
    assert torch.equal(found[3:21], rows[5:])
    merged = torch.nn.functional.normalize((old.centers[2] + old.centers[3])[None])[0]
    torch.testing.assert_close(loss.centers[1], merged, rtol=0, atol=1e-2)
    lengths = found[new].float().norm(dim=2)
    torch.testing.assert_close(lengths, torch.full_like(lengths, length), rtol=1e-2, atol=0)
    alone, shared = (load_file(folder / f"{variant}.grown-{count}") for count in (0, 3))
    known = [place for place in range(saved.GROWN) if place not in new.tolist()]
    assert torch.equal(shared["centers"][known], alone["centers"][known])


@pytest.mark.parametrize("options", [{}, {"subcenters": 3, "bias": True}])
def test_classify_is_the_highest_logit(options, monkeypatch):
    monkeypatch.setattr("arcset.centers.storage._LOOKED_AT", 100)  # several parts
    loss = build_loss("arcface", 5, 37, **options)
    if options:
        loss.head.bias.data.normal_(generator=torch.Generator().manual_seed(0))
    x = torch.randn(11, 5, generator=torch.Generator().manual_seed(1))
    assert torch.equal(loss.classify(x), loss.logits(x).argmax(dim=1))
    assert torch.equal(loss.classify(x, 6), loss.logits(x)[:, :6].argmax(dim=1))
    softmax = build_loss("softmax", 5, 37)
    assert torch.equal(softmax.classify(x, 6), softmax.logits(x)[:, :6].argmax(dim=1))


def test_what_is_refused(folder, tmp_path):
    loss = build_loss("arcface", saved.DIM, saved.CLASSES + 1)
    before = loss.head.weight.detach().clone()
    with pytest.raises(RunError, match="plain"):
        load_loss(loss, folder / "plain")
    with pytest.raises(RunError, match=re.escape(tmp_path.name)):
        load_loss(loss, tmp_path)
    with pytest.raises(RunError, match=re.escape(tmp_path.name)):
        save_loss(loss, tmp_path)
    old = saved.built("plain")
    with pytest.raises(OptionError, match="sources"):
        regrow(loss, old, [[23]])
    with pytest.raises(OptionError, match="24"):
        regrow(loss, old, [[0]] * 25)
    with pytest.raises(OptionError, match=r"6.*4"):
        regrow(build_loss("arcface", 4, 30), old, [])
    with pytest.raises(OptionError, match="centers"):
        regrow(build_loss("triplet", saved.DIM, 9), old, [])
    assert torch.equal(loss.head.weight, before)
    for classes in (0, saved.CLASSES + 1):
        with pytest.raises(OptionError, match="classes"):
            export_loss(old, tmp_path / "file", classes=classes)
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="folder"):
        save_sharded(tmp_path / "file" / "folder", {"a": before})
