"""A folder of images, with a folder for each class in it, as one partition: `part-0/cat/tom.png`.

Nothing is decoded before it is used: the data of a visit are a lazy dataset of (pixels, class) pairs, like
torchvision's `ImageFolder`. Classes are numbered by name. Needs Pillow.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from elastune.data.file_contents import FileContents
from elastune.errors import JobError
from elastune.wording import several

SUFFIXES = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"})


class ImageFolder:
    """`images[i]` is the pixels, of shape (height, width, 3), and the number of the class."""

    def __init__(self, path: str) -> None:
        self.path = path
        folders = sorted(each for each in Path(path).iterdir() if _is_class(each))
        self.classes = tuple(each.name for each in folders)
        self.files = [
            (file, number) for number, folder in enumerate(folders) for file in sorted(_images_in(folder))
        ]
        if not self.files:
            raise JobError(
                f"there are no images in folders inside it; expected {path}/CLASS/IMAGE with a suffix of "
                f"{several(sorted(SUFFIXES))}"
            )

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[npt.NDArray[np.uint8], int]:
        path, number = self.files[index]
        with _pillow().open(path) as image:
            return np.asarray(image.convert("RGB")), number


def outline_images(path: str) -> FileContents:
    found = ImageFolder(path)
    _pillow()
    return FileContents(rows=len(found), columns={"image": "", f"class: {', '.join(found.classes)}": "int64"})


def read_images(path: str) -> ImageFolder:
    _pillow()
    return ImageFolder(path)


def blocks_of_images(path: str, rows: int) -> Iterator[dict[str, Any]]:
    """As arrays, so all must have the same size."""
    images, first = ImageFolder(path), None
    for start in range(0, len(images), rows):
        pairs = [images[index] for index in range(start, min(start + rows, len(images)))]
        shapes = {pixels.shape for pixels, _ in pairs}
        first = first or next(iter(shapes))
        if shapes != {first}:
            sizes = several(f"{shape[1]}x{shape[0]}" for shape in sorted(shapes | {first}))
            raise JobError(
                f"its images have different sizes ({sizes}); expected one: scale them, or train on the "
                "folder itself and scale them in your code"
            )
        yield {
            "image": np.stack([pixels for pixels, _ in pairs]),
            "class": np.array([number for _, number in pairs], np.int64),
        }


def _is_class(path: Path) -> bool:
    return path.is_dir() and not path.name.startswith((".", "_"))


def _images_in(folder: Path) -> Iterator[Path]:
    for each in folder.iterdir():
        if each.suffix.lower() in SUFFIXES and not each.name.startswith("."):
            yield each


def _pillow() -> Any:
    try:
        return importlib.import_module("PIL.Image")
    except ImportError:
        raise JobError("reading images needs Pillow; pip install 'elastune[images]'") from None
