"""What is known of a data set without loading it."""

from typing import Literal

from tfbench.schema import schema


@schema
class DatasetSpec:
    """Shapes and sizes of a data set, known without loading it."""

    input_shape: tuple[int, ...]
    input_dtype: Literal["uint8", "float32"]
    target_shape: tuple[int, ...]
    num_classes: int | None  # None: regression
    train_samples: int
    validation_samples: int
    input_scale: float = 1.0  # inputs are multiplied by this once they are float32 and their mean is subtracted
    mean: Literal["none", "image", "channel"] = "none"  # of the training samples; one a pixel, or one a channel
    # Shape as stored, where the model sees a crop: a random one in training, the centre otherwise.
    stored_shape: tuple[int, ...] | None = None
    mirrors: bool = False  # training images are turned left to right, one in two
    views: Literal[1, 9, 10] = 1  # crops whose probabilities are averaged in an evaluation after the training
    shuffled: bool = True  # False: training samples come in their order, batch after batch
    drawn: bool = False  # True: training samples are drawn with replacement; an epoch has some twice and some never
    num_rows: int | None = None  # of a batch, where each goes on in the next one: the order needs batches of this size
    test_samples: int = 0  # of a third split, evaluated once after the training
    per_replica_batch_size: int | None = None  # for a model that must know it when it is built
