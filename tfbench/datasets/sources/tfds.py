"""Opens a classification data set that tensorflow-datasets has prepared, or has it fetched; streams its splits."""

import contextlib
import os
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tfbench.datasets.sources import tfrecords
from tfbench.datasets.sources.splits import RecordSplit
from tfbench.errors import DatasetError

REACH_SECONDS = 8  # for each address of the publisher's host to answer anything at all
NAME_FORM = "NAME or NAME/CONFIG, either with :VERSION, such as imagenet2012:5.1.0"
PREPARED, REMEDY = "data that tensorflow-datasets prepared", "Remove it and prepare it again."

_NAME = r"[A-Za-z]\w*(/[\w+.-]+)?(:[\d.*]+)?"


def open_tfds(name: str, data_dir: str | None, *, host: str | None, accepted: str | None = None) -> Any:
    """Returns the tfds builder of a data set that is prepared.

    Prepared data is looked for first, in `data_dir` or in tfds's own default folder. Only if there is none is the
    publisher asked.

    Args:
        name: tfds's name of the data set.
        data_dir: tfds's folder, or None for its default.
        host: Address asked before a download is begun, since tfds itself would retry for minutes in silence. None:
            nothing is fetched.
        accepted: What a folder may hold, for messages.

    Raises:
        DatasetError: The folder does not exist, or the data is missing and cannot be fetched, or its description is
            damaged.
    """
    ways_out = _ways_out(accepted or f"{name}/ as prepared by tensorflow-datasets")
    tfds = _import_tfds(name, ways_out)
    tfds.disable_progress_bar()
    if not is_local_name(name):
        raise DatasetError(f"data set {name}: must be {NAME_FORM}: what is prepared here, not a community's.")
    if data_dir is not None and not Path(data_dir).is_dir():
        raise DatasetError(f"data set {name}: the folder {data_dir} does not exist. {ways_out}")
    try:
        builder = tfds.builder(name, data_dir=data_dir)
        is_prepared = builder.is_prepared() and builder.info is not None  # which reads the description
    except tfds.core.registered.DatasetNotFoundError as error:
        raise DatasetError(f"data set {name}: tensorflow-datasets has none of this name. {ways_out}") from error
    except Exception as error:  # tfds reads its own metadata files here and raises what it likes
        raise DatasetError(_damaged(name, data_dir or "tfds's default folder", error)) from error
    folder = str(builder.data_dir)
    if not is_prepared:
        if host is None:
            raise DatasetError(f"data set {name}: not found in {folder}. {ways_out}")
        _require_reachable(host, name, folder, ways_out)
        try:
            builder.download_and_prepare()
        except Exception as error:  # network, disk, checksum: tfds and its dependencies raise all kinds
            raise DatasetError(f"data set {name}: could not be fetched into {folder}: {error}. {ways_out}") from error
    return builder


def _import_tfds(name: str, ways_out: str) -> Any:
    """Imports tensorflow-datasets, and keeps the TensorFlow that it reads with from the GPUs where that trains nothing.

    Raises:
        DatasetError: One of them is not installed.
    """
    try:
        import tensorflow as tf
        import tensorflow_datasets as tfds
    except ModuleNotFoundError as error:
        raise DatasetError(
            f"data set {name}: {error.name} is not installed, which reads what tensorflow-datasets prepared. {ways_out}"
        ) from error
    if os.environ.get("KERAS_BACKEND", "tensorflow") != "tensorflow":
        tf.config.set_visible_devices([], "GPU")  # it would take all of their memory
    return tfds


def is_local_name(name: str) -> bool:
    """Says whether a name stands for data prepared here; "community:name" would have tfds fetch code for it.

    Its further arguments, as in "mnist/data_dir=gs://...", are no part of a name either.
    """
    return re.fullmatch(_NAME, name) is not None


def count_samples(builder: Any, split: str) -> int:
    """Returns how many samples a split of prepared data has; 0 if there is no such split."""
    return int(builder.info.splits[split].num_examples) if split in builder.info.splits else 0


def require_features(builder: Any, names: tuple[str, ...]) -> None:
    """Raises DatasetError unless the samples of prepared data have these parts."""
    features = builder.info.features
    found = list(features) if hasattr(features, "keys") else [type(features).__name__]
    if not set(names) <= set(found):
        raise DatasetError(
            f"data set {builder.name}: {builder.data_dir}: expected the features {', '.join(names)}; "
            f"found {', '.join(found)}."
        )


def count_classes(builder: Any) -> int:
    """Returns how many classes the labels of prepared data are of.

    Raises:
        DatasetError: Images or labels are missing, or the labels are of no classes.
    """
    require_features(builder, ("image", "label"))
    label = builder.info.features["label"]
    if not getattr(label, "num_classes", None):
        raise DatasetError(
            f"data set {builder.name}: {builder.data_dir}: expected labels of classes; found {type(label).__name__}."
        )
    return int(label.num_classes)


def stream_split(builder: Any, split: str, read: Callable[[Any, Any], Any]) -> RecordSplit:
    """Returns a split of images and labels that is read as it is used, never whole.

    Args:
        builder: Of prepared data whose features are "image" and "label".
        split: Its name.
        read: Turns the name and the bytes of an image file into a sample, in TensorFlow's graph.

    Raises:
        DatasetError: A file is missing, empty or cut off, or the first sample cannot be read.
    """
    import tensorflow_datasets as tfds

    config = tfds.ReadConfig(try_autocache=False, add_tfds_id=True)
    with damage_told(builder, split):
        files = require_files(builder, split)
        records = builder.as_dataset(
            split=split, shuffle_files=False, read_config=config, decoders={"image": tfds.decode.SkipDecoding()}
        ).map(lambda record: (record["tfds_id"], record["image"], record["label"]))
        for _ in records.take(1).map(lambda name, contents, label: (read(name, contents), label)):
            pass
    return RecordSplit(records=records, num_samples=count_samples(builder, split), read=read, files=files)


def describe_source(builder: Any) -> str:
    """Returns what prepared data is and where, for people."""
    full_name = builder.info.full_name
    return describe(full_name, Path(builder.data_dir).parents[full_name.count("/")])


def describe(full_name: str, root: Path) -> str:
    """Returns what prepared data is and where, for people.

    Args:
        full_name: name/version, or name/config/version: folders in tfds's own.
        root: tfds's own.
    """
    name, _, version = full_name.rpartition("/")
    return f"tfds {name} {version}, {root}"


def _require_reachable(host: str, name: str, folder: str, ways_out: str) -> None:
    """Raises DatasetError unless something answers at `host`; proxies of the environment are used."""
    try:
        urllib.request.urlopen(host, timeout=REACH_SECONDS).close()  # noqa: S310 - a constant https address
    except urllib.error.HTTPError:  # any answer is an answer
        pass
    except OSError as error:
        raise DatasetError(
            f"data set {name}: not found in {folder}, and it cannot be fetched: {host}: "
            f"{getattr(error, 'reason', error)}. {ways_out}"
        ) from error


def _ways_out(accepted: str) -> str:
    return (
        f"Name the folder that holds {accepted} with --data-dir or TFBENCH_DATA_DIR, "
        "or measure without it: --data synthetic."
    )


@contextlib.contextmanager
def damage_told(builder: Any, split: str) -> Iterator[None]:
    """Turns whatever reading a split raises into a message that names data set, file and remedy.

    Raises:
        DatasetError: It was raised.
    """
    try:
        yield
    except Exception as error:  # damaged records surface as TensorFlow errors of several kinds, tfds adds its own
        try:
            files = list_files(builder, split)
        except ValueError:  # the description has no names for them
            files = ()
        reason = str(error) if isinstance(error, DatasetError) else tfrecords.explain(error, files)
        raise DatasetError(f"data set {builder.name}: {builder.data_dir}, split {split}: {reason}. {REMEDY}") from error


def list_files(builder: Any, split: str) -> tuple[str, ...]:
    """Returns the files of records of a split."""
    return tuple(str(path) for path in builder.info.splits[split].filepaths)


def require_files(builder: Any, split: str) -> tuple[str, ...]:
    """Returns the files of records of a split, once they are all there and none is too short for what it should hold.

    Raises:
        DatasetError: One is not.
    """
    files = list_files(builder, split)
    if problem := tfrecords.find_unusable(files, builder.info.splits[split].num_bytes):
        raise DatasetError(problem)
    return files


def _damaged(name: str, where: str, error: Exception) -> str:
    reason = f"{type(error).__name__}: {tfrecords.explain(error, ())}"
    return f"data set {name}: {where} is damaged ({reason}). {REMEDY}"
