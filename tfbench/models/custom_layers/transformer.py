"""What transformers are made of: sizes, positions, and blocks of attention and MLP."""

from typing import Annotated, Any

import pydantic

from tfbench.schema import Count, Width, schema


@schema
class TransformerConfig:
    """Sizes of a transformer."""

    width: Width = 128
    """Values that each position has between the blocks; a multiple of `num_heads`."""
    depth: Annotated[Count, pydantic.Field(le=1000)] = 4
    """Blocks, each of attention and MLP."""
    num_heads: Width = 4
    """Heads of the attention, which share the width."""
    mlp_ratio: Annotated[Count, pydantic.Field(le=64)] = 4
    """Width of the hidden layer of an MLP, as a multiple of `width`."""

    def __post_init__(self) -> None:
        if self.width % self.num_heads:
            raise ValueError(
                f"width must be a multiple of num_heads. Received: {self.width} with"
                f" {self.num_heads} heads."
            )


def embed(numbers: Any, count: int, width: int, *, name: str) -> Any:
    """Returns a learned vector for each number below `count`.

    The regularizer adds nothing. With it, TensorFlow's gradient is a whole matrix, as on the other
    backends. Without it, Keras's Adam squares the gradients of a row that is used twice before it
    adds them, and not their sum.
    """
    from keras import layers, regularizers

    regularizer = regularizers.L2(0.0)
    return layers.Embedding(count, width, embeddings_regularizer=regularizer, name=name)(numbers)


def add_positions(x: Any) -> Any:
    """Adds a learned vector for each position to (batch, positions, width)."""
    from keras import layers, ops

    _, num_positions, width = x.shape
    numbers = ops.cumsum(ops.ones_like(x[:, :, 0], dtype="int32"), axis=1) - 1
    positions = embed(numbers, num_positions, width, name="position")
    return layers.Add(name="position_add")([x, positions])


def add_blocks(x: Any, config: TransformerConfig, *, is_causal: bool) -> Any:
    """Adds the blocks and a last normalization to (batch, positions, width).

    A block is x + attention(norm(x)), then x + MLP(norm(x)), with GELU within the MLP.

    Source: GPT-2 (Radford et al. 2019) and ViT (Dosovitskiy et al. 2021), which normalise alike.

    Args:
        x: What the first block gets.
        config: Sizes.
        is_causal: Whether a position sees only itself and those before it.
    """
    from keras import layers

    for number in range(1, config.depth + 1):
        name = f"block{number}"
        normed = _add_norm(x, f"{name}_norm1")
        attention = layers.MultiHeadAttention(
            config.num_heads, config.width // config.num_heads, name=f"{name}_attention"
        )
        attended = attention(normed, normed, use_causal_mask=is_causal)
        x = layers.Add(name=f"{name}_add1")([x, attended])
        y = _add_norm(x, f"{name}_norm2")
        y = layers.Dense(config.mlp_ratio * config.width, activation="gelu", name=f"{name}_mlp1")(y)
        y = layers.Dense(config.width, name=f"{name}_mlp2")(y)
        x = layers.Add(name=f"{name}_add2")([x, y])
    return _add_norm(x, "norm")


def _add_norm(x: Any, name: str) -> Any:
    from keras import layers

    return layers.LayerNormalization(epsilon=1e-5, name=name)(x)
