"""The backends, and what each of them can do, as far as that is known before it is started."""

from typing import Literal, cast

BackendName = Literal["tensorflow", "jax", "torch"]
Compiler = Literal["graph", "xla", "eager", "inductor"]
COMPILER_KEY = "training.compiler"
PREFETCHED_BATCHES = 4  # that a pipeline keeps ready, unless the recipe says otherwise
BACKEND_TITLES: dict[BackendName, str] = {
    "tensorflow": "TensorFlow",
    "jax": "JAX",
    "torch": "PyTorch",
}
# The first one of each is the default.
COMPILERS: dict[BackendName, tuple[Compiler, ...]] = {
    "tensorflow": ("graph", "xla", "eager"),
    "jax": ("xla", "eager"),
    "torch": ("eager", "inductor"),
}
# What Keras 3.15 does where recurrent layers are to carry their state from batch to batch.
_NO_STATE: dict[BackendName, str] = {
    "jax": "drops the state that a step of training, or a prediction, leaves in recurrent layers",
    "torch": (
        "changes the state of recurrent layers before their gradients are taken, which PyTorch"
        " rejects"
    ),
}
_LAYERS_MERGE: dict[Compiler, str] = {
    "xla": "XLA makes one program of all layers",
    "inductor": "torch.compile makes one program of all layers",
    "eager": "no operation has the name of its layer",
}
# With which compiler layers can be told apart, and what to do to get it.
_LAYERS_APART: dict[BackendName, tuple[Compiler | None, str]] = {
    "tensorflow": (
        "graph",
        "--set training.compiler=graph shows them as TensorFlow's graph computes them.",
    ),
    "jax": (None, "--backend tensorflow shows them as TensorFlow's graph computes them."),
    "torch": (
        "eager",
        "--set training.compiler=eager shows them as PyTorch computes them one after another.",
    ),
}
ONE_STEP_A_CALL: tuple[BackendName, ...] = ("torch",)  # whatever is asked for


def title_of(backend: str) -> str:
    """Returns what a backend is called in sentences."""
    return BACKEND_TITLES.get(cast(BackendName, backend), backend)


def why_untraceable(backend: BackendName, compiler: Compiler) -> str:
    """Returns why no trace shows the operations of a step, and what to do instead; "": it does."""
    if backend == "jax":
        return "tfbench reads no trace of JAX. Leave --trace out, or use another backend."
    if compiler == "inductor":
        return (
            "PyTorch's trace does not show what is inside code that torch.compile made. Leave"
            " --trace out, or use --set training.compiler=eager."
        )
    return ""


def why_layers_merge(backend: BackendName, compiler: Compiler) -> str:
    """Returns why layers cannot be timed apart, and what to do instead; "": they can."""
    apart, advice = _LAYERS_APART[backend]
    if compiler == apart:
        return ""
    return f'{_LAYERS_MERGE[compiler]} (compiler = "{compiler}"): none can be timed apart. {advice}'


def find_lacking(backend: BackendName, *, carries_state: bool, is_option: bool = True) -> list[str]:
    """Returns what a model asks for that a backend does not have.

    Args:
        backend: That is to train it.
        carries_state: Whether its recurrent layers carry their state from batch to batch.
        is_option: Whether a key of the recipe has them do so.
    """
    if not carries_state or backend not in _NO_STATE:
        return []
    where = "model"
    advice = "Use --backend tensorflow"
    if is_option:
        where = "model.stateful"
        advice = "Use --set model.stateful=false, or --backend tensorflow"
    return [f"{where}: on backend {backend}, Keras {_NO_STATE[backend]}. {advice}."]
