"""Writes the built-in sets of the zoo's tasks into ``assets/data``: ``python -m headlens.zoo.sets``.

What is written depends on this file alone, so the sets can be made again to the byte.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from headlens import paths
from headlens.zoo import english, number_words, shapes

STORIES = 64
"""Examples of small English in each half."""
PAIRS = 100
"""Examples of number words in each half."""
PICTURES = 100
"""Pictures of shapes in each half."""

HALVES: tuple[number_words.Part, ...] = ("score", "held-out")
FOLDER = "shapes"
"""Folder of the pictures, beside ``shapes.jsonl``."""


def stories() -> Iterator[dict[str, Any]]:
    """Rows of ``small-english.jsonl``, the halves in turn."""
    rng = Random("small-english")
    for _ in range(STORIES):
        for split in HALVES:
            yield {"split": split, "text": english.text(english.story(rng).words)}


def pairs() -> Iterator[dict[str, Any]]:
    """Rows of ``number-words.jsonl``, the halves in turn; no source comes twice."""
    rng = Random("number-words")
    seen: set[str] = set()
    for _ in range(PAIRS):
        for split in HALVES:
            pair = number_words.pair(rng, split)
            while pair.source in seen:
                pair = number_words.pair(rng, split)
            seen.add(pair.source)
            yield {"split": split, "source": pair.source, "target": pair.target}


def pictures() -> Iterator[tuple[dict[str, Any], shapes.Scene]]:
    """Rows of ``shapes.jsonl``, the halves in turn, each with its scene."""
    rng = Random("shapes")
    for number in range(PICTURES):
        for split in HALVES:
            scene = shapes.scene(rng)
            name = f"{FOLDER}/{split}-{number:03d}.png"
            yield {"split": split, "image": name, "label": scene.answer}, scene


def png(scene: shapes.Scene) -> bytes:
    """A scene as a PNG file with a palette of its colours."""
    import numpy as np
    from PIL import Image

    colours, which = np.unique(shapes.picture(scene).reshape(-1, 3), axis=0, return_inverse=True)
    image = Image.fromarray(which.reshape(shapes.SIZE, shapes.SIZE).astype(np.uint8), "P")
    image.putpalette(colours.astype(np.uint8).tobytes())
    file = io.BytesIO()
    image.save(file, "png", optimize=True)
    return file.getvalue()


def write(folder: Path) -> None:
    """Writes the three sets into ``folder``."""
    _lines(folder / "small-english.jsonl", list(stories()))
    _lines(folder / "number-words.jsonl", list(pairs()))
    rows = list(pictures())
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    for row, scene in rows:
        _bytes(folder / row["image"], png(scene))
    _lines(folder / "shapes.jsonl", [row for row, _ in rows])


def _lines(path: Path, rows: list[dict[str, Any]]) -> None:
    _bytes(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode())


def _bytes(path: Path, content: bytes) -> None:
    beside = path.with_name(path.name + ".part")
    beside.write_bytes(content)
    beside.replace(path)


if __name__ == "__main__":
    write(paths.asset_dir() / "data")
