"""Does what an error advises: reads it out of the message, and changes what was asked for."""

import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from tfbench.cli import cli
from tfbench.runs.requests import KEYS

Asked = tuple[str, ...]  # a command's words, without "tfbench"

_SECTIONS = ("model", "dataset", "training", "distribution")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
_COMMAND = re.compile(r"tfbench ((?:check|help|list|run|show|sweep)\b[^`>]*)")
_PLACEHOLDER = re.compile(r"(HOST:PORT,HOST:PORT|FILE\.py:FUNCTION|FILE\.py|\b[A-Z]+\b)")
_WORD = r"(?:[\w@/<>-]+(?:\.+[\w@/<>-]+)*|\.|\[[^\]]*\])"
_VALUE = rf"(\"[^\"]*\"|SETUP SETUP|{_WORD}(?:[:=,]{_WORD})*)"
_WAYS = re.compile(r"; |, or | or (?=--)|\. (?=[A-Z`])|`, ")


def find_options(command: str) -> dict[str, click.Option]:
    """Returns the options of a command by their names."""
    found = cli.get_command(click.Context(cli), command)
    assert found, command
    options = {}
    for param in found.params:
        if isinstance(param, click.Option):
            for name in param.opts:
                options[name] = param
    return options


def follow(asked: Asked, message: str, advice: str, filled: Mapping[str, str]) -> list[Asked]:
    """Returns what to ask instead, once for each way out that a message names.

    Args:
        asked: What led to the message.
        message: The line with the advice, whose keys or option stand before the first colons.
        advice: Its end, from the advice on.
        filled: What the user chooses, by option, or by what stands for it ("N").
    """
    subject = _find_subject(message)
    advice = re.sub(r"Use (\w+) or (\w+)(?=[.,])", r"Use \1; Use \2", advice)
    if 'for example "' in advice:
        advice = re.sub(r'(?:,| or) "', '; for example "', advice)
    ways = []
    for part in _WAYS.split(advice):
        if "Leave one" in part:
            words = _OPTION.findall(message) or re.findall(r"\w+", message)
            names = words + [f"{subject[-1]}.{word}" for word in words if subject]
            found = [without(asked, name) for name in names]
        else:
            found = [_follow_part(asked, subject, message, part.strip().rstrip("."), filled)]
        ways += [way for way in found if way and way != asked]
    return ways


def _find_subject(message: str) -> list[str]:
    """Returns the keys, or the option, that a message is about."""
    if option := re.match(r"(?:Invalid value for )?'?(--[\w-]+)(?: [^:]*)?'?[:;.]", message):
        return [option[1]]
    section = ""
    subject: list[str] = []
    for names in message.split(": ")[:-1]:
        if not re.fullmatch(r"[\w./@-]+(, [\w.-]+)*", names):
            break
        prefix = f"{section}." if section in _SECTIONS else ""
        subject = [f"{prefix}{name}" for name in names.split(", ")]
        section = names
    return subject


def _follow_part(
    asked: Asked, subject: list[str], message: str, part: str, filled: Mapping[str, str]
) -> Asked:
    if command := _COMMAND.search(part):
        words = shlex.split(_fill(command[1], filled))
        return tuple(words) if len(words) > 1 or words == ["list"] else (*words, *asked[1:])
    if left := re.search(r"\b[Ll]eave (.*)", part):
        for name in _OPTION.findall(left[1]) or subject:
            asked = without(asked, name)
        return asked
    if key := re.search(r"Set one of its keys, such as ([\w.]*\w)", part):
        return with_value(without(asked, subject[-1]), key[1], filled["VALUE"])
    if instead := re.search(r"instead(?: of (--\w+))?", part):
        asked = without(asked, instead[1] or _OPTION.findall(message)[0])
        part = part.replace(instead[0], "")
    options = list(_read_options(asked[0], part, filled))
    for option, value in options:
        if option == "--set":
            name, _, new_value = value.partition("=")
            asked = with_value(asked, name, new_value)
        else:
            if not find_options(asked[0])[option].multiple:
                asked = without(asked, option)
            asked = (*asked, option, *shlex.split(value))
    told = rf"(?:Set (?:it|both) to|Use|such as|for example) (?!(?:a|one|another) ){_VALUE}"
    found = re.search(told, part) or re.search(r"must be (\d+) or more", message)
    if found and not options:
        for name in subject:
            asked = _change(asked, name, found[1])
    return asked


def _read_options(command: str, part: str, filled: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yields the options in a text, with their values; without those whose value is missing."""
    known = find_options(command)
    for found in re.finditer(rf"(?<![\w-])(?<!tfbench )(--[a-z][a-z-]*)(?:[ ]{_VALUE})?", part):
        option, value = found.groups()
        assert option in known, f"{command} has no {option}"
        value = filled.get(option) or _fill(value or "", filled)
        if known[option].is_flag:
            yield option, ""
        elif value and not _PLACEHOLDER.fullmatch(value):
            yield option, value


def _change(asked: Asked, name: str, value: str) -> Asked:
    """Gives the option or key that a message is about another value, or another key."""
    if name in asked:
        old = asked[asked.index(name) + 1]
        if "=" in old and "=" not in value and "." in value:
            value = f"{value}={old.partition('=')[2]}"
    return with_value(asked, name, value)


def _fill(text: str, filled: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda found: filled.get(found[0], found[0]), text)


def with_value(asked: Asked, name: str, value: str) -> Asked:
    """Returns words in which an option, or a key of the recipe, has another value."""
    value = value.strip("'\"")
    asked = without(asked, name)
    if name.startswith("--"):
        return (*asked, name, value)
    return (*asked, "--set", f"{name}={value}")


def without(asked: Asked, name: str) -> Asked:
    """Returns words that do not give an option, or a key of the recipe."""
    known = find_options(asked[0])
    names = {name}
    for param in known.values():
        if KEYS.get(param.name or "") == name or name in param.opts:
            names.update(param.opts)
    kept: list[str] = []
    rest = list(asked)
    while rest:
        word = rest.pop(0)
        if word == "--set" and rest and rest[0].startswith((f"{name}=", f"{name}.")):
            rest.pop(0)
        elif word not in names or not word.startswith("--"):
            kept.append(word)
        elif not known[word].is_flag:
            del rest[: known[word].nargs]
    return tuple(kept)


def forget_modules(folder: Path) -> None:
    """Lets a file of the same name be imported again, as in a process of its own."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        if file.startswith(str(folder)):
            del sys.modules[name]
