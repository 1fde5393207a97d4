"""Whole splits of a classification data set that tensorflow-datasets has prepared, decoded once."""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfbench.datasets.sources import cache
from tfbench.datasets.sources import tfds as tfds_source
from tfbench.datasets.sources.reading import reading
from tfbench.datasets.sources.splits import Split, Splits, copy_aligned, is_plausible, mean_of
from tfbench.errors import DatasetError
from tfbench.recipe.dataset_spec import DatasetSpec


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """Whole splits of a data set, by name."""

    splits: Mapping[str, Split]
    source: str  # for people
    folder: Path  # of its files
    cache: str  # what came of the cache


def load_tfds(
    name: str,
    spec: DatasetSpec,
    data_dir: str | None,
    *,
    splits: tuple[str, str],
    host: str,
    accepted: str | None = None,
) -> Splits:
    """Loads two splits of a tfds data set whole, in their stored type.

    Args:
        name: tfds's name of the data set.
        spec: What the data must look like; its mean, if it has one, is taken of the training split.
        data_dir: tfds's folder, or None for its default.
        splits: Names of the training and of the validation split.
        host: As of `open_tfds`.
        accepted: As of `open_tfds`.

    Raises:
        DatasetError: The folder does not exist, the data is missing and cannot be fetched, or it is damaged.
    """
    counts = dict(zip(splits, (spec.train_samples, spec.validation_samples), strict=True))
    found = load_splits(name, spec, data_dir, counts=counts, host=host, accepted=accepted)
    train, validation = (found.splits[split] for split in splits)
    mean = mean_of(train.inputs, spec)
    return Splits(spec=spec, train=train, validation=validation, source=found.source, mean=mean, cache=found.cache)


def load_splits(
    name: str,
    spec: DatasetSpec,
    data_dir: str | None,
    *,
    counts: Mapping[str, int | None],
    host: str,
    accepted: str | None = None,
) -> Prepared:
    """Loads splits of a tfds data set whole, in their stored type.

    From the cache, if it has them: then neither tensorflow-datasets nor, for another back end, TensorFlow is imported.

    Args:
        name: tfds's name of the data set.
        spec: What a sample must look like.
        data_dir: tfds's folder, or None for its default.
        counts: How many samples each split must have; None: as many as there are.
        host: As of `open_tfds`.
        accepted: As of `open_tfds`.

    Raises:
        DatasetError: As of `load_tfds`.
    """
    root = Path(os.path.expanduser(data_dir or _default_folder()))  # noqa: PTH111 - of a home that may be none

    def decode() -> cache.Decoded:
        with reading(root / name, tfds_source.PREPARED, tfds_source.REMEDY):
            return decode_prepared()

    def decode_prepared() -> cache.Decoded:
        builder = tfds_source.open_tfds(name, data_dir, host=host, accepted=accepted)
        for split, count in counts.items():
            if count is not None:
                tfds_source.require_count(builder, split, count)
        loaded = {split: _copy(load_split(builder, split, spec)) for split in counts}
        files = [file for split in counts for file in tfds_source.list_files(builder, split)]
        is_hashed = all(Path(os.path.normpath(file)).is_relative_to(root / name) for file in files)
        elsewhere = "" if is_hashed else f"not written: files of it are not in {root / name}"
        return cache.Decoded(splits=loaded, description=builder.info.full_name, cache=elsewhere)

    def fits(found: Mapping[str, Split]) -> bool:
        return all(
            count in (None, found[split].num_samples) and is_plausible(found[split], spec) is None
            for split, count in counts.items()
        )

    def find_origin() -> cache.Origin | None:  # of all versions that are there, since these decide which one is taken
        source, reader = "files of tensorflow-datasets", "tensorflow-datasets"
        return cache.origin_of(name, source, root / name, part="+".join(counts), reader=reader)

    found = cache.load(find_origin, decode, fits)
    return Prepared(
        splits=found.splits,
        source=tfds_source.describe(found.description, root),
        folder=root / found.description,
        cache=found.cache,
    )


def load_split(builder: Any, split: str, spec: DatasetSpec) -> Split:
    """Decodes a split of images and labels whole, in order.

    Raises:
        DatasetError: It is damaged, or not what `spec` says.
    """
    import tensorflow_datasets as tfds

    where = f"{builder.data_dir}, split {split}"
    tfds_source.require_features(builder, ("image", "label"))
    with tfds_source.damage_told(builder, split):
        tfds_source.require_files(builder, split)
        arrays = tfds.as_numpy(builder.as_dataset(split=split, batch_size=-1, shuffle_files=False))
    loaded = Split(inputs=arrays["image"], targets=arrays["label"], num_samples=len(arrays["image"]))
    expected = tfds_source.count_samples(builder, split)
    if loaded.num_samples != expected:
        raise DatasetError(
            f"data set {builder.name}: {where}: expected {expected} samples, found {loaded.num_samples}."
        )
    problem = is_plausible(loaded, spec)
    if problem:
        raise DatasetError(f"data set {builder.name}: {where}: {problem}.")
    return loaded


def _copy(split: Split) -> Split:
    """Returns a split in memory of the same kind as that of the cache, so that training reads from it as fast."""
    return dataclasses.replace(split, inputs=copy_aligned(split.inputs), targets=copy_aligned(split.targets))


def _default_folder() -> str:
    """Returns where tensorflow-datasets keeps what it prepares unless it is told where."""
    return os.environ.get("TFDS_DATA_DIR", "~/tensorflow_datasets")
