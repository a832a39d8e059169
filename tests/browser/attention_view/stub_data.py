"""Texts and synthetic attention patterns that the stub page shows and the tests know."""

from __future__ import annotations

import numpy as np

WORDS: list[str] = str.split(
    "The cat sat on the mat and the dog that chased the cat in the garden slept under an old apple tree while"
    " two birds watched them from a low branch and sang until it rained"
)
NASTY = [
    "<script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "مرحبا",
    "بالعالم",
    "שלום",
    "你¹⁄₂",
    "你²⁄₂",
    "ሰላም",
    "🙂",
    "⏎",
    "&amp;",
    "a" * 60,
]


def words(count: int) -> list[str]:
    """The first ``count`` tokens of an endless text."""
    return [WORDS[i % len(WORDS)] for i in range(count)]


def pattern(layer: int, head: int, queries: int, keys: int, causal: bool = True) -> np.ndarray:
    """Weights [query, key] of one of four habits: previous token, first token, itself, or spread."""
    rng = np.random.default_rng([layer, head, queries, keys])
    scores = rng.normal(size=(queries, keys))
    q, k = np.mgrid[:queries, :keys]
    habit = (layer + head) % 4
    if habit == 0:
        scores[k == q - 1] += 6
    elif habit == 2:
        scores[np.abs(q - k) < 3] += 3
    elif habit == 3:
        scores *= 2
    scores[:, 0] += 4.5 if habit == 1 else 2.5
    if causal:
        scores[k > q] = -np.inf
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)


HABITS = ["previous token", "first token", "near tokens", "spread"]


def role(layer: int, head: int) -> str:
    """The habit of ``pattern`` in words."""
    return HABITS[(layer + head) % 4]


def patches(rows: int, columns: int, head: int) -> np.ndarray:
    """Weights [1 + patches, 1 + patches]: every patch looks around itself, and a share goes to [CLS]."""
    size = rows * columns
    y, x = np.divmod(np.arange(size), columns)
    distance = np.hypot(y[:, None] - y[None], x[:, None] - x[None])
    near = np.exp(-distance / (1 + head))
    weights = np.ones((size + 1, size + 1)) * 0.3
    weights[1:, 1:] = near
    weights[0, 1:] = np.exp(-np.hypot(y - rows / 3, x - columns / 3))
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)


def scene(side: int = 96) -> np.ndarray:
    """Pixels [side, side, 3]: a sun over a green hill."""
    y, x = np.mgrid[:side, :side] / side
    sky = np.stack([0.45 + 0.3 * y, 0.65 + 0.2 * y, 0.95 - 0.1 * y], axis=-1)
    hill = np.stack([0.2 + 0.1 * x, 0.5 + 0.2 * x, 0.2 + 0 * x], axis=-1)
    out = np.where((y > 0.62 + 0.12 * np.sin(5 * x))[..., None], hill, sky)
    out[np.hypot(y - 0.3, x - 0.3) < 0.13] = [1.0, 0.85, 0.3]
    return out
