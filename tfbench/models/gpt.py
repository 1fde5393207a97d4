"""Decoder-only transformer: predicts the next token at each position of a text."""

from typing import Any

from tfbench.errors import RecipeError
from tfbench.models.custom_layers.transformer import (
    TransformerConfig,
    add_blocks,
    add_positions,
    embed,
)
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.schema import schema


@schema
class Config(TransformerConfig):
    """Size of the transformer; the data has the length of its context."""


def build_model(config: Config, spec: DatasetSpec) -> Any:
    """Builds embedding of each token -> positions -> causal blocks -> dense.

    Input shape: (batch, context), int32. Output shape: (batch, context, num_classes), logits.
    Source: GPT-2 (Radford et al. 2019), without dropout; the last layer has weights of its own, and
    a bias.

    Raises:
        RecipeError: The data is no text.
    """
    import keras

    if not spec.tokens_per_sample or not spec.is_fed_as_stored or spec.num_classes is None:
        raise RecipeError(
            "model gpt: needs tokens, and a label for each of them. Use --set dataset.name=text."
        )
    inputs = keras.Input(spec.input_shape, dtype="int32")
    x = embed(inputs, spec.num_classes, config.width, name="token")
    x = add_blocks(add_positions(x), config, is_causal=True)
    outputs = keras.layers.Dense(spec.num_classes, name="logits")(x)
    return keras.Model(inputs, outputs, name="gpt")
