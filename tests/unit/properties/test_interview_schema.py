"""The interview's forms: what they take comes back, and no file, however broken, gives more than one line."""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from headlens.errors import DataError
from headlens.interview.bank import interview_dir, load_bank
from headlens.interview.progress import Answer, DiskLog, MemoryLog, export, merge
from headlens.interview.questions import QuestionFile
from tests.unit.properties.visits import one_line

FILES = sorted(path.name for path in interview_dir().glob("*.yaml"))
WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-(10**20), 10**20), st.floats(), WORDS)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(WORDS, inner, max_size=3)),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of everything inside a parsed file."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path] * bool(path) + [found for name, item in inner for found in places(item, (*path, name))]


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A copy with something else at ``path``."""
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = changed(value[path[0]], path[1:], new)
    return copy


def parsed(name: str) -> Any:
    return yaml.safe_load((interview_dir() / name).read_text(encoding="utf-8"))


PARSED = {name: parsed(name) for name in FILES}


@settings(deadline=None, max_examples=25)
@given(st.sampled_from(FILES), st.data())
def test_a_file_with_one_thing_changed_is_read_or_refused_in_one_line(name: str, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(places(PARSED[name])))
    broken = changed(PARSED[name], path, data.draw(VALUES))
    with tempfile.TemporaryDirectory() as folder:
        for other in FILES:
            if other != name:
                (Path(folder) / other).symlink_to(interview_dir() / other)
        (Path(folder) / name).write_text(yaml.safe_dump(broken, allow_unicode=True), encoding="utf-8")
        try:
            load_bank(Path(folder))
        except DataError as error:
            one_line(error)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from([name for name in FILES if name not in ("main.yaml", "sources.yaml")]), st.data())
def test_what_the_schema_takes_it_also_gives_back(name: str, data: st.DataObject) -> None:
    questions = PARSED[name]["questions"]
    one = data.draw(st.sampled_from(questions))
    path = data.draw(st.sampled_from(places(one)))
    try:
        taken = QuestionFile.model_validate({"questions": [changed(one, path, data.draw(SCALARS))]})
    except ValidationError:
        return
    assert QuestionFile.model_validate(taken.model_dump(mode="json")) == taken


ANSWERS = st.builds(
    Answer,
    question=st.from_regex(r"\A[a-z0-9]{1,8}(-[a-z0-9]{1,8}){0,3}\Z"),
    score=st.floats(0, 1),
    right=st.booleans(),
    where=st.sampled_from(["question", "drill", "mock"]),
    seconds=st.one_of(st.none(), st.floats(0, 86_400)),
)


@settings(deadline=None, max_examples=50)
@given(st.lists(ANSWERS, max_size=6), st.data())
def test_logs_that_are_merged_in_any_order_and_twice_are_the_same(answers: list[Answer], data: st.DataObject) -> None:
    logs = [MemoryLog(), MemoryLog()]
    for answer in answers:
        data.draw(st.sampled_from(logs)).add(answer)
    one, other = MemoryLog(), MemoryLog()
    for log in logs:
        merge(one, export(log).encode())
    for log in (*reversed(logs), *logs):
        merge(other, export(log).encode())
    assert one.events() == other.events()
    assert {event.id for event in one.events()} == {answer.id for answer in answers}


@pytest.mark.parametrize("seed", range(30))
def test_a_damaged_log_keeps_every_line_that_is_whole(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    log = DiskLog(tmp_path / "progress.jsonl")
    log.add(*(Answer(question=f"q{i}", score=1, right=True, where="drill") for i in range(12)))
    raw = bytearray(log.path.read_bytes())
    lines = bytes(raw).split(b"\n")[:-1]
    starts = [sum(len(line) + 1 for line in lines[:i]) for i in range(len(lines))]
    hit: set[int] = set()
    for place in chance.sample(range(len(raw) - 1), 3):
        if raw[place] == 10:
            continue
        raw[place] = 0  # never part of JSON
        hit.add(max(i for i, start in enumerate(starts) if start <= place))
    log.path.write_bytes(bytes(raw))
    found = DiskLog(log.path)
    whole = {json.loads(line)["id"] for i, line in enumerate(lines) if i not in hit}
    assert {event.id for event in found.events()} == whole
    assert found.damaged == len(hit)
