"""Are heads linearly dependent before training?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headlens.claims.base import Claim, Figure, Finding, NotMeasurable, Published, Series, Try, Verdict
from headlens.errors import ModelError
from headlens.significance import share

if TYPE_CHECKING:
    from headlens.claims.context import Context
    from headlens.lab.similarity import LayerSimilarity

DRAWS = 3


class IndependentAtInit(Claim):
    """Ranks of the heads' outputs with random weights."""

    name = "independent-at-init"
    why = "Linear dependence at the start is one explanation on offer for why heads can go; it can be measured."
    rule = (
        f"The architecture with {DRAWS} draws of random weights; a layer is independent if the rank of its heads' "
        "outputs "
        "equals their number. Share of layers over all draws, exact binomial interval. Holds if all are independent, "
        "fails if more than half are not, else mixed."
    )
    published = Published(
        "Random square matrices are invertible with probability one, so heads whose weights are drawn independently do "
        "not start out linearly dependent",
        "arithmetic",
        "D",
    )

    def passes(self, context: Context) -> float:  # noqa: ARG002
        """One pass for each draw, and the ranks."""
        return 3 * DRAWS

    def check(self, context: Context) -> Finding:
        """See the rule."""
        from headlens.lab.initial import head_similarity, with_random_weights

        found = []
        for seed in range(DRAWS):
            context.phase(f"random weights, draw {seed + 1} of {DRAWS}")
            try:
                model = with_random_weights(context.lens, context.seed + seed)
            except ModelError as error:
                raise NotMeasurable(str(error)) from error
            found.append(head_similarity(model, context.held_out, on_progress=context.on_progress))
        return independent_at_init(found)


def independent_at_init(draws: Sequence[Sequence[LayerSimilarity]]) -> Finding:
    """The verdict on the layers of each draw."""
    layers = [layer for draw in draws for layer in draw if layer.heads > 1]
    if not layers:
        raise NotMeasurable("every layer has a single head, so the question does not arise")
    full = sum(layer.independent for layer in layers)
    found = share(full, len(layers))
    verdict: Verdict = "holds" if full == len(layers) else "fails" if full < len(layers) / 2 else "mixed"
    smallest = min(layer.smallest for layer in layers)
    sentence = (
        f"With random weights the heads are linearly independent in {full} of {len(layers)} layers "
        f"({len(draws)} draws); the smallest singular value is at least {smallest:.2g} of the largest."
    )
    series = [
        Series(
            f"draw {number}",
            tuple(f"{layer.site} {layer.layer}" for layer in draw if layer.heads > 1),
            tuple(layer.rank / layer.heads for layer in draw if layer.heads > 1),
        )
        for number, draw in enumerate(draws)
    ]
    figure = Figure("bars", "layer", "rank / heads", tuple(series), 1.0)
    again = Try("Compare random and trained heads", "pages/lab.py", {"lab_section": "At initialisation"})
    return Finding(verdict, found.value, found.low, found.high, "share of layers", sentence, figure, again)
