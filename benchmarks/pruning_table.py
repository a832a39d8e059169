"""How many heads can go, and what that is worth: the measured table of the README, made by one command.

For each model and method: the largest share of heads within each budget on held-out text, with random orders beside it.
For the first method's share within each budget: the cut, its bytes and its measured latency, and what brief training
takes back, with random cuts of the same size trained alike. Every step is one ``headlens`` command, told as it runs;
what is finished is kept, so a second run goes on. ``make pruning-table`` (one to a few hours for both models).
"""

from __future__ import annotations

import argparse
import json
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """What is measured on one model.

    Attributes:
        model: MODEL of the command line.
        methods: how heads are ordered; the first one's order is cut.
        budgets: see ``headlens curve --budget``.
        recover: more options of ``headlens recover``.
    """

    model: str
    methods: tuple[str, ...]
    budgets: tuple[str, ...]
    recover: tuple[str, ...] = ()


def plans(model: str) -> Plan:
    """Loss for models that predict, drift for bare encoders."""
    facts = headlens("inspect", model)
    if facts["task"] == "embedding":
        budgets = ("drift+0.01", "drift+0.05", "drift+0.1")
        return Plan(model, ("ablation", "magnitude"), budgets, ("--distill", "--teacher", model))
    return Plan(model, ("gradient", "ablation", "magnitude"), ("loss+1%", "loss+5%", "loss+10%"))


def headlens(*arguments: object) -> Json:
    """Runs one command with ``--json`` and gives its object; ends the program where it fails."""
    command = ["-m", "headlens", *(str(argument) for argument in arguments), "--json"]
    print(f"$ python {shlex.join(command)}", file=sys.stderr, flush=True)
    done = subprocess.run([sys.executable, *command], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.returncode)
    return json.loads(done.stdout)


def curves(plan: Plan, options: argparse.Namespace) -> dict[str, Json]:
    """The curve of each method; the first one also with scores made anew at every step."""
    wanted: list[Any] = ["--step", options.step, "--random", options.random]
    for budget in plan.budgets:
        wanted += ["--budget", budget]
    if options.data:
        wanted += ["--data", options.data, "--split", "held-out"]
    found = {method: headlens("curve", plan.model, "--method", method, *wanted) for method in plan.methods}
    if options.rescore:
        first = plan.methods[0]
        found[f"{first}, re-scored"] = headlens("curve", plan.model, "--method", first, "--rescore", *wanted)
    return found


def cut_and_measure(plan: Plan, budget: Json, number: int, options: argparse.Namespace) -> Json | None:
    """One cut with its benchmark and its recovery; None where no head may go, or where all may."""
    best = budget["series"]["ranked"]["best"]
    if best is None or best["fraction"] == 1:
        return None
    folder = options.work / f"{Path(plan.model).name}-{number}"
    recovered = folder.with_name(f"{folder.name}-recovered")
    data = ("--data", options.data, "--split", "score") if options.data else ()
    cut = headlens("prune", plan.model, "--off", best["off"], "--out", folder, "--overwrite")
    speed = headlens("benchmark", plan.model, folder, "--repeats", options.repeats)
    training = ("--steps", options.steps, "--control", options.control, *data, *plan.recover)
    after = headlens("recover", folder, "--out", recovered, "--overwrite", *training)
    return {"budget": budget["budget"], "best": best, "cut": cut, "speed": speed, "recovered": after}


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
    """Bytes, latency and recovery of each cut."""
    titles = ["budget", "heads cut", "parameters", "bytes", "KV cache", "latency against full", "full", "cut"]
    titles += ["recovered", "random cut", "random, recovered"]
    lines = [_row(titles), _row(["---"] * len(titles))]
    for one in cuts:
        cut, best = one["cut"], one["best"]
        sizes = {variant["name"]: variant for variant in one["speed"]["variants"]}
        kv = [sizes[name]["kv_bytes_per_token"] for name in ("full", "cut")]
        metric = "loss" if "loss" in one["recovered"]["table"][0] else "drift"
        cells = [one["budget"], f"{best['heads_off']} ({100 * best['fraction']:.3g} %)"]
        cells += [_less(cut["parameters_before"], cut["parameters_after"])]
        cells += [_less(cut["bytes_before"], cut["bytes_after"]), "-" if None in kv else _less(*kv)]
        cells += ["; ".join(_latency(row) for row in one["speed"]["latency"] if row["variant"] == "cut")]
        names = ("full", "cut", "cut + recovered", "random cut", "random cut + recovered")
        cells += [_figures(one["recovered"]["table"], name, metric) for name in names]
        lines.append(_row(cells))
    return "\n".join(lines)


def _latency(row: Json) -> str:
    change, low, high = (100 * row[name] for name in ("change", "change_low", "change_high"))
    word = ", within noise" if row["within_noise"] else ""
    return f"{row['phase']} b{row['batch']} {change:+.1f} % [{low:+.1f}, {high:+.1f}]{word}"


def _figures(table: Sequence[Json], name: str, metric: str) -> str:
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


def main() -> None:
    """Measures everything, prints Markdown and writes all numbers as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["smollm2-135m", "minilm-l6"])
    parser.add_argument("--step", type=float, default=0.05)
    parser.add_argument("--random", type=int, default=5)
    parser.add_argument("--rescore", action="store_true", help="also the first method re-scored at every step")
    parser.add_argument("--steps", type=int, default=200, help="steps of recovery")
    parser.add_argument("--control", type=int, default=3, help="random cuts that are recovered too")
    parser.add_argument("--repeats", type=int, default=15, help="rounds of the benchmark")
    parser.add_argument("--data", help="instead of each task's default set")
    parser.add_argument("--work", type=Path, default=Path("build/pruning-table"), help="where cut models go")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/pruning_table.json"))
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    date = datetime.now(UTC).date().isoformat()
    found: Json = {"date": date, "machine": f"{platform.machine()}, Python {platform.python_version()}", "models": {}}
    for model in options.models:
        plan = plans(model)
        measured = curves(plan, options)
        first = measured[plan.methods[0]]
        cuts = [cut_and_measure(plan, one, i, options) for i, one in enumerate(first["budgets"])]
        done = [one for one in cuts if one is not None]
        found["models"][model] = {"curves": measured, "cuts": done}
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(f"\n### {model} ({first['data']}, {first['split']}, {first['examples']} examples)\n")
        print(share_table(measured), end="\n\n")
        print(cut_table(done) if done else "No budget leaves something to cut: no head may go, or all may.")


if __name__ == "__main__":
    main()
