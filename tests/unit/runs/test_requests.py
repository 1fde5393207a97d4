from pathlib import Path

from builders import build_recipe
from tfbench.runs.requests import lay_values, new_request


def test_a_run_is_named_after_what_varies() -> None:
    recipe = build_recipe(distribution={"strategy": "mirrored", "devices": ["cpu:0", "cpu:1"]})
    request = new_request(recipe, name=None, data_dir=None)
    assert request.name.startswith(recipe.name)
    assert request.name.endswith(f"-b{recipe.training.global_batch_size}-mirrored-cpu:0+cpu:1")


def test_a_run_is_named_after_its_back_end_where_that_is_not_tensorflow() -> None:
    recipe = build_recipe(training={"backend": "jax"}, distribution={"devices": ["cpu:0"]})
    assert new_request(recipe, name=None, data_dir=None).name.endswith("-default-cpu:0-jax")
    assert lay_values({"training.backend": "torch"}, backend="jax") == {"training.backend": "jax"}


def test_a_given_name_is_kept_and_ids_differ() -> None:
    first, second = (new_request(build_recipe(), name="mine", data_dir=None) for _ in range(2))
    assert first.name == "mine"
    assert first.run_id != second.run_id


def test_the_data_folder_is_made_absolute_since_another_process_reads_it(in_tmp_path: Path) -> None:
    request = new_request(build_recipe(), name=None, data_dir=Path("data"))
    assert request.data_dir == str(in_tmp_path / "data")
