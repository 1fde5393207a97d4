"""Input by generation: how much of it a test gets, and values that nobody would write but a file can hold.

Such tests are in files named `test_generated_*.py`. `pytest --hypothesis-profile=many -k test_generated` gives each as
many examples as a release is judged by; without it each gets a few, the same at every call.
"""

import json
from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

Test = TypeVar("Test", bound=Callable[..., Any])

_COMMON: dict[str, Any] = {
    "deadline": None,  # a busy machine is no fault of what is tested
    "database": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
}


def register_profiles() -> None:
    """Makes the profiles "few", which holds unless another is asked for, and "many" known to pytest."""
    settings.register_profile("few", settings(derandomize=True, **_COMMON))
    settings.register_profile("many", settings(print_blob=True, **_COMMON))
    settings.load_profile("few")


def examples(few: int, many: int, *, shrinks: bool = True) -> Callable[[Test], Test]:
    """Says how many examples a test by generation gets in the default run, and how many under "many".

    Args:
        few: In the default run; a few seconds for all tests of a file.
        many: Under the profile "many".
        shrinks: Whether an example that fails is made smaller, for which hundreds of others are tried.
    """
    phases = [Phase.explicit, Phase.generate, *([Phase.shrink] if shrinks else [])]
    return settings(max_examples=few if settings().derandomize else many, phases=phases)


_ODD_TEXTS = (
    *("", "\0", "\x1b[31mred\x1b]0;title\a", "\r\n", "\u202e", "\udc80", "a" * 5000),
    *("$\\HOME$", "$", "=1+1", "|", "<script>", "../../x", "~", "@last", "nan", "os:system"),
)

odd_texts = st.one_of(st.text(max_size=20), st.sampled_from(_ODD_TEXTS))

# Values as JSON spells them, and nearly all as TOML does. As texts, since Python itself refuses to write some of them.
odd_literals = st.one_of(
    odd_texts.map(json.dumps),
    st.integers().map(str),
    st.floats().map(json.dumps),
    st.sampled_from(("null", "true", "false", "[]", "{}", "0", "-1", "0.5", "1e999", "NaN", "[1, 2]", '{"a": 1}')),
    st.sampled_from(("9" * 20, "1" + 400 * "0", "-1" + 400 * "0", "9" * 5000)),  # to beyond what `int` reads
    st.sampled_from((50, 2000, 100_000)).map(lambda depth: "[" * depth + "]" * depth),  # beyond what `json` does
)
