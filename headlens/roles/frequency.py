"""How common each token is, counted in everything at hand that the model reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from headlens.data.builtin import SetInfo, index, read_builtin
from headlens.data.encode import TOKENIZER_LOCK
from headlens.data.select import OWN_SET
from headlens.zoo.recipes import SETS

if TYPE_CHECKING:
    from headlens.data.encode import EncodedData
    from headlens.lens import Lens

INPUTS = ("input_ids", "decoder_input_ids")


def token_counts(lens: Lens, data: EncodedData) -> Mapping[str, Counter[int]]:
    """Counts of token ids by the model input that they are in.

    Counted are the given data, and besides the built-in set that the model is made for, or, where it names none, all
    English ones: some ten thousand tokens, since in a few texts nearly every word is a rare one.

    Args:
        lens: the model.
        data: what is measured.
    """
    found: dict[str, Counter[int]] = {name: Counter() for name in INPUTS}
    for example in data.examples:
        for name, counts in found.items():
            counts.update(example.inputs[name].tolist() if name in example.inputs else ())
    if lens.tokenizer is not None:
        for entry in _sets(lens):
            for example in read_builtin(entry.name, "all").examples:
                found["input_ids"].update(_ids(lens.tokenizer, text=example.text or example.source))
                found["decoder_input_ids"].update(_ids(lens.tokenizer, text_target=example.target))
    return found


def _sets(lens: Lens) -> Iterable[SetInfo]:
    own = getattr(lens.model.config, OWN_SET, None)
    named = [entry for entry in index() if entry.name == own]
    everyday = [entry for entry in index() if entry.language.startswith("en") and entry.name not in SETS.values()]
    return named or everyday


def _ids(tokenizer: Any, **texts: str | None) -> list[int]:
    if not any(texts.values()):
        return []
    with TOKENIZER_LOCK:
        return tokenizer(**texts)["input_ids"]
