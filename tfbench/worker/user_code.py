"""Networks and data from functions of the user's own: "my_package.nets:build_model".

They are imported in the measuring process alone, and only where the user allowed it: a recipe from someone else must
not run code unasked.
"""

import contextlib
import hashlib
import importlib.util
import inspect
import sys
import sysconfig
import traceback
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfbench import backends
from tfbench.datasets.sources.splits import Splits
from tfbench.datasets.sources.user_arrays import find_mismatch, splits_of_arrays
from tfbench.errors import DatasetError, Notice, RecipeError, TfbenchError
from tfbench.models.structure import foreign_model
from tfbench.recipe import registry
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.recipe.sections import DatasetConfig, ModelConfig

if TYPE_CHECKING:
    import keras

_FRAMES = 3  # of the user's code, shown where it raised
_SEED_UNUSED = "--seed and --vary-seed do not change its initial weights."
# Frames of tfbench, of Python, and of what is installed: they say nothing of what the user's code does wrong.
_NOT_THE_USERS = (
    str(Path(__file__).parents[1]),
    "<frozen ",
    *dict.fromkeys(sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")),
)


def build_model(config: ModelConfig, spec: DatasetSpec, *, allows_code: bool) -> "keras.Model":
    """Calls the user's `build_model(spec, **options)`, or one that takes no `spec`.

    Raises:
        RecipeError: It is not allowed, cannot be found or called, raised, or returned what is no model for this data.
    """
    where, rng_utils = f"model.name: {config.name}", _rng_utils()
    with _watched(where):
        build = _import(config.name, where, allows_code=allows_code)
        seed = rng_utils.get_random_seed()
        model = foreign_model.fit_to_data(_call(build, where, "spec", spec, config.options), spec, where)
        if rng_utils.get_random_seed() != seed:
            warnings.warn(f"{config.name} sets the random seed: {_SEED_UNUSED}", Notice, stacklevel=2)
    foreign_model.require_precision(model, where)
    warnings.warn(f"the network is code of {_describe_source(build)}.", Notice, stacklevel=2)
    return model


def load_splits(config: DatasetConfig, data_dir: str | None, *, allows_code: bool) -> Splits:
    """Calls the user's `load_splits(data_dir, **options)`.

    Returns:
        The `Splits` that it returned, or those made of the arrays ((x_train, y_train), (x_val, y_val)).

    Raises:
        RecipeError: It is not allowed, cannot be found or called, or raised.
        DatasetError: It returned something else.
    """
    where = f"dataset.name: {config.name}"
    with _watched(where):
        load = _import(config.name, where, allows_code=allows_code)
        with _seeds_restored():
            loaded = _call(load, where, "data_dir", data_dir, config.options)
    source = f"code of {_describe_source(load)}"
    splits = loaded if isinstance(loaded, Splits) else splits_of_arrays(loaded, source=source, where=where)
    problem = find_mismatch(splits)
    if problem:
        raise DatasetError(f"{where}: {problem}.")
    return splits


def find_digest(config: ModelConfig | DatasetConfig) -> str:
    """Returns the digest of the file that a network or data already made is from; "" of tfbench's own."""
    if config.name == "keras_file":
        return _digest(Path(str(config.options["file"])))
    if not registry.is_code(config.name):
        return ""
    return _find_source(_import(config.name, config.name, allows_code=True))[1]


def _import(name: str, where: str, *, allows_code: bool) -> Callable[..., Any]:
    if not allows_code:
        raise RecipeError(f"{where} {registry.CODE_NOT_ALLOWED}")
    module_name, _, function_name = name.rpartition(":")
    is_file = module_name.endswith(".py")
    folder = str(Path(module_name).parent.absolute() if is_file else Path.cwd())
    if folder not in sys.path:
        sys.path.append(folder)  # at the end: a json.py there must not stand for Python's own
    with _users_errors(where, module_name), _seeds_restored():
        module = _import_file(Path(module_name), where) if is_file else importlib.import_module(module_name)
    function = getattr(module, function_name, None)
    if not callable(function):
        found = "nothing of that name" if function is None else f"a {type(function).__name__}"
        raise RecipeError(f"{where}: there must be a function {function_name} in {module.__file__}. Found: {found}.")
    return function  # type: ignore[no-any-return]  # mypy takes it for a plain callable


def _import_file(path: Path, where: str) -> types.ModuleType:
    """Imports a file by its path: once, unless it is another one of the same name."""
    name = path.stem
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) == str(path):
        return known
    if not path.is_file():
        raise RecipeError(f"{where}: there is no file {path}.")
    if known is not None or name in sys.stdlib_module_names:
        name = f"{name} of {path.parent}"
    found = importlib.util.spec_from_file_location(name, path)
    if found is None or found.loader is None:
        raise RecipeError(f"{where}: {path} cannot be imported.")
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    try:
        found.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _call(function: Callable[..., Any], where: str, first: str, value: object, options: Mapping[str, object]) -> Any:
    """Calls a function of the user's with its options, and with what it may take first; "" for nothing."""
    arguments: tuple[object, ...] = ()
    try:
        signature = inspect.signature(function)
        parameter = signature.parameters.get(first)
        if parameter and parameter.kind is not parameter.POSITIONAL_ONLY and first not in options:
            options = {first: value, **options}
        elif first and _takes_first(signature, options):
            arguments = (value,)
        signature.bind(*arguments, **options)
    except TypeError as error:
        name = where.rpartition(":")[2]
        taken = ", ".join(dict.fromkeys([first, *options] if first else options))
        raise RecipeError(
            f"{where}: cannot be called as {name}({taken}), with the other keys of its table: {error}. It is "
            f"{name}{signature}."
        ) from error
    except ValueError:  # written in C, without a signature
        arguments = (value,) if first else ()
    with _users_errors(where):
        return function(*arguments, **options)


def _takes_first(signature: inspect.Signature, options: Mapping[str, object]) -> bool:
    """Says whether a function has to be given something first, besides its options."""
    first = next(iter(signature.parameters.values()), None)
    if first is None or first.name in options:
        return False
    return first.kind is first.VAR_POSITIONAL or (
        first.kind in (first.POSITIONAL_ONLY, first.POSITIONAL_OR_KEYWORD) and first.default is first.empty
    )


@contextlib.contextmanager
def _users_errors(where: str, module_name: str = "") -> Iterator[None]:
    """Turns what the user's code raises into a message that shows where in it.

    Raises:
        RecipeError: With the last lines of the traceback.
    """
    argv, sys.argv = sys.argv, [where.rpartition(": ")[2]]  # the process's own are none of the user's
    try:
        yield
    except TfbenchError:
        raise
    except ModuleNotFoundError as error:
        if not error.name or not f"{module_name}.".startswith(f"{error.name}."):
            raise RecipeError(_explain(error, where)) from error  # one that the user's module imports
        raise RecipeError(
            f"{where}: there is no module {error.name} in PYTHONPATH or the current folder {Path.cwd()}."
        ) from error
    except (Exception, SystemExit) as error:
        raise RecipeError(_explain(error, where)) from error
    finally:
        sys.argv = argv


def _explain(error: BaseException, where: str) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    users = [frame for frame in frames if not frame.filename.startswith(_NOT_THE_USERS)] or frames
    last = [f"  {line}" for line in traceback.format_exception_only(error)]
    lines = [f"{where}: raised an error:", *traceback.format_list(users[-_FRAMES:]), *last]
    return "\n".join(line.rstrip() for line in lines)


def _rng_utils() -> Any:
    from keras.src.utils import rng_utils  # the seed can be set, but not asked for, elsewhere

    return rng_utils


@contextlib.contextmanager
def _seeds_restored() -> Iterator[None]:
    """Begins all random numbers anew after the user's code, which may have set a seed: the run's is `training.seed`."""
    rng_utils = _rng_utils()
    seed = rng_utils.get_random_seed()
    yield
    if seed is not None:
        rng_utils.set_random_seed(seed)


@contextlib.contextmanager
def _watched(where: str) -> Iterator[None]:
    """Sees to it that the user's code leaves alone what the recipe sets for the whole process.

    Raises:
        RecipeError: It changed a setting.
    """
    before = _process_wide_settings()
    yield
    for name, value in _process_wide_settings().items():
        if value != before[name]:
            raise RecipeError(
                f"{where}: changed {name} from {before[name]} to {value}. Leave it alone: "
                "the recipe says how a run is set up, so that runs can be compared."
            )


def _process_wide_settings() -> dict[str, object]:
    import keras

    return {
        "Keras's dtype policy (training.precision)": keras.config.dtype_policy().name,
        "Keras's floatx": keras.config.floatx(),
        "Keras's epsilon": keras.config.epsilon(),
        "Keras's image data format": keras.config.image_data_format(),
        **backends.current().process_wide_settings(),
    }


def _describe_source(function: Callable[..., Any]) -> str:
    """Names the file that a function is from, and what was in it."""
    file, digest = _find_source(function)
    return f"{file} (SHA-256 {digest})" if digest else "no file"


def _find_source(function: Callable[..., Any]) -> tuple[str, str]:
    """Returns the file that a function is from, and its digest; "" where it is from none."""
    try:
        file = inspect.getsourcefile(inspect.unwrap(function)) or ""
        return file, _digest(Path(file))
    except (TypeError, OSError):  # an object that can be called, such as functools.partial
        return "", ""


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]
