"""Whether workers that train together were asked for the same, and have the same versions."""

import json
import platform
import zlib
from typing import Any

from tfbench import __version__, backends
from tfbench.errors import WorkersError
from tfbench.machine.environment import find_version
from tfbench.recipe import tables
from tfbench.records.run import RunRequest


def require_alike(request: RunRequest) -> int:
    """Holds what this worker was asked for against what the others were, who do the same at this time.

    Returns:
        On how many machines they are.

    Raises:
        WorkersError: One was asked for something else, or has other versions.
    """
    own = _list_parts(request)
    rows = backends.current().gather_figures([_digest(part) for part in (*own.values(), platform.node())])
    for index, row in enumerate(rows):
        differing = [name for name, first, other in zip(own, rows[0], row, strict=False) if first != other]
        if differing:
            backends.current().leave()  # all know it now; who ends first would end the others
            raise WorkersError(
                f"worker {index} has another {', '.join(differing)} than worker 0. Start the same command, with the "
                "same versions, for each worker."
            )
    return len({row[-1] for row in rows})


def _list_parts(request: RunRequest) -> dict[str, Any]:
    """Returns what must be the same, by the names that differences are told by."""
    backend = request.recipe.training.backend
    recipe = tables.to_tables(request.recipe)
    return {
        **{f"[{name}] of the recipe": table for name, table in recipe.items()},
        "--resume": request.resume.run_id if request.resume else "",
        "version of tfbench": __version__,
        **{f"version of {name}": find_version(name) or find_version(f"{name}-cpu") for name in ("keras", backend)},
    }


def _digest(part: Any) -> float:
    return float(zlib.crc32(json.dumps(part, sort_keys=True).encode()))
