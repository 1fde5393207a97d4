"""Types of keys that are no fixed words, and of bands: of what a recipe expects, cites and varies."""

import re
from typing import TYPE_CHECKING, Annotated, Any

import pydantic

from tfbench.schema import NonNegativeNumber, Number
from tfbench.wording import shorten

THREADS = "threads"  # in a sweep, stands for both thread settings of [training]
VARIABLE_SECTIONS = ("model", "dataset", "training", "measurement")  # the distribution is what a sweep's setups are for
Accuracy = Annotated[Number, pydantic.Field(ge=0, le=1)]


def _key(pattern: str, wanted: str) -> Any:
    """Returns the type of a table's keys, which are strings in TOML and JSON, and match a pattern."""

    def require(text: str) -> str:
        if not re.search(pattern, text):
            raise ValueError(f"must be {wanted}. Received: '{shorten(text)}'.")
        return text

    return Annotated[
        str, pydantic.AfterValidator(require), pydantic.WithJsonSchema({"type": "string", "pattern": pattern})
    ]


def _require_band(value: Any) -> Any:
    is_pair = isinstance(value, list | tuple) and len(value) == 2
    if not is_pair or (all(isinstance(number, int | float) for number in value) and value[0] > value[1]):
        raise ValueError(f"must be [lowest, highest]. Received: {shorten(repr(value))}.")
    return value


if TYPE_CHECKING:
    EpochKey = str
    DirectionKey = str
    VariedKey = str
else:
    EpochKey = _key("^[1-9][0-9]{0,6}$", "the number of an epoch, from 1 on")
    DirectionKey = _key("^(forward|backward)/.+$", "forward/LAYER or backward/LAYER")
    VariedKey = _key(
        rf"^({'|'.join(VARIABLE_SECTIONS)})\..+$|^{THREADS}$",
        f"a key of {', '.join(VARIABLE_SECTIONS)}, in quotes, or {THREADS}; for example training.global_batch_size",
    )
AccuracyBand = Annotated[tuple[Accuracy, Accuracy], pydantic.BeforeValidator(_require_band)]
LossBand = Annotated[tuple[NonNegativeNumber, NonNegativeNumber], pydantic.BeforeValidator(_require_band)]
