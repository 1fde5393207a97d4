"""Types of what a recipe expects and cites: bands of accuracy and loss, by epoch, and times, by direction and layer."""

import re
from typing import Annotated, Any

import pydantic

from tfbench.schema import NonNegativeNumber, Number
from tfbench.wording import shorten

Accuracy = Annotated[Number, pydantic.Field(ge=0, le=1)]
_EPOCH = "[1-9][0-9]{0,6}"
_DIRECTION = "(forward|backward)/.+"


def _require_epoch(text: str) -> str:
    if not re.fullmatch(_EPOCH, text):
        raise ValueError(f"must be the number of an epoch, from 1 on. Received: '{shorten(text)}'.")
    return text


def _require_band(value: Any) -> Any:
    is_pair = isinstance(value, list | tuple) and len(value) == 2
    if not is_pair or (all(isinstance(number, int | float) for number in value) and value[0] > value[1]):
        raise ValueError(f"must be [lowest, highest]. Received: {shorten(repr(value))}.")
    return value


def _require_direction(text: str) -> str:
    if not re.fullmatch(_DIRECTION, text):
        raise ValueError(f"must be forward/LAYER or backward/LAYER. Received: '{shorten(text)}'.")
    return text


# The keys of TOML and JSON are strings.
EpochKey = Annotated[
    str, pydantic.AfterValidator(_require_epoch), pydantic.WithJsonSchema({"type": "string", "pattern": f"^{_EPOCH}$"})
]
AccuracyBand = Annotated[tuple[Accuracy, Accuracy], pydantic.BeforeValidator(_require_band)]
DirectionKey = Annotated[
    str,
    pydantic.AfterValidator(_require_direction),
    pydantic.WithJsonSchema({"type": "string", "pattern": f"^{_DIRECTION}$"}),
]
LossBand = Annotated[tuple[NonNegativeNumber, NonNegativeNumber], pydantic.BeforeValidator(_require_band)]
