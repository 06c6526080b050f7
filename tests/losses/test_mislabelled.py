"""Suspect samples by sub-centers."""

import json

import pytest
import torch

import arcset
from arcset import OptionError


def noisy_classes(seed=0, classes=12, each=60, wrong=0.15, dim=16):
    """Samples around one direction per class, some of them with another class's label."""
    generator = torch.Generator().manual_seed(seed)
    truth = torch.arange(classes).repeat_interleave(each)
    means = torch.nn.functional.normalize(torch.randn(classes, dim, generator=generator))
    x = means[truth] + 0.1 * torch.randn(len(truth), dim, generator=generator)
    flipped = torch.rand(len(truth), generator=generator) < wrong
    shift = torch.randint(1, classes, (len(truth),), generator=generator)
    return x, torch.where(flipped, (truth + shift) % classes, truth), flipped


def test_finds_flipped_labels():
    """Trained on noisy labels, sub-centers leave the wrong samples far from the dominant one."""
    x, y, flipped = noisy_classes()
    torch.manual_seed(0)
    loss = arcset.build_loss("arcface", 16, 12, subcenters=3, scale=16.0, margin=0.3)
    optimizer = torch.optim.SGD(loss.parameters(), lr=0.5, momentum=0.9)
    for _ in range(60):
        optimizer.zero_grad()
        loss(x, y).backward()
        optimizer.step()
    suspects = arcset.suspect_samples(loss, x, y, degrees=60.0)
    found = ~suspects.trusted
    assert (found & flipped).sum() >= 0.9 * flipped.sum()
    assert (found & ~flipped).sum() <= 0.05 * (~flipped).sum()
    assert list(suspects.degrees) == sorted(suspects.degrees, reverse=True)
    usual = loss.head.usage.sum(dim=1)
    assert torch.equal(usual, 60 * torch.bincount(y, minlength=12))
    means = torch.stack([x[(y == j) & ~flipped].mean(dim=0) for j in range(12)])
    cosines = (torch.nn.functional.normalize(means) * loss.centers).sum(dim=1)
    assert (cosines > 0.8).all(), "loss.centers are the dominant ones, near the clean samples"


def test_results_in_words_and_data():
    x, y, _ = noisy_classes()
    loss = arcset.build_loss("arcface", 16, 12, subcenters=2)
    suspects = arcset.suspect_samples(loss, x, y)
    text = suspects.table(rows=3)
    assert text.splitlines()[0].startswith(f"{len(suspects)} of 720 samples")
    assert f"… and {len(suspects) - 3} more" in text
    data = json.loads(json.dumps(suspects.json()))
    assert data["positions"] == list(suspects.positions)
    assert suspects.trusted.sum().item() == 720 - len(suspects)


def test_refused():
    x, y = torch.randn(3, 4), torch.tensor([0, 1, 2])
    with pytest.raises(OptionError, match="triplet"):
        arcset.suspect_samples(arcset.build_loss("triplet", 4, 3), x, y)
    with pytest.raises(OptionError, match="degrees"):
        arcset.suspect_samples(arcset.build_loss("arcface", 4, 3), x, y, degrees=-1)
