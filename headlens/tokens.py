"""Token labels that a person can read, for any tokenizer and any script.

A tokenizer's own pieces (``Ġcat``, ``▁cat``, ``##ing``, ``ä½``) are storage, not text. The readable form is asked from
the tokenizer's own decoder, so that no family is named here:

* a decoder that turns ``Ġ`` into a space is *byte-level*: its pieces stand for bytes, and so do the ``<0xE4>`` pieces
  of a decoder with byte fallback. Bytes are put together to characters over the whole run of tokens.
* any other piece contributes what the decoded text gains when the piece is put after the one before it.

A character whose bytes are spread over k tokens is shown in each of them with its share: ``你¹⁄₃``, ``你²⁄₃``,
``你³⁄₃``.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import Any

_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_SUBSCRIPT = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_VISIBLE = {"\n": "⏎", "\t": "⇥", "\r": "␍", "\x7f": "␡", " ": "␣"}
_NAMES = {"\u00a0": "NBSP", "\u200b": "ZWSP", "\u200c": "ZWNJ", "\u200d": "ZWJ", "\ufe0f": "VS16", "\ufeff": "BOM"}
_UNSEEN_CATEGORIES = frozenset(["Cc", "Cf", "Cn", "Co", "Cs", "Zs", "Zl", "Zp"])
# These shape the character before them (emoji sequences, Persian words): after a visible character they stay.
_JOINERS = frozenset("\u200c\u200d\ufe0e\ufe0f")
# Letters by Unicode category that nevertheless draw nothing: the Hangul fillers and the empty Braille cell.
_BLANK = frozenset("\u115f\u1160\u3164\uffa0\u2800")


@dataclass(frozen=True)
class TokenLabel:
    """One token as a person reads it.

    Attributes:
        text: Readable, never empty, without the leading space. Newline is ``⏎``, tab ``⇥``, a space that is not just
            the one before a word ``␣``; other invisible characters are named, ``[ZWSP]`` or ``[U+2028]``; bytes of no
            character are ``<0xE4>``; a combining mark that starts a token sits on ``◌``; a character spread over
            tokens carries its share, ``你¹⁄₃``.
        id: The token's id.
        raw: The tokenizer's own piece ("" where the vocabulary has none for this id).
        is_special: Whether it is a special token such as ``[CLS]`` or ``<|endoftext|>``.
        starts_word: Whether one space stands before ``text`` in the decoded text.
        surface: The exact characters this token adds to the decoded text. A shared character belongs to its first
            token; special tokens and bytes of no character add nothing. Joined, the surfaces are the text.
        note: A few words where the text needs them ("part 1 of 3 of the character 你"), else "".
    """

    text: str
    id: int
    raw: str
    is_special: bool = False
    starts_word: bool = False
    surface: str = ""
    note: str = ""


def readable_tokens(tokenizer: Any, ids: Sequence[int]) -> list[TokenLabel]:
    """Give every token id a readable label.

    Args:
        tokenizer: A transformers tokenizer, of either backend.
        ids: Token ids [token] of one sequence, whole or a window of it. A window that starts inside a character shows
            its first bytes as ``<0xBD>``, so label the whole sequence and cut the labels.

    Returns:
        One label per id, in order.
    """
    numbers = [int(i) for i in ids]
    pieces = [tokenizer.convert_ids_to_tokens(number) if number >= 0 else None for number in numbers]
    added = getattr(tokenizer, "added_tokens_decoder", {})
    special = set(tokenizer.all_special_ids) | {i for i, token in added.items() if getattr(token, "special", False)}
    decoder = _Decoder(tokenizer, frozenset(added))
    labels: list[TokenLabel] = []
    run: list[tuple[int, str]] = []
    before: str | None = None  # the piece before the run, once the text has begun
    for number, piece in zip(numbers, pieces, strict=True):
        if piece is not None and number not in special:
            run.append((number, piece))
            continue
        labels += _label_run(decoder, run, before)
        if run or before is not None or number == getattr(tokenizer, "unk_token_id", None):
            before = piece
        run = []
        labels.append(_lone_label(number, piece))
    return labels + _label_run(decoder, run, before)


def _lone_label(number: int, piece: str | None) -> TokenLabel:
    """Label of a special token, or of an id that the vocabulary does not have."""
    if piece is None:
        return TokenLabel(f"[id {number}]", number, "", note="not in the vocabulary")
    # Some vocabularies write the spaces of a special token's name in their own way (<|begin▁of▁sentence|>).
    return TokenLabel(visible(piece.replace("▁", " ")), number, piece, is_special=True)


def visible(text: str) -> str:
    """Replace every character of ``text`` that cannot be seen by a sign or a name; see ``TokenLabel.text``."""
    out: list[str] = []
    for index, char in enumerate(text):
        after_visible = index > 0 and bool(out) and not out[-1].endswith("]")
        if char == " " and 0 < index < len(text) - 1 and text[index - 1] != " " and text[index + 1] != " ":
            out.append(char)
        elif char in _VISIBLE:
            out.append(_VISIBLE[char])
        elif char < " ":
            out.append(chr(0x2400 + ord(char)))
        elif char in _JOINERS and after_visible and text[index - 1] not in _JOINERS:
            out.append(char)
        elif char in _NAMES:
            out.append(f"[{_NAMES[char]}]")
        elif char in _BLANK or char == "\ufffd" or unicodedata.category(char) in _UNSEEN_CATEGORIES:
            out.append(f"[U+{ord(char):04X}]")
        elif not after_visible and unicodedata.category(char).startswith("M"):
            out.append("◌" + char)
        else:
            out.append(char)
    return "".join(out)


class _Decoder:
    """What one tokenizer's pieces stand for, learned from how its decoder behaves."""

    def __init__(self, tokenizer: Any, added: frozenset[int]) -> None:
        self._tokenizer = tokenizer
        self._added = added
        self._byte_level = self._decode(["Ġ"]) == " " and self._decode(["Ċ"]) == "\n"
        self._byte_fallback = self._decode(["<0x41>"]) == "A"
        model = getattr(getattr(tokenizer, "backend_tokenizer", None), "model", None)
        # CLIP's byte-level pieces end a word with </w>, which is not text and which no decoder takes off.
        self._end_of_word = (getattr(model, "end_of_word_suffix", None) or "") if self._byte_level else ""

    def _decode(self, pieces: list[str]) -> str:
        return self._tokenizer.convert_tokens_to_string(pieces)

    def is_byte(self, piece: str) -> bool:
        return self._byte_fallback and _BYTE_PIECE.fullmatch(piece) is not None

    def content(self, run: Sequence[tuple[int, str]], before: str | None) -> list[bytes]:
        """UTF-8 bytes that each (id, piece) of a run without special tokens adds to the text."""
        out: list[bytes] = []
        pending_space = b""
        for index, (number, piece) in enumerate(run):
            if number in self._added:
                out.append(pending_space + piece.encode("utf-8", "surrogatepass"))
                pending_space = b""
            elif self._byte_level:
                ends_word = bool(self._end_of_word) and piece.endswith(self._end_of_word)
                body = piece.removesuffix(self._end_of_word) if ends_word else piece
                out.append(pending_space + _piece_bytes(body))
                pending_space = b" " if ends_word else b""
            elif self.is_byte(piece):
                out.append(bytes([int(piece[3:5], 16)]))
            else:
                out.append(self._gain(run[index - 1][1] if index else before, piece).encode("utf-8", "surrogatepass"))
        return out

    def _gain(self, before: str | None, piece: str) -> str:
        """The characters that the decoded text gains when ``piece`` follows ``before``."""
        if before is not None:
            return self._decode([before, piece])[len(self._decode([before])) :]
        alone = self._decode([piece])
        # A window may start with a continuation piece (##ing), whose mark only goes when something is before it.
        after_itself = self._decode([piece, piece])[len(alone) :]
        return alone if after_itself.startswith(" ") else after_itself


@cache
def _byte_of_char() -> dict[str, int]:
    """The byte-level alphabet: a printable Latin-1 character is its own byte, the others are U+0100, U+0101, ..."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}


def _piece_bytes(piece: str) -> bytes:
    table = _byte_of_char()
    if all(char in table for char in piece):
        return bytes(table[char] for char in piece)
    return piece.encode("utf-8", "surrogatepass")  # the byte-level decoder, too, takes such a piece as plain text


@dataclass(frozen=True)
class _Character:
    """A decoded character, or one byte that belongs to none, and the byte range [start, stop) it has in the run."""

    text: str
    start: int
    stop: int
    valid: bool


def _characters(data: bytes) -> list[_Character]:
    """Split UTF-8 bytes into characters; a byte that fits nowhere stands alone and is marked invalid."""
    out: list[_Character] = []
    start = 0
    while start < len(data):
        lead = data[start]
        size = 1 if lead < 0x80 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
        try:
            text, valid = data[start : start + size].decode("utf-8"), True
        except UnicodeDecodeError:
            text, valid, size = f"<0x{lead:02X}>", False, 1
        out.append(_Character(text, start, start + size, valid))
        start += size
    return out


def _label_run(decoder: _Decoder, run: Sequence[tuple[int, str]], before: str | None) -> list[TokenLabel]:
    """Labels of consecutive tokens none of which is special; ``before`` is the piece in front of them, if any."""
    contents = decoder.content(run, before)
    stops = list(accumulate(len(content) for content in contents))
    parts: list[list[tuple[_Character, int, int]]] = [[] for _ in run]
    for character in _characters(b"".join(contents)):
        first, last = bisect_right(stops, character.start), bisect_right(stops, character.stop - 1)
        owners = [i for i in range(first, last + 1) if contents[i]]
        for place, token in enumerate(owners, start=1):
            parts[token].append((character, place, len(owners)))
    return [_label(number, piece, mine) for (number, piece), mine in zip(run, parts, strict=True)]


def _label(number: int, piece: str, parts: Sequence[tuple[_Character, int, int]]) -> TokenLabel:
    """The label of one token from its characters, each with the token's place among those that share it."""
    surface = "".join(c.text for c, place, _ in parts if c.valid and place == 1)
    starts_word = len(parts) > 1 and parts[0][0].text == " " and parts[1][0].text != " "
    shown = parts[1:] if starts_word else parts
    text, plain, notes = "", "", []
    for character, place, of in shown:
        if character.valid and of == 1:
            plain += character.text
            continue
        text, plain = text + visible(plain), ""
        if character.valid:
            share = f"{place}".translate(_SUPERSCRIPT) + "⁄" + f"{of}".translate(_SUBSCRIPT)
            text += visible(character.text) + share
            notes.append(f"part {place} of {of} of the character {visible(character.text)}")
        else:
            text += character.text
            notes.append("a byte that belongs to no character")
    text += visible(plain)
    note = "; ".join(dict.fromkeys(notes))
    if not text:  # a piece that decodes to nothing, such as SentencePiece's lone ▁ at the start of a text
        text, note = "␣" if piece.strip("▁Ġ ") == "" else "[empty]", note or "adds no character to the text"
    return TokenLabel(text, number, piece, starts_word=starts_word, surface=surface, note=note)
