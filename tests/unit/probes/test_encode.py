"""Pairs become the tokens that they should: checked with tokenizers whose pieces are known."""

from __future__ import annotations

from typing import Any

import pytest

from headlens.errors import HeadlensError
from headlens.lens import Lens
from headlens.probes.encode import (
    LONGER,
    NO_CONTEXT,
    NO_GAP,
    NO_SOURCE,
    NOT_KNOWN,
    SAME_BEGINNING,
    TOO_LONG,
    UNKNOWN,
    rows_of,
)
from headlens.probes.pairs import Pair
from tests.unit.helpers import TASKS, build, open_lens
from tests.unit.tiny_tokenizer import tiny_tokenizer


def lens(kind: str, tokenizer: Any = None) -> Lens:
    return open_lens(build(kind), TASKS[kind], tokenizer=tokenizer or tiny_tokenizer())


def pieces(**more: Any) -> Any:
    """Greedy pieces of words with the space in front in them, as in byte-level tokenizers: ``_at`` after ``c``."""
    from tokenizers import Tokenizer, decoders, models, normalizers
    from transformers import PreTrainedTokenizerFast

    words = ["<pad>", "<unk>", "_a", "_b", "_c", "at", "ar", "_cat", "(", ")", ")."]
    # Unigram: the pieces with the fewest parts win.
    raw = Tokenizer(models.Unigram([(w, -1.0) for w in words], unk_id=1))
    raw.normalizer = normalizers.Replace(" ", "_")  # type: ignore[assignment]
    raw.decoder = decoders.Replace("_", " ")  # type: ignore[assignment]
    return PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="<pad>", unk_token="<unk>", **more)


def test_causal_models_are_asked_for_the_first_token_that_differs() -> None:
    (row,) = rows_of(lens("gpt2"), [Pair("w3 w4 w5", " w6 w9", " w7 w9", " w8")]).rows
    assert row.inputs["input_ids"].tolist() == [3, 4, 5]
    assert row.inputs["attention_mask"].tolist() == [1, 1, 1]
    assert (row.position, row.right, row.foil) == (2, 6, 7)


def test_what_the_answers_share_belongs_to_the_context() -> None:
    (row,) = rows_of(lens("gpt2"), [Pair("w3", " w4 w5", " w4 w6")]).rows
    assert row.inputs["input_ids"].tolist() == [3, 4]
    assert (row.position, row.right, row.foil) == (1, 5, 6)


def test_a_token_at_the_end_of_every_text_changes_nothing() -> None:
    (row,) = rows_of(lens("gpt2", tiny_tokenizer(closes_texts=True)), [Pair("w3 w4", " w6", " w7")]).rows
    assert row.inputs["input_ids"].tolist() == [3, 4]


def test_whole_strings_are_tokenised_and_not_answers() -> None:
    """``_cat`` is one piece, so " c" + "at" against " c" + "ar" differs in its first token, not in "at"."""
    tokenizer = pieces()
    assert tokenizer(" a cat")["input_ids"] == [2, 7]
    (row,) = rows_of(lens("gpt2", tokenizer), [Pair(" a", " cat", " car")]).rows
    assert row.inputs["input_ids"].tolist() == [2]
    assert (row.right, row.foil) == (7, 4)
    (bracket,) = rows_of(lens("gpt2", tokenizer), [Pair(" a(", ").", "(")]).rows
    assert (bracket.right, bracket.foil) == (10, 8)


def test_masked_models_get_the_text_with_a_gap() -> None:
    (row,) = rows_of(lens("bert-mlm"), [Pair("w3 w4", " w6", " w7", " w8 w9")]).rows
    assert row.inputs["input_ids"].tolist() == [3, 4, 23, 8, 9]
    assert (row.position, row.right, row.foil) == (2, 6, 7)


def test_masked_models_need_answers_of_one_token() -> None:
    found = rows_of(
        lens("bert-mlm"),
        [Pair("w3", " w4 w5", " w6 w7", " w8"), Pair("w3", " w4 w5", " w6", " w8"), Pair("w3", " w4", " w5")],
    )
    assert len(found.rows) == 1
    assert found.dropped == {LONGER: 2}


def test_translators_write_the_target_up_to_the_answer() -> None:
    (row,) = rows_of(lens("t5"), [Pair("w5 w6", " w7", " w8", " w9", source="w3 w4")]).rows
    assert row.inputs["input_ids"].tolist() == [3, 4]
    assert row.inputs["decoder_input_ids"].tolist() == [0, 5, 6]  # the start token in front
    assert row.inputs["decoder_attention_mask"].tolist() == [1, 1, 1]
    assert (row.position, row.right, row.foil) == (2, 7, 8)
    (first,) = rows_of(lens("t5"), [Pair("", "w7", "w8", source="w3")]).rows
    assert (first.inputs["decoder_input_ids"].tolist(), first.position) == ([0], 0)


def test_gaps_of_encoder_decoder_models() -> None:
    """BART writes the whole text after one with a gap; T5 writes what belongs into the gap."""
    pair = Pair("w3 w4", " w6", " w7", " w8")
    (bart,) = rows_of(lens("t5"), [pair]).rows
    assert bart.inputs["input_ids"].tolist() == [3, 4, 23, 8]
    assert bart.inputs["decoder_input_ids"].tolist() == [0, 3, 4]
    assert (bart.position, bart.right, bart.foil) == (2, 6, 7)
    tokenizer = tiny_tokenizer()
    tokenizer.add_tokens(["<extra_id_0>", "<extra_id_1>"])
    assert rows_of(lens("t5", tokenizer), [pair]).dropped == {NOT_KNOWN: 1}  # the model has ids up to 23
    small = build("t5")
    small.resize_token_embeddings(26)
    (gap,) = rows_of(open_lens(small, "seq2seq", tokenizer=tokenizer), [pair]).rows
    assert gap.inputs["input_ids"].tolist() == [3, 4, 24, 8]
    assert gap.inputs["decoder_input_ids"].tolist() == [0, 24]
    assert (gap.position, gap.right, gap.foil) == (1, 6, 7)


def test_reasons() -> None:
    longest = Pair(" ".join(["w3"] * 32), " w4", " w5")
    found = rows_of(
        lens("gpt2"),
        [
            Pair("w3 nobody", " w4", " w5"),
            Pair("w3", " nobody", " w5"),
            Pair("", "w4", "w5"),
            Pair("w3", " w4", " w4 w5"),
            Pair("w3", " w4", " w5", source="w6"),
            longest,
            Pair(f"{longest.context} w3", " w4", " w5"),
        ],
    )
    wanted = {UNKNOWN: 2, NO_CONTEXT: 1, SAME_BEGINNING: 1, NO_SOURCE: 1, TOO_LONG: 1}
    assert (len(found.rows), found.dropped) == (1, wanted)
    without = tiny_tokenizer()
    without.mask_token = None
    assert rows_of(lens("bert-mlm", without), [longest]).dropped == {NO_GAP: 1}
    assert rows_of(lens("t5", without), [longest]).dropped == {NO_GAP: 1}


def test_a_name_for_unknown_words_that_also_ends_texts_drops_nothing() -> None:
    """Byte-level tokenizers (GPT-2, OPT) know every word and call both tokens the same."""
    tokenizer = tiny_tokenizer(closes_texts=True)
    tokenizer.unk_token = "[END]"
    tokenizer.bos_token = "[END]"
    found = rows_of(lens("gpt2", tokenizer), [Pair("[END] w3", " w4", " w5")])
    assert found.dropped == {}


@pytest.mark.parametrize("kind", ["bert-bare", "bert-class"])
def test_models_that_say_nothing_are_refused(kind: str) -> None:
    with pytest.raises(HeadlensError, match="says no words"):
        rows_of(lens(kind), [Pair("w3", " w4", " w5")])


def test_without_a_tokenizer_nothing_is_read() -> None:
    with pytest.raises(HeadlensError, match="no tokenizer"):
        rows_of(open_lens(build("gpt2"), "causal-lm"), [Pair("w3", " w4", " w5")])
