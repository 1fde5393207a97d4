"""Which device and which distribution strategy trains this network fastest, and how sure are we?

`tfbench.run`, `sweep`, `compare` and the like are those of `tfbench.api`, which is loaded once one
of them is used.
"""

# Nothing is imported at run time: Ctrl-C is heard once the command line has started.
TYPE_CHECKING = False  # which type checkers take for true
if TYPE_CHECKING:
    from typing import Any

    from tfbench.api import (
        ComparedRuns,
        MachineSettings,
        Observer,
        Run,
        RunLimits,
        Swept,
        TfbenchError,
        compare,
        load_runs,
        read_run,
        resume_sweep,
        run,
        sweep,
    )

__version__ = "0.1.0"
__all__ = [
    "ComparedRuns",
    "MachineSettings",
    "Observer",
    "Run",
    "RunLimits",
    "Swept",
    "TfbenchError",
    "compare",
    "load_runs",
    "read_run",
    "resume_sweep",
    "run",
    "sweep",
]


def __getattr__(name: str) -> "Any":
    if name not in __all__:
        raise AttributeError(f"module 'tfbench' has no attribute '{name}'")
    import importlib

    return getattr(importlib.import_module("tfbench.api"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
