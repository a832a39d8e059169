"""A small model that has learned something, a cut of it that has lost it, and text about it."""

from __future__ import annotations

import copy
import functools
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headlens.lens import Lens
from headlens.models.loading import load
from headlens.pruning.cut import cut
from headlens.pruning.saved import save_cut, source_of
from headlens.pruning.training_data import RecoveryData, recovery_data

WORDS = ("ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen", "ibis", "jay", "kite", "lark")
OFF = "L0H0-H2,L1H1-H3"
_NEXT = np.random.default_rng(3).permutation(len(WORDS))


def line(rng: np.random.Generator, length: int = 14) -> str:
    """Every word follows from the one two places before it, so guessing it takes looking back."""
    numbers = list(rng.integers(0, len(WORDS), 2))
    while len(numbers) < length:
        numbers.append(_NEXT[numbers[-2]])
    return " ".join(WORDS[number] for number in numbers)


def lines(count: int, seed: int = 0) -> list[str]:
    """Different lines."""
    rng = np.random.default_rng(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        found[line(rng, int(rng.integers(8, 15)))] = None
    return list(found)


def tokenizer() -> Any:
    """One token a word."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    special = ["<pad>", "</s>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
    raw = Tokenizer(models.WordLevel({word: i for i, word in enumerate([*special, *WORDS])}, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()  # type: ignore[assignment]
    names = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>", "mask_token": "[MASK]"}
    return PreTrainedTokenizerFast(tokenizer_object=raw, **names)


def trained(folder: Path) -> Path:
    """A GPT-2 of 2 layers x 4 heads that has learned the lines, in a folder."""
    reader, model = _trained()
    model.save_pretrained(folder)
    reader.save_pretrained(folder)
    return folder


@functools.cache
def _trained() -> tuple[Any, Any]:
    """Tokenizer and model; made once a process (two seconds)."""
    from transformers import GPT2Config, GPT2LMHeadModel

    reader = tokenizer()
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"n_layer": 2, "n_head": 4, "n_embd": 32, "n_positions": 32, "vocab_size": len(reader)}
    model = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=1, eos_token_id=1, pad_token_id=0))
    model.eval()
    rng = np.random.default_rng(1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    for _ in range(140):
        ids = reader([line(rng) for _ in range(16)], return_tensors="pt")["input_ids"]
        model(ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return reader, model


def cut_of(full: Path, folder: Path, off: str = OFF) -> Path:
    """The folder of its cut."""
    lens = Lens(load(str(full)))
    save_cut(cut(lens, lens.topology.parse(off)), folder, source=source_of(lens), command="headlens prune ...")
    return folder


def text_file(path: Path, count: int = 120, seed: int = 5) -> Path:
    """Lines to recover with."""
    path.write_text("\n".join(lines(count, seed)), encoding="utf-8")
    return path


def open_lens(folder: Path) -> Lens:
    """A model of its own."""
    return Lens(load(str(folder), dtype="float32"))


def data_of(lens: Lens, path: Path, **more: Any) -> RecoveryData:
    """The three parts of a file."""
    return recovery_data(lens, str(path), **more)


def weights(lens: Lens) -> dict[str, torch.Tensor]:
    """A copy of all of them."""
    return copy.deepcopy(dict(lens.model.state_dict()))
