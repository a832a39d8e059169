"""Number words against a list written by hand and against a reader that works the other way round."""

from __future__ import annotations

import re
from collections import Counter
from random import Random

import pytest

from headlens.zoo import number_words
from headlens.zoo.number_words import MILLION, english, german, german_pieces, pair, part_of
from headlens.zoo.vocabulary import number_tokenizer

BY_HAND = {
    0: ("zero", "null"),
    1: ("one", "eins"),
    6: ("six", "sechs"),
    11: ("eleven", "elf"),
    12: ("twelve", "zwölf"),
    16: ("sixteen", "sechzehn"),
    17: ("seventeen", "siebzehn"),
    20: ("twenty", "zwanzig"),
    21: ("twenty-one", "einundzwanzig"),
    30: ("thirty", "dreißig"),
    61: ("sixty-one", "einundsechzig"),
    77: ("seventy-seven", "siebenundsiebzig"),
    100: ("one hundred", "einhundert"),
    101: ("one hundred one", "einhunderteins"),
    111: ("one hundred eleven", "einhundertelf"),
    121: ("one hundred twenty-one", "einhunderteinundzwanzig"),
    723: ("seven hundred twenty-three", "siebenhundertdreiundzwanzig"),
    1000: ("one thousand", "eintausend"),
    1001: ("one thousand one", "eintausendeins"),
    1100: ("one thousand one hundred", "eintausendeinhundert"),
    11_000: ("eleven thousand", "elftausend"),
    21_021: ("twenty-one thousand twenty-one", "einundzwanzigtausendeinundzwanzig"),
    101_101: ("one hundred one thousand one hundred one", "einhunderteintausendeinhunderteins"),
    200_016: ("two hundred thousand sixteen", "zweihunderttausendsechzehn"),
    999_999: (
        "nine hundred ninety-nine thousand nine hundred ninety-nine",
        "neunhundertneunundneunzigtausendneunhundertneunundneunzig",
    ),
    1_000_000: ("one million", "eine Million"),
}


@pytest.mark.parametrize("number", BY_HAND)
def test_words_by_hand(number: int) -> None:
    assert (english(number), german(number)) == BY_HAND[number]


@pytest.mark.parametrize("number", [-1, 1_000_001])
def test_numbers_without_words(number: int) -> None:
    with pytest.raises(ValueError, match="million"):
        english(number)
    with pytest.raises(ValueError, match="million"):
        german(number)


def read_english(words: str) -> int:
    """The number that English words mean."""
    ones = "zero one two three four five six seven eight nine ten eleven twelve".split()  # noqa: SIM905
    ones += [stem + "teen" for stem in ("thir", "four", "fif", "six", "seven", "eigh", "nine")]
    tens = ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
    total = current = 0
    for word in re.split("[ -]", words):
        if word == "hundred":
            current *= 100
        elif word in ("thousand", "million"):
            total, current = total + current * {"thousand": 1000, "million": MILLION}[word], 0
        else:
            current += ones.index(word) if word in ones else 10 * tens.index(word)
    return total + current


def read_german(word: str) -> int:
    """The number that a German word means, read from the largest part down."""
    if word == "eine Million":
        return MILLION
    for part, value in (("tausend", 1000), ("hundert", 100)):
        if part in word:
            before, after = word.split(part, 1)
            return read_german(before) * value + (read_german(after) if after else 0)
    if "und" in word:
        ones, tens = word.split("und")
        return read_german(ones) + read_german(tens)
    stems = ["null", "ein", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn", "elf", "zwölf"]
    if word in stems or word == "eins":
        return 1 if word == "eins" else stems.index(word)
    short = [*stems[:6], "sech", "sieb", *stems[8:10]]
    if word.endswith("zehn"):
        return 10 + short.index(word.removesuffix("zehn"))
    tens = word.removesuffix("zig").removesuffix("ßig")
    return 20 if tens == "zwan" else 10 * short.index(tens)


def numbers() -> list[int]:
    rng = Random(0)
    return [*range(2000), *(rng.randrange(MILLION) for _ in range(3000)), MILLION]


def test_words_read_back() -> None:
    for number in numbers():
        assert read_english(english(number)) == number
        assert read_german(german(number)) == number


def test_tokens_are_the_parts_of_the_word() -> None:
    tokenizer = number_tokenizer()
    for number in numbers()[:-1]:
        ids = tokenizer(text_target=german(number))["input_ids"]
        tokens = tokenizer.convert_ids_to_tokens(ids)
        assert tokens[-1] == "</s>"
        assert [token.removeprefix("##") for token in tokens[:-1]] == german_pieces(number)
        assert tokenizer.decode(ids, skip_special_tokens=True) == german(number)
        ids = tokenizer(english(number))["input_ids"]
        assert tokenizer.unk_token_id not in ids
        assert tokenizer.decode(ids, skip_special_tokens=True) == english(number)


def test_parts_share_no_large_number() -> None:
    counts = Counter(part_of(number) for number in range(1000, 21_000))
    assert set(counts) == {"train", "score", "held-out"}
    assert counts["train"] / 20_000 == pytest.approx(0.8, abs=0.01)
    assert counts["score"] / 20_000 == pytest.approx(0.1, abs=0.01)
    assert {part_of(number) for number in (0, 999, MILLION)} == {None}


@pytest.mark.parametrize("part", ["train", "score", "held-out"])
def test_pairs_mean_the_same_on_both_sides(part: number_words.Part) -> None:
    rng, alone, kinds = Random(part), 0, set()
    for _ in range(2000):
        example = pair(rng, part)
        assert {part_of(number) for number in example.numbers} <= {None, part}
        if len(example.numbers) == 1:
            alone += 1
            assert [read_english(example.source), read_german(example.target)] == [*example.numbers] * 2
            continue
        low, high = example.numbers
        assert low < high
        for number in example.numbers:
            assert english(number) in example.source
            assert german(number) in example.target
        source = example.source.replace(english(high), "H", 1).replace(english(low), "L", 1)
        kinds.add((source, example.target.replace(german(high), "H", 1).replace(german(low), "L", 1)))
    assert alone / 2000 == pytest.approx(0.4, abs=0.05)
    assert {
        ("from L to H", "von L bis H"),
        ("between L and H", "zwischen L und H"),
        ("page L of H", "Seite L von H"),
        ("H is more than L", "H ist mehr als L"),
    } <= kinds


def test_the_seed_decides() -> None:
    first, again, other = ([pair(Random(seed), "train") for _ in range(2)] for seed in (1, 1, 2))
    assert first == again != other
