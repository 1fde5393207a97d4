"""What a recipe says of a data set that it names as in tensorflow-datasets."""

from tfbench.schema import Count, Flag, Text, schema


@schema
class Options:
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
