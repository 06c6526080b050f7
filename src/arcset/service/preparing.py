"""The images of one request on their way to arrays."""

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt
from PIL.Image import Image

from arcset.service.decoding import LARGE, Decoder
from arcset.service.errors import RefusalError

__all__ = ["Preparing"]


class Preparing:
    """Reads images one after the other, in one thread up to the first large one.

    images: the files. errors: gets, by its place, what is wrong with a single image; without, the
        first error is raised.
    arrays: those that could be read, in order.
    """

    def __init__(
        self, decoder: Decoder, images: Sequence[bytes], errors: dict[int, RefusalError] | None
    ) -> None:
        self._decoder, self._images, self._errors = decoder, images, errors
        self._place = 0
        self._open: Image | None = None  # a large one that was looked at
        self.arrays: list[npt.NDArray[Any]] = []

    def go_on(self, *, slowly: bool) -> bool:
        """Read all that is left; unless `slowly`, stop before a large image, and return False.

        Raises `RefusalError` where an image cannot be read and nobody notes it.
        """
        while self._place < len(self._images):
            try:
                image = self._open or self._decoder.open(self._images[self._place])
                self._open = None
                if image.width * image.height > LARGE and not slowly:
                    self._open = image
                    return False
                self.arrays.append(self._decoder.decode(image))
            except RefusalError as refusal:
                if self._errors is None:
                    raise
                self._errors[self._place] = refusal
            self._place += 1
        return True
