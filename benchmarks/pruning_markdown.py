"""The tables of ``pruning_table.py`` as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Json = dict[str, Any]


def share_table(curves: Mapping[str, Json]) -> str:
    """Shares of heads within each budget."""
    first = next(iter(curves.values()))
    names = [one["budget"] for one in first["budgets"]]
    lines = [_row(["order", *names, "beats chance"]), _row(["---"] * (len(names) + 2))]
    for method, curve in curves.items():
        cells = [_share(one) for one in curve["budgets"]]
        lines.append(_row([method, *cells, curve["chance"]["verdict"]]))
    spread = [sorted(100 * fraction for fraction in one["random_fractions"]) for one in first["budgets"]]
    random = [f"{one[0]:.3g} to {one[-1]:.3g} %" if one else "-" for one in spread]
    lines.append(_row([f"{first['random_orders']} random orders", *random, ""]))
    return "\n".join(lines)


def _share(budget: Json) -> str:
    """``20 % (sure: 10 %)``: by the estimate, and with its one-sided 95 % bound."""
    reach = budget["series"]["ranked"]
    best, sure = (0 if reach[name] is None else 100 * reach[name]["fraction"] for name in ("best", "sure"))
    return f"{best:.3g} % (sure: {sure:.3g} %)"


def cut_table(cuts: Sequence[Json]) -> str:
    """Bytes, latency and recovery of each cut, and how the last two were taken."""
    titles = ["budget", "heads cut", "parameters", "bytes", "KV cache", "latency against full", "full", "cut"]
    titles += ["recovered", "random cut", "random, recovered"]
    lines = [_row(titles), _row(["---"] * len(titles))]
    for one in cuts:
        cut, best, speed, after = one["cut"], one["best"], one["speed"], one["recovered"]
        cells = [one["budget"], f"{best['heads_off']} ({100 * best['fraction']:.3g} %)"]
        cells += [_less(cut["parameters_before"], cut["parameters_after"])]
        cells += [_less(cut["bytes_before"], cut["bytes_after"]), *(_speed(speed) if speed else ("-", "-"))]
        names = ("full", "cut", "cut + recovered", "random cut", "random cut + recovered")
        cells += [_figures(after["table"], name) if after else "-" for name in names]
        lines.append(_row(cells))
    return "\n".join([*lines, "", *_notes(cuts)])


def _notes(cuts: Sequence[Json]) -> list[str]:
    """How the figures were taken, one sentence each."""
    found = []
    if after := next((one["recovered"] for one in cuts if one["recovered"]), None):
        spec, data = after["spec"], after["data"]
        controls = sum(row["name"] == "random cut" for row in after["table"])
        found.append(
            f"Recovery: {spec['steps']} steps of {spec['per_step']} examples out of {data['train_examples']} of "
            f"{data['train']} ({spec['objective']}), best step chosen on {data['watched_examples']} others; "
            f"{after['metric']} with its standard error on {data['report_examples']} held-out examples of "
            f"{data['report']}; {controls} random cuts, smallest to largest."
        )
    if speeds := [one["speed"] for one in cuts if one["speed"]]:
        first, loads = speeds[0], [speed["load_before"] for speed in speeds]
        found.append(
            f"Latency: median change and its 95 % interval over {first['repeats']} interleaved rounds, "
            f"{first['prompt_tokens']} tokens read, {first['new_tokens']} written, {first['dtype']} on "
            f"{first['device_name']}, {first['threads']} threads; load of the machine before: {min(loads):.2g} to "
            f"{max(loads):.2g}."
        )
    return found


def _speed(speed: Json) -> tuple[str, str]:
    sizes = {variant["name"]: variant["kv_bytes_per_token"] for variant in speed["variants"]}
    kv = "-" if sizes["full"] is None else _less(sizes["full"], sizes["cut"])
    return kv, "; ".join(_latency(row) for row in speed["latency"] if row["variant"] == "cut")


def _latency(row: Json) -> str:
    change, low, high = (100 * row[name] for name in ("change", "change_low", "change_high"))
    word = ", within noise" if row["within_noise"] else ""
    return f"{row['phase']} b{row['batch']} {change:+.1f} % [{low:+.1f}, {high:+.1f}]{word}"


def _figures(table: Sequence[Json], name: str) -> str:
    metric = "loss" if "loss" in table[0] else "drift"
    rows = [row for row in table if row["name"] == name]
    if not rows:
        return "-"
    if len(rows) == 1:
        return f"{rows[0][metric]:.4g} ± {rows[0][f'{metric}_sem'] or 0:.2g}"
    return f"{min(row[metric] for row in rows):.4g} to {max(row[metric] for row in rows):.4g} ({len(rows)})"


def _less(before: int, after: int) -> str:
    return f"{after:,} ({100 * (after / before - 1):+.1f} %)"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
