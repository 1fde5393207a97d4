"""Networks and data from functions of the user's own: "my_package.nets:build_model".

They are imported in the measuring process alone, and only where the user allowed it: a recipe from
someone else must not run code unasked.
"""

import contextlib
import importlib.machinery
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
from tfbench.datasets.sources import fit_data
from tfbench.datasets.sources.splits import Splits, find_mismatch
from tfbench.datasets.sources.user_arrays import splits_of, splits_of_batches
from tfbench.errors import DatasetError, Notice, RecipeError, TfbenchError
from tfbench.models.structure import foreign_model
from tfbench.recipe import registry
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.recipe.files import names_load_data
from tfbench.recipe.sections import DatasetConfig, ModelConfig

if TYPE_CHECKING:
    import keras

Function = Callable[..., Any]

_FRAMES = 3  # of the user's code, shown where it raised
_PATHS = sysconfig.get_paths()
_NOT_THE_USERS = (
    Path(__file__).parents[1],
    *(Path(_PATHS[name]) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
)
_INSTALLED = {"site-packages", "dist-packages"}
_GENERATED = "__autograph_generated_file"  # what TensorFlow makes of the user's functions

# Names of modules that came while code of the user's ran, in the order in which they came.
_imported: dict[str, None] = {}
# Of each network and data set of the user's: the files that it was made from, with their digests.
_files: dict[str, dict[str, str]] = {}


def build_model(config: ModelConfig, spec: DatasetSpec, *, allows_code: bool) -> "keras.Model":
    """Calls the user's `build_model(spec, **options)`, or one that takes no `spec`.

    Raises:
        RecipeError: It is not allowed, cannot be found or called, raised, or returned what is no
            model for this data.
    """
    from keras.src.utils import rng_utils

    where = f"model.name: {config.name}"
    with foreign_model.compilers_noted():
        build = _import(config.name, where, allows_code=allows_code)
    with _users_code(where, goes_on=True) as seed, foreign_model.compilers_noted():
        _require_known_shape(build, spec, where)
        network = _call(build, where, {"spec": spec}, config.options)
        model = foreign_model.fit_to_data(network, spec, where)
        sets_seed = rng_utils.get_random_seed() != seed
    _files[config.name] = _list_files()
    if sets_seed:
        text = (
            f"{config.name} sets the random seed: --seed and --vary-seed do not change its initial"
            " weights."
        )
        warnings.warn(text, Notice, stacklevel=2)
    foreign_model.require_precision(model, where)
    return model


def _require_known_shape(build: Function, spec: DatasetSpec, where: str) -> None:
    """Raises RecipeError if a function asks for the data's shapes where there is no data."""
    parameter = inspect.signature(build).parameters.get("spec")
    is_needed = parameter is not None and parameter.default is inspect.Parameter.empty
    if spec.input_shape == () and is_needed:
        raise RecipeError(
            f"{where}: takes spec, the shapes of the data, and there is no data. Add load_data() to"
            " its file, or --set dataset.name=FILE.py:load_data."
        )


def require_no_data(config: ModelConfig) -> None:
    """Checks that a network's own module, which is imported, has no data that nobody saw.

    Raises:
        RecipeError: It has, by way of `from data import *` or the like.
    """
    module_name = config.name.rpartition(":")[0]
    module: Any = None
    if module_name.endswith(".py"):
        paths = {getattr(other, "__file__", None): other for other in sys.modules.values()}
        module = paths.get(str(Path(module_name).absolute()))
    else:
        module = sys.modules.get(module_name)
    if callable(getattr(module, "load_data", None)) and not names_load_data(Path(module_name)):
        raise RecipeError(
            f"dataset.name: {module_name} has a load_data, which nobody named. Use --set"
            f" dataset.name={module_name}:load_data."
        )


def load_splits(
    config: DatasetConfig, data_dir: str | None, batch_size: int, *, allows_code: bool
) -> Splits:
    """Calls the user's `load_splits(data_dir, **options)`, which returns what `fit` takes.

    Where that makes batches by itself, it is called twice: the first result is looked at, which may
    change it, and the second trains.

    Args:
        config: Names the function.
        data_dir: It may take.
        batch_size: Of the run, over all replicas.
        allows_code: As of `build_model`.

    Raises:
        RecipeError: It is not allowed, cannot be found or called, or raised.
        DatasetError: It returned something else.
    """
    where = f"dataset.name: {config.name}"
    load = _import(config.name, where, allows_code=allows_code)
    with _users_code(where):
        loaded = _call(load, where, {"data_dir": data_dir}, config.options)
        data = fit_data.read(loaded, where)
    _files[config.name] = _list_files()
    file, digest = _find_source(load)
    source = f"code of {file} (SHA-256 {digest})" if digest else "code of no file"
    if fit_data.makes_batches(data.training):
        with _users_code(where):
            again = _call(load, where, {"data_dir": data_dir}, config.options)
            trained = fit_data.read(again, where)
            if trained.training is data.training and inspect.isgenerator(data.training):
                raise DatasetError(
                    f"{where}: returned the same generator twice. tfbench looks at one, and trains"
                    " with another. Make it within the function."
                )
            return splits_of_batches(trained, data, batch_size, source=source, where=where)
    splits = splits_of(data, source=source, where=where)
    if splits.spec.is_structured:  # it is checked array by array
        return splits
    for name, split in (("train", splits.train), ("validation", splits.validation)):
        if problem := find_mismatch(split, splits.spec, split.num_samples):
            raise DatasetError(f"{where}: {name}: {problem}.")
    return splits


def find_files(config: ModelConfig | DatasetConfig) -> dict[str, str]:
    """Returns the user's files that a network or data already made is from, with their digests.

    These are its own file and all that its code imported so far, but for what is installed. None
    for tfbench's own. A file goes by its place in its package: "nets.py", "mine/blocks.py".
    """
    if config.name == "keras_file":
        path = Path(str(config.options["file"]))
        return {path.name: foreign_model.digest_of(path)}
    return _files.get(config.name, {})


def _list_files() -> dict[str, str]:
    """Returns the files of all modules that the user's code imported, with their digests."""
    files: dict[str, str] = {}
    seen = set()
    for name in _imported:
        module = sys.modules.get(name)
        path = Path(getattr(module, "__file__", None) or "")
        if module is None or not path.is_absolute() or not _is_users(str(path)):
            continue
        if path in seen or name.startswith(_GENERATED):
            continue
        seen.add(path)
        depth = 1  # names of the path that tell
        if module.__spec__ is not None:  # it was not imported by its path
            depth += name.count(".") + (path.stem == "__init__")
        while "/".join(path.parts[-depth:]) in files:
            depth += 1
        digest = foreign_model.digest_of(path) if path.is_file() else "unknown"
        files["/".join(path.parts[-depth:])] = digest
    return dict(sorted(files.items()))


def _is_users(file: str) -> bool:
    """Says whether a file is none of tfbench, Python, or an installed package."""
    path = Path(file)
    is_installed = not _INSTALLED.isdisjoint(path.parts) or file.startswith("<frozen ")
    return not is_installed and not any(path.is_relative_to(other) for other in _NOT_THE_USERS)


def _import(name: str, where: str, *, allows_code: bool) -> Function:
    if not allows_code:
        raise RecipeError(f"{where} {registry.CODE_NOT_ALLOWED}")
    module_name, _, function_name = name.rpartition(":")
    is_file = module_name.endswith(".py")
    path = Path(module_name).absolute()
    folder = str(path.parent if is_file else Path.cwd())
    if folder not in sys.path:
        sys.path.append(folder)  # at the end: a json.py there must not stand for Python's own
    if is_file and not path.is_file():
        raise RecipeError(f"{where}: there is no file {path}.")
    with _users_code(where):
        try:
            module = _import_file(path) if is_file else importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if not error.name or not f"{module_name}.".startswith(f"{error.name}."):
                raise  # a module that the user's module imports
            raise RecipeError(
                f"{where}: there is no module {error.name} in PYTHONPATH or the current folder"
                f" {folder}."
            ) from error
    function = getattr(module, function_name, None)
    is_model = hasattr(function, "fit") and not isinstance(function, type)
    if is_model or not callable(function):
        other = f"a value of type {type(function).__name__}"
        if function is None:
            other = "nothing of that name"
        raise RecipeError(
            f"{where}: there must be a function {function_name} in {module.__file__}. Found:"
            f" {other}."
        )
    return function  # type: ignore[no-any-return]  # mypy takes it for a plain callable


def _import_file(path: Path) -> types.ModuleType:
    """Imports a file by its path, once; files of the same name are different modules."""
    name = path.stem
    known = sys.modules.get(name)
    is_taken = known and getattr(known, "__file__", None) != str(path)
    if name in sys.stdlib_module_names or is_taken:
        name = f"{name} of {path.parent}"
    if name not in sys.modules:
        loader = importlib.machinery.SourceFileLoader(name, str(path))
        module = types.ModuleType(name)
        module.__file__ = str(path)
        module.__loader__ = loader
        sys.modules[name] = module
        loader.exec_module(module)
    return sys.modules[name]


def _call(
    function: Function,
    where: str,
    given: Mapping[str, object],
    options: Mapping[str, object],
) -> Any:
    """Calls a user's function with its options, and with those of `given` that it takes."""
    signature = inspect.signature(function)
    arguments = {name: value for name, value in given.items() if name in signature.parameters}
    arguments |= options
    try:
        signature.bind(**arguments)
    except TypeError as error:
        name = where.rpartition(":")[2]
        raise RecipeError(
            f"{where}: cannot be called as {name}({', '.join([*given, *options])}), with the other"
            f" keys of its table: {error}. It is {name}{signature}."
        ) from error
    return function(**arguments)


@contextlib.contextmanager
def _users_code(where: str, *, goes_on: bool = False) -> Iterator[int | None]:
    """Runs code of the user's, which may not change what the recipe sets for the whole process.

    Yields the seed. All random numbers begin anew after the code, since the run's seed is
    `training.seed`. Where a network was built (`goes_on`), they go on unless it set a seed: layers
    that are made later would begin with the numbers of its first ones.

    Raises:
        RecipeError: It raised, with the last lines of the traceback; or it changed a setting.
    """
    # The seed can be set, but not asked for, elsewhere.
    from keras.src.utils import rng_utils

    before = _process_wide_settings()
    seed: int | None = rng_utils.get_random_seed()
    # The process's own arguments are none of the user's.
    argv = sys.argv
    sys.argv = [where.rpartition(": ")[2]]
    modules = set(sys.modules)
    try:
        yield seed
    except TfbenchError:
        raise
    except (Exception, SystemExit) as error:
        raise RecipeError(_explain(error, where)) from error
    finally:
        sys.argv = argv
        _imported.update((name, None) for name in sys.modules if name not in modules)
    keeps_seed = goes_on and rng_utils.get_random_seed() == seed
    if seed is not None and not keeps_seed:
        rng_utils.set_random_seed(seed)
    for name, value in _process_wide_settings().items():
        if value != before[name]:
            raise RecipeError(
                f"{where}: changed {name} from {before[name]} to {value}. Leave it alone: "
                "the recipe says how a run is set up, so that runs can be compared."
            )


def _explain(error: BaseException, where: str) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    users = [frame for frame in frames if _is_users(frame.filename)]
    last = [f"  {line}" for line in traceback.format_exception_only(error)]
    lines = [f"{where}: raised an error:", *traceback.format_list(users[-_FRAMES:]), *last]
    return "\n".join(line.rstrip() for line in lines)


def _process_wide_settings() -> dict[str, object]:
    import keras

    return {
        "Keras's dtype policy (training.precision)": keras.config.dtype_policy().name,
        "Keras's floatx": keras.config.floatx(),
        "Keras's epsilon": keras.config.epsilon(),
        "Keras's image data format": keras.config.image_data_format(),
        **backends.current().process_wide_settings(),
    }


def _find_source(function: Function) -> tuple[str, str]:
    """Returns the file of a function, and its digest; "" for both where there is none."""
    try:
        file = inspect.getsourcefile(inspect.unwrap(function)) or ""
        return file, foreign_model.digest_of(Path(file))
    except (TypeError, OSError):  # an object that can be called, such as functools.partial
        return "", ""
