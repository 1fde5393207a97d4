"""What is known of a data set without loading it."""

import math
from typing import Literal

from tfbench.schema import schema


@schema
class DatasetSpec:
    """Shapes and sizes of a data set, known without loading it."""

    input_shape: tuple[int, ...]
    input_dtype: Literal["uint8", "float32", "int32", "int64"] = "float32"
    target_shape: tuple[int, ...] = ()
    num_classes: int | None = None  # None: regression
    train_samples: int
    validation_samples: int
    # inputs are multiplied by this once they are float32 and their mean is subtracted
    input_scale: float = 1.0
    # of the training samples; one a pixel, or one a channel
    mean: Literal["none", "image", "channel"] = "none"
    # Shape as stored, where the model sees a crop: a random one in training, the centre otherwise.
    stored_shape: tuple[int, ...] | None = None
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
    # Arrays in dicts and tuples, with weights, or several labels a sample: for a network that comes
    # compiled. The shapes above are empty then.
    is_structured: bool = False

    @property
    def output_shape(self) -> tuple[int, ...]:
        """What a network without a loss of its own gives for a sample.

        A logit a class, or the values.
        """
        if self.num_classes is None:
            return self.target_shape or (1,)
        return (*(self.target_shape if self.tokens_per_sample else ()), self.num_classes)

    @property
    def tokens_per_sample(self) -> int:
        """Labels of a sample that has one for each of its steps, as a text has; else 0."""
        has_steps = self.num_classes is not None and self.target_shape not in ((), (1,))
        return math.prod(self.target_shape) if has_steps else 0

    @property
    def is_fed_as_stored(self) -> bool:
        """Whether inputs are not made float32.

        Numbers of words, for one, of which float32 has 2^24.
        """
        return self.is_structured or self.input_dtype in ("int32", "int64")
