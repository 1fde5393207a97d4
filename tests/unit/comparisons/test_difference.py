"""What differs between two runs: what must be equal, results, causes."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from builders import (
    build_environment,
    build_placement,
    build_recipe,
    build_request,
    build_result,
    build_settings,
    build_sizes,
)
from kinds import Fields, Golden
from tfbench.comparisons.difference import (
    RunDifference,
    compare_runs,
    describe_speed,
    difference_sections,
)
from tfbench.comparisons.equality import (
    MUST_BE_EQUAL,
    Difference,
    find_differences,
    find_unequal,
    in_words,
)
from tfbench.runs.record import ModelSummary, RunExit, RunResult, Summary
from tfbench.runs.summary import summarize_run
from tfbench.schema import build, to_plain
from tfbench.show.table import text as lines_of
from tfbench.store.brief import make_brief

ON_TWO = build_placement(strategy="mirrored", devices=("cpu:0", "cpu:1"), num_replicas=2)


def build_pair(**fields: Any) -> tuple[RunResult, RunResult]:
    """Builds two runs that differ in their ids and in the given fields.

    The fields are those of the second run.
    """
    recipe = fields.pop("recipe", None)
    first = build_result()
    request = dataclasses.replace(
        first.request, run_id="b" * 32, recipe=recipe or first.request.recipe
    )
    return first, build_result(request=request, **fields)


def compare(a: RunResult, b: RunResult) -> RunDifference:
    return compare_runs(a, summarize_run(a), b, summarize_run(b))


def names_of(differences: Sequence[Difference]) -> list[str]:
    return [difference.name for difference in differences]


def recipe_with(**sections: Any) -> Any:
    return build_recipe(**{"dataset": {"data": "real"}, "training": {"epochs": 1}} | sections)


@pytest.mark.parametrize(
    ("record", "value", "names"),
    [
        ("settings", "xla", ["compiler"]),
        ("settings", "other", ["precision", "image_data_format", "xla_flags"]),
        ("settings", True, ["tensor_float_32", "deterministic", "soft_device_placement"]),
        ("settings", 3, ["intra_op_threads", "inter_op_threads", "steps_per_execution"]),
        ("environment", "other", ["thread_variables", "tfbench", "keras", "hostname"]),
        ("environment", "forked", ["start"]),
        (
            "environment",
            1,
            ["usable_cores", "cpu_quota_cores", "niceness", "memory_limit_bytes"],
        ),
    ],
)
def test_names_what_must_be_equal_in_effect_and_is_not(
    record: str, value: object, names: list[str]
) -> None:
    build = build_settings if record == "settings" else build_environment
    for name in names:
        (found,) = find_unequal(*build_pair(**{record: build(**{name: value})}))
        assert (found.name, found.a, found.b) == (name, getattr(build(), name), value)


def test_between_backends_variables_that_all_frameworks_read_must_be_equal_and_no_others() -> None:
    read_by_all = "CUDA_LAUNCH_BLOCKING=1 LD_PRELOAD=/a.so /b.so"
    variables = f"{read_by_all} XLA_PYTHON_CLIENT_PREALLOCATE=false"
    settings = build_settings(backend="jax", framework_variables=variables)
    (found,) = find_unequal(*build_pair(settings=settings))
    assert (found.name, found.a, found.b) == ("framework_variables", None, read_by_all)


@pytest.mark.parametrize(
    ("section", "key", "value", "name"),
    [
        ("model", "hidden_units", [8], "model.hidden_units"),
        ("dataset", "data", "synthetic", "dataset.data"),
        ("training", "global_batch_size", 64, "global_batch_size"),
        (
            "training",
            "optimizer",
            {"name": "adam", "learning_rate": 0.01},
            "optimizer.learning_rate",
        ),
        ("training", "head", "double_softmax", "head"),
        ("measurement", "clock", "step", "clock"),
    ],
)
def test_names_what_must_be_equal_in_the_recipe_and_is_not(
    section: str, key: str, value: object, name: str
) -> None:
    tables = {"dataset": {"data": "real"}, "training": {"epochs": 1}}
    tables[section] = tables.get(section, {}) | {key: value}
    assert names_of(find_unequal(*build_pair(recipe=build_recipe(**tables)))) == [name]


def _built(**fields: Any) -> ModelSummary:
    known = {"flops_per_sample": 2000, "digest": "a", "files": {"nets.py": "c"}}
    return build_sizes(**known | fields)


BLOCKS = ["model_files.blocks.py"]


@pytest.mark.parametrize(
    ("fields", "compared", "names"),
    [
        ({"num_parameters": 987_654}, "", ["num_parameters"]),
        ({"num_trainable_parameters": 10}, "", ["num_trainable_parameters"]),
        ({"flops_per_sample": 2_000_000}, "", ["flops_per_sample"]),
        ({"digest": "b"}, "", ["model_digest"]),
        ({"flops_per_sample": None}, "", []),  # counted in one run alone
        # sizes follow from settings,
        ({"num_parameters": 10, "flops_per_sample": 20}, "model.hidden_units", []),
        ({"num_parameters": 10, "flops_per_sample": 20}, "dataset.classes", []),
        # but not other code
        ({"digest": "b", "files": {"nets.py": "d"}}, "model.hidden_units", ["model_files.nets.py"]),
        ({"digest": "b", "files": {"nets.py": "c", "blocks.py": "d"}}, "precision", BLOCKS),
        ({"digest": "b", "files": {"nets.py": "d"}}, "model.name", []),
        ({"num_parameters": 10, "digest": "b"}, "model", []),
        ({"num_parameters": 10}, "precision", ["num_parameters"]),
    ],
)
def test_what_was_built_must_be_equal_where_no_setting_changes_it(
    fields: Fields, compared: str, names: list[str]
) -> None:
    pair = build_result(model=_built()), build_result(model=_built(**fields))
    assert names_of(find_unequal(*pair, compared=(compared,))) == names


def test_sizes_are_not_named_beside_the_setting_that_changes_them_nor_flops_between_backends() -> (
    None
):
    other = recipe_with(model={"name": "mlp", "hidden_units": [8]})
    pair = build_pair(recipe=other, model=_built(num_parameters=10, digest="", files={}))
    assert names_of(find_unequal(*pair)) == ["model.hidden_units"]
    model = _built(num_parameters=10, flops_per_sample=20)
    jax = build_result(model=model, settings=build_settings(backend="jax"))
    assert names_of(find_unequal(build_result(model=_built()), jax)) == ["num_parameters"]


def test_data_and_own_code_of_it_must_be_equal() -> None:
    data = build_result().dataset
    fewer = build_pair(dataset=dataclasses.replace(data, train_samples=320))
    assert names_of(find_unequal(*fewer)) == ["dataset.train_samples"]
    other = build_pair(dataset=dataclasses.replace(data, files={"data.py": "b"}))
    assert names_of(find_unequal(*other)) == ["dataset_files.data.py"]
    assert find_unequal(*other, compared=("dataset.name",)) == ()
    # Data of which one file is recorded.
    earlier = build_result(dataset=dataclasses.replace(data, digest="c"))
    (found,) = find_unequal(earlier, other[1])
    assert (found.name, found.a, found.b) == ("dataset_files", "one file", "all files")


ONE_FILE = {"digest": "c", "files": {}}  # as earlier versions recorded it


@pytest.mark.parametrize(
    ("earlier", "later", "names"),
    [
        (ONE_FILE, ONE_FILE, []),
        (ONE_FILE, {"digest": "b", "files": {}}, ["model_digest"]),
        (ONE_FILE, {}, ["model_files"]),  # of the same file, which may import others
        (ONE_FILE, {"files": {"nets.py": "d"}}, ["model_files"]),
        ({"digest": "", "files": {}}, {"digest": "", "files": {}}, []),  # a network of tfbench's
    ],
)
def test_runs_that_record_one_file_are_not_compared_with_those_that_record_all(
    earlier: Fields, later: Fields, names: list[str]
) -> None:
    runs = [build_result(model=_built(**fields)) for fields in (earlier, later)]
    for pair in (runs, runs[::-1]):
        assert names_of(find_unequal(*pair)) == names
        causes = names_of(compare(*pair).causes.get("model", ()))
        assert [name.removeprefix("model_") for name in names] == causes
    briefs = [make_brief(run, summarize_run(run), journal_bytes=0) for run in runs]
    assert (briefs[0].equals == briefs[1].equals) == (not names)


def test_a_record_of_an_earlier_version_can_be_read() -> None:
    plain = to_plain(build_sizes(digest="c"))
    del plain["files"]
    assert build(ModelSummary, plain, "model") == build_sizes(digest="c")


def test_all_that_must_be_equal_has_words_but_keys_that_users_type() -> None:
    for name in MUST_BE_EQUAL:
        section, _, key = name.rpartition(".")
        words = in_words(key if section in ("training", "measurement") else name)
        assert "_" not in words, name
    assert in_words("model.hidden_units") == "model.hidden_units"
    assert in_words("model_files.mine/blocks.py") == "your code (mine/blocks.py)"
    assert in_words("model_files.net.keras") == "your file net.keras"


def test_what_need_not_be_equal_is_not_named() -> None:
    on_two = recipe_with(distribution={"strategy": "mirrored", "devices": ["cpu:0", "cpu:1"]})
    longer = recipe_with(training={"epochs": 3, "seed": 1, "evaluates_training": True})
    environment = build_environment(load_average=9.0, git_commit="c" * 40, python="3.12.1")
    soft = build_settings(soft_device_placement=True)  # which belongs to the kind of device
    for fields in (
        {"placement": ON_TWO, "recipe": on_two},
        {"recipe": longer, "environment": environment, "settings": build_settings(seed=1)},
        {"settings": soft, "placement": build_placement(devices=("gpu:0",))},
    ):
        assert find_unequal(*build_pair(**fields)) == ()


@pytest.mark.parametrize(
    ("compared", "names"), [("model", []), ("model.hidden_units", ["model.activation"])]
)
def test_what_is_compared_may_differ(compared: str, names: list[str]) -> None:
    recipe = recipe_with(model={"name": "mlp", "hidden_units": [8], "activation": "tanh"})
    pair = build_pair(recipe=recipe, settings=build_settings(precision="mixed_float16"))
    assert names_of(find_unequal(*pair, compared=[compared, "precision"])) == names


def test_a_run_that_never_got_so_far_is_named_once_a_record() -> None:
    pair = build_pair(
        settings=None, environment=None, placement=None, exit=RunExit(status="FAILED", reason="x")
    )
    assert [(entry.name, entry.a, entry.b) for entry in find_unequal(*pair)] == [
        ("settings", "known", None),
        ("environment", "known", None),
    ]
    assert {"settings", "environment", "placement"}.isdisjoint(compare(*pair).causes)


def test_a_figure_that_only_one_run_has_is_shown_without_a_ratio_and_its_own_warnings_are_named() -> (
    None
):
    a, b = build_pair()
    first = Summary(metrics={"test_loss": 0.0, "loss": 2.0}, warnings=("both", "only a"))
    difference = compare_runs(
        a, first, b, Summary(metrics={"test_loss": 1.0}, warnings=("only b", "both"))
    )
    assert [(entry.name, entry.a, entry.b, entry.ratio) for entry in difference.results] == [
        ("loss", 2.0, None, None),
        ("test_loss", 0.0, 1.0, None),  # nothing is a multiple of zero
    ]
    assert describe_speed(difference) == ""
    assert (difference.a.warnings, difference.b.warnings) == (("only a",), ("only b",))


def test_a_run_equal_to_another_but_for_published_figures_differs_in_nothing() -> None:
    reference = {"hardware": "x", "devices": "cpu", "source": "y", "figures": {"epochs": 1}}
    difference = compare(*build_pair(recipe=recipe_with(reference=[reference])))
    assert (difference.unequal, difference.results, difference.causes) == ((), (), {})
    shown = "\n".join(lines_of(difference_sections(difference), 80))
    assert "Comparable: all required settings are equal." in shown
    assert "Nothing else differs." in shown


def build_unlike() -> RunDifference:
    """Builds the difference of two runs that differ in something of every kind."""
    mixed = build_recipe(
        dataset={"data": "real"},
        training={"epochs": 1, "precision": "mixed_float16"},
        distribution={"strategy": "mirrored", "devices": ["cpu:0", "cpu:1"]},
    )
    first = build_result(request=dataclasses.replace(build_result().request, run_id="a" * 12))
    second = build_result(
        request=build_request(run_id="b" * 12, name="test-mixed", recipe=mixed),
        placement=ON_TWO,
        settings=build_settings(
            precision="mixed_float16", xla_flags="--xla_dump_to=/tmp/dump --xla_cpu_enable_x=false"
        ),
        environment=build_environment(
            git_commit="c" * 40, git_dirty=True, cpu_governor="performance"
        ),
        exit=RunExit(status="FAILED", reason="x"),
    )
    names = ("samples_per_second", "peak_memory_bytes", "loss", "step_time_median_seconds")
    before = dict(zip(names, (640.0, 2.0**30, 0.5, 0.05), strict=True))
    after = dict(zip(names, (800.0, 3.0 * 2**30, None, 0.04), strict=True))
    warning = (
        "other programs kept 1.3 cores busy, of 8: times may be too long. Measure on a quiet"
        " machine."
    )
    return compare_runs(
        first,
        Summary(metrics=before, warnings=(warning,)),
        second,
        Summary(metrics=after | {"flops_per_second": 1.25e9}),
    )


def test_the_text_is_as_agreed(golden: Golden) -> None:
    text = "\n".join(lines_of(difference_sections(build_unlike()), 80)) + "\n"
    golden("diff_80.txt", text)
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("training", "unequal"), [({}, []), ({"global_batch_size": 64}, ["global_batch_size"])]
)
def test_runs_of_two_backends_are_compared_as_these(training: Fields, unequal: list[str]) -> None:
    found = compare(
        *build_pair(
            recipe=recipe_with(training={"epochs": 1, "backend": "jax"} | training),
            settings=build_settings(backend="jax", compiler="xla"),
            environment=build_environment(tensorflow=None, jax="0.10.2"),
        )
    )
    assert [one.name for one in found.unequal] == unequal
    shown = "\n".join(lines_of(difference_sections(found), 200))
    assert ("Comparable, TensorFlow vs JAX: all required settings" in shown) == (not unequal)


def test_a_file_of_the_user_is_the_same_in_another_folder_and_no_other_name_is() -> None:
    here = {"model.name": "/a/nets.py:build", "dataset.name": "/a/nets.py:load", "files": "f"}
    there = {"model.name": "/b/c/nets.py:build", "dataset.name": "/b/c/nets.py:load", "files": "f"}
    assert find_differences(here, there) == ()
    for name in ("/a/nets.py:other", "/a/nets2.py:build", "mlp", None):
        (found,) = find_differences(here, here | {"model.name": name})
        assert (found.name, found.b) == ("model.name", name)
    (found,) = find_differences({"title": "a/x"}, {"title": "b/x"})
    assert found.name == "title"
