"""Reads a classification data set that tensorflow-datasets has prepared, or has it fetched."""

import os
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tfbench.errors import DatasetError
from tfbench.results import DatasetSpec
from tfbench.splits import Split, Splits, is_plausible

REACH_SECONDS = 8  # for the publisher's host to answer anything at all


def load_tfds(
    name: str,
    spec: DatasetSpec,
    data_dir: str | None,
    *,
    splits: tuple[str, str],
    host: str,
) -> Splits:
    """Loads two splits of a tfds data set whole, in their stored type.

    Prepared data is looked for first, in `data_dir` or in tfds's own default folder. Only if there is none is the
    publisher asked.

    Args:
        name: tfds's name of the data set.
        spec: What the data must look like.
        data_dir: tfds's folder, or None for its default.
        splits: Names of the training and of the validation split.
        host: Address asked before a download is begun, since tfds itself would retry for minutes in silence.

    Raises:
        DatasetError: The folder does not exist, the data is missing and cannot be fetched, or it is damaged.
    """
    import tensorflow_datasets as tfds

    tfds.disable_progress_bar()
    if data_dir is not None and not Path(data_dir).is_dir():
        raise DatasetError(f"data set {name}: the folder {data_dir} does not exist. {_ways_out(name)}")
    try:
        builder = tfds.builder(name, data_dir=data_dir)
        is_prepared = builder.is_prepared()
    except Exception as error:  # tfds reads its own metadata files here and raises what it likes
        raise DatasetError(_damaged(name, data_dir or "tfds's default folder", error)) from error
    folder = str(builder.data_dir)
    if not is_prepared:
        _require_reachable(host, name, folder)
        try:
            builder.download_and_prepare()
        except Exception as error:  # network, disk, checksum: tfds and its dependencies raise all kinds
            raise DatasetError(
                f"data set {name}: could not be fetched into {folder}: {error}. {_ways_out(name)}"
            ) from error
    for split_name, wanted in zip(splits, (spec.train_samples, spec.validation_samples), strict=True):
        found = builder.info.splits[split_name].num_examples if split_name in builder.info.splits else 0
        if found != wanted:
            raise DatasetError(
                f"data set {name}: {folder}, split {split_name}: expected {wanted} samples, found {found}. "
                "Remove it and prepare it again."
            )
    train, validation = (_load_split(builder, name, folder, split) for split in splits)
    for split_name, split in zip(splits, (train, validation), strict=True):
        problem = is_plausible(split, spec)
        if problem:
            raise DatasetError(f"data set {name}: {folder}, split {split_name}: {problem}.")
    return Splits(
        spec=spec,
        train=train,
        validation=validation,
        source=f"tfds {name} {builder.info.version}, {Path(folder).parents[1]}",
    )


def _load_split(builder: Any, name: str, folder: str, split: str) -> Split:
    import tensorflow_datasets as tfds

    expected = builder.info.splits[split].num_examples
    try:
        arrays = tfds.as_numpy(builder.as_dataset(split=split, batch_size=-1, shuffle_files=False))
    except Exception as error:  # damaged records surface as TensorFlow errors of several kinds
        raise DatasetError(_damaged(name, f"{folder}, split {split}", error)) from error
    if len(arrays["image"]) != expected:
        found = len(arrays["image"])
        raise DatasetError(f"data set {name}: {folder}, split {split}: expected {expected} samples, found {found}.")
    return Split(inputs=arrays["image"], targets=arrays["label"], num_samples=expected)


def _require_reachable(host: str, name: str, folder: str) -> None:
    """Raises DatasetError within `REACH_SECONDS` if nothing answers at `host`; proxies of the environment are used."""
    answer: list[str | None] = []

    def ask() -> None:
        try:
            urllib.request.urlopen(host, timeout=REACH_SECONDS).close()  # noqa: S310 - a constant https address
        except urllib.error.HTTPError:
            answer.append(None)  # any answer is an answer
        except OSError as error:
            answer.append(str(getattr(error, "reason", error)))
        else:
            answer.append(None)

    # A thread, because name resolution knows no time-out.
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(REACH_SECONDS)
    problem = answer[0] if answer else f"no answer within {REACH_SECONDS} s"
    if problem:
        raise DatasetError(
            f"data set {name}: not found in {folder}, and it cannot be fetched: {host}: {problem}. {_ways_out(name)}"
        )


def _ways_out(name: str) -> str:
    return (
        f"Name the folder that holds {name}/ as prepared by tensorflow-datasets with --data-dir or TFBENCH_DATA_DIR, "
        "or measure without it: --data synthetic."
    )


def _damaged(name: str, where: str, error: BaseException) -> str:
    first_line = str(error).strip().partition(os.linesep)[0][:300]
    return (
        f"data set {name}: {where} is damaged ({type(error).__name__}: {first_line}). Remove it and prepare it again."
    )
