"""Whole splits of a classification data set that tensorflow-datasets has prepared, decoded once."""

import os
from importlib import metadata
from pathlib import Path
from typing import Any

from tfbench.datasets.sources import cache
from tfbench.datasets.sources import tfds as tfds_source
from tfbench.datasets.sources.found import Found
from tfbench.datasets.sources.reading import reading
from tfbench.datasets.sources.splits import Split, copy_aligned
from tfbench.errors import DatasetError


def load(name: str, data_dir: str | None, *, splits: tuple[str, ...], host: str, accepted: str | None = None) -> Found:
    """Loads splits of a tfds data set whole, in their order and stored type.

    From the cache, if it has them: then neither tensorflow-datasets nor, for another back end, TensorFlow is imported.

    Args:
        name: tfds's name of the data set.
        data_dir: tfds's folder, or None for its default.
        splits: Their names.
        host: As of `open_tfds`.
        accepted: As of `open_tfds`.

    Raises:
        DatasetError: The folder does not exist, the data is missing and cannot be fetched, or it is damaged.
    """
    given = data_dir or os.environ.get("TFDS_DATA_DIR", "~/tensorflow_datasets")  # its own default
    root = Path(os.path.expanduser(given))  # noqa: PTH111 - of a home that may be none

    def decode() -> cache.Decoded:
        with reading(root / name, tfds_source.PREPARED, tfds_source.REMEDY):
            builder = tfds_source.open_tfds(name, data_dir, host=host, accepted=accepted)
            loaded = {split: _load_split(builder, split) for split in splits}
            return cache.Decoded(splits=loaded, description=builder.info.full_name)

    # Of all versions that are there, since these decide which one is taken.
    what = f"{name} {'+'.join(splits)}, tensorflow-datasets {_version()}"
    found = cache.load(what, root / name, None, decode)
    return Found(
        splits=found.splits,
        source=tfds_source.describe(found.description, root),
        where=f"data set {name}: {root / found.description}",
        remedy=tfds_source.REMEDY,
        cache=found.cache,
    )


def _load_split(builder: Any, split: str) -> Split:
    import tensorflow_datasets as tfds

    tfds_source.require_features(builder, ("image", "label"))
    with tfds_source.damage_told(builder, split):
        tfds_source.require_files(builder, split)
        arrays = tfds.as_numpy(builder.as_dataset(split=split, batch_size=-1, shuffle_files=False))
        found, expected = len(arrays["image"]), tfds_source.count_samples(builder, split)
        if found != expected:
            raise DatasetError(f"expected {expected:,} samples, found {found:,}")
    # In memory of the same kind as that of the cache, so that training reads from it as fast.
    inputs, targets = copy_aligned(arrays["image"]), copy_aligned(arrays["label"])
    return Split(inputs=inputs, targets=targets, num_samples=found)


def _version() -> str:
    try:
        return metadata.version("tensorflow-datasets")
    except metadata.PackageNotFoundError:
        return "none"
