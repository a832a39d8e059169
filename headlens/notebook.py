"""How a Lens and HeadScores show themselves in a notebook: a picture and a table, static, without any script.

The picture is SVG with colours for light and for dark pages. Every text from outside (names, notes) is escaped.
"""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headlens.heads import SiteShape
    from headlens.lens import Lens
    from headlens.scores import HeadScores

SHOWN = 8
"""Rows of a table at each end of the ranking."""
CELL, LEFT, TOP = 18, 40, 18
WIDEST, TALLEST = 64, 96
"""Beyond this many columns or layers the cells get smaller."""

_STYLE = """
.hl-nb{font:13px/1.4 system-ui,sans-serif;color-scheme:light dark;--ink:#1b2230;--line:#c9d0dc;--none:#e8ebf1;
--plus:#1f5fbf;--minus:#b4530a;color:var(--ink)}
@media(prefers-color-scheme:dark){.hl-nb{--ink:#e8ecf3;--line:#3c4656;--none:#252d3a;--plus:#7fb0ff;--minus:#f0a35e}}
[data-jp-theme-light=true] .hl-nb,body.vscode-light .hl-nb,html[theme=light] .hl-nb{--ink:#1b2230;--line:#c9d0dc;
--none:#e8ebf1;--plus:#1f5fbf;--minus:#b4530a}
[data-jp-theme-light=false] .hl-nb,body.vscode-dark .hl-nb,html[theme=dark] .hl-nb{--ink:#e8ecf3;--line:#3c4656;
--none:#252d3a;--plus:#7fb0ff;--minus:#f0a35e}
.hl-nb svg text{fill:var(--ink);font:10px system-ui,sans-serif}
.hl-nb .none{fill:var(--none)}.hl-nb .plus{fill:var(--plus)}.hl-nb .minus{fill:var(--minus)}
.hl-nb table{font:inherit;border-collapse:collapse;margin:6px 24px 6px 0;display:inline-table;vertical-align:top}
.hl-nb th,.hl-nb td{color:var(--ink);background:none;border-bottom:1px solid var(--line);padding:2px 8px}
.hl-nb th,.hl-nb td{text-align:left}
.hl-nb td.num,.hl-nb th.num{text-align:right;font-variant-numeric:tabular-nums}
.hl-nb caption{color:var(--ink);text-align:left;font-weight:600;padding:2px 0}.hl-nb p{color:var(--ink);margin:4px 0}
"""


def scores_html(scores: HeadScores) -> str:
    """A map of the scores for each site, a sentence with the numbers in it, and both ends of the ranking."""
    maps = "".join(_map(scores, site) for site in scores.topology.sites if site.layers)
    tables = "" if scores.no_signal else _ends(scores)
    return _page(f"<p><strong>{escape(_title(scores))}</strong></p>{maps}<p>{escape(_sentence(scores))}</p>{tables}")


def lens_html(lens: Lens) -> str:
    """What the model is, where its heads are, and what users should know of it."""
    rows = [
        (
            site.name,
            str(len(site.layers)),
            str(site.width()),
            _spread(len(layer.groups) for layer in site.layers),
            _spread(len(layer.heads) for layer in site.layers),
        )
        for site in lens.topology.sites
    ]
    table = _table("Heads", ("site", "layers", "heads", "KV groups", "heads there, by layer"), rows, numbers={1, 2})
    maps = "".join(_heads_there(site, lens.topology.prefixed) for site in lens.topology.sites if site.layers)
    notes = "".join(f"<p>{escape(note)}</p>" for note in lens.notes)
    facts = (
        f"{lens.title} ({lens.family}, {lens.task}): {lens.parameters:,} parameters, "
        f"{str(lens.dtype).removeprefix('torch.')} on {lens.device}."
    )
    return _page(f"<p><strong>{escape(lens.name)}</strong></p><p>{escape(facts)}</p>{maps}{table}{notes}")


def _page(body: str) -> str:
    return f'<div class="hl-nb"><style>{_STYLE}</style>{body}</div>'


def _title(scores: HeadScores) -> str:
    kinds = [scores.method, *(kind for kind in (scores.metric, scores.ablation) if kind)]
    model = scores.provenance.get("model", "")
    return f"Head scores: {', '.join(kinds)}" + (f", of {model}" if model else "")


def _sentence(scores: HeadScores) -> str:
    """What the picture shows, in words."""
    flat = scores.flat()
    finite = flat[np.isfinite(flat)]
    if not len(finite):
        return f"None of {len(flat)} scores is a finite number. {scores.stability()}"
    unit = "heads" if scores.unit == "head" else "KV groups"
    ends = (int(np.nanargmax(flat)), int(np.nanargmin(flat)))
    best, worst = (scores.topology.label(*scores.columns()[end], scores.unit) for end in ends)
    below = int((finite < 0).sum())
    better = ": with such a head off the metric is better" if scores.method == "ablation" else ""
    negative = f" {below} are below zero{better}." if below else ""
    rest = f" from {scores.n} examples" if scores.n else ""
    return (
        f"{len(finite)} {unit}{rest}: the largest score is {finite.max():.3g} ({best}), the smallest "
        f"{finite.min():.3g} ({worst}), the median {np.median(finite):.3g}.{negative} {scores.stability()}"
    )


def _map(scores: HeadScores, site: SiteShape) -> str:
    """One square a head: strength by the size of its score, colour by its sign; the score is in its tooltip."""
    flat = np.abs(scores.flat())
    finite = flat[np.isfinite(flat)]
    largest = float(finite.max()) if len(finite) and finite.max() > 0 else 1.0
    values = scores.values[site.name]
    columns = max(1, site.width(scores.unit))
    cells = []
    for layer in range(len(site.layers)):
        for column in site.columns(layer, scores.unit):
            value = float(values[layer, column])
            label = scores.topology.label(site.name, layer, column, scores.unit)
            if math.isfinite(value):
                kind = "plus" if value >= 0 else "minus"
                strength = 0.08 + 0.92 * math.sqrt(min(1.0, abs(value) / largest))
                cells.append((layer, column, kind, strength, f"{label}: {value:.3g}"))
            else:
                cells.append((layer, column, "none", 1.0, f"{label}: no score"))
    name = f"Map of scores, site {site.name}" if scores.topology.prefixed else "Map of scores"
    letter = "H" if scores.unit == "head" else "G"
    return _svg(name, len(site.layers), columns, letter, cells)


def _heads_there(site: SiteShape, prefixed: bool) -> str:
    name = f"Heads that are there, site {site.name}" if prefixed else "Heads that are there"
    cells = [
        (number, head, "plus" if head in layer.heads else "none", 0.55, f"L{number}H{head}")
        for number, layer in enumerate(site.layers)
        for head in range(site.width())
    ]
    return _svg(name, len(site.layers), max(1, site.width()), "H", cells)


def _svg(name: str, layers: int, columns: int, letter: str, cells: Sequence[tuple[int, int, str, float, str]]) -> str:
    size = CELL if columns <= WIDEST and layers <= TALLEST else 9
    width, height = LEFT + columns * size + 4, TOP + layers * size + 4
    every = max(1, math.ceil(28 / size))
    parts = [f'<text x="{LEFT + n * size}" y="{TOP - 5}">{letter}{n}</text>' for n in range(0, columns, every)]
    parts += [
        f'<text x="{LEFT - 5}" y="{TOP + (n + 0.75) * size:.1f}" text-anchor="end">L{n}</text>'
        for n in range(0, layers, max(1, math.ceil(12 / size)))
    ]
    parts += [
        f'<rect class="{kind}" x="{LEFT + column * size}" y="{TOP + layer * size}" width="{size - 2}" '
        f'height="{size - 2}" rx="2" fill-opacity="{strength:.2f}"><title>{escape(text)}</title></rect>'
        for layer, column, kind, strength, text in cells
    ]
    return (
        f'<svg role="img" aria-label="{escape(name, quote=True)}" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">{"".join(parts)}</svg>'
    )


def _ends(scores: HeadScores) -> str:
    ranked = scores.ranked()
    parts = {"most important": ranked[:SHOWN], "least important": ranked[SHOWN:][-SHOWN:]}
    return "".join(
        _table(
            title,
            ("head", "score", "std. error"),
            [
                (
                    scores.topology.label(*column, scores.unit),
                    _number(scores.values[column[0]][column[1:]]),
                    _number(scores.sem[column[0]][column[1:]]),
                )
                for column in columns
            ],
            numbers={1, 2},
        )
        for title, columns in parts.items()
        if columns
    )


def _number(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else "-"


def _spread(counts: Iterable[int]) -> str:
    found = list(counts)
    if len(set(found)) == 1:
        return f"{found[0]} in each"
    return ", ".join(map(str, found))


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: set[int]) -> str:
    def line(tag: str, cells: Sequence[str]) -> str:
        kinds = [' class="num"' if number in numbers else "" for number in range(len(cells))]
        return "".join(f"<{tag}{kind}>{escape(cell)}</{tag}>" for kind, cell in zip(kinds, cells, strict=True))

    body = "".join(f"<tr>{line('td', row)}</tr>" for row in rows)
    top = f"<caption>{escape(title)}</caption><thead><tr>{line('th', head)}</tr></thead>"
    return f"<table>{top}<tbody>{body}</tbody></table>"
