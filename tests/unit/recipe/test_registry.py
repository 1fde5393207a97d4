"""Names of models and data sets are file names."""

import dataclasses

import pytest

from tfbench.recipe import registry


@pytest.mark.parametrize("kind", ["models", "datasets"])
def test_every_name_has_a_summary_line_and_a_config(kind: registry.Kind) -> None:
    names = registry.list_names(kind)
    assert names
    for name, line in names.items():
        assert line.endswith("."), (
            f"{kind}/{name}.py: the docstring's first line is what `tfbench list` prints"
        )
        assert dataclasses.is_dataclass(registry.load(kind, name).Config)
