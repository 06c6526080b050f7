"""torch's datasets and loaders on one side, arcset's training and images on the other."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import ConcatDataset, DataLoader, Dataset, IterableDataset, Subset
from torch.utils.data import TensorDataset as Tensors

from arcset.data import (
    IdentitySampler,
    ImageSet,
    Reading,
    TorchImages,
    as_float,
    from_torch,
    load_dataset,
    pack,
    select,
    to_loader,
    to_tensors,
)
from arcset.data.torch_dataset import is_repeatable
from arcset.errors import DataError, InputError, OptionError
from support.pictures import picture, save

PIXELS = torch.randint(
    256, (6, 3, 5, 4), generator=torch.Generator().manual_seed(0), dtype=torch.uint8
)
LABELS = torch.tensor([9, 9, 2, 2, 11, 11])
LAST = PIXELS.permute(0, 2, 3, 1).numpy()  # (N, H, W, C)


class Pairs(Dataset[Any]):
    """A list of samples, with `classes` if there are any."""

    def __init__(self, samples: list[Any], classes: list[str] | None = None) -> None:
        self.samples = samples
        if classes is not None:
            self.classes = classes

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        return self.samples[index]


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return zip(PIXELS, LABELS, strict=True)


FORMS: dict[str, Dataset[Any]] = {
    "uint8 tensors": Tensors(PIXELS, LABELS),
    "float tensors": Tensors(PIXELS / 255, LABELS),
    "double tensors": Tensors(PIXELS.double() / 255, LABELS),
    "a stream": Stream(),
    "arrays": Pairs(list(zip(LAST, LABELS.tolist(), strict=True))),
    "PIL": Pairs([(Image.fromarray(pixels), n) for pixels, n in zip(LAST, LABELS, strict=True)]),
    "more than two": Tensors(PIXELS, LABELS, torch.zeros(6, 4)),
    "two joined": ConcatDataset([Tensors(PIXELS[:2], LABELS[:2]), Tensors(PIXELS[2:], LABELS[2:])]),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_same_pictures_in_any_form(form: str) -> None:
    dataset = from_torch(FORMS[form])
    np.testing.assert_array_equal(dataset.train.images, LAST)
    assert dataset.train.images.dtype == np.uint8
    assert dataset.class_names == ("2", "9", "11")  # by number, and not as text
    assert dataset.train.labels.tolist() == [1, 1, 0, 0, 2, 2]
    assert dataset.test is None


@pytest.mark.parametrize(
    "image", [PIXELS[0, 0], PIXELS[0, :1], LAST[0, :, :, 0], LAST[0, :, :, :1]]
)
def test_grey_pictures(image: Any) -> None:
    dataset = from_torch(Pairs([(image, "anna"), (image, "ben")]))
    np.testing.assert_array_equal(dataset.train.images, [LAST[0, :, :, 0]] * 2)


def test_classes_name_the_labels_also_below_a_subset() -> None:
    people = Pairs(list(zip(PIXELS, [2, 0, 1, 2, 0, 1], strict=True)), ["zoe", "anna", "ben"])
    assert from_torch(people).class_names == ("zoe", "anna", "ben")
    few = from_torch(Subset(Subset(people, [0, 2, 3, 5]), [0, 1, 2]))
    assert few.class_names == ("anna", "ben")
    assert few.train.labels.tolist() == [1, 0, 1]
    np.testing.assert_array_equal(few.train.images, LAST[[0, 2, 3]])


def test_pictures_of_all_sizes_are_read_as_files_are() -> None:
    pictures = [picture(n, (20 + n, 30)).convert("RGB") for n in range(4)]
    dataset = from_torch(Pairs([(each, n % 2) for n, each in enumerate(pictures)]), size=(16, 12))
    reading = Reading(3, 16, 12)
    np.testing.assert_array_equal(dataset.train.images, [reading.read(each) for each in pictures])
    grey = from_torch(Tensors(PIXELS, LABELS), channels=1)
    assert grey.train.images.shape == (6, 5, 4)


def test_arrays_take_the_shape_that_is_asked_for(tmp_path: Path) -> None:
    """Also those of a pack, which may be inverted already."""
    digits = load_dataset("mnist-sample").train
    reading = Reading(3, 14, 10, invert=True)
    asked = TorchImages(digits, reading=reading)[0][0]
    expected = reading.read(digits.images[0])
    assert torch.equal(asked, as_float(torch.from_numpy(expected).permute(2, 0, 1)))
    for name in ("anna", "ben"):
        save(picture(len(name)), tmp_path / "faces" / name / "1.png")
    pack(tmp_path / "faces", tmp_path / "pack", reading=Reading(1, 16, 12, invert=True))
    twice, once = (
        TorchImages(tmp_path / path, reading=Reading(1, 16, 12, invert=True))[0][0]
        for path in ("pack", "faces")
    )
    assert torch.equal(twice, once)
    features = ImageSet(np.ones((2, 7), np.float32), np.array([0, 1]), ("a", "b"))
    assert TorchImages(features, reading=reading)[0][0].shape == (7,)


def test_features_stay_as_they_are() -> None:
    vectors = torch.randn(6, 10)
    dataset = from_torch(Tensors(vectors, LABELS))
    np.testing.assert_array_equal(dataset.train.images, vectors)
    half = from_torch(Tensors(vectors.bfloat16(), LABELS)).train.images
    np.testing.assert_array_equal(half, vectors.bfloat16().float())
    maps = torch.randn(6, 2, 5, 4)
    dataset = from_torch(Tensors(maps, LABELS), features=True)
    assert torch.equal(to_tensors(dataset.train)[0], maps)


GREY = Image.new("L", (4, 5))


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([], "no samples"),
        ([PIXELS[0]], "sample 0"),
        ([(PIXELS[0], 1.5)], "sample 0"),
        ([(PIXELS[0].int(), 1)], "int32"),
        ([(PIXELS[0] / 127.5 - 1, 1)], "features=True"),
        ([(torch.full((1, 4, 4), torch.nan), 1)], "sample 0"),
        ([(PIXELS[0], 1), (PIXELS[0, :, :4], 2)], "sample 1 .*size="),
        ([(GREY, 1), (GREY.convert("RGB"), 2)], "sample 1 .*channels="),
    ],
)
def test_what_is_no_labelled_image(samples: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_torch(Pairs(samples))


def test_a_loader_gives_what_networks_take() -> None:
    digits = select(load_dataset("mnist-sample"), "3-4").train
    loader = to_loader(digits, 150)
    images, labels = (torch.cat(parts) for parts in zip(*loader, strict=True))
    pixels, expected = to_tensors(digits)
    assert torch.equal(images, as_float(pixels))
    assert torch.equal(labels, expected)
    assert isinstance(loader.dataset, TorchImages)
    assert loader.dataset.classes == ("3", "4")


def test_shuffling_follows_from_the_seed() -> None:
    digits = select(load_dataset("mnist-sample"), "3-4").train

    def orders(seed: int) -> list[list[int]]:
        loader = to_loader(digits, 100, shuffle=True, seed=seed)
        return [torch.cat([labels for _, labels in loader]).tolist() for _ in range(2)]

    first, second = orders(0)
    assert first != second
    assert orders(0) == [first, second]
    assert orders(1)[0] != first


def test_files_are_decoded_when_asked_for(tmp_path: Path) -> None:
    for name in ("ben", "anna"):
        for number in range(3):
            save(picture(number + len(name)), tmp_path / name / f"{number}.png")
    (tmp_path / "anna" / "broken.png").write_bytes(b"no image")
    reading = Reading(3, 8, 8)
    images = TorchImages(tmp_path, reading=reading)
    assert images.classes == ("anna", "ben")
    assert images.targets.tolist() == [0] * 4 + [1] * 3
    expected = torch.from_numpy(reading.read(tmp_path / "ben" / "2.png")).permute(2, 0, 1)
    assert torch.equal(images[6][0], as_float(expected))
    with pytest.raises(DataError, match=r"anna/broken\.png"):
        images[3]
    (tmp_path / "anna" / "broken.png").unlink()
    loader = to_loader(tmp_path, 4, reading=reading, workers=2)
    assert [tuple(batch.shape) for batch, _ in loader] == [(4, 3, 8, 8), (2, 3, 8, 8)]
    chosen = next(iter(to_loader(tmp_path, 6)))[0]  # of one size, so they keep it
    assert chosen.shape[2:] == picture(0).size[::-1]


def test_identity_sampler_draws_p_times_k() -> None:
    labels = ["anna"] * 9 + ["ben"] * 2 + ["cleo"] * 5 + ["dora"]
    sampler = IdentitySampler(labels, identities=3, samples=2, seed=4)
    batches = list(sampler)
    assert len(batches) == len(sampler)
    for batch in batches:
        assert sorted(Counter(labels[index] for index in batch).values()) == [2, 2, 2]
    assert list(sampler) == batches  # the same until the epoch is another
    sampler.set_epoch(1)
    assert list(sampler) != batches
    sampler.set_epoch(0)
    assert list(sampler) == batches
    assert list(IdentitySampler(labels, 3, 2, seed=5)) != batches


def test_identity_sampler_refuses_too_few_classes() -> None:
    with pytest.raises(OptionError, match="3"):
        IdentitySampler([0, 0, 1, 1], identities=3, samples=2)


def test_transforms_see_pixels_and_may_have_the_last_word() -> None:
    digits = load_dataset("mnist-sample").train
    plain = TorchImages(digits)[0][0]
    flipped = TorchImages(digits, transform=lambda image: image.flip(-1))
    assert torch.equal(flipped[0][0], plain.flip(-1))
    halves = TorchImages(digits, transform=lambda image: image / 510)
    assert torch.allclose(halves[0][0], (plain + 1) / 4)


def test_identity_sampler_in_loaders() -> None:
    digits = select(load_dataset("mnist-sample"), "0-4").train
    sampler = IdentitySampler(digits.labels, identities=4, samples=8)
    for loader in (
        to_loader(digits, sampler=sampler),
        DataLoader(TorchImages(digits), batch_sampler=sampler, num_workers=2),
    ):
        images, labels = next(iter(loader))
        assert images.shape == (32, 1, 28, 28)
        assert sorted(Counter(labels.tolist()).values()) == [8] * 4


class Noisy(Tensors):
    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        return image + torch.rand(()), label


def test_a_dataset_that_draws_does_not_repeat_itself() -> None:
    tensors = torch.zeros(20, 1, 4, 4), torch.arange(20)
    assert is_repeatable(Tensors(*tensors))
    assert not is_repeatable(Noisy(*tensors))
    assert is_repeatable(Stream())
