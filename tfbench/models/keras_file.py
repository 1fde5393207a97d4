"""A network of your own, saved by Keras: [model] file = "net.keras"."""

import warnings
import zipfile
from pathlib import Path
from typing import Any

from tfbench.errors import Notice, RecipeError
from tfbench.models.structure import foreign_model
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.recipe.files import describe_other_format
from tfbench.schema import Flag, Text, schema


@schema
class Config:
    """Which file."""

    file: Text
    """Path of the file.

    In a recipe file relative to that file, on the command line to the current folder.
    """
    compiled: Flag = True
    """Whether a network that was saved compiled trains with its own optimizer, loss and metrics.

    Otherwise, and if it was not compiled, it trains as the recipe does.
    """

    def __post_init__(self) -> None:
        if problem := describe_other_format(Path(self.file)):
            raise ValueError(f"file {self.file}: {problem}")
        if not self.file.endswith(".keras"):
            raise ValueError(
                f"file must end in .keras: other formats can hold code. Received: {self.file}. "
                'model.save("net.keras") writes one.'
            )


def build_model(config: Config, spec: DatasetSpec) -> Any:
    """Loads the network, with the weights in the file: training goes on from them.

    Nothing in the file is run: Keras loads it in its safe mode, which rejects layers that hold
    code.

    Input shape: (batch, *input_shape), float32.
    Output shape: (batch, num_classes), logits or probabilities.

    Raises:
        RecipeError: The file cannot be read, holds code, or does not fit the data.
    """
    where = f"model.file: {config.file}"
    path = Path(config.file)
    try:
        digest = foreign_model.digest_of(path)
    except OSError as error:
        raise RecipeError(f"{where}: cannot be read: {error.strerror}.") from error
    if not zipfile.is_zipfile(path):
        raise RecipeError(f'{where}: is damaged, or no file as model.save("net.keras") writes it.')
    loaded = _load(path, where, compiled=config.compiled)
    model = foreign_model.fit_to_data(loaded, spec, where)
    foreign_model.require_precision(model, where)
    warnings.warn(
        f"{path.name} (SHA-256 {digest}) brings its weights along: training starts from them, not"
        " from training.seed.",
        Notice,
        stacklevel=2,
    )
    return model


def _load(path: Path, where: str, *, compiled: bool) -> Any:
    import keras

    foreign_model.register_layers()
    try:
        with warnings.catch_warnings():
            # Of an optimizer that never trained.
            warnings.filterwarnings("ignore", "Skipping variable loading for optimizer")
            return keras.saving.load_model(path, compile=compiled, safe_mode=True)
    except Exception as error:
        # A damaged file, or one from another version, can fail anywhere in Keras or h5py.
        raise RecipeError(
            f"{where}: cannot be loaded by Keras {keras.__version__}: {type(error).__name__}: "
            f"{foreign_model.reason_of(error)} "
            'A network with layers of your own is built by a function: name = "module:function".'
        ) from error
