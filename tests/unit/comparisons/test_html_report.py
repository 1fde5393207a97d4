import html.parser
from typing import Any

from builders import build_environment
from kinds import Golden
from plots import build_plot
from sweeps import BATCH, MIRRORED, build_briefs, build_plan
from tfbench.comparisons.comparison import Comparison, compare
from tfbench.comparisons.failures import Failure
from tfbench.comparisons.html_report import ReportContents, render_report, report_sections
from tfbench.comparisons.verdict import find_verdict
from tfbench.machine.facts import Gpu
from tfbench.show.table import html as html_of

EVIL = "<script>alert(1)</script>"
REFERENCE = {
    "hardware": "Old <GPU>",
    "devices": "1 gpu",
    "source": "A paper",
    "figures": {"val_accuracy": 0.9},
}
_VOID = {"meta", "br"}


class Page(html.parser.HTMLParser):
    """Keeps what a page is made of; fails where elements are not closed in their order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements = []
        self.texts = {}
        self._open = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and data.strip():
            self.texts.setdefault(self._open[-1], []).append(data.strip())

    def of(self, tag: str) -> list[dict[str, str | None]]:
        """Returns the attributes of every element of a kind."""
        return [attributes for name, attributes in self.elements if name == tag]


def compared(**fields: Any) -> Comparison:
    """Compares two setups at two batch sizes in two rounds.

    At the second, one of them ran out of memory.
    """
    slow = (1001.0, 1002.0)
    briefs = build_briefs({32: (slow, (501.0, 502.0)), 64: (slow,)}, **fields)
    reason = "out of memory: it took 9 GiB"
    failure = Failure(configuration={BATCH: 64}, setup=MIRRORED, outcome="KILLED", reason=reason)
    return compare(briefs, keys=[BATCH], failures=[failure])


def contents_of(comparison: Comparison | None = None, **fields: Any) -> ReportContents:
    comparison = comparison or compared()
    values = {
        "created": 1_700_000_000.0,
        "comparison": comparison,
        "verdict": find_verdict(comparison),
        "plan": build_plan(),
        "plots": (build_plot(title="speed"),),
        "environment": build_environment(),
        "commands": ("tfbench sweep test.toml --repeats 2",),
        "recipe_name": "test",
        "recipe_toml": '[model]\nname = "mlp"\n',
    }
    return ReportContents(**values | fields)


def page_of(comparison: Comparison | None = None, **fields: Any) -> Page:
    return Page(render_report(contents_of(comparison, **fields)))


def test_a_report_is_as_in_the_golden_file(golden: Golden) -> None:
    gpu = Gpu(name="Example GPU", memory_bytes=8 * 2**30, driver="555.42", power_limit_watts=400.0)
    environment = build_environment(gpus=(gpu,), git_dirty=True, cpu_governor=None)
    contents = contents_of(plots=(), environment=environment)
    golden("report.html", html_of(report_sections(contents)))


def test_the_page_stands_alone() -> None:
    text = render_report(contents_of())
    page = Page(text)
    assert "://" not in text  # nothing is fetched, and nothing is linked to
    assert {name for name, _ in page.elements}.isdisjoint({"script", "link", "iframe", "a", "base"})
    assert "@import" not in text
    assert text.count("url(") == text.count("url(#")  # within a picture


def test_it_has_one_heading_and_every_picture_a_text() -> None:
    page = page_of()
    assert page.texts["h1"] == ["Test"]
    assert [str(image["aria-label"]).partition(".")[0] for image in page.of("svg")] == ["speed"]
    assert page.of("html") == [{"lang": "en"}]
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in page.of("meta")
    assert all(box["tabindex"] == "0" and box["aria-label"] for box in page.of("div"))


def test_every_text_from_outside_is_escaped() -> None:
    evil = {"name": EVIL, "title": EVIL, "recipe": EVIL, "warnings": [EVIL], "hardware": [EVIL]}
    comparison = compared(
        **evil, references=[REFERENCE | {"hardware": EVIL, "source": EVIL, "notes": EVIL}]
    )
    failure = Failure(configuration={BATCH: 64}, setup=EVIL, outcome=EVIL, reason=EVIL)
    comparison = compare(comparison.runs, keys=[BATCH], failures=[failure])
    contents = contents_of(
        comparison,
        verdict=(EVIL,),
        plots=(build_plot(name='"><script>', title=f'"{EVIL}'),),
        environment=build_environment(hostname=EVIL, cpu_model=EVIL),
        commands=(EVIL,),
        recipe_name=EVIL,
        recipe_toml=EVIL,
    )
    text = render_report(contents)
    assert "<script" not in text
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;") > 20
    assert [str(image["aria-label"]).partition(".")[0] for image in Page(text).of("svg")] == [
        f'"{EVIL}'
    ]


def test_a_sweep_that_adds_rounds_says_how_many_it_made() -> None:
    page = page_of(plan=build_plan(first_rounds=2, num_rounds=20))
    rounds = page.texts["dd"][page.texts["dt"].index("rounds")]
    assert rounds == "2 to 20, until all is decided, setups take turns; 2 made"


def test_what_there_is_nothing_of_is_left_out_or_said() -> None:
    page = page_of(plan=None, verdict=())
    assert "rounds" not in page.texts["dt"]
    assert page.texts["title"] == ["Test: comparison of runs, tfbench report"]
    assert "Nothing is compared: there is one setup, or none with a speed." in page.texts["li"]


def test_runs_without_a_warning_are_said_to_have_none() -> None:
    assert "None of the runs has one." in page_of().texts["li"]
