"""How alike the heads of one layer are: linear dependence and linear CKA of what they write."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

RANK_TOLERANCE = 1e-5
"""Singular values below this share of the largest count as zero: rounding of float32 outputs leaves about 1e-7."""


@dataclass(frozen=True)
class LayerSimilarity:
    """The heads of one layer against each other.

    Attributes:
        site, layer: which one.
        heads: number of heads.
        rank: numerical rank of the heads' outputs, each head one vector over all positions and dimensions and of unit
            length; ``heads`` means that no head is a linear combination of the others.
        smallest: smallest singular value over the largest; 0 for dependent heads, 1 for orthogonal ones.
        cka: linear CKA of every pair, ``[head, head]``.
        shuffled: mean CKA of pairs with the positions of one head shuffled: what chance gives with so few positions.
        positions: positions that were used.
    """

    site: str
    layer: int
    heads: int
    rank: int
    smallest: float
    cka: np.ndarray
    shuffled: float
    positions: int

    @property
    def independent(self) -> bool:
        """Whether no head is a linear combination of the others."""
        return self.rank == self.heads

    @property
    def mean_cka(self) -> float:
        """Mean over pairs of different heads; NaN with one head."""
        pairs = self.cka[np.triu_indices(self.heads, 1)]
        return float(pairs.mean()) if len(pairs) else float("nan")

    @property
    def most_alike(self) -> float:
        """The largest CKA of two different heads; NaN with one head."""
        pairs = self.cka[np.triu_indices(self.heads, 1)]
        return float(pairs.max()) if len(pairs) else float("nan")


def linear_cka(first: np.ndarray, second: np.ndarray) -> float:
    """Linear centred kernel alignment of two sets of features of the same positions (Kornblith et al. 2019).

    ``||Y'X||_F^2 / (||X'X||_F ||Y'Y||_F)`` with centred columns: 1 for features that are equal up to rotation and one
    common scale, about 0 for unrelated ones. NaN where one of them is constant.

    Args:
        first, second: ``[positions, dimensions]``; dimensions may differ.
    """
    return float(_aligned(np.stack([_gram(first), _gram(second)]))[0, 1])


def similarity(written: np.ndarray, *, site: str = "self", layer: int = 0, seed: int = 0) -> LayerSimilarity:
    """Compares the heads of a layer.

    Args:
        written: what each head adds to the residual stream, ``[heads, positions, width]``.
        site, layer: for the record.
        seed: of the shuffled control.
    """
    heads, positions, _ = written.shape
    flat = written.reshape(heads, -1).astype(np.float64)
    lengths = np.linalg.norm(flat, axis=1, keepdims=True)
    unit = np.divide(flat, lengths, out=np.zeros_like(flat), where=lengths > 0)
    values = np.linalg.svd(unit, compute_uv=False)
    largest = float(values[0]) if len(values) else 0.0
    grams = np.stack([_gram(head) for head in written])
    order = np.random.default_rng(seed).permutation(positions)
    shuffled = grams[:, order][:, :, order]
    crossed = _aligned(grams, shuffled)
    return LayerSimilarity(
        site=site,
        layer=layer,
        heads=heads,
        rank=int((values > RANK_TOLERANCE * largest).sum()) if largest else 0,
        smallest=float(values[-1]) / largest if largest else 0.0,
        cka=_aligned(grams),
        shuffled=float(crossed[~np.eye(heads, dtype=bool)].mean()) if heads > 1 else float("nan"),
        positions=positions,
    )


def _gram(features: np.ndarray) -> np.ndarray:
    """Inner products of centred features, ``[positions, positions]``; X X' gives the same CKA as X' X."""
    centred = features.astype(np.float64)
    centred = centred - centred.mean(0, keepdims=True)
    return centred @ centred.T


def _aligned(first: np.ndarray, second: np.ndarray | None = None) -> np.ndarray:
    """Cosines of flattened Gram matrices ``[n, positions, positions]`` against each other, ``[n, m]``."""
    second = first if second is None else second
    rows, columns = (grams.reshape(len(grams), -1) for grams in (first, second))
    with np.errstate(invalid="ignore", divide="ignore"):
        return rows @ columns.T / np.outer(np.linalg.norm(rows, axis=1), np.linalg.norm(columns, axis=1))


def answer(layers: list[LayerSimilarity], when: str) -> str:
    """Whether heads are linearly dependent, in one sentence.

    Args:
        layers: of one model.
        when: ``At initialisation`` or ``After training``.
    """
    several = [layer for layer in layers if layer.heads > 1]
    if not several:
        return f"{when} every layer has a single head, so there is nothing to compare."
    dependent = [layer for layer in several if not layer.independent]
    cka = float(np.mean([layer.mean_cka for layer in several]))
    chance = float(np.mean([layer.shuffled for layer in several]))
    alike = f"their outputs have a mean linear CKA of {cka:.2f} (chance: {chance:.2f})"
    if not dependent:
        smallest = min(layer.smallest for layer in several)
        return (
            f"{when} the heads are linearly independent in all {len(several)} layers: rank equal to the number of "
            f"heads, smallest singular value at least {smallest:.2g} of the largest; {alike}."
        )
    return (
        f"{when} some heads are linearly dependent in {len(dependent)} of {len(several)} layers (rank below the number "
        f"of heads); {alike}."
    )
