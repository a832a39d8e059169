"""The result store: exact round trips, keys against hashlib; damage, kills, races and full disks lose nothing."""

from __future__ import annotations

import errno
import hashlib
import inspect
import json
import logging
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from headlens import paths
from headlens.errors import StoreError
from headlens.store import STALE_SECONDS, Store, unit_key

REPO = Path(__file__).resolve().parents[2]
KEY = "0123456789abcdef" * 4


def arrays_of(i: int) -> dict[str, np.ndarray]:
    """What entry number ``i`` must hold; known to this process and, by source, to the child processes."""
    rng = np.random.default_rng(i)
    return {"score": rng.standard_normal((40, 50 + i % 7)), "n": np.array(i), "on": rng.random(5) > 0.5}


def same_bits(got: dict[str, np.ndarray] | None, want: dict[str, np.ndarray]) -> bool:
    if got is None or got.keys() != want.keys():
        return False
    return all(
        (got[n].dtype, got[n].shape, got[n].tobytes()) == (want[n].dtype, want[n].shape, want[n].tobytes())
        for n in want
    )


def right(got: dict[str, np.ndarray] | None, i: int) -> bool:
    return same_bits(got, arrays_of(i))


CHILD = f"""
from __future__ import annotations
import os, sys
from pathlib import Path
import numpy as np
from headlens.errors import StoreError
from headlens.store import Store, unit_key
{inspect.getsource(arrays_of)}
{inspect.getsource(same_bits)}
{inspect.getsource(right)}
store = Store(Path(sys.argv[1]))
"""


@contextmanager
def child(script: str, root: Path, **options: Any) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "PYTHONPATH": str(REPO), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD + script, str(root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=root.parent,
        **options,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def files_in(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file())


# Round trips


def test_what_is_put_comes_back_to_the_bit(tmp_path: Path) -> None:
    nan_with_payload = np.array([0x7FF8DEADBEEF0001, 0xFFF0000000000001], np.uint64).view(np.float64)
    arrays = {
        "f32": np.array([[1.5, -0.0], [np.nan, np.inf]], np.float32),
        "f64": nan_with_payload,
        "i64": np.array([-(2**63), 2**63 - 1]),
        "bool": np.array([True, False, True]),
        "0-d": np.array(2.5),
        "0-d bool": np.array(True),
        "empty": np.zeros((0, 3), np.float32),
        "Überschrift ∂": np.arange(3),
    }
    Store(tmp_path / "s").put(KEY, arrays, {"seconds": 1.25})
    assert same_bits(Store(tmp_path / "s").get(KEY), arrays)


def test_views_and_foreign_byte_order_keep_their_values(tmp_path: Path) -> None:
    base = np.arange(24.0).reshape(4, 6)
    views = {"t": base.T, "step": base[::-2, 1::2], "fortran": np.asfortranarray(base), "big": base.astype(">f8")}
    store = Store(tmp_path)
    store.put(KEY, views)
    got = store.get(KEY)
    assert got is not None
    for name, view in views.items():
        np.testing.assert_array_equal(got[name], view)
        assert got[name].shape == view.shape


def test_returned_arrays_are_own_and_writeable(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(KEY, {"a": np.zeros(3), "n": np.array(1)})
    first = store.get(KEY)
    assert first is not None
    assert all(array.flags.writeable and array.flags.owndata for array in first.values())
    first["a"][:] = 7
    first["n"][...] = 7
    assert same_bits(store.get(KEY), {"a": np.zeros(3), "n": np.array(1)})


def test_an_entry_without_arrays_is_not_a_missing_one(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(KEY, {})
    assert store.get(KEY) == {}
    assert store.meta(KEY) == {}


def test_missing_entries_and_folders(tmp_path: Path) -> None:
    store = Store(tmp_path / "never" / "made")
    assert store.get(KEY) is None
    assert store.meta(KEY) is None
    assert KEY not in store
    assert (store.size(), store.clear(), store.prune_to(0)) == (0, 0, 0)
    assert not (tmp_path / "never").exists()


def test_meta_comes_back(tmp_path: Path) -> None:
    store = Store(tmp_path)
    meta = {"seconds": 0.1, "versions": {"numpy": np.__version__}, "heads": (1, 2), "note": "é \ud800 \"'", "no": None}
    store.put(KEY, {"a": np.zeros(1)}, {**meta, "nan": float("nan")})
    got = store.meta(KEY)
    assert got is not None
    assert str(got.pop("nan")) == "nan"
    assert got == {**meta, "heads": [1, 2]}


def test_a_second_put_replaces_the_first(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(KEY, {"a": np.zeros(3)}, {"run": 1})
    store.put(KEY, {"b": np.ones(2)}, {"run": 2})
    assert same_bits(store.get(KEY), {"b": np.ones(2)})
    assert store.meta(KEY) == {"run": 2}
    assert [path.relative_to(tmp_path).as_posix() for path in files_in(tmp_path)] == [f"{KEY[:2]}/{KEY}"]


@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=12).filter(lambda name: name != "__metadata__"),
        st.sampled_from(["f4", "f8", "i8", "?", "f2", "u1"]).flatmap(
            lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
        ),
        max_size=4,
    )
)
def test_any_arrays_survive(arrays: dict[str, np.ndarray]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        store.put(KEY, arrays)
        assert same_bits(store.get(KEY), arrays)


@pytest.mark.parametrize(
    ("arrays", "meta", "error"),
    [
        ({"a": np.array(["text"])}, {}, TypeError),
        ({"a": np.array([object()])}, {}, TypeError),
        ({"a": np.zeros(2, np.complex128)}, {}, TypeError),
        ({"a": np.zeros(2, np.longdouble)}, {}, TypeError),
        ({"__metadata__": np.zeros(2)}, {}, ValueError),
        ({1: np.zeros(2)}, {}, ValueError),
        ({"a": np.zeros(2)}, {"b": {1, 2}}, TypeError),
    ],
)
def test_what_cannot_be_kept_is_refused_before_anything_is_written(
    tmp_path: Path, arrays: Any, meta: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        Store(tmp_path / "s").put(KEY, arrays, meta)
    assert not (tmp_path / "s").exists()


# Keys

FIELDS: dict[str, Any] = {
    "model": "smollm2-135m",
    "layer": 3,
    "heads": [[0, 1], [2, 8]],
    "alpha": 0.1,
    "ablation": {"kind": "mean", "seed": 0},
    "relative": True,
    "data": None,
}


def test_the_key_is_the_sha256_of_this_text() -> None:
    text = (
        '{"schema":1,"what":{"ablation":{"kind":"mean","seed":0},"alpha":0.1,"data":null,"heads":[[0,1],[2,8]],'
        '"layer":3,"model":"smollm2-135m","relative":true}}'
    )
    golden = "8b2da92bc530ddf25d2b4b2adafae59de6dbfe9fe597202f6cecee943ad6c15b"
    assert hashlib.sha256(text.encode()).hexdigest() == golden
    assert unit_key(**FIELDS) == golden
    assert unit_key(**dict(reversed(FIELDS.items()))) == golden
    assert Store.unit_key(**FIELDS) == golden
    assert unit_key(**{**FIELDS, "heads": ((0, 1), (2, 8)), "alpha": np.float64(0.1)}) == golden


@pytest.mark.parametrize(
    "change",
    [
        {"model": "smollm2-135M"},
        {"layer": 4},
        {"layer": "3"},
        {"layer": 3.0},
        {"heads": [[0, 1], [8, 2]]},
        {"heads": [[0, 1, 2, 8]]},
        {"alpha": float(np.nextafter(0.1, 1))},
        {"ablation": {"kind": "mean", "seed": 1}},
        {"ablation": {"kind": "mean"}},
        {"relative": False},
        {"relative": 1},
        {"data": "null"},
        {"extra": None},
    ],
)
def test_any_other_field_gives_another_key(change: dict[str, Any]) -> None:
    assert unit_key(**{**FIELDS, **change}) != unit_key(**FIELDS)


def test_a_left_out_field_gives_another_key() -> None:
    shorter = [{name: FIELDS[name] for name in FIELDS if name != left_out} for left_out in FIELDS]
    assert len({unit_key(**fields) for fields in [FIELDS, *shorter]}) == len(FIELDS) + 1


def test_the_schema_is_part_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = unit_key(**FIELDS)
    monkeypatch.setattr("headlens.store.SCHEMA", 2)
    assert unit_key(**FIELDS) != before


@pytest.mark.parametrize(
    "value",
    [{1, 2}, frozenset(), b"x", np.zeros(2), np.int64(1), np.float32(1), Path("x"), object(), {1: 2}, [[{None: 0}]]],
    ids=lambda value: type(value).__name__,
)
def test_unknown_types_are_refused_and_named(value: object) -> None:
    with pytest.raises(TypeError, match=r"\['field'\]"):
        unit_key(field={"deep": [value]})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [-float("inf")]])
def test_numbers_without_a_json_form_are_refused(value: object) -> None:
    with pytest.raises(ValueError):
        unit_key(field=value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=100, deadline=None)
@given(json_values, json_values)
def test_keys_are_equal_exactly_when_the_fields_are(one: object, other: object) -> None:
    assert unit_key(x=one) == unit_key(x=json.loads(json.dumps(one)))
    # repr tells 1 from 1.0 from True, and -0.0 from 0.0; dicts are compared with their items in order.
    assert (unit_key(x=one) == unit_key(x=other)) == (ordered(one) == ordered(other))


def ordered(value: object) -> str:
    if isinstance(value, dict):
        return repr(sorted((name, ordered(item)) for name, item in value.items()))
    if isinstance(value, list):
        return f"list{[ordered(item) for item in value]}"
    return f"{type(value).__name__} {value!r}"


@pytest.mark.parametrize("key", ["", "ab", "../" * 21 + "x", KEY.upper(), KEY + "\n", KEY + "0"])
def test_only_keys_from_unit_key_are_taken(tmp_path: Path, key: str) -> None:
    store = Store(tmp_path / "s")
    for use in (store.get, store.meta, store.__contains__, lambda key: store.put(key, {})):
        with pytest.raises(ValueError, match="unit_key"):
            use(key)
    assert not (tmp_path / "s").exists()


# Damage


def damaged(tmp_path: Path) -> tuple[Store, Path, bytes, dict[str, np.ndarray]]:
    store, arrays = Store(tmp_path), {"a": np.array([1.0, np.nan]), "n": np.array(3)}
    store.put(KEY, arrays, {"seconds": 1})
    (path,) = files_in(tmp_path)
    return store, path, path.read_bytes(), arrays


def test_cut_at_every_byte_it_is_missing(tmp_path: Path) -> None:
    store, path, whole, arrays = damaged(tmp_path)
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert (store.meta(KEY) if length % 2 else store.get(KEY)) is None, length
        assert not path.exists(), length
    path.write_bytes(whole)
    assert same_bits(store.get(KEY), arrays)


def test_flipped_bits_are_never_returned(tmp_path: Path) -> None:
    store, path, whole, _ = damaged(tmp_path)
    rng = random.Random(0)
    positions = [*range(72), *(rng.randrange(len(whole)) for _ in range(200))]  # the whole header, then anywhere
    for position in positions:
        broken = bytearray(whole)
        broken[position] ^= 1 << rng.randrange(8)
        path.write_bytes(broken)
        assert store.get(KEY) is None, position
        assert not path.exists(), position


@pytest.mark.parametrize("junk", [b"", b"\0" * 4096, b"{}", os.urandom(500)])
def test_foreign_or_lengthened_files_are_missing(tmp_path: Path, junk: bytes) -> None:
    store, path, whole, _ = damaged(tmp_path)
    for content in (junk, whole + b"\0", whole + whole):
        path.write_bytes(content)
        assert KEY not in store
        assert not path.exists()


def test_a_sound_file_under_another_key_is_missing(tmp_path: Path) -> None:
    store, path, whole, arrays = damaged(tmp_path)
    other = KEY[:-1] + "0"
    path.with_name(other).write_bytes(whole)
    assert store.get(other) is None
    assert files_in(tmp_path) == [path]
    assert same_bits(store.get(KEY), arrays)


def test_damage_is_logged_once_and_healed_by_the_next_put(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store, path, whole, arrays = damaged(tmp_path)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            path.write_bytes(whole[:-1])
            assert store.get(KEY) is None
    assert [(record.levelname, str(path) in record.getMessage()) for record in caplog.records] == [("WARNING", True)]
    store.put(KEY, arrays)
    assert same_bits(store.get(KEY), arrays)


# Kills and races


def test_kill_9_loses_at_most_the_unit_in_work(tmp_path: Path) -> None:
    root, done, rng = tmp_path / "s", 0, random.Random(1)
    script = (
        "i = int(sys.stdin.readline())\n"
        "while True:\n"
        "    store.put(unit_key(i=i), arrays_of(i), {'i': i})\n"
        "    i += 1\n"
        "    os.write(1, f'{i}\\n'.encode())\n"
    )
    for _ in range(6):
        with child(script, root) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{done}\n")
            process.stdin.flush()
            assert process.stdout.readline() == f"{done + 1}\n"
            time.sleep(rng.uniform(0, 0.08))
            process.kill()
            told = [int(line) for line in process.communicate()[0].splitlines() if line]
        done = told[-1] if told else done + 1
    store = Store(root)
    assert all(right(store.get(unit_key(i=i)), i) for i in range(done))
    entries = [path for path in files_in(root) if path.suffix != ".tmp"]
    assert len(entries) in (done, done + 1)
    assert store.size() == sum(path.stat().st_size for path in entries)


def test_two_processes_write_and_read_the_same_keys(tmp_path: Path) -> None:
    root = tmp_path / "s"
    script = (
        "import random\n"
        "order = [i for i in range(50) for _ in range(3)]\n"
        "random.Random(os.getpid()).shuffle(order)\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "for i in order:\n"
        "    got = store.get(unit_key(i=i))\n"
        "    assert got is None or right(got, i)\n"
        "    store.put(unit_key(i=i), arrays_of(i), {'i': i})\n"
        "    assert right(store.get(unit_key(i=i)), i)\n"
        "    assert store.meta(unit_key(i=i)) == {'i': i}\n"
    )
    with child(script, root) as one, child(script, root) as other:
        for process in (one, other):
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in (one, other):
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        for process in (one, other):
            errors = process.communicate(timeout=60)[1]
            assert process.returncode == 0, errors
            assert errors == ""  # no warning about damage either
    store = Store(root)
    assert len(files_in(root)) == 50
    assert all(right(store.get(unit_key(i=i)), i) for i in range(50))


def test_remains_of_killed_writers_are_swept_after_an_hour(tmp_path: Path) -> None:
    Store(tmp_path).put(KEY, {})
    old, fresh = tmp_path / "01" / "old.tmp", tmp_path / "01" / "fresh.tmp"
    for path, age in ((old, STALE_SECONDS + 60), (fresh, STALE_SECONDS - 60)):
        path.write_bytes(b"half")
        then = time.time() - age
        os.utime(path, (then, then))
    Store(tmp_path).put(unit_key(i=1), {})
    assert (old.exists(), fresh.exists()) == (False, True)
    assert KEY in Store(tmp_path)


# Disks that refuse


@pytest.mark.parametrize("call", ["os.fsync", "pathlib.Path.replace", "pathlib.Path.mkdir"])
def test_a_full_disk_says_what_to_do_and_spoils_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    store, old = Store(tmp_path), {"a": np.arange(3.0)}
    store.put(KEY, old)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(call, full)
        with pytest.raises(StoreError) as caught:
            store.put(KEY, {"a": np.zeros(3)})
        with pytest.raises(StoreError):
            store.put(unit_key(i=1), {"a": np.zeros(3)})
    message = str(caught.value)
    assert "\n" not in message
    assert str(tmp_path) in message
    assert "free space or set HEADLENS_CACHE to another folder" in message
    assert [path.name for path in files_in(tmp_path)] == [KEY]
    assert same_bits(store.get(KEY), old)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on the length of a process's files")
def test_a_write_that_the_system_cuts_short_leaves_no_trace(tmp_path: Path) -> None:
    script = (
        "import resource\n"
        "store.put(unit_key(i=0), arrays_of(0))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "try:\n"
        "    store.put(unit_key(i=1), {'big': np.ones(100_000)})\n"
        "except StoreError as error:\n"
        "    print(error)\n"
        "assert store.get(unit_key(i=1)) is None and right(store.get(unit_key(i=0)), 0)\n"
    )
    with child(script, tmp_path / "s") as process:
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    assert str(tmp_path / "s") in output
    assert output.count("\n") == 1
    assert len(files_in(tmp_path / "s")) == 1


def obey_permissions() -> None:
    """In a child process: take away root's right to ignore file modes (CAP_DAC_OVERRIDE and _READ_SEARCH)."""
    if os.geteuid() == 0:
        import ctypes

        for capability in (1, 2):
            if ctypes.CDLL(None, use_errno=True).prctl(24, capability, 0, 0, 0):  # PR_CAPBSET_DROP
                raise OSError("prctl failed")


@pytest.mark.skipif(sys.platform == "win32", reason="file modes do not protect folders on Windows")
@pytest.mark.parametrize(("mode", "served"), [(0o555, True), (0o000, False)])
def test_a_folder_without_permission(tmp_path: Path, mode: int, served: bool) -> None:
    root = tmp_path / "s"
    key = unit_key(i=0)
    Store(root).put(key, arrays_of(0))
    Store(root).put(unit_key(i=1), {})
    spoilt = root / unit_key(i=1)[:2] / unit_key(i=1)
    spoilt.write_bytes(b"spoilt")
    script = (
        "import json\n"
        "def told(call):\n"
        "    try:\n"
        "        return call()\n"
        "    except StoreError as error:\n"
        "        return 'StoreError: ' + str(error)\n"
        "print(json.dumps([told(lambda: right(store.get(unit_key(i=0)), 0)), told(lambda: store.get(unit_key(i=1))),\n"
        "    told(lambda: store.put(unit_key(i=0), {})), told(lambda: store.put(unit_key(i=2), {}))]))\n"
    )
    folders = [root / key[:2], spoilt.parent, root]
    for folder in folders:
        folder.chmod(mode)
    try:
        with child(script, root, preexec_fn=obey_permissions) as process:
            output, errors = process.communicate(timeout=60)
    finally:
        for folder in reversed(folders):
            folder.chmod(0o755)
    assert process.returncode == 0, errors
    got, lost, *puts = json.loads(output)
    if served:
        assert (got, lost) == (True, None)
    for refusal in puts if served else [got, lost, *puts]:
        assert refusal.startswith("StoreError: cannot ")
        assert f"{root} (Permission denied)" in refusal
        assert "set HEADLENS_CACHE to another folder" in refusal
    assert len(files_in(root)) == 2


def test_a_root_that_is_a_file(tmp_path: Path) -> None:
    root = tmp_path / "file"
    root.write_text("mine")
    for use in (lambda: Store(root).put(KEY, {}), lambda: Store(root).get(KEY), lambda: Store(root / "x").put(KEY, {})):
        with pytest.raises(StoreError, match=r"Not a directory.*set HEADLENS_CACHE to another folder") as caught:
            use()
        assert str(root) in str(caught.value)
    assert root.read_text() == "mine"


# Size


def test_prune_removes_the_least_recently_used(tmp_path: Path) -> None:
    store = Store(tmp_path)
    keys = [unit_key(i=i) for i in range(4)]
    for age, key in enumerate(keys):
        store.put(key, {"a": np.zeros(100)})
        path = tmp_path / key[:2] / key
        os.utime(path, (1_000_000 + age, 1_000_000 + age))
    one = store.size() // 4
    assert store.size() == sum(path.stat().st_size for path in files_in(tmp_path))
    assert store.get(keys[0]) is not None  # the oldest becomes the newest
    assert store.prune_to(store.size()) == 0
    assert store.prune_to(2 * one + 1) == 2
    assert [key in store for key in keys] == [True, False, False, True]
    assert store.size() == 2 * one


def test_clear_takes_all_entries_and_nothing_else(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for i in range(5):
        store.put(unit_key(i=i), {"a": np.zeros(i)})
    emptied = tmp_path / unit_key(i=9)[:2] / unit_key(i=9)  # by a crash of the machine
    emptied.parent.mkdir(exist_ok=True)
    emptied.touch()
    os.utime(emptied, (time.time() + 9, time.time() + 9))
    note, working = tmp_path / "note.txt", tmp_path / unit_key(i=0)[:2] / "other-writer.tmp"
    note.touch()
    working.touch()
    assert store.clear() == 6
    assert store.size() == 0
    assert files_in(tmp_path) == sorted([note, working])
    with pytest.raises(ValueError, match="-1"):
        store.prune_to(-1)


# Where it lies


def test_the_environment_chooses_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADLENS_CACHE", str(tmp_path / "c"))
    store = Store()
    assert (paths.cache_dir(), paths.store_dir()) == (tmp_path / "c", store.root)
    assert store.root.is_relative_to(tmp_path / "c")
    assert paths.models_cache_dir().is_relative_to(tmp_path / "c")
    assert not paths.models_cache_dir().is_relative_to(store.root)
    assert list(tmp_path.iterdir()) == []
    store.put(KEY, {"a": np.ones(1)})
    assert len(files_in(tmp_path / "c")) == 1


def test_home_relative_and_unset_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for value, folder in (("~/c", tmp_path / "c"), ("d", tmp_path / "d")):
        monkeypatch.setenv("HEADLENS_CACHE", value)
        assert paths.cache_dir() == folder
    monkeypatch.setenv("HEADLENS_CACHE", "~no-such-user/c")
    with pytest.raises(StoreError, match="~no-such-user/c"):
        paths.cache_dir()
    for unset in (lambda: monkeypatch.setenv("HEADLENS_CACHE", ""), lambda: monkeypatch.delenv("HEADLENS_CACHE")):
        unset()
        assert paths.cache_dir().is_absolute()
        assert "headlens" in str(paths.cache_dir())


def test_assets_lie_beside_the_package() -> None:
    assert paths.asset_dir() == REPO / "assets"
