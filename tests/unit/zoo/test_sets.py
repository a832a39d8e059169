"""The built-in sets of the zoo's tasks: what the generators make, and what a reader finds in the files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from headlens import paths
from headlens.data.builtin import read_builtin
from headlens.zoo import english, number_words, sets, shapes

DATA = paths.asset_dir() / "data"


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


def test_files_are_what_the_generators_make(tmp_path: Path) -> None:
    sets.write(tmp_path)
    for name in ("small-english.jsonl", "number-words.jsonl", "shapes.jsonl"):
        assert (tmp_path / name).read_bytes() == (DATA / name).read_bytes()
    for made in (tmp_path / "shapes").iterdir():
        # Compressors differ between machines, pixels do not.
        assert pixels(made) == pixels(DATA / "shapes" / made.name)
    assert len(list((tmp_path / "shapes").iterdir())) == len(list((DATA / "shapes").iterdir())) == 200


def pixels(path: Path) -> bytes:
    with Image.open(path) as picture:
        return picture.convert("RGB").tobytes()


def test_pictures_show_their_scenes() -> None:
    for row, scene in sets.pictures():
        assert row["label"] == scene.answer
        with Image.open(DATA / row["image"]) as picture:
            assert np.array_equal(np.asarray(picture.convert("RGB")), shapes.picture(scene))
    for split in ("score", "held-out"):
        examples = read_builtin("shapes", split).examples
        assert len(examples) == sets.PICTURES
        assert {example.label for example in examples} == set(shapes.LABELS)


@pytest.mark.parametrize(("name", "key"), [("small-english.jsonl", "text"), ("number-words.jsonl", "source")])
def test_halves_share_nothing(name: str, key: str) -> None:
    texts = [row[key] for row in rows(name)]
    assert len(set(texts)) == len(texts)
    assert [row["split"] for row in rows(name)] == ["score", "held-out"] * (len(texts) // 2)


def test_every_skill_is_needed_in_both_halves() -> None:
    for split in ("score", "held-out"):
        stories = [english.annotate(example.text or "") for example in read_builtin("small-english", split).examples]
        needed = [skill for story in stories for skill in story.skills if skill]
        assert min(needed.count(skill) for skill in english.SKILLS) >= 15


def test_numbers_of_the_halves() -> None:
    for split in ("score", "held-out"):
        large = 0
        for example in read_builtin("number-words", split).examples:
            known = {number_words.german(n): n for n in range(1000)}
            for word in (example.target or "").split():
                if "tausend" in word:
                    before, after = word.split("tausend")
                    number = _thousands(before) * 1000 + (known[after] if after else 0)
                    assert number_words.part_of(number) == split
                    large += 1
        assert large > 50


def _thousands(words: str) -> int:
    """The number before "tausend", where a one at the end is "ein"."""
    return next(n for n in range(1, 1000) if "".join(number_words.german_pieces(n * 1000)[:-1]) == words)
