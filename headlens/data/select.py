"""Which examples are measured: a set or file by name, its half, its first N, and the small live set."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from headlens.data.builtin import default_set, index, read_builtin
from headlens.data.dataset import COLUMNS, KINDS, DataSet, Example, Split
from headlens.data.readers import ENDINGS, read_file
from headlens.data.rows import shorten
from headlens.errors import DataError

if TYPE_CHECKING:
    from headlens.data.encode import Encoded, EncodedData
    from headlens.lens import Lens

OWN_SET = "headlens_data"
"""Key of a model's config that names the built-in set that it is made for; ``save_pretrained`` keeps it."""

LIVE_TOKENS = 256
"""Input tokens of the live set."""


def load_data(
    spec: str | None,
    *,
    task: str,
    split: Split | None = None,
    default_split: Split = "score",
    limit: int | None = None,
    seed: int = 0,
) -> DataSet:
    """The examples that a command measures.

    Args:
        spec: name of a built-in set, else path of a data file; None: the default set of ``task``.
        task: task of the model.
        split: which half was asked for; a file is left whole where nothing was asked.
        default_split: which half of a built-in set is meant where nothing was asked.
        limit: only the first so many examples, counted after splitting.
        seed: decides the halves of a file, see :func:`split_examples`.

    Raises:
        DataError: unknown name, unusable file, data of a kind that the task does not take, an empty half.
    """
    if split is not None and split not in get_args(Split):
        raise DataError(f"unknown split {split!r}; choose one of {', '.join(get_args(Split))}")
    if limit is not None and limit < 1:
        raise DataError(f"--limit {limit}: at least 1 example is needed")
    name = default_set(task) if spec is None else spec
    if any(entry.name == name for entry in index()):
        data = _fit(read_builtin(name, split or default_split), task)
    else:
        data = _fit(read_file(_path(name, task)), task)
        if split in ("score", "held-out"):
            data = split_file(data, split, seed)
    return data if limit is None else replace(data, examples=data.examples[:limit])


def default_for(lens: Lens) -> str:
    """Name of the set that a model is measured on unless told otherwise: the one it says that it is made for
    (``headlens_data`` in its config, as the models of the zoo have it), else the default set of its task.

    Raises:
        DataError: as :func:`headlens.data.builtin.default_set`; also for a classifier of pictures that does not say so,
            since its classes are not the answers of the built-in pictures.
    """
    own = getattr(lens.model.config, OWN_SET, None)
    if any(entry.name == own and lens.task in entry.tasks for entry in index()):
        return str(own)
    if lens.task == "image-classification":
        columns = COLUMNS["images"]
        raise DataError(f"no built-in set has the classes of {lens.name}; pass a file with {columns}: --data FILE")
    return default_set(lens.task)


def split_file(data: DataSet, split: Split, seed: int) -> DataSet:
    """One half of a user's file.

    Raises:
        DataError: the half has no examples, since the file has too few different ones.
    """
    examples = split_examples(data.examples, split, seed)
    if not examples:
        raise DataError(f"{data.name}: too few different examples for two halves; add some, or use --split all")
    return replace(data, split=split, examples=examples)


def split_examples(examples: Sequence[Example], split: Split, seed: int) -> tuple[Example, ...]:
    """One of two halves that depend on the seed and on what the examples say, not on their order.

    Equal examples stay together, so the halves never share one. Each group of equal examples goes to the half that is
    smaller so far (to ``score`` where both are equal), in the order of the sha256 of seed and content. Without
    repetitions ``score`` has as many examples as ``held-out``, or one more. A half keeps the order of the file.
    """
    if split == "all":
        return tuple(examples)
    groups: dict[bytes, list[int]] = {}
    for i, example in enumerate(examples):
        groups.setdefault(hashlib.sha256(f"{seed}|".encode() + _content(example)).digest(), []).append(i)
    halves: dict[str, list[int]] = {"score": [], "held-out": []}
    for key in sorted(groups):
        smaller = "held-out" if len(halves["held-out"]) < len(halves["score"]) else "score"
        halves[smaller].extend(groups[key])
    return tuple(examples[i] for i in sorted(halves[split]))


def _content(example: Example) -> bytes:
    """What tells examples apart; pictures by their bytes, so that moving a folder changes nothing."""
    fields = (example.text, example.text_pair, example.source, example.target, example.label)
    content = repr(fields).encode()
    if example.image is None:
        return content
    try:
        return content + hashlib.sha256(example.image.read_bytes()).digest()
    except OSError as error:
        raise DataError(f"{example.image}: the picture cannot be read ({error.strerror})") from error


def _path(spec: str, task: str) -> Path:
    """The file that ``spec`` means; a word that is no file and does not look like one is told as an unknown set."""
    try:
        path = Path(spec).expanduser()
    except RuntimeError as error:
        raise DataError(f"{spec}: no home folder is known for that user; give the full path") from error
    try:
        exists = bool(spec) and path.exists()
    except (OSError, ValueError):  # a whole text, say: too long, or with a NUL character
        exists = False
    if exists or path.suffix.lower() in ENDINGS or len(path.parts) > 1:
        return path
    sets = index()
    close = difflib.get_close_matches(spec.lower(), [entry.name for entry in sets], n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    names = ", ".join(entry.name for entry in sets if task in entry.tasks) or "none"
    files = "/".join(ENDINGS)
    raise DataError(
        f"unknown data set {shorten(spec)!r}; {hint}sets for {task} models: {names}; or a path to a {files} file"
    )


def _fit(data: DataSet, task: str) -> DataSet:
    """``data`` as models of this task take it: labels are left aside where only texts are needed."""
    kinds = KINDS.get(task)
    if kinds is None:
        default_set(task)
        return data
    if data.kind in kinds:
        return data
    if data.kind == "labelled" and "text" in kinds:
        return replace(data, kind="text", examples=tuple(Example(text=example.text) for example in data.examples))
    fitting = [entry.name for entry in index() if task in entry.tasks]
    advice = f"; or use --data {fitting[0]}" if fitting else ""
    found, needed = COLUMNS[data.kind], " | ".join(COLUMNS[kind] for kind in kinds)
    raise DataError(f"{data.name} has {found}, and {task} models need a file with columns {needed}{advice}")


def live_set(lens: Lens, data: DataSet | None = None, *, tokens: int = LIVE_TOKENS) -> EncodedData:
    """What a toggle recomputes: the start of the default set's held-out half, at most ``tokens`` input tokens.

    The rule: examples are tokenised as :func:`headlens.data.encode.encode` does by default (128 tokens, seed 0) and
    taken in order while their input tokens, special ones included, fit in what is left. Encoder-decoder models count
    source and target. The first example that does not fit ends the set: it is tokenised again, cut to what is left
    (to half of it on each side for source and target), and kept if each side then has room for two tokens besides
    the special ones.

    Args:
        lens: the opened model.
        data: instead of the default set's held-out half.
        tokens: how many input tokens at most.

    Raises:
        DataError: no default set for the task, or nothing to predict in so few tokens.
    """
    from headlens.data.encode import EncodedData, encode

    chosen = data or load_data(default_for(lens), task=lens.task, default_split="held-out")
    chosen = replace(chosen, examples=chosen.examples[:tokens])  # each has a token at least
    whole = encode(lens, chosen)
    kept: list[Encoded] = []
    left = tokens
    for source, example in zip(chosen.examples, whole.examples, strict=True):
        size = sum(len(ids) for name, ids in example.inputs.items() if name.endswith("input_ids"))
        if size <= left:
            kept.append(example)
            left -= size
            continue
        room = left // 2 if chosen.kind == "pairs" else left
        if room >= 2 + _special_tokens(lens, source):
            kept.extend(encode(lens, replace(chosen, examples=(source,)), max_tokens=room).examples)
        break
    if not kept or (lens.task != "embedding" and not any(example.predicted for example in kept)):
        raise DataError(f"{chosen.name}: nothing to predict in {tokens} tokens; use a set with shorter examples")
    return EncodedData(whole.name, whole.split, tuple(kept), whole.pad, whole.device)


def _special_tokens(lens: Lens, example: Example) -> int:
    return 0 if lens.tokenizer is None else lens.tokenizer.num_special_tokens_to_add(pair=example.text_pair is not None)
