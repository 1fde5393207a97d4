from tfbench.wording import LONGEST_LINE, shorten, shorten_lines


def test_what_was_given_is_repeated_in_one_line_with_its_beginning_and_its_end() -> None:
    assert shorten("as it is") == "as it is"
    assert shorten("two\nlines") == "two lines"
    assert shorten("x" * 80) == "x" * 80
    assert shorten("a" * 500 + "b" * 500) == "a" * 60 + " ... " + "b" * 20


def test_lines_of_a_message_stay_lines_and_end() -> None:
    first, second = shorten_lines("short\n" + "x" * 10_000).split("\n")
    assert first == "short"
    assert LONGEST_LINE < len(second) < LONGEST_LINE + 10
