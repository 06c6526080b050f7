"""Affine, elastic, crop and their chains against a slow reference, one pixel's place at a time."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.ndimage import map_coordinates
from torch import Tensor

from arcset.data.augment import Affine, Augmentations, Crop, Draws, Elastic, Warp

Pictures = Callable[..., Tensor]
Point = tuple[float, float]  # x and y, in pixels from the middle
SHAPES = [(1, 12, 12), (3, 9, 14)]
shapes = pytest.mark.parametrize("shape", SHAPES, ids=["grey", "rgb"])


def _generator(seed: int = 3) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _affine(drawn: Draws, sample: int, height: int, width: int) -> Callable[[Point], Point]:
    """Backwards through the forward map, as one 3×3 matrix."""
    forward = np.eye(3)
    forward[:2, :2] = drawn["matrix"][sample].numpy()
    forward[:2, 2] = drawn["shift"][sample].numpy() * (width, height)

    def source(point: Point) -> Point:
        x, y, _ = np.linalg.solve(forward, (*point, 1.0))
        return float(x), float(y)

    return source


def _crop(drawn: Draws, sample: int, height: int, width: int) -> Callable[[Point], Point]:
    """From the corner of the part, step by step."""
    (across, down), (x, y) = drawn["size"][sample].tolist(), drawn["place"][sample].tolist()

    def along(position: float, share: float, place: float, pixels: int) -> float:
        index = position + (pixels - 1) / 2  # 0 … pixels − 1
        free = (1 - share) * (pixels - 1)
        return free * (place + 1) / 2 + index * share - (pixels - 1) / 2

    return lambda point: (along(point[0], across, x, width), along(point[1], down, y, height))


def _cubic(distance: float) -> float:
    """Keys' kernel with a = −0.75."""
    d, a = abs(distance), -0.75
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * (d**3 - 5 * d**2 + 8 * d - 4) if d < 2 else 0.0


def _elastic(drawn: Draws, sample: int, height: int, width: int) -> Callable[[Point], Point]:
    """The sixteen grid points around, the outermost ones standing in for what lies beyond."""
    field = drawn["field"][sample].double().numpy()  # (2, n, n)
    last = field.shape[-1] - 1

    def source(point: Point) -> Point:
        column = (point[0] / (width - 1) + 0.5) * last
        row = (point[1] / (height - 1) + 0.5) * last
        moved = np.zeros(2)
        for i in range(math.floor(row) - 1, math.floor(row) + 3):
            for j in range(math.floor(column) - 1, math.floor(column) + 3):
                value = field[:, min(max(i, 0), last), min(max(j, 0), last)]
                moved += _cubic(row - i) * _cubic(column - j) * value
        return point[0] + moved[0] * width, point[1] + moved[1] * height

    return source


REFERENCES: dict[type[Warp], Callable[[Draws, int, int, int], Callable[[Point], Point]]] = {
    Affine: _affine,
    Crop: _crop,
    Elastic: _elastic,
}


def _reference(images: Tensor, warps: list[tuple[Warp, Draws]], fill: str) -> np.ndarray:
    batch, channels, height, width = images.shape
    result = np.zeros(images.shape)
    for sample in range(batch):
        sources = [REFERENCES[type(warp)](row, sample, height, width) for warp, row in warps]
        rows, columns = np.zeros((2, height, width))
        for i, j in np.ndindex(height, width):
            point = (j - (width - 1) / 2, i - (height - 1) / 2)
            for source in reversed(sources):
                point = source(point)
            columns[i, j], rows[i, j] = point[0] + (width - 1) / 2, point[1] + (height - 1) / 2
        for channel in range(channels):
            pixels = images[sample, channel].double().numpy()
            if fill == "edge":
                read = map_coordinates(pixels, (rows, columns), order=1, mode="nearest")
            else:  # two rings of what lies outside, for the blend at the border
                outside = 0.0 if fill == "zero" else -1.0
                ringed = np.pad(pixels, 2, constant_values=outside)
                read = map_coordinates(ringed, (rows + 2, columns + 2), order=1, cval=outside)
            result[sample, channel] = read
    return result


CHAINS: list[list[Warp]] = [
    [Affine(rotate=180, scale=0.5, stretch=0.5, shear=30, shift=0.3)],
    [Affine(rotate=180, scale=0.5, shift=0.3, fill="zero")],
    [Affine(rotate=180, scale=0.5, shift=0.3, fill="low")],
    [Elastic(strength=0.1)],
    [Elastic(strength=0.2, points=2, fill="low")],
    [Crop(area=0.2, stretch=0.8)],
    [Affine(rotate=40), Elastic(strength=0.1, points=5)],
    [Elastic(strength=0.1, points=5), Affine(rotate=40)],
    [Crop(area=0.3), Elastic(fill="low"), Crop(), Affine(fill="low")],
]


@pytest.mark.parametrize("warps", CHAINS, ids=str)
@shapes
def test_warps_read_where_the_reference_does(
    warps: list[Warp], shape: tuple[int, int, int], pictures: Pictures
) -> None:
    images = pictures(3, *shape)
    result = Augmentations(warps, shape)(images, _generator())
    generator = _generator()
    drawn = [(warp, warp.draw(3, shape, generator)) for warp in warps]
    fill = next((warp.fill for warp in warps if warp.fill), "edge")
    np.testing.assert_allclose(result.numpy(), _reference(images, drawn, fill), atol=2e-5)


_NONE = {"rotate": 0, "scale": 0, "stretch": 0, "shear": 0, "shift": 0}


def _spread(values: Tensor, low: float, high: float) -> None:
    """All of 2000 values lie in low .. high, reach both ends, and are about evenly spread."""
    slack = (high - low) / 100
    assert low - 1e-6 <= values.min() <= low + slack
    assert high - slack <= values.max() <= high + 1e-6
    assert abs(values.mean() - (low + high) / 2) < 4 * slack


def test_each_option_of_affine_means_what_it_says() -> None:
    def drawn(**options: float) -> Draws:
        return Affine(**{**_NONE, **options}).draw(2000, (1, 10, 20), _generator())

    matrix = drawn(rotate=30)["matrix"]
    torch.testing.assert_close(matrix @ matrix.mT, torch.eye(2).double().expand(2000, 2, 2))
    _spread(torch.atan2(matrix[:, 1, 0], matrix[:, 0, 0]).rad2deg(), -30, 30)

    matrix = drawn(scale=0.5)["matrix"]
    torch.testing.assert_close(matrix, matrix[:, :1, :1] * torch.eye(2))
    _spread(matrix[:, 0, 0].log(), -math.log(1.5), math.log(1.5))

    matrix = drawn(stretch=0.5)["matrix"]
    torch.testing.assert_close(torch.linalg.det(matrix), torch.ones(2000).double())
    assert matrix[:, 0, 1].abs().max() == matrix[:, 1, 0].abs().max() == 0
    _spread((matrix[:, 0, 0] / matrix[:, 1, 1]).log(), -math.log(1.5), math.log(1.5))

    matrix = drawn(shear=45)["matrix"]
    torch.testing.assert_close(matrix[:, :, 0], torch.tensor([1.0, 0.0]).double().expand(2000, 2))
    _spread(torch.atan2(matrix[:, 0, 1], matrix[:, 1, 1]).rad2deg(), -45, 45)

    shifted = drawn(shift=0.2)
    torch.testing.assert_close(shifted["matrix"], torch.eye(2).double().expand(2000, 2, 2))
    for axis in range(2):
        _spread(shifted["shift"][:, axis], -0.2, 0.2)


def test_some_images_stay_as_they_are() -> None:
    images = torch.rand(400, 1, 9, 9, generator=torch.Generator().manual_seed(0)) * 2 - 1
    moved = Affine(rotate=30, probability=0.7)(images, torch.Generator().manual_seed(1))
    same = (moved - images).abs().amax(dim=(1, 2, 3)) < 1e-5
    assert 80 <= int(same.sum()) <= 160  # 120 expected; 9 is the standard deviation
