"""Types of keys that are no fixed words, and of bands: of what a recipe expects, cites and varies."""

import functools
import re
from typing import Annotated, Any

import pydantic

from tfbench.schema import NonNegativeNumber, Number
from tfbench.wording import shorten

THREADS = "threads"  # in a sweep, stands for both thread settings of [training]
VARIABLE_SECTIONS = ("model", "dataset", "training", "measurement")  # the distribution is what a sweep's arms are for
Accuracy = Annotated[Number, pydantic.Field(ge=0, le=1)]
_EPOCH = "^[1-9][0-9]{0,6}$"
_DIRECTION = "^(forward|backward)/.+$"
_VARIED = rf"^({'|'.join(VARIABLE_SECTIONS)})\..+$|^{THREADS}$"


def _require(pattern: str, wanted: str, text: str) -> str:
    if not re.search(pattern, text):
        raise ValueError(f"must be {wanted}. Received: '{shorten(text)}'.")
    return text


def _require_band(value: Any) -> Any:
    is_pair = isinstance(value, list | tuple) and len(value) == 2
    if not is_pair or (all(isinstance(number, int | float) for number in value) and value[0] > value[1]):
        raise ValueError(f"must be [lowest, highest]. Received: {shorten(repr(value))}.")
    return value


# The keys of TOML and JSON are strings.
EpochKey = Annotated[
    str,
    pydantic.AfterValidator(functools.partial(_require, _EPOCH, "the number of an epoch, from 1 on")),
    pydantic.WithJsonSchema({"type": "string", "pattern": _EPOCH}),
]
DirectionKey = Annotated[
    str,
    pydantic.AfterValidator(functools.partial(_require, _DIRECTION, "forward/LAYER or backward/LAYER")),
    pydantic.WithJsonSchema({"type": "string", "pattern": _DIRECTION}),
]
VariedKey = Annotated[
    str,
    pydantic.AfterValidator(
        functools.partial(
            _require,
            _VARIED,
            f"a key of {', '.join(VARIABLE_SECTIONS)}, in quotes, or {THREADS}; for example training.global_batch_size",
        )
    ),
    pydantic.WithJsonSchema({"type": "string", "pattern": _VARIED}),
]
AccuracyBand = Annotated[tuple[Accuracy, Accuracy], pydantic.BeforeValidator(_require_band)]
LossBand = Annotated[tuple[NonNegativeNumber, NonNegativeNumber], pydantic.BeforeValidator(_require_band)]
