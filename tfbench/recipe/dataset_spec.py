"""What is known of a data set without loading it, and what a recipe chooses of one of tfds."""

import math
from typing import Any, Literal

from tfbench.schema import Count, Flag, Text, schema

Shape = tuple[int, ...]


@schema
class DatasetSpec:
    """Shapes and sizes of a data set, known without loading it."""

    # Of structured data with several inputs, a shape for each, in the same dicts and tuples.
    input_shape: Any
    input_dtype: Literal["uint8", "float32", "int32", "int64"] = "float32"
    target_shape: Any = ()
    num_classes: int | None = None  # None: regression
    train_samples: int
    validation_samples: int
    # inputs are multiplied by this once they are float32 and their mean is subtracted
    input_scale: float = 1.0
    # of the training samples; one a pixel, or one a channel
    mean: Literal["none", "image", "channel"] = "none"
    # Shape as stored, where the model sees a crop: a random one in training, the centre otherwise.
    stored_shape: Shape | None = None
    mirrors: bool = False  # training images are turned left to right, one in two
    # crops whose probabilities are averaged in an evaluation after the training
    views: Literal[1, 9, 10] = 1
    shuffled: bool = True  # False: training samples come in their order, batch after batch
    # True: training samples are drawn with replacement; an epoch has some twice and some never
    drawn: bool = False
    # of a batch, where each goes on in the next one: the order needs batches of this size
    num_rows: int | None = None
    test_samples: int = 0  # of a third split, evaluated once after the training
    per_replica_batch_size: int | None = None  # for a model that must know it when it is built
    num_replicas: int = 1  # as that is known
    # Arrays in dicts and tuples, with weights, or several labels a sample: for a network that comes
    # compiled.
    is_structured: bool = False

    @property
    def sample_shape(self) -> Shape:
        """Shape of a sample as it is stored."""
        return self.stored_shape or self.input_shape

    @property
    def num_outputs(self) -> int:
        """Outputs of a network's last layer: a logit per class, or one value."""
        return self.num_classes or 1

    @property
    def output_shape(self) -> Shape:
        """What a network without a loss of its own gives for a sample: logits, or values."""
        if self.num_classes is None:
            return self.target_shape or (1,)
        if self.tokens_per_sample:
            return (*self.target_shape, self.num_classes)
        return (self.num_classes,)

    @property
    def tokens_per_sample(self) -> int:
        """Labels of a sample that has one for each of its steps, as a text has; else 0."""
        if self.num_classes is None or self.target_shape in ((), (1,)):
            return 0
        return math.prod(self.target_shape)

    @property
    def is_fed_as_stored(self) -> bool:
        """Whether inputs stay as they are, as numbers of words: float32 has 2^24 integers."""
        return self.is_structured or self.input_dtype in ("int32", "int64")


@schema
class TfdsOptions:
    """Which of its splits and features are used."""

    train: Text = "train"
    """Split to train with, as tensorflow-datasets writes it."""
    validation: Text = "test"
    """Split to validate with."""
    input: Text | None = None
    """Feature that the network gets.

    Not set: the one that the data set names, as for `target`.
    """
    target: Text | None = None
    """Feature that it learns."""
    length: Count = 256
    """Bytes of a text: more are cut off, zeros fill up."""
    streams: Flag = False
    """Whether it is read anew in each epoch, as one must be that is larger than the memory."""
