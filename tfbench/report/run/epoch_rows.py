"""Which epochs of a run have a row in the table that the console shows."""

from tfbench.records.run import EpochRecord

# A table of epochs is long from here on: the first and the last of them are shown, every tenth, and one a minute.
_LONG_TABLE = 16
_NUM_ENDS = 3
_STRIDE = 10
_MAX_SILENCE_SECONDS = 60.0


class EpochRows:
    """Chooses the rows of a table of epochs that may be long, as the epochs end.

    Args:
        is_whole: Whether every epoch has its row.
    """

    def __init__(self, *, is_whole: bool) -> None:
        self.num_epochs: int | None = None  # None: not known
        self._is_whole = is_whole
        self._num_shown = 0
        self._shown: EpochRecord | None = None
        self._left_out: list[EpochRecord] = []

    def take(self, epoch: EpochRecord) -> list[EpochRecord | None]:
        """Returns what is to be shown now that an epoch is over: nothing, or its row, after None for a gap."""
        total = self.num_epochs or 0
        since = epoch.elapsed_seconds - (self._shown.elapsed_seconds if self._shown else 0.0)
        if not (
            self._is_whole
            or 0 < total <= _LONG_TABLE
            or self._num_shown < _NUM_ENDS
            or epoch.epoch > total - _NUM_ENDS > 0
            or epoch.epoch % _STRIDE == 0
            or since >= _MAX_SILENCE_SECONDS
        ):
            self._left_out.append(epoch)
            return []
        return self._show([epoch], num_left_out=len(self._left_out))

    def last(self) -> list[EpochRecord | None]:
        """Returns the last epochs, as far as they were not shown."""
        return self._show(self._left_out[-_NUM_ENDS:], num_left_out=len(self._left_out[:-_NUM_ENDS]))

    def _show(self, epochs: list[EpochRecord], *, num_left_out: int) -> list[EpochRecord | None]:
        if num_left_out == 1:  # its row takes no more room than the mark of a gap
            epochs, num_left_out = [self._left_out[0], *epochs], 0
        self._left_out = []
        self._num_shown += len(epochs)
        self._shown = epochs[-1] if epochs else self._shown
        return [None, *epochs] if num_left_out else [*epochs]
