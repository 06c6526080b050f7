"""Any torch module as a recognizer."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from arcset import Gallery, InputError, OptionError, Recognizer


def network(channels=3, side=8, dim=5):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(channels, 4, 3),
        nn.BatchNorm2d(4),
        nn.Flatten(),
        nn.Linear(4 * (side - 2) ** 2, dim),
    )


def images(count=3, side=8, channels=3):
    shape = (count, side, side, channels) if channels == 3 else (count, side, side)
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


def expected(module, pixels):
    rows = module.eval()(torch.from_numpy(pixels).permute(0, 3, 1, 2).float())
    return nn.functional.normalize(rows).detach().numpy()


@pytest.mark.parametrize("order", ["RGB", "BGR"])
def test_pixels_come_as_the_module_expects(order):
    mean, std = (100.0, 110.0, 120.0), (50.0, 60.0, 70.0)
    module, given = network(), images()
    recognizer = Recognizer.from_module(
        module, size=8, mean=mean, std=std, channels=order, device="cpu"
    )
    pixels = given if order == "RGB" else given[..., ::-1]
    wanted = expected(module, ((pixels - np.array(mean)) / np.array(std)).astype(np.float32))
    np.testing.assert_allclose(recognizer.embed(list(given)), wanted, atol=1e-5)
    assert recognizer.dim == 5
    assert recognizer.embed(images(1, side=20)[0]).shape == (1, 5)  # brought to its size


def test_grey_images_by_default_come_as_the_networks_of_arcset_have_them():
    module, given = network(channels=1), images(channels=1)
    recognizer = Recognizer.from_module(module, size=(8, 8), channels="grey", device="cpu")
    wanted = expected(module, (given[..., None] / 127.5 - 1).astype(np.float32))
    np.testing.assert_allclose(recognizer.embed(list(given)), wanted, atol=1e-5)


def test_a_gallery_belongs_to_the_weights(tmp_path):
    module = network()
    first = Recognizer.from_module(module, size=8, device="cpu")
    other = copy.deepcopy(module)
    assert Recognizer.from_module(other, size=8, device="cpu").digest == first.digest
    assert Recognizer.from_module(other, size=8, std=128, device="cpu").digest != first.digest
    with Gallery.open(tmp_path / "people.db", first) as gallery:
        gallery.enroll("anna", images(1)[0])
        assert gallery.identify(images(1)[0], threshold=0.9).subject == "anna"
    with torch.no_grad():
        other[3].bias += 1
    with pytest.raises(Exception, match="migrate"):
        Gallery.open(tmp_path / "people.db", Recognizer.from_module(other, size=8, device="cpu"))


def test_a_module_that_does_not_fit_is_refused():
    for module, options, error, quoted in (
        (network(), {"size": 9}, InputError, "3×9×9"),
        (network(), {"size": 8, "channels": "grey"}, InputError, "1×8×8"),
        (nn.Conv2d(3, 4, 3), {"size": 8}, InputError, r"\(1, 4, 6, 6\)"),
        (network(), {"size": 8, "mean": 0.5, "std": 0.5}, OptionError, "255"),
    ):
        with pytest.raises(error, match=quoted):
            Recognizer.from_module(module, device="cpu", **options)
