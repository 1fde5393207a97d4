"""Decoded samples that are kept: the bytes that decoding gives, or none."""

import dataclasses
import fcntl
import gzip
import hashlib
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections import namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import tensorflow as tf
import tensorflow_datasets as tfds

from tfbench.datasets import svhn
from tfbench.datasets.sources import array_file, cache, cache_folder, mnist_files, tfds_arrays
from tfbench.datasets.sources import svhn as svhn_source
from tfbench.datasets.sources.splits import ALIGNMENT, Split, Splits
from tfbench.errors import DatasetError
from tfbench.recipe.dataset_spec import DatasetSpec

SPEC = DatasetSpec(
    input_shape=(6, 5, 1),
    input_dtype="uint8",
    target_shape=(),
    num_classes=10,
    train_samples=40,
    validation_samples=20,
    mean="image",
)
COUNTS = {"train": SPEC.train_samples, "test": SPEC.validation_samples}
SVHN_COUNTS = {"train": 4_050, "extra": 2_030, "test": 7}
Load = Callable[[Path], Splits]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a cache that is used, not yet there."""
    monkeypatch.delenv("TFBENCH_CACHE_SIZE")
    monkeypatch.setenv("TFBENCH_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def images_of(seed: int) -> dict[str, tuple[Any, Any]]:
    rng = np.random.default_rng(seed)
    return {
        key: (rng.integers(0, 256, (count, 6, 5), np.uint8), rng.integers(0, 10, count, np.uint8))
        for key, count in COUNTS.items()
    }


def write_idx(data: Path, *, packed: bool = True, seed: int = 0) -> None:
    data.mkdir(parents=True, exist_ok=True)
    for key, names in mnist_files.IDX_FILES.items():
        for name, array in zip(names, images_of(seed)[key], strict=True):
            contents = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()
            (data / f"{name}.gz" if packed else data / name).write_bytes(
                gzip.compress(contents, mtime=0) if packed else contents
            )


def write_npz(data: Path) -> None:
    data.mkdir()
    arrays = images_of(0)
    named = {f"{kind}_{key}": array for key, pair in arrays.items() for kind, array in zip("xy", pair, strict=True)}
    np.savez_compressed(data / mnist_files.NPZ_FILE, **named)


def write_tfds(data: Path, name: str = "tiny", *, seed: int = 0) -> None:
    tfds.disable_progress_bar()
    rng = np.random.default_rng(seed)
    is_svhn = name == "svhn_cropped"  # which tensorflow-datasets knows, and reads as it knows it
    size = (32, 32, 3) if is_svhn else (6, 5, 1)
    features = {"image": tfds.features.Image(shape=size), "label": tfds.features.ClassLabel(num_classes=10)}

    def build(count: int) -> Any:
        images = rng.integers(0, 256, (count, *size), np.uint8)
        samples: dict[str, Any] = {"image": images, "label": rng.permutation(np.arange(count) % 10)}
        return tf.data.Dataset.from_tensor_slices(samples | ({"id": ["x"] * count} if is_svhn else {}))

    tfds.dataset_builders.store_as_tfds_dataset(
        name,
        "3.1.0" if is_svhn else "1.0.0",
        features=tfds.features.FeaturesDict(features | ({"id": tfds.features.Text()} if is_svhn else {})),
        split_datasets={split: build(count) for split, count in (SVHN_COUNTS if is_svhn else COUNTS).items()},
        data_dir=str(data),
        disable_shuffling=True,
    )


def write_mat(data: Path) -> None:
    data.mkdir()
    rng = np.random.default_rng(0)
    for part, count in SVHN_COUNTS.items():
        images = rng.integers(0, 256, (32, 32, 3, count), np.uint8)
        labels = (1 + np.arange(count) % 10).astype(np.uint8)[:, None]
        scipy.io.savemat(data / svhn_source.FILES[part], {"X": images, "y": labels}, do_compression=True)


def load_mnist(data: Path) -> Splits:
    return mnist_files.load(data, SPEC)


def load_tiny(data: Path) -> Splits:
    return tfds_arrays.load_tfds("tiny", SPEC, str(data), splits=("train", "test"), host="https://data.example.org")


def load_svhn(data: Path) -> Splits:
    return svhn.load_splits(svhn.Config(), str(data))


SOURCES: dict[str, tuple[Callable[[Path], None], Load]] = {
    "packed IDX files": (write_idx, load_mnist),
    "mnist.npz": (write_npz, load_mnist),
    "tensorflow-datasets": (write_tfds, load_tiny),
    "SVHN's .mat files": (write_mat, load_svhn),
    "SVHN of tensorflow-datasets": (lambda data: write_tfds(data, "svhn_cropped"), load_svhn),
}


def digest(splits: Splits) -> str:
    """Returns a checksum of all that is loaded, with its order, types and shapes."""
    total = hashlib.sha256(repr((splits.spec, splits.source, splits.notes)).encode())
    for split in (splits.train, splits.validation, splits.test):
        if split is not None:
            assert isinstance(split, Split)
            for array in (split.inputs, split.targets):
                total.update(repr((array.dtype.str, array.shape)).encode() + array.tobytes())
    total.update(b"" if splits.mean is None else splits.mean.tobytes())
    return total.hexdigest()


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.arrays"))


@pytest.mark.parametrize("source", SOURCES)
def test_samples_are_those_that_decoding_gives_byte_for_byte(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    write, load = SOURCES[source]
    write(tmp_path / "data")
    with monkeypatch.context() as off:
        off.setenv("TFBENCH_CACHE_SIZE", "0")
        without = load(tmp_path / "data")
    assert without.cache == "" and not folder.exists()
    first, second = load(tmp_path / "data"), load(tmp_path / "data")
    assert (first.cache, second.cache) == ("written", "read")
    assert digest(without) == digest(first) == digest(second)
    assert sorted(path.suffix for path in folder.iterdir()) == [""] + [".arrays"] * len(entries(folder))


@pytest.mark.parametrize("source", ["packed IDX files", "tensorflow-datasets"])
def test_arrays_lie_in_the_same_kind_of_memory_however_they_came(tmp_path: Path, source: str) -> None:
    """Of their own process, aligned, writable: what training reads is as fast to read with the cache as without."""
    write, load = SOURCES[source]
    write(tmp_path / "data")
    for _ in ("written", "read"):
        inputs: Any = load(tmp_path / "data").train.inputs  # type: ignore[union-attr]
        assert inputs.ctypes.data % ALIGNMENT == 0 and inputs.flags.c_contiguous and inputs.flags.writeable
        while inputs.base is not None:
            inputs = inputs.base
            assert not isinstance(inputs, np.memmap)
        assert inputs.flags.owndata


def test_files_that_are_not_packed_are_read_as_ever(tmp_path: Path, folder: Path) -> None:
    write_idx(tmp_path / "data", packed=False)
    assert load_mnist(tmp_path / "data").cache == ""
    assert not folder.exists()


def test_data_is_found_by_its_contents_wherever_it_lies(tmp_path: Path, folder: Path) -> None:
    write_tfds(tmp_path / "data")
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    one, other = load_tiny(tmp_path / "data"), load_tiny(tmp_path / "copy")
    assert (one.cache, other.cache) == ("written", "read")
    assert (one.source, other.source) == (f"tfds tiny 1.0.0, {tmp_path}/data", f"tfds tiny 1.0.0, {tmp_path}/copy")


@pytest.mark.parametrize("source", ["packed IDX files", "tensorflow-datasets"])
def test_other_contents_of_the_same_size_and_time_are_decoded(tmp_path: Path, source: str) -> None:
    write, load = SOURCES[source]
    write(tmp_path / "data")
    before = load(tmp_path / "data")
    write(tmp_path / "other") if source != "packed IDX files" else write_idx(tmp_path / "other", seed=1)
    if source == "tensorflow-datasets":
        shutil.rmtree(tmp_path / "other")
        write_tfds(tmp_path / "other", seed=1)
    for path in sorted((tmp_path / "data").rglob("*")):
        if path.is_file():
            times = path.stat()
            shutil.copy(tmp_path / "other" / path.relative_to(tmp_path / "data"), path)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    after = load(tmp_path / "data")
    assert after.cache == "written"
    assert not np.array_equal(before.train.inputs, after.train.inputs)  # type: ignore[union-attr]


def test_another_version_of_anything_is_another_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tfds(tmp_path / "data")
    root = tmp_path / "data" / "tiny"
    one = cache.origin_of("tiny", "files", root, reader="numpy")
    assert one is not None and one.source == f"files, read by numpy {np.__version__}"
    others = [
        cache.origin_of("other", "files", root, reader="numpy"),
        cache.origin_of("tiny", "files", root, reader="scipy"),
        cache.origin_of("tiny", "files", root, reader="numpy", part="train"),
        dataclasses.replace(one, decoding=str(cache.DECODING + 1)),
    ]
    (root / "1.0.0").rename(root / "1.0.1")
    others.append(cache.origin_of("tiny", "files", root, reader="numpy"))
    assert len({other.name() for other in others if other} | {one.name()}) == 6


def test_what_cannot_be_told_apart_has_no_entry(tmp_path: Path) -> None:
    assert cache.origin_of("x", "files", tmp_path / "absent") is None
    assert cache.origin_of("x", "files", tmp_path) is None
    (tmp_path / "a").write_bytes(b"a")
    assert cache.origin_of("x", "files", tmp_path) is not None
    assert cache.origin_of("x", "files", tmp_path, reader="no-such-package") is None
    assert cache.origin_of("x", "files", tmp_path / "b", [tmp_path / "a"]) is None
    os.mkfifo(tmp_path / "pipe")
    assert cache.origin_of("x", "files", tmp_path) is None  # and does not wait for somebody to write to it
    (tmp_path / "pipe").unlink()
    (tmp_path / "circle").symlink_to(tmp_path)
    assert cache.origin_of("x", "files", tmp_path) is None


def flip(path: Path, place: int) -> None:
    contents = bytearray(path.read_bytes())
    contents[place] ^= 1
    path.write_bytes(contents)


def of_objects(path: Path) -> None:
    """Puts a pickle where the first array is, with all else as it should be."""
    header, _, _ = path.read_bytes().partition(b"\n")
    planted = path.parent / "planted"
    with planted.open("wb") as file:
        file.write(header + b"\n")
        np.save(file, np.array([Planted()], object), allow_pickle=True)
    planted.write_bytes(planted.read_bytes() + hashlib.sha256(planted.read_bytes()).digest())
    planted.replace(path)


class Planted:
    def __reduce__(self) -> Any:
        return os._exit, (1,)


def huge(path: Path) -> None:
    """Says that the first array has 2**60 rows."""
    path.write_bytes(
        path.read_bytes().replace(b"(40, 6, 5, 1), }            ", b"(1152921504606846976, 6,5,1)"[:20], 1)
    )


def link_to_itself_elsewhere(path: Path) -> None:
    path.rename(path.parent / "real")
    path.symlink_to(path.parent / "real")


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


FAULTS: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "cut off in its header": lambda path: os.truncate(path, 30),
    "cut off in an array": lambda path: os.truncate(path, path.stat().st_size // 2),
    "cut off before its last byte": lambda path: os.truncate(path, path.stat().st_size - 1),
    "without its checksum": lambda path: os.truncate(path, path.stat().st_size - 32),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"x"),
    "changed in its header": lambda path: flip(path, 40),
    "changed in an array": lambda path: flip(path, path.stat().st_size // 2),
    "changed in its checksum": lambda path: flip(path, path.stat().st_size - 1),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "an array beyond all bounds": huge,
    "a pickle": of_objects,
    "a link": link_to_itself_elsewhere,
    "a pipe": a_pipe,
    "open to a group": lambda path: path.chmod(0o660),
    "open to all": lambda path: path.chmod(0o602),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_an_entry_that_is_not_whole_or_not_ones_own_is_removed_and_written_anew(
    tmp_path: Path, folder: Path, fault: str
) -> None:
    write_idx(tmp_path / "data")
    right = digest(load_mnist(tmp_path / "data"))
    (path,) = entries(folder)
    contents = path.read_bytes()
    FAULTS[fault](path)
    found = load_mnist(tmp_path / "data")
    assert (found.cache, digest(found)) == ("written", right)
    assert not path.is_symlink() and path.read_bytes() == contents
    assert load_mnist(tmp_path / "data").cache == "read"


def test_no_byte_of_an_entry_can_be_changed_unseen(tmp_path: Path, folder: Path) -> None:
    write_idx(tmp_path / "data")
    load_mnist(tmp_path / "data")
    (path,) = entries(folder)
    contents = path.read_bytes()
    origin = cache.origin_of("mnist", "publisher's files", tmp_path / "data")
    assert origin is not None and path.name == f"{origin.name()}.arrays"
    about = dataclasses.asdict(origin)
    for place in range(0, len(contents), 7):
        flip(path, place)
        assert cache_folder.read_entry(folder, origin.name(), about) is None, place
        path.touch(mode=0o600)
        path.write_bytes(contents)
    assert cache_folder.read_entry(folder, origin.name(), about) is not None


def test_an_entry_of_other_data_under_its_name_is_not_used(tmp_path: Path, folder: Path) -> None:
    write_idx(tmp_path / "data")
    write_idx(tmp_path / "other", seed=1)
    right = digest(load_mnist(tmp_path / "data"))
    (path,) = entries(folder)
    load_mnist(tmp_path / "other")
    (other,) = set(entries(folder)) - {path}
    shutil.copy(other, path)
    found = load_mnist(tmp_path / "data")
    assert (found.cache, digest(found)) == ("written", right)


def test_an_entry_that_another_user_wrote_is_not_used(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_idx(tmp_path / "data")
    load_mnist(tmp_path / "data")
    users = iter([12345, os.geteuid()])  # who reads the entry, and who writes it anew
    with monkeypatch.context() as another_user:
        another_user.setattr(os, "geteuid", lambda: next(users))
        assert load_mnist(tmp_path / "data").cache == "written"


def test_samples_that_are_not_what_is_asked_for_are_refused_as_without_the_cache(tmp_path: Path) -> None:
    write_tfds(tmp_path / "data")
    load_tiny(tmp_path / "data")
    more = dataclasses.replace(SPEC, train_samples=41)
    with pytest.raises(DatasetError, match="split train: expected 41 samples, found 40"):
        tfds_arrays.load_tfds("tiny", more, str(tmp_path / "data"), splits=("train", "test"), host="https://x.example")
    with pytest.raises(DatasetError, match=r"the folder .*/absent does not exist"):
        load_tiny(tmp_path / "absent")


def test_damaged_data_is_refused_although_it_was_decoded_when_it_was_whole(tmp_path: Path) -> None:
    write_tfds(tmp_path / "data")
    load_tiny(tmp_path / "data")
    (records,) = (tmp_path / "data").rglob("*train*")
    flip(records, records.stat().st_size - 30)
    with pytest.raises(DatasetError, match="found one that is damaged or cut off"):
        load_tiny(tmp_path / "data")


def test_files_that_change_while_they_are_read_leave_no_entry(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_idx(tmp_path / "data")
    decode = mnist_files._read_pair

    def change(data: Path, images: str, labels: str) -> Any:
        write_idx(tmp_path / "data", seed=1)
        return decode(data, images, labels)

    monkeypatch.setattr(mnist_files, "_read_pair", change)
    assert load_mnist(tmp_path / "data").cache == "not written: the files changed while they were read"
    assert entries(folder) == []


def test_records_whose_files_are_elsewhere_are_not_kept(tmp_path: Path, folder: Path) -> None:
    write_tfds(tmp_path / "data")
    version = tmp_path / "data" / "tiny" / "1.0.0"
    (tmp_path / "data" / "x").mkdir()
    for path in version.glob("*.tfrecord*"):
        path.rename(tmp_path / "data" / "x" / path.name)
    description = version / "dataset_info.json"
    template = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"
    text = description.read_text(encoding="utf-8")
    assert template in text
    description.write_text(text.replace(template, f"../../x/{template}"), encoding="utf-8")
    assert load_tiny(tmp_path / "data").cache == f"not written: files of it are not in {tmp_path}/data/tiny"
    assert entries(folder) == []


# A process that dies in the middle, or several at once: what they leave.

CODE = """
import os, signal, sys
from pathlib import Path
sys.path[:0] = {paths}
import test_cache
from tfbench.datasets.sources import array_file
if sys.argv[1] == "die":
    real = array_file._Writer.digest
    def die(self):
        self._file.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    array_file._Writer.digest = die
for _ in range(int(sys.argv[3])):
    found = test_cache.load_mnist(Path(sys.argv[2]))
    print(found.cache, test_cache.digest(found), flush=True)
"""


def start(what: str, data: Path, times: int) -> "subprocess.Popen[str]":
    code = CODE.format(paths=[str(Path(__file__).parent)])
    return subprocess.Popen(
        [sys.executable, "-c", code, what, str(data), str(times)], stdout=subprocess.PIPE, text=True
    )


def test_a_writer_that_is_killed_leaves_nothing_that_is_used(tmp_path: Path, folder: Path) -> None:
    write_idx(tmp_path / "data")
    with start("die", tmp_path / "data", 1) as killed:
        assert killed.wait() == -signal.SIGKILL
    (leftover,) = folder.glob("*.part")
    assert [path.stat().st_size > 1_000 for path in leftover.iterdir()] == [True]
    assert entries(folder) == []
    assert [load_mnist(tmp_path / "data").cache for _ in range(2)] == ["written", "read"]
    assert list(folder.glob("*.part")) == []


def test_processes_that_need_the_same_data_at_once_all_get_it(tmp_path: Path, folder: Path) -> None:
    write_idx(tmp_path / "data")
    processes = [start("live", tmp_path / "data", 25) for _ in range(2)]
    said = [process.communicate()[0].splitlines() for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert [len(lines) for lines in said] == [25, 25]
    assert len({line.split()[-1] for lines in said for line in lines}) == 1
    assert load_mnist(tmp_path / "data").cache == "read"
    assert len(entries(folder)) == 1


@pytest.fixture
def another_writer(folder: Path) -> Iterator[None]:
    folder.mkdir()
    with (folder / "lock").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def test_who_finds_another_writer_at_work_goes_on_without(tmp_path: Path, folder: Path, another_writer: None) -> None:
    leftover = folder / f"{'0' * 32}.arrays.x.part"
    leftover.mkdir()  # of the other one
    write_idx(tmp_path / "data")
    assert load_mnist(tmp_path / "data").cache == "not written: another process was writing to the cache"
    assert leftover.is_dir()


# A disk that is full, a folder that is none, a limit.


@pytest.fixture
def no_room() -> Iterator[None]:
    """Files of this process can have no more than 2,000 bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    signal.signal(signal.SIGXFSZ, handler)


def test_without_room_on_the_disk_the_samples_are_decoded(
    tmp_path: Path, folder: Path, request: pytest.FixtureRequest
) -> None:
    write_idx(tmp_path / "data")
    right = digest(load_mnist(tmp_path / "data"))
    shutil.rmtree(folder)
    request.getfixturevalue("no_room")
    found = load_mnist(tmp_path / "data")
    assert (found.cache, digest(found)) == ("not written: File too large", right)
    assert [path.name for path in folder.iterdir()] == ["lock"]


def test_an_entry_does_not_fill_the_disk(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_idx(tmp_path / "data")
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(20_000))
    found = load_mnist(tmp_path / "data").cache
    assert found == "not written: it takes 18,664 bytes, and 20,000 are free on the disk"


def test_a_folder_that_cannot_be_one_costs_nothing_but_time(tmp_path: Path, folder: Path) -> None:
    write_idx(tmp_path / "data")
    folder.write_text("a file")
    assert load_mnist(tmp_path / "data").cache == "not written: File exists"
    assert folder.read_text() == "a file"


def test_what_was_not_used_for_longest_goes_first(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(3):
        write_idx(tmp_path / f"{seed}", seed=seed)
    load_mnist(tmp_path / "0")
    size = entries(folder)[0].stat().st_size
    load_mnist(tmp_path / "1")
    for path in entries(folder):
        os.utime(path, (1, 1))
    load_mnist(tmp_path / "0")
    # An entry is reckoned with 16 KiB beside its arrays before it is written.
    monkeypatch.setenv("TFBENCH_CACHE_SIZE", str(size + 2**14 + 3_000))
    assert load_mnist(tmp_path / "2").cache == "written"
    assert [load_mnist(tmp_path / f"{seed}").cache for seed in (0, 2)] == ["read", "read"]
    assert len(entries(folder)) == 2
    monkeypatch.setenv("TFBENCH_CACHE_SIZE", "9000")
    assert load_mnist(tmp_path / "1").cache == "not written: it takes 18,664 bytes, and TFBENCH_CACHE_SIZE is 9,000"
    assert len(entries(folder)) == 2


def test_where_files_have_no_modes_nothing_is_kept_that_would_never_be_used(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def open_to_all(path: str, flags: int) -> int:
        file = os.open(path, flags)
        os.fchmod(file, 0o777)
        return file

    write_idx(tmp_path / "data")
    monkeypatch.setattr(array_file, "_open_private", open_to_all)
    assert load_mnist(tmp_path / "data").cache == "not written: it would not be the user's own file"
    assert [path.name for path in folder.iterdir()] == ["lock"]


def test_files_of_other_programs_in_the_folder_stay(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_idx(tmp_path / "data")
    (folder / "my.arrays.old.part").mkdir(parents=True)
    (folder / "folder.arrays").mkdir()
    (folder / "thesis.arrays").write_bytes(bytes(20_000))
    monkeypatch.setenv("TFBENCH_CACHE_SIZE", "20000")
    before = set(folder.iterdir())
    assert [load_mnist(tmp_path / "data").cache for _ in range(2)] == ["written", "read"]
    assert cache_folder.remove(folder, cache_folder.list_entries(folder)) > 0
    assert set(folder.iterdir()) == before | {folder / "lock"}


def test_an_entry_that_came_into_being_just_now_is_not_removed(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_idx(tmp_path / "data")
    load_mnist(tmp_path / "data")

    def come_too_early(path: Path) -> Any:
        raise FileNotFoundError

    monkeypatch.setattr(cache_folder, "_open_own", come_too_early)
    assert cache_folder.read_entry(folder, entries(folder)[0].stem, {}) is None
    assert len(entries(folder)) == 1


@pytest.mark.parametrize(
    ("text", "limit"),
    [("", 10 * 2**30), ("0", 0), ("1000", 1000), ("1.5GiB", 3 * 2**29), ("20 MiB", 20 * 2**20)],
)
def test_the_limit_has_units(monkeypatch: pytest.MonkeyPatch, text: str, limit: int) -> None:
    monkeypatch.setenv("TFBENCH_CACHE_SIZE", text)
    assert cache_folder.read_limit() == limit


@pytest.mark.parametrize("text", ["-1", "off", "1GB", "0.5", "1e9", "nan", "1" * 16])
def test_a_limit_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("TFBENCH_CACHE_SIZE", text)
    with pytest.raises(DatasetError) as caught:
        cache_folder.read_limit()
    assert str(caught.value) == (
        f"TFBENCH_CACHE_SIZE: must be a size, such as 500MiB or 20GiB, or 0 for no cache. Received: {text}."
    )


def test_the_folder_is_where_the_user_keeps_such_things(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert cache_folder.find_folder() == tmp_path / "cache"
    monkeypatch.setenv("TFBENCH_CACHE_DIR", "~/kept")
    assert cache_folder.find_folder() == Path.home() / "kept"
    monkeypatch.delenv("TFBENCH_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert cache_folder.find_folder() == Path("/x/tfbench/arrays")
    monkeypatch.setenv("XDG_CACHE_HOME", "not/from/the/root")
    assert cache_folder.find_folder() == Path.home() / ".cache/tfbench/arrays"


def test_a_hit_imports_neither_tensorflow_nor_its_datasets(tmp_path: Path, folder: Path) -> None:
    write_tfds(tmp_path / "data")
    load_tiny(tmp_path / "data")
    spec = {name: getattr(SPEC, name) for name in SPEC.__slots__}
    code = f"""
import sys
from tfbench.datasets.sources.tfds_arrays import load_tfds
from tfbench.recipe.dataset_spec import DatasetSpec
found = load_tfds("tiny", DatasetSpec(**{spec}), {str(tmp_path / "data")!r}, splits=("train", "test"), host="")
print(found.cache, {{"tensorflow", "tensorflow_datasets", "scipy"}} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "read set()\n"


def test_the_default_folder_is_that_of_tensorflow_datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorflow_datasets.core import constants

    assert Path(tfds_arrays._default_folder()).expanduser() == Path(constants.get_default_data_dir())
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    assert tfds_arrays._default_folder() == constants.get_default_data_dir() == str(tmp_path)


def test_arrays_of_all_types_and_layouts_come_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    strided = rng.integers(0, 256, (32, 32, 3, 5000), np.uint8).transpose(3, 0, 1, 2)
    arrays = {
        "strided": strided,
        "big-endian": np.arange(5, dtype=">u4"),
        "floats": rng.normal(size=(3, 2)),
        "none": np.zeros((0, 4), np.float32),
        "flags": np.array([True, False]),
    }
    array_file.write_arrays(tmp_path / "x", {"of": "test"}, arrays, "note")
    with (tmp_path / "x").open("rb") as file:
        found, note = array_file.read_arrays(file, {"of": "test"})
    assert note == "note" and list(found) == list(arrays)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype and np.array_equal(found[name], array)
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o600
