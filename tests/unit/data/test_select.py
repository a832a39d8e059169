"""Choosing what is measured: names and paths, halves that depend on content only, limits."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headlens.data.builtin import read_builtin
from headlens.data.dataset import DataSet, Example
from headlens.data.select import default_for, load_data, split_examples
from headlens.errors import DataError

TEXTS = st.lists(st.text("abcdef", min_size=1, max_size=3), max_size=40)


def examples_of(texts: list[str]) -> list[Example]:
    return [Example(text=text) for text in texts]


def file_of(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def refused(spec: str | None, task: str = "causal-lm", **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        load_data(spec, task=task, **options)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


class TestHalves:
    @given(TEXTS, st.integers(-3, 10))
    def test_together_they_are_all_and_they_share_nothing(self, texts: list[str], seed: int) -> None:
        halves = [split_examples(examples_of(texts), split, seed) for split in ("score", "held-out")]
        score, held = ([e.text for e in half] for half in halves)
        assert Counter(score) + Counter(held) == Counter(texts)
        assert not set(score) & set(held)
        # Each keeps the order of the file.
        for half, other in ((score, set(held)), (held, set(score))):
            assert half == [text for text in texts if text not in other]
        largest = max(Counter(texts).values(), default=1)
        assert abs(len(score) - len(held)) <= largest
        if largest == 1:
            assert len(score) - len(held) in (0, 1)

    @given(TEXTS, st.randoms(use_true_random=False))
    def test_order_changes_no_half_when_texts_differ(self, texts: list[str], shuffler: random.Random) -> None:
        texts = list(dict.fromkeys(texts))
        before = {e.text for e in split_examples(examples_of(texts), "score", 3)}
        shuffler.shuffle(texts)
        assert {e.text for e in split_examples(examples_of(texts), "score", 3)} == before

    def test_seeds_and_chance(self) -> None:
        examples = examples_of([str(i) for i in range(200)])
        first = {seed: {e.text for e in split_examples(examples, "score", seed)} for seed in range(20)}
        for a in range(20):
            for b in range(a):
                # Hypergeometric: 50 expected of 100, standard deviation 3.5.
                assert 32 < len(first[a] & first[b]) < 68
        assert split_examples(examples, "score", 7) == split_examples(examples, "score", 7)
        assert split_examples(examples, "all", 7) == tuple(examples)

    def test_every_field_counts(self, tmp_path: Path) -> None:
        base = {"text": "a", "text_pair": "b", "label": 1}
        variants = [Example(**base), Example(**{**base, "text_pair": None}), Example(**{**base, "label": "1"})]
        sizes = {len(split_examples([a, b], "held-out", 0)) for a in variants for b in variants if a is not b}
        assert sizes == {1}
        assert len(split_examples([variants[0]] * 2, "held-out", 0)) == 0

    def test_pictures_by_their_bytes(self, tmp_path: Path) -> None:
        sides = []
        for place in ("one", "two"):
            folder = tmp_path / place
            folder.mkdir()
            for i in range(10):
                (folder / f"{place}{i}.png").write_bytes(bytes([i]))
            rows = [{"image": f"{place}{i}.png", "label": 0} for i in range(10)]
            spec = file_of(folder / "a.jsonl", rows)
            data = load_data(spec, task="image-classification", split="score")
            sides.append([e.image.read_bytes() for e in data.examples if e.image])
        assert sides[0] == sides[1]
        assert len(sides[0]) == 5


class TestNames:
    def test_default_set_and_its_half(self) -> None:
        assert load_data(None, task="causal-lm") == read_builtin("stories", "score")
        assert load_data(None, task="seq2seq", default_split="held-out") == read_builtin("en-de", "held-out")
        assert load_data("reviews", task="text-classification", split="all", default_split="held-out") == read_builtin(
            "reviews", "all"
        )

    def test_file_is_whole_unless_asked(self, tmp_path: Path) -> None:
        spec = file_of(tmp_path / "a.jsonl", [{"text": str(i)} for i in range(9)])
        for split in (None, "all"):
            data = load_data(spec, task="causal-lm", split=split, default_split="held-out")
            assert [e.text for e in data.examples] == [str(i) for i in range(9)]
            assert (data.name, data.split, data.built_in) == ("a.jsonl", "all", False)
        halves = [load_data(spec, task="causal-lm", split=s, seed=4) for s in ("score", "held-out")]
        assert [len(half.examples) for half in halves] == [5, 4]
        assert [half.split for half in halves] == ["score", "held-out"]

    def test_limit_comes_after_splitting(self, tmp_path: Path) -> None:
        spec = file_of(tmp_path / "a.jsonl", [{"text": str(i)} for i in range(20)])
        for split in ("score", "held-out"):
            half = load_data(spec, task="causal-lm", split=split).examples
            assert load_data(spec, task="causal-lm", split=split, limit=3).examples == half[:3]
            assert load_data(spec, task="causal-lm", split=split, limit=1000).examples == half
        assert load_data("news", task="causal-lm", limit=2).examples == read_builtin("news", "score").examples[:2]
        assert "--limit 0" in refused(None, limit=0)

    def test_a_file_called_like_a_set_needs_its_path(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        Path("news").write_text("text\n")
        assert load_data("news", task="causal-lm").built_in
        assert "unknown ending" in refused("./news")

    def test_home_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        file_of(tmp_path / "a.jsonl", [{"text": "a"}])
        assert load_data("~/a.jsonl", task="causal-lm").examples == (Example(text="a"),)
        assert "no home folder" in refused("~no-such-user/a.jsonl")

    @pytest.mark.parametrize("spec", ["storeis", "Stories", "novels", "", "a\0b", "x" * 5000, "two words\nand more"])
    def test_unknown_name(self, spec: str) -> None:
        message = refused(spec)
        assert message.startswith("unknown data set")
        assert "sets for causal-lm models: stories, essays, dialogue, news, letters, code, small-english;" in message
        assert message.endswith("or a path to a .txt/.jsonl/.csv/.tsv/.parquet file")
        assert ("did you mean stories?" in message) == (spec in ("storeis", "Stories"))
        assert len(message) < 400

    def test_missing_file_is_told_as_such(self, tmp_path: Path) -> None:
        assert "no such file" in refused("none.txt")
        assert "no such file" in refused(str(tmp_path / "none"))
        assert "is a folder" in refused(str(tmp_path))

    def test_unknown_split(self) -> None:
        assert "unknown split 'test'; choose one of score, held-out, all" in refused(None, split="test")

    def test_half_without_examples(self, tmp_path: Path) -> None:
        spec = file_of(tmp_path / "a.jsonl", [{"text": "same"}] * 5)
        assert "too few different examples" in refused(spec, split="held-out")


class TestFit:
    def test_labels_are_left_aside_for_language_models(self, tmp_path: Path) -> None:
        spec = file_of(tmp_path / "a.jsonl", [{"text": "a", "label": 1, "text_pair": "b"}])
        for task in ("causal-lm", "masked-lm", "embedding"):
            assert load_data(spec, task=task) == DataSet("a.jsonl", "text", "all", (Example(text="a"),))
        assert load_data("reviews", task="causal-lm").kind == "text"

    @pytest.mark.parametrize(
        ("spec", "task", "words"),
        [
            ("news", "seq2seq", "news has text, and seq2seq models need a file with columns source,target"),
            ("news", "seq2seq", "--data en-de"),
            ("en-de", "causal-lm", "--data stories"),
            ("news", "text-classification", "columns text[,text_pair],label; or use --data reviews"),
            ("reviews", "image-classification", "columns image,label"),
            ("news", "audio", "audio models take no data"),
            (None, "audio", "audio models take no data"),
        ],
    )
    def test_wrong_kind(self, spec: str | None, task: str, words: str) -> None:
        assert words in refused(spec, task)


@settings(max_examples=30)
@given(st.integers(0, 100))
def test_halves_of_a_fixed_list_stay_the_same_for_ever(seed: int) -> None:
    """The rule, written again: groups in the order of sha256(seed|repr(fields)), one to each half in turn."""
    import hashlib

    texts = [f"text {i}" for i in range(9)]
    keys = {t: hashlib.sha256(f"{seed}|({t!r}, None, None, None, None)".encode()).hexdigest() for t in texts}
    ranked = sorted(texts, key=lambda t: keys[t])
    assert {e.text for e in split_examples(examples_of(texts), "score", seed)} == set(ranked[::2])


class TestDefaultFor:
    """The set of a model that says what it is made for, and of one that does not."""

    @staticmethod
    def lens(task: str, own: str | None = None) -> Any:
        config = SimpleNamespace() if own is None else SimpleNamespace(headlens_data=own)
        return SimpleNamespace(task=task, name="m", model=SimpleNamespace(config=config))

    @pytest.mark.parametrize(
        ("task", "own", "wanted"),
        [
            ("causal-lm", None, "stories"),
            ("causal-lm", "small-english", "small-english"),
            ("causal-lm", "number-words", "stories"),  # pairs are nothing for it
            ("masked-lm", "nonsense", "stories"),
            ("seq2seq", "number-words", "number-words"),
            ("image-classification", "shapes", "shapes"),
        ],
    )
    def test_names(self, task: str, own: str | None, wanted: str) -> None:
        assert default_for(self.lens(task, own)) == wanted

    def test_pictures_need_the_right_classes(self) -> None:
        with pytest.raises(DataError, match="no built-in set has the classes of m; pass a file with image,label"):
            default_for(self.lens("image-classification"))
        with pytest.raises(DataError, match="audio models take no data"):
            default_for(self.lens("audio"))
