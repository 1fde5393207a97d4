"""Whole splits of a data set, as they were found in one of the forms in which it is published; or what is damaged."""

import contextlib
import dataclasses
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from tfbench.datasets.sources.splits import Split, Splits, is_plausible, mean_of
from tfbench.errors import DatasetError
from tfbench.recipe.dataset_spec import DatasetSpec


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """Splits by name, each with all of its samples in arrays."""

    splits: Mapping[str, Split]
    source: str  # for people
    where: str  # in messages
    remedy: str = "Fetch it again."  # where it is not what it should be
    cache: str = ""  # what came of the cache

    def require(self, spec: DatasetSpec, counts: Mapping[str, int | None]) -> None:
        """Checks samples, labels and numbers of splits; None: as many as there are.

        Raises:
            DatasetError: Naming the split, and what is wrong with it.
        """
        for name, count in counts.items():
            split = self.splits[name]
            problem = is_plausible(split, spec)
            if problem is None and count not in (None, split.num_samples):
                problem = f"expected {count:,} samples, found {split.num_samples:,}"
            if problem:
                raise DatasetError(f"{self.where}, split {name}: {problem}. {self.remedy}")

    def train_and_test(self, spec: DatasetSpec) -> Splits:
        """Returns the splits "train" and "test", the latter for validation; the mean is of the former.

        Raises:
            DatasetError: They are not what the description says.
        """
        self.require(spec, {"train": spec.train_samples, "test": spec.validation_samples})
        train, test = self.splits["train"], self.splits["test"]
        mean = mean_of(train.inputs, spec)
        return Splits(spec=spec, train=train, validation=test, source=self.source, mean=mean, cache=self.cache)


@contextlib.contextmanager
def reading(path: Path, expected: str, remedy: str = "Fetch it again.") -> Iterator[None]:
    """Turns whatever is raised into a message.

    Args:
        path: What is read.
        expected: What it should be: "an IDX file".
        remedy: What to do.

    Raises:
        DatasetError: Something was raised.
    """
    try:
        yield
    except DatasetError:
        raise
    except Exception as error:  # readers of damaged files raise what their parsers do
        text = re.sub(r"\{\{.*?\}\} ?|\[Op:.*", "", str(error))  # TensorFlow's names of nodes
        reason = (text.strip().splitlines() or [""])[0][:200].strip() or type(error).__name__
        raise DatasetError(f"{path}: cannot be read as {expected} ({reason}). {remedy}") from error
