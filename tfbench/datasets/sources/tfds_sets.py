"""Any data set of tensorflow-datasets that has an input and a target: "tfds:fashion_mnist"."""

import dataclasses
import functools
import json
from typing import Any

import numpy as np

from tfbench.datasets.sources import tfds
from tfbench.datasets.sources.fit_data import FitData
from tfbench.datasets.sources.splits import Array, LoadedSplits, Split, Splits, copy_aligned
from tfbench.datasets.sources.user_arrays import splits_of, splits_of_batches
from tfbench.errors import DatasetError
from tfbench.recipe.dataset_spec import TfdsOptions
from tfbench.schema import to_plain

_HOST = "https://storage.googleapis.com"
_SHUFFLED = 1000  # samples that a stream draws the next one from
_BATCHES_AHEAD = 2
_STREAMED = (
    "batches are read anew in each epoch, in an order that no seed sets, and a resumed run begins"
    " it anew."
)
_OTHERWISE = "A function of yours can prepare what fit takes: --set dataset.name=FILE.py:FUNCTION."


def load_splits(name: str, options: TfdsOptions, data_dir: str | None, batch_size: int) -> Splits:
    """Loads a data set from its prepared folder, or fetches it.

    Images are scaled to 0..1. A text becomes the numbers of its bytes.

    Args:
        name: As tensorflow-datasets has it, with its configuration if there are several:
            "fashion_mnist", "glue/sst2".
        options: Of the recipe's table.
        data_dir: Of tensorflow-datasets; None: its own default.
        batch_size: Of the batches of a stream.

    Raises:
        DatasetError: The data is missing or damaged, or has no such split or feature, or samples of
            different sizes.
    """
    where = f"dataset.name: tfds:{name}"
    accepted = f"{name}/ as tensorflow-datasets prepares it"
    if options.streams:
        builder = tfds.open_builder(name, data_dir, _HOST, accepted, has_stand_in=False)
        training = _stream_data(builder, options, batch_size)
        looked_at = _stream_data(builder, options, batch_size)
        source = f"tfds {builder.info.full_name}, {builder.data_dir}, streamed"
        splits = splits_of_batches(training, looked_at, batch_size, source=source, where=where)
        num_validated = builder.info.splits[options.validation].num_examples
        splits = dataclasses.replace(
            splits,
            validation=dataclasses.replace(splits.validation, num_samples=num_validated),
            notes=(_STREAMED,),
        )
        num_classes = _count_classes(builder, options)
    else:
        loaded = tfds.load(
            name,
            data_dir,
            splits=(options.train, options.validation),
            host=_HOST,
            accepted=accepted,
            decode=functools.partial(_decode, options=options),
            variant=json.dumps(to_plain(options)),
            has_stand_in=False,
        )
        train = loaded.splits[options.train]
        validation = loaded.splits[options.validation]
        data = FitData(
            training=(train.inputs, train.targets, None),
            validation=(validation.inputs, validation.targets, None),
        )
        splits = splits_of(data, source=loaded.source, where=where)
        splits = dataclasses.replace(splits, cache=loaded.cache)
        num_classes = loaded.num_classes
    dtype: Any = str(splits.train.inputs.dtype)
    spec = dataclasses.replace(
        splits.spec,
        validation_samples=splits.validation.num_samples,
        input_dtype=dtype,
        num_classes=num_classes,
        input_scale=1 / 255 if dtype == "uint8" else 1.0,
        is_structured=False,
    )
    return dataclasses.replace(splits, spec=spec)


def _decode(builder: Any, splits: tuple[str, ...], *, options: TfdsOptions) -> LoadedSplits:
    decoded = {split: _decode_split(builder, split, options) for split in splits}
    return LoadedSplits(splits=decoded, num_classes=_count_classes(builder, options))


def _decode_split(builder: Any, split: str, options: TfdsOptions) -> Split:
    import tensorflow_datasets

    input_name, target_name = _find_features(builder, split, options)
    samples = builder.as_dataset(split=split, shuffle_files=False)
    pairs = samples.map(lambda sample: (sample[input_name], sample[target_name]))
    ((inputs, targets),) = tensorflow_datasets.as_numpy(pairs.batch(len(pairs)))
    if inputs.dtype == object:
        inputs = _encode(inputs, options.length)
    return Split(
        inputs=copy_aligned(inputs), targets=copy_aligned(targets), num_samples=len(inputs)
    )


def _stream_data(builder: Any, options: TfdsOptions, batch_size: int) -> FitData:
    """Returns full training batches, in a new order for each epoch, and all of the validation."""
    samples = _stream(builder, options.train, options).shuffle(_SHUFFLED)
    return FitData(
        training=samples.batch(batch_size, drop_remainder=True).prefetch(_BATCHES_AHEAD),
        validation=_stream(builder, options.validation, options).batch(batch_size),
    )


def _stream(builder: Any, split: str, options: TfdsOptions) -> Any:
    """Returns the samples of a split as they are fed, with images scaled to 0..1."""
    import tensorflow as tf

    input_name, target_name = _find_features(builder, split, options)

    def read(sample: Any) -> Any:
        value = sample[input_name]
        target = sample[target_name]
        if value.dtype == tf.string:
            numbers = tf.io.decode_raw(value, tf.uint8, fixed_length=options.length)
            return tf.cast(numbers, tf.int32), target
        if value.dtype == tf.uint8:
            value = tf.cast(value, tf.float32) / 255
        elif value.dtype.is_floating:
            value = tf.cast(value, tf.float32)
        return value, target

    # An ordered set refuses to be read file by file in another order.
    is_shuffled = split == options.train and not builder.info.disable_shuffling
    samples = builder.as_dataset(split=split, shuffle_files=is_shuffled)
    return samples.map(read, num_parallel_calls=tf.data.AUTOTUNE)


def _count_classes(builder: Any, options: TfdsOptions) -> int | None:
    """Returns the number of classes of the target; None: it is a value."""
    _, target_name = _find_features(builder, options.train, options)
    num_classes: int | None = getattr(builder.info.features[target_name], "num_classes", None)
    return num_classes


def _find_features(builder: Any, split: str, options: TfdsOptions) -> tuple[str, str]:
    """Returns the names of the input and of the target of a split's samples.

    Raises:
        DatasetError: There is no such split, or it is empty; or there is no such feature, or it is
            not one array of a fixed size; or the target is neither a label nor a float.
    """
    info = builder.info
    where = f"data set tfds:{info.name}"
    try:
        num_samples = info.splits[split].num_examples
    except Exception as error:  # tensorflow-datasets raises several
        raise DatasetError(
            f"{where}: there is no split {split}, but {', '.join(info.splits)}. Use --set"
            ' "dataset.train=train[:80%]" --set "dataset.validation=train[80%:]".'
        ) from error
    if not num_samples:
        raise DatasetError(f"{where}: split {split} holds no sample. Take a larger part.")
    suggested_input, suggested_target, *_ = info.supervised_keys or ("", "")
    features = dict(info.features.items())
    # A data set may suggest several features, in a dict.
    input_name = str(options.input or suggested_input)
    target_name = str(options.target or suggested_target)
    for name in (input_name, target_name):
        feature = features.get(name)
        if feature is None or not isinstance(feature.shape, tuple):
            raise DatasetError(
                f"{where}: its input and target must be one feature each. It has"
                f" {', '.join(features)}. Name two of them: --set dataset.input=NAME --set"
                f" dataset.target=NAME. {_OTHERWISE}"
            )
        if None in feature.shape:
            raise DatasetError(
                f"{where}: samples of {name} have different sizes, {feature.shape}. {_OTHERWISE}"
            )
    target = features[target_name]
    is_label = hasattr(target, "num_classes")
    if not is_label and not np.issubdtype(target.np_dtype, np.floating):
        raise DatasetError(
            f"{where}: {target_name} is neither a label of known classes nor a float. {_OTHERWISE}"
        )
    return input_name, target_name


def _encode(texts: Array, length: int) -> Array:
    """Returns the numbers of the first bytes of texts, and zeros after their ends."""
    encoded = np.zeros((len(texts), length), np.int32)
    for row, text in zip(encoded, texts, strict=True):
        numbers = np.frombuffer(text[:length], np.uint8)
        row[: len(numbers)] = numbers
    return encoded
