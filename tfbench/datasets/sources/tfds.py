"""Whole splits of a classification data set that tensorflow-datasets has prepared, or fetches.

They are decoded once.
"""

import dataclasses
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

from tfbench.datasets.sources import cache
from tfbench.datasets.sources.splits import LoadedSplits, Split, copy_aligned, reading
from tfbench.errors import DatasetError

REACH_SECONDS = 8  # for each address of the publisher's host to answer anything at all
_NUM_LISTED = 5  # files of a folder
_REMEDY = "Remove it and prepare it again."


def load(
    name: str,
    data_dir: str | None,
    *,
    splits: tuple[str, ...],
    host: str,
    accepted: str,
    decode: Callable[[Any, tuple[str, ...]], LoadedSplits] | None = None,
    variant: str = "",
    has_stand_in: bool = True,
) -> LoadedSplits:
    """Loads splits whole, in their order and stored type.

    From the cache, if it has them: then neither tensorflow-datasets nor, for another backend,
    TensorFlow is imported. Prepared data is looked for next. Only if there is none is the publisher
    asked.

    Args:
        name: tfds's name of the data set.
        data_dir: tfds's folder, or None for its default.
        splits: Their names.
        host: Address asked before a download is begun, since tfds itself would retry for minutes in
            silence.
        accepted: What a folder may hold, for messages.
        decode: Decodes splits of a builder; None: images and their labels.
        variant: Of what it decodes, where there are several.
        has_stand_in: Whether there are synthetic samples of the kind.

    Raises:
        DatasetError: The folder does not exist, the data is missing and cannot be fetched, or it is
            damaged.
    """
    decode = decode or _decode_images
    given = data_dir or os.environ.get("TFDS_DATA_DIR", "~/tensorflow_datasets")  # its own default
    root = Path(os.path.expanduser(given))  # noqa: PTH111 - of a home that may be none

    def decode_prepared() -> LoadedSplits:
        with reading(root / name, "data that tensorflow-datasets prepared", _REMEDY):
            builder = open_builder(name, data_dir, host, accepted, has_stand_in=has_stand_in)
            decoded = decode(builder, splits)
            return dataclasses.replace(decoded, source=builder.info.full_name)

    # Of all versions that are there, since these decide which one is taken.
    what = f"{name} {'+'.join(splits)}{variant}, tensorflow-datasets {_version()}"
    loaded = cache.load(what, root / name, None, decode_prepared)
    _, _, version = loaded.source.rpartition("/")
    source = f"tfds {name} {version}, {root}"
    where = f"data set {name}: {root / loaded.source}"
    return dataclasses.replace(loaded, source=source, where=where, remedy=_REMEDY)


def open_builder(
    name: str, data_dir: str | None, host: str, accepted: str, *, has_stand_in: bool = True
) -> Any:
    """Returns the tfds builder of a data set that is prepared.

    Raises:
        DatasetError: The data, or what reads it, is not there.
    """
    ways_out = f"Name a folder with {accepted}: --data-dir, or TFBENCH_DATA_DIR."
    if has_stand_in:
        ways_out = (
            f"Use --data synthetic, or name a folder with {accepted}: --data-dir, or"
            " TFBENCH_DATA_DIR."
        )
    try:
        import tensorflow as tf
        import tensorflow_datasets as tfds
    except ModuleNotFoundError as error:
        raise DatasetError(
            f"data set {name}: cannot be read, because {error.name} is not installed. {ways_out}"
        ) from error
    if os.environ.get("KERAS_BACKEND", "tensorflow") != "tensorflow":
        tf.config.set_visible_devices([], "GPU")  # it would take all of their memory
    tfds.disable_progress_bar()
    if data_dir is not None and not Path(data_dir).is_dir():
        raise DatasetError(f"data set {name}: the folder {data_dir} does not exist. {ways_out}")
    try:
        builder = tfds.builder(name, data_dir=data_dir)
    except tfds.core.DatasetNotFoundError as error:
        raise DatasetError(
            f"data set {name}: tensorflow-datasets knows none of this name, and none is in"
            f" {data_dir or 'its folder'}. {ways_out}"
        ) from error
    if not builder.is_prepared():
        folder = builder.data_dir
        problem = f"data set {name}: not in {folder}, and cannot be downloaded"
        if data_dir is not None:
            ways_out += f" {_describe_folder(Path(data_dir))}"
        _require_reachable(host, problem, ways_out)
        try:
            builder.download_and_prepare()
        except Exception as error:  # network, disk, checksum: tfds raises all kinds
            raise DatasetError(
                f"data set {name}: cannot be downloaded into {folder}: {error}. {ways_out}"
            ) from error
    return builder


def _describe_folder(folder: Path) -> str:
    """Returns what lies in the folder that was named, so that a wrong one is seen to be wrong."""
    try:
        names = sorted(entry.name + "/" * entry.is_dir() for entry in folder.iterdir())
    except OSError as error:
        return f"{folder} cannot be read: {error.strerror}."
    if not names:
        return f"{folder} is empty."
    listed = ", ".join(names[:_NUM_LISTED])
    more = f" and {len(names) - _NUM_LISTED} more" if len(names) > _NUM_LISTED else ""
    return f"{folder} holds {listed}{more}."


def _require_reachable(host: str, problem: str, ways_out: str) -> None:
    """Raises DatasetError unless something answers at `host`.

    Proxies of the environment are used.
    """
    try:
        urllib.request.urlopen(host, timeout=REACH_SECONDS).close()  # noqa: S310 - a constant https address
    except urllib.error.HTTPError:  # any answer is an answer
        pass
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise DatasetError(f"{problem}: {host}: {reason}. {ways_out}") from error


def _decode_images(builder: Any, splits: tuple[str, ...]) -> LoadedSplits:
    import tensorflow_datasets as tfds

    decoded = {}
    for name in splits:
        arrays = tfds.as_numpy(builder.as_dataset(split=name, batch_size=-1, shuffle_files=False))
        # In memory of the same kind as that of the cache, so that training reads from it as fast.
        inputs = copy_aligned(arrays["image"])
        targets = copy_aligned(arrays["label"])
        decoded[name] = Split(inputs=inputs, targets=targets, num_samples=len(inputs))
    return LoadedSplits(splits=decoded)


def _version() -> str:
    try:
        return metadata.version("tensorflow-datasets")
    except metadata.PackageNotFoundError:
        return "none"
