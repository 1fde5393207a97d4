"""What TensorFlow complains of while it reads records, in plain words."""

import pytest

from tfbench.datasets.sources.tfrecords import explain

DAMAGED = "expected a whole record at byte 1,998, found one that is damaged or cut off"
STACK = "Graph execution error:\n\nDetected at node IteratorGetNext defined at (most recent call last):\n"


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (
            "{{function_node __wrapped__X}} corrupted record at 1998 (Is this even?) [Op:IteratorGetNext] name: ",
            DAMAGED,
        ),
        ("truncated record at 1998' failed with Read less bytes than requested [Op:IteratorGetNext] name: ", DAMAGED),
        (f'{STACK}  File "a.py", line 1\n\ncorrupted record at 1998\n\t [[{{{{node X}}}}]] [Op:Y]', DAMAGED),
        (f"{STACK}<stack traces unavailable>\ncorrupted record at 1998\n\t [[RemoteCall]] [Op:Y]", DAMAGED),
        (
            f"{STACK}2 root error(s) found.\n  (0) CANCELLED:  stopped\n\t [[X]]\n  (1) DATA_LOSS:  corrupted record "
            "at 1998\n\t [[X]]\n0 successful operations.\n0 derived errors ignored. [Op:Y]",
            DAMAGED,
        ),
        (
            f"{STACK}2 root error(s) found.\n  (0) NOT_FOUND:  a.tfrecord; No such file or directory\n\t [[X]]\n"
            "  (1) NOT_FOUND:  a.tfrecord; No such file or directory\n0 successful operations.",
            "a.tfrecord; No such file or directory",
        ),
        (
            "{{function_node X}} Error in user-defined function passed to ParallelMapDatasetV2:3 transformation with "
            "iterator: Iterator::Root::Map: Key: label.  Data types don't match.\n\t [[{{node Y}}]] [Op:Z] name: ",
            "Key: label.  Data types don't match",
        ),
        (
            "Input dataset was expected to contain 6000 elements but contained only 5 elements. [Op:X] name: ",
            "expected 6,000 samples, found only 5",
        ),
        ("", "ValueError"),
        ("\n\t [[X]]", "ValueError"),
    ],
)
def test_the_reason_is_told_without_nodes_and_stacks(message: str, told: str) -> None:
    assert explain(ValueError(message), ()) == told
