"""Images as files: a folder a class, read and brought to one size while they are used."""

import contextlib
import hashlib
import os
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tfbench.datasets.sources import cache
from tfbench.errors import DatasetError
from tfbench.records.whole_files import replacing

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp")
# What a whole file ends with, by Pillow's name of its format. A file with another end is decoded to see what it is.
_ENDS = {"JPEG": b"\xff\xd9", "PNG": b"IEND\xaeB`\x82", "GIF": b";"}
_CHECKED_AT_ONCE = 256  # files
_NAMED = 3  # damaged files in a message


def list_classes(folder: Path) -> list[str]:
    """Returns the names of the folders in a folder, sorted: the classes, whose labels count from 0.

    Raises:
        DatasetError: There is no such folder.
    """
    try:
        return sorted(entry.name for entry in os.scandir(folder) if entry.is_dir() and not entry.name.startswith("."))
    except OSError as error:
        raise DatasetError(
            f"{folder}: {error.strerror}. Expected a folder that holds one folder a class, with the images in it."
        ) from error


def list_images(folder: Path, classes: list[str]) -> tuple[npt.NDArray[np.bytes_], npt.NDArray[np.int64], Counter[str]]:
    """Returns path and label of every image, class by class, each sorted by name, and how many files are no images.

    The latter by what their names end in.

    Args:
        folder: Holds one folder a class; a class may be missing.
        classes: Known ones, in the order of their labels.

    Raises:
        DatasetError: A folder holds no image, or is of no known class.
    """
    paths: list[bytes] = []
    labels: list[int] = []
    others: Counter[str] = Counter()
    label_of = {name: label for label, name in enumerate(classes)}
    for name in list_classes(folder):
        if name not in label_of:
            raise DatasetError(
                f"{folder / name}: a class that has no training images. Rename or remove the folder, or add "
                f"the class to the training folder, which has {len(classes)}."
            )
        files = sorted(e.name for e in os.scandir(folder / name) if not e.name.startswith(".") and e.is_file())
        found = [file for file in files if file.lower().endswith(SUFFIXES)]
        others.update(Path(file).suffix.lower() or file for file in files if file not in set(found))
        if not found:
            raise DatasetError(f"{folder / name}: holds no image ({', '.join(SUFFIXES)}). Remove it, or fill it.")
        paths += [os.fsencode(folder / name / file) for file in found]
        labels += [label_of[name]] * len(found)
    if not paths:
        raise DatasetError(f"{folder}: holds no class folders. Expected one folder a class, with the images in it.")
    return np.array(paths, np.bytes_), np.array(labels, np.int64), others


def require_whole(folder: Path, paths: Sequence[bytes]) -> None:
    """Checks header and end of image files, and remembers those that are whole by path, size and time of change.

    10,000 images take a second, and a tenth of it once they are known. Damage between header and end is not found.

    Raises:
        DatasetError: Naming the first damaged files, and how many more there are.
    """
    marks = np.array([_mark(path) for path in paths], np.uint64)
    folder_hash = hashlib.sha256(os.fsencode(folder.absolute())).hexdigest()[:32]
    memory = (found := cache.find_folder()) and found / f"whole-images-{folder_hash}.npy"
    unknown = np.flatnonzero(~np.isin(marks, _read_marks(memory)))
    if not len(unknown):
        return

    def find_broken(numbers: Sequence[int]) -> list[int]:
        return [number for number in numbers if not _looks_whole(paths[number])]

    batches = [unknown[start : start + _CHECKED_AT_ONCE] for start in range(0, len(unknown), _CHECKED_AT_ONCE)]
    with ThreadPoolExecutor() as pool:
        broken = [number for batch in pool.map(find_broken, batches) for number in batch]
    if memory:
        with contextlib.suppress(OSError), cache.writing(memory.parent), replacing(memory) as part:
            np.save(part, np.delete(marks, broken))
    if broken:
        named = ", ".join(os.fsdecode(paths[number]) for number in broken[:_NAMED])
        more = f" and {len(broken) - _NAMED:,} more" if len(broken) > _NAMED else ""
        raise DatasetError(
            f"{named}{more}: damaged, cut off or no image ({len(broken):,} of {len(paths):,} files). "
            "Replace or remove them."
        )


def _mark(path: bytes) -> int:
    """Returns a number that a file shares with no other, nor with what it was before it was changed; 0: no file."""
    try:
        status = os.stat(path)  # noqa: PTH116 - of a million files; a Path takes thrice as long
    except OSError:
        return 0
    text = b"%s\0%d\0%d" % (path, status.st_size, status.st_mtime_ns)
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest())


def _read_marks(memory: Path | None) -> npt.NDArray[np.uint64]:
    """Returns the marks of the files that were whole when they were last checked."""
    try:
        marks = np.load(memory) if memory else None
    except Exception:  # not there, or damaged: NumPy raises tokenize.TokenError, for one
        marks = None
    return marks if isinstance(marks, np.ndarray) and marks.dtype == np.uint64 else np.zeros(0, np.uint64)


def _looks_whole(path: bytes) -> bool:
    from PIL import Image

    try:
        with Path(os.fsdecode(path)).open("rb") as file:
            with Image.open(file) as image:
                expected = _ENDS.get(str(image.format))
            file.seek(-len(expected or b" "), os.SEEK_END)
            if expected is None or file.read() != expected:
                read_array(path, 1)
    except Exception:  # what Pillow's readers raise about broken files
        return False
    return True


def read_array(path: bytes, size: int) -> npt.NDArray[np.uint8]:
    """Returns the central square of an image, resized: bilinear, by the centres of pixels, without antialiasing.

    Raises:
        DatasetError: The file is no image.
    """
    from PIL import Image

    try:
        with Image.open(os.fsdecode(path)) as image:
            side = min(image.size)
            left, top = ((length - side) // 2 for length in image.size)
            square = _in_colour(image).crop((left, top, left + side, top + side))
    except Exception as error:  # what Pillow's readers raise about broken files
        raise DatasetError(
            f"{os.fsdecode(path)}: cannot be read as an image; it is missing, cut off or of another format. Replace or "
            "remove it."
        ) from error
    if side != size:  # not `resize`, which is slower, and antialiases
        step = side / size
        square = square.transform(
            (size, size), Image.Transform.AFFINE, (step, 0, 0, 0, step, 0), Image.Resampling.BILINEAR
        )
    return np.asarray(square)


def _in_colour(image: Any) -> Any:
    """Returns an image of any mode in red, green and blue, eight bits each; what is transparent is taken as it is."""
    from PIL import Image

    if image.mode.startswith("I"):  # 16 bits, which Pillow would clip
        image = Image.fromarray((np.asarray(image).clip(0, 0xFFFF) >> 8).astype(np.uint8))
    return image.convert("RGB")
