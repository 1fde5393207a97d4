"""ImageNet (ILSVRC 2012) or images like it: 1,281,167 + 50,000, 224x224 colour, 1000 classes, read as they are used."""

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
import pydantic

from tfbench.datasets.sources.reading import reading
from tfbench.datasets.sources.splits import RecordSplit, Split, Splits
from tfbench.errors import DatasetError
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.schema import Count, Flag, Text, schema

TRAIN_SAMPLES, VALIDATION_SAMPLES = 1_281_167, 50_000  # as published
# Red, green and blue of the training images, as published with the VGG networks (Simonyan & Zisserman 2014).
CHANNEL_MEANS = (123.68, 116.779, 103.939)

Side = Annotated[Count, pydantic.Field(le=4096)]
Classes = Annotated[Count, pydantic.Field(ge=2, le=1_000_000)]


@schema
class Config:
    """Where the images are, and what the model sees of one."""

    folder: Text | None = None
    """Holds train/ and val/, with one folder a class in each; not set, and no `tfds` either: the one of --data-dir."""
    tfds: Text | None = None
    """Name of a data set that tensorflow-datasets has prepared; not together with `folder`."""
    complete: Flag = False
    """Refuses other images than those of ILSVRC 2012; otherwise as many are taken as there are, with a caution."""
    num_classes: Classes = 1000
    """Classes of the images."""
    image_size: Side = 224
    """Pixels a side that the model sees: a part at random in training, the centre in validation. Equal to
    `stored_size`: the whole image."""
    stored_size: Side = 256
    """Pixels a side that an image's central square is resized to."""
    mirror: Flag = True
    """Whether one training image in two is turned left to right."""
    views: Literal[1, 10] = 1
    """Crops of an image that are averaged in an evaluation after the training."""

    def __post_init__(self) -> None:
        if self.folder and self.tfds:
            raise ValueError(f"folder and tfds cannot both be set. Received: {self.folder} and {self.tfds}.")
        if self.tfds:
            from tfbench.datasets.sources.tfds import NAME_FORM, is_local_name

            if not is_local_name(self.tfds):
                raise ValueError(f"tfds must be {NAME_FORM}. Received: {self.tfds}.")
        if self.image_size > self.stored_size:
            raise ValueError(
                f"image_size must be at most stored_size. Received: {self.image_size} with {self.stored_size}."
            )
        if self.views > 1 and self.image_size == self.stored_size:
            raise ValueError(f"views = {self.views} needs an image_size below stored_size = {self.stored_size}.")
        if self.complete and self.num_classes != 1000:
            raise ValueError(
                f"num_classes must be 1000 for the complete set. Received: {self.num_classes}. "
                "Set complete = false for other images."
            )


def describe(config: Config) -> DatasetSpec:
    """Returns shapes and the sizes of the complete set; loads nothing and counts no files."""
    return _describe(config, TRAIN_SAMPLES, VALIDATION_SAMPLES)


def load_splits(config: Config, data_dir: str | None) -> Splits:
    """Lists the images of a folder, or opens what tensorflow-datasets prepared; they are decoded as they are used.

    The order of a folder's images is a function of the seed and the step, as of any data in memory. So is that of
    tfds's data, whose records come in their own order through a buffer in which they are shuffled; a run that goes on
    from a snapshot reads those of the pass that it is in again, to get to where it was.

    The mean of each colour is subtracted; pixels are not scaled.

    Raises:
        DatasetError: The images are missing, are not of `num_classes` classes, or are not all.
    """
    if config.tfds:
        from tfbench.datasets.sources import tfds as tfds_source

        prepared = Path(data_dir or "tensorflow-datasets' own folder", config.tfds)
        with reading(prepared, tfds_source.PREPARED, tfds_source.REMEDY):
            return _load_tfds(config, config.tfds, data_dir)
    where = config.folder or data_dir
    if where is None:
        raise DatasetError(
            "data set imagenet: no source. Name the folder that holds train/ and val/ with --data-dir or "
            "--set dataset.folder=FOLDER, or data that tensorflow-datasets has prepared with --set dataset.tfds=NAME, "
            "or measure without it: --data synthetic."
        )
    return _load_folder(config, Path(where))


def _load_folder(config: Config, folder: Path) -> Splits:
    from tfbench.datasets.sources import image_files

    def read_array(path: bytes) -> npt.NDArray[np.uint8]:
        return image_files.read_array(path, config.stored_size)

    def read(path: object) -> object:
        return image_files.in_graph(read_array, path, shape=_stored_shape(config))

    classes = image_files.list_classes(folder / "train")
    _require_classes(config, len(classes), str(folder / "train"))
    splits, notes = {}, []
    for name in ("train", "val"):
        paths, labels, others = image_files.list_images(folder / name, classes)
        if others:
            kinds = ", ".join(f"{count} {suffix}" for suffix, count in others.most_common(5))
            notes.append(f"{folder / name}: files not read as images: {kinds}.")
        splits[name] = Split(inputs=paths, targets=labels, num_samples=len(paths), read=read, read_array=read_array)
        _require_complete(config, name, len(paths), str(folder / name))
    image_files.require_whole(folder, [*splits["train"].inputs, *splits["val"].inputs])
    # By class as they are listed, the first predictions would all be of the first class.
    order = np.random.default_rng(0).permutation(splits["val"].num_samples)
    unsorted = splits["val"]
    validation = dataclasses.replace(unsorted, inputs=unsorted.inputs[order], targets=unsorted.targets[order])
    built = _build_splits(config, splits["train"], validation, f"image files, {folder}")
    return dataclasses.replace(built, notes=(*built.notes, *notes))


def _load_tfds(config: Config, name: str, data_dir: str | None) -> Splits:
    from tfbench.datasets.sources import image_files
    from tfbench.datasets.sources import tfds as tfds_source

    def decode(name: bytes, contents: bytes) -> npt.NDArray[np.uint8]:
        return image_files.decode(name, contents, config.stored_size)

    def read(name: object, contents: object) -> object:
        return image_files.in_graph(decode, name, contents, shape=_stored_shape(config))

    builder = tfds_source.open_tfds(name, data_dir, host=None)
    _require_classes(config, tfds_source.count_classes(builder), str(builder.data_dir))
    held_out = "validation" if "validation" in builder.info.splits else "test"
    splits = []
    for split in ("train", held_out):
        count = tfds_source.count_samples(builder, split)
        _require_complete(config, "train" if split == "train" else "val", count, f"{builder.data_dir}, split {split}")
        splits.append(tfds_source.stream_split(builder, split, read))
    return _build_splits(config, splits[0], splits[1], tfds_source.describe_source(builder))


def _require_classes(config: Config, found: int, where: str) -> None:
    if found != config.num_classes:
        raise DatasetError(
            f"data set imagenet: {where}: expected {config.num_classes} classes, found {found}. "
            f"--set dataset.num_classes={found} takes them for what they are."
        )


def _require_complete(config: Config, name: str, found: int, where: str) -> None:
    expected = TRAIN_SAMPLES if name == "train" else VALIDATION_SAMPLES
    if config.complete and found != expected:
        raise DatasetError(
            f"data set imagenet: {where}: expected {expected:,} images, found {found:,}. "
            "dataset.complete = false takes them for what they are."
        )
    if found == 0:
        raise DatasetError(f"data set imagenet: {where}: holds no images.")


def _build_splits(config: Config, train: Split | RecordSplit, validation: Split | RecordSplit, source: str) -> Splits:
    import numpy as np

    sizes = f"{train.num_samples:,} + {validation.num_samples:,}"
    is_whole = (train.num_samples, validation.num_samples) == (TRAIN_SAMPLES, VALIDATION_SAMPLES)
    expected = f"{TRAIN_SAMPLES:,} + {VALIDATION_SAMPLES:,}"
    return Splits(
        spec=_describe(config, train.num_samples, validation.num_samples),
        train=train,
        validation=validation,
        source=source if is_whole else f"{source}, {sizes} images",
        notes=() if is_whole else (f"not the complete ImageNet: {sizes} images instead of {expected}.",),
        mean=np.array(CHANNEL_MEANS, np.float32),
    )


def _stored_shape(config: Config) -> tuple[int, ...]:
    return (config.stored_size, config.stored_size, 3)


def _describe(config: Config, train_samples: int, validation_samples: int) -> DatasetSpec:
    is_cropped = config.image_size < config.stored_size
    return DatasetSpec(
        input_shape=(config.image_size, config.image_size, 3),
        input_dtype="uint8",
        target_shape=(),
        num_classes=config.num_classes,
        train_samples=train_samples,
        validation_samples=validation_samples,
        mean="channel",
        stored_shape=_stored_shape(config) if is_cropped else None,
        mirrors=config.mirror,
        views=config.views,
    )
