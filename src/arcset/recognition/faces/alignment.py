"""Faces turned, scaled and moved so that eyes, nose and mouth lie where recognizers expect them.

The five places are those that ArcFace's published code aligns to, and with it nearly every network
for faces since: 112×112 pixels, eyes on one line, the face filling the square.

Umeyama: Least-squares estimation of transformation parameters between two point patterns (1991).
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from arcset.errors import InputError, OptionError

__all__ = ["ALIGNMENT", "POINTS", "SIDE", "align", "opencv", "similarity"]

Floats = npt.NDArray[np.float64]
Pixels = npt.NDArray[np.uint8]

ALIGNMENT = "arcface-112/1"  # part of a face recognizer's digest: to be counted up on any change
SIDE = 112
#: (x, y) of the eye on the left of the picture, that on the right, nose, and corners of the mouth.
POINTS: Floats = np.array(
    [
        [38.2946, 51.6963],
        [73.5318, 51.5014],
        [56.0252, 71.7366],
        [41.5493, 92.3655],
        [70.7299, 92.2041],
    ]
)


def similarity(source: npt.ArrayLike, target: npt.ArrayLike) -> Floats:
    """The turn, scale and shift (2, 3) that bring points (K, 2) nearest to others, not mirrored.

    It minimizes the sum over k of ‖A·(x_k, y_k, 1) − target_k‖². Raises `InputError` unless both
    are equally many finite points, at least two of them apart.

        >>> moved = similarity([[0, 0], [1, 0], [0, 1]], [[5, 5], [5, 7], [3, 5]])
        >>> moved.round(6) + 0  # a quarter turn, twice as large, shifted by (5, 5)
        array([[ 0., -2.,  5.],
               [ 2.,  0.,  5.]])
    """
    start, end = np.asarray(source, np.float64), np.asarray(target, np.float64)
    if start.shape != end.shape or start.ndim != 2 or start.shape[1] != 2 or len(start) < 2:
        raise InputError(
            f"points have shapes {start.shape} and {end.shape}, expected (K, 2) for both, K ≥ 2"
        )
    middle, goal = start.mean(0), end.mean(0)
    centered, wanted = start - middle, end - goal
    spread = float((centered**2).sum())
    if not np.isfinite(start).all() or not np.isfinite(end).all() or not spread:
        raise InputError("points of a face must be finite and must not all be the same")
    # In the plane the best turn has a closed form: with points as complex numbers, the similarity
    # is z → c·z, and c = Σ conj(z)·w / Σ |z|². It cannot mirror.
    along = float((centered * wanted).sum()) / spread
    across = float((centered[:, 0] * wanted[:, 1] - centered[:, 1] * wanted[:, 0]).sum()) / spread
    turn = np.array([[along, -across], [across, along]])
    return np.column_stack((turn, goal - turn @ middle))


def align(photo: Pixels, points: npt.ArrayLike) -> Pixels:
    """The face with these five points (5, 2) of a photo (H, W, 3), as (112, 112, 3).

    Interpolation is bilinear, and what lies outside the photo is black. A face that shrinks to a
    half or less is first averaged over whole blocks of pixels, so that nothing in it is left out.
    Raises `InputError` for points that no face can have, as all in one place.
    """
    cv2 = opencv()
    matrix = similarity(points, POINTS)
    finer = int(1 / np.hypot(matrix[0, 0], matrix[1, 0]) + 1e-6)  # photo pixels per new pixel
    if finer >= 2:
        down, right = (-length % finer for length in photo.shape[:2])
        whole = np.pad(photo, ((0, down), (0, right), (0, 0)), mode="edge")
        size = (whole.shape[1] // finer, whole.shape[0] // finer)
        photo = cv2.resize(whole, size, interpolation=cv2.INTER_AREA)
        # The center of block k lies at k·finer + (finer − 1)/2 of the photo.
        shift = matrix[:, 2] + matrix[:, :2] @ np.full(2, (finer - 1) / 2)
        matrix = np.column_stack((matrix[:, :2] * finer, shift))
    aligned: Pixels = cv2.warpAffine(photo, matrix, (SIDE, SIDE), flags=cv2.INTER_LINEAR)
    return aligned


def opencv() -> Any:
    """The module cv2, an extra, which is imported where it is first needed.

    Raises `OptionError` that says how to install it where it is missing.
    """
    try:
        import cv2
    except ImportError as error:
        raise OptionError(
            f"faces need OpenCV, which cannot be imported ({error}): pip install 'arcset[faces]'"
        ) from None
    if not hasattr(cv2, "FaceDetectorYN"):
        raise OptionError(
            f"OpenCV {cv2.__version__} has no face detector: pip install 'arcset[faces]'"
        )
    return cv2
