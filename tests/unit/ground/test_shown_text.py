r"""What is shown.

No passwords, and nothing that a terminal, a spreadsheet or a page of Markdown would obey.
"""

import csv
import dataclasses
import io
import json
import logging
import re
import sys
import tomllib
import traceback
from pathlib import Path

import click
import pytest

from builders import build_environment, build_recipe, build_request
from journals import build_sized_result, write_journal
from kinds import Cli
from sweeps import build_plan, write_sweep
from tfbench.cli._output import CleanStream
from tfbench.comparisons import report_contents
from tfbench.errors import TrackingError
from tfbench.machine.facts import Environment
from tfbench.runs.record import RunExit, RunResult
from tfbench.runs.summary import summarize_run
from tfbench.store.store import Store
from tfbench.sweeps.plan import Variation
from tfbench.tracking import fields
from tfbench.tracking.tracker import Tracker
from tfbench.wording import clean, markdown_text, one_line, without_secrets

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\u2028\x7f\rgone"
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\u2028]")


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("http://u:s3/cret@h/x", "http://u:***@h/x"),
        ("http://u:p@ss@h:80", "http://u:***@h:80"),
        ("http://TOKEN@h", "http://***@h"),
        ("http://to/ken@h", "http://***@h"),
        ("http://:pw@h", "http://:***@h"),
        ("http://u:12/34@h", "http://u:***@h"),
        (
            "postgresql+psycopg2://me:secret@db:5432/mlflow",
            "postgresql+psycopg2://me:***@db:5432/mlflow",
        ),
        ("http://h:5000/?token=abc&x=1", "http://h:5000/?token=***&x=1"),
        ("http://h/?x=1&password=a;b#c", "http://h/?x=1&password=***"),
        ("mssql://h/db?odbc_connect=DRIVER%3DX%3BPWD%3Dy", "mssql://h/db?odbc_connect=***"),
        ("http://h/?api_key=1&access_token=2&apikey=3&sslpassword=4&sig=5", None),
        ("no (http://u:p@h), nor 'http://v:q@i'!", "no (http://u:***@h), nor 'http://v:***@i'!"),
        ('{"uri":"http://u:p@h","mail":"a@b"}', '{"uri":"http://u:***@h","mail":"a@b"}'),
        *(
            (address, address)
            for address in (
                "http://127.0.0.1:5000/a@b",
                "https://github.com/a/b@v1.0",
                "https://medium.com/@me/x?key",
                "http://localhost:5000/#/experiments/7/runs?viewStateShareKey=tfbench",
                "sqlite:////data/a@b/mlflow.db",
                "see http://h/x, or write to me@h",
            )
        ),
    ],
)
def test_passwords_and_tokens_of_addresses_are_masked_and_nothing_else(
    address: str, shown: str | None
) -> None:
    expected = shown or re.sub(r"\d", "***", address)
    assert without_secrets(address) == expected
    assert without_secrets(expected) == expected


def test_what_a_terminal_obeys_is_written_as_in_json_and_toml() -> None:
    assert (
        clean("a\x1b[31m\r\n\tb\x9b\u202e\udcff") == "a\\u001b[31m\\u000d\n\tb\\u009b\\u202e\\udcff"
    )
    assert one_line("a\n\tb") == "a\\u000a\\u0009b"
    assert clean("Größe ≥ 3, 日本語, 👩‍💻") == "Größe ≥ 3, 日本語, 👩‍💻"
    assert tomllib.loads(f'title = "{clean(EVIL)}"') == {"title": EVIL}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a|b\nc", r"a\|b\\u000ac"),
        (r"a\|b", r"a\\\|b"),
        ("[x](javascript:1)", r"[x\](javascript:1)"),
        ("![x][y]: z", r"![x\][y\]: z"),
        ("<img src=x> & co", "&lt;img src=x> &amp; co"),
        ("mirrored cpu:0, `[100, 100]`", "mirrored cpu:0, `[100, 100]`"),
    ],
)
def test_markdown_keeps_to_its_row_and_has_no_links(text: str, shown: str) -> None:
    # A newline's code is escaped after it was made, as everything with a backslash.
    assert markdown_text(text) == shown


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
def test_whoever_writes_to_stdout_is_cleaned(
    encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = io.BytesIO()
    stream = CleanStream(io.TextIOWrapper(raw, encoding=encoding))
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "stderr", stream)
    click.echo(f"{EVIL} é")
    print(EVIL, "http://u:p@h")  # noqa: T201
    click.UsageError(f"{EVIL} http://u:p@h").show()
    logging.StreamHandler(stream).emit(logging.LogRecord("x", 40, "x", 1, EVIL, (), None))
    try:
        raise ValueError(EVIL)
    except ValueError:
        traceback.print_exc()
    stream.flush()
    written = raw.getvalue().decode(encoding)
    assert written.count("owned") == 5
    assert not OBEYED.search(written)
    assert "u:p@" not in written


def build_evil_result(index: int) -> RunResult:
    """Builds a failed or finished run that has escapes in every text of it."""
    plain = build_sized_result(index)
    recipe = build_recipe(
        recipe={"title": f"title{EVIL}", "source": f"source{EVIL}"},
        model={"name": "mlp", "hidden_units": [100 + index]},
        training={"global_batch_size": 32, "epochs": 2},
    )
    request = dataclasses.replace(
        plain.request,
        recipe=dataclasses.replace(recipe, name=f"re{EVIL}"),
        name=f"name{EVIL}",
        tags={f"tag{EVIL}": EVIL},
        overrides=(f"model.name{EVIL}",),
        data_dir=f"/data{EVIL}",
    )
    changed = {
        field.name: f"{field.name}{EVIL}"
        for field in dataclasses.fields(Environment)
        if field.type == "str"
    }
    assert plain.dataset and plain.placement
    return dataclasses.replace(
        plain,
        request=request,
        dataset=dataclasses.replace(plain.dataset, source=f"data{EVIL}"),
        environment=build_environment(**changed),
        notes=(f"note{EVIL}", "http://u:p@h"),
        exit=RunExit(status="FINISHED", reason=f"reason{EVIL}"),
    )


@pytest.fixture
def evil_store(in_tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr(report_contents, "comparison_plots", lambda *_: ())
    monkeypatch.setattr(report_contents, "plots_by_time", lambda *_: ())
    for index in (0, 1):
        write_journal(store, build_evil_result(index))
    plan = build_plan(
        recipe_name=f"re{EVIL}",
        variations=(Variation(key="model.name", values=("mine:f", "other:f")),),
    )
    write_sweep(store, plan, lambda planned: f"reason{EVIL}" if planned.configuration else 1000.0)
    (record,) = (store.root / "sweeps").glob("*.json")
    planted = {"mine:f": f"mlp{EVIL}", "other:f": f"=1+1|{EVIL}"}
    text = record.read_text()
    for value, evil in planted.items():
        text = text.replace(json.dumps(value), json.dumps(evil))
    record.write_text(text)
    return store


@pytest.mark.parametrize(
    "arguments",
    [
        *(
            ("compare", "--sweep", "@last", "--format", form)
            for form in ("text", "csv", "markdown", "json")
        ),
        ("diff", f"{0:032x}", f"{1:032x}"),
        ("runs", f"{0:032x}"),
        ("report", f"{0:032x}", f"{1:032x}", "-o", "-"),
        ("export", f"name{EVIL}"),
        ("import", f"no{EVIL}.jsonl"),
        ("ui", "--experiment", EVIL),
        (f"no{EVIL}",),
    ],
)
def test_no_command_shows_what_a_terminal_obeys(
    tfbench: Cli, evil_store: Store, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    def reject(*names: object, **options: object) -> None:
        raise TrackingError(f"{EVIL} http://u:p@h")

    monkeypatch.setattr(Tracker, "begin", reject)
    done = tfbench(*arguments)
    assert len(done.stdout + done.stderr) > 10
    assert "Traceback" not in done.stderr
    assert not OBEYED.search(done.stdout)
    assert not OBEYED.search(done.stderr)
    assert "u:p@" not in done.stdout + done.stderr


def test_titles_and_reasons_keep_to_their_lines(tfbench: Cli, evil_store: Store) -> None:
    done = tfbench("compare", "--sweep", "@last", "--format", "csv")
    rows = list(csv.reader(io.StringIO(done.stdout)))
    assert {len(row) for row in rows} == {len(rows[0])}
    assert any(row[0].startswith("=1+1|") for row in rows)
    done = tfbench("compare", "--sweep", "@last", "--format", "markdown")
    table = [line for line in done.stdout.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in table} == {
        len(re.findall(r"\|", table[1]))
    }


def test_a_title_is_no_link_in_mlflow_s_description() -> None:
    plain = build_sized_result(0)
    request = build_request(recipe=build_recipe(recipe={"title": "[x](javascript:1)<img>"}))
    result = dataclasses.replace(plain, request=request, notes=("![x](http://tracker)",))
    shown = fields.describe(result, summarize_run(result))
    assert r"**[x\](javascript:1)&lt;img>**" in shown
    assert "](http://tracker)" not in shown.replace(r"\](", "")
