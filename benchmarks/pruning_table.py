"""How many heads can go, and what that is worth: the measured table of the README, made by one command.

For each model and method: the largest share of heads within each budget on held-out text, with random orders beside it.
For the first method's share within each budget: the cut, its bytes and its measured latency, and what brief training
takes back, with random cuts of the same size trained alike. Every step is one ``headlens`` command, told as it runs.

What a command gave is kept in the work folder, so a second run goes on where the first one stopped, also within a
recovery. ``--only recover`` does what that needs and leaves the rest; ``--only speed`` is for a quiet machine, at the
end: latency needs one, the other figures do not. ``make pruning-table`` does all of it (a few hours).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pruning_markdown import cut_table, share_table

Json = dict[str, Any]
STAGES = ("curves", "recover", "speed")
TEXTS = ("stories", "essays", "dialogue", "news", "letters")
"""Trained on, so that the few examples of one set are not gone through again and again; reported is the curve's set."""


@dataclass(frozen=True)
class Plan:
    """What is measured on one model.

    Attributes:
        model: MODEL of the command line.
        methods: how heads are ordered; the first one's order is cut.
        budgets: see ``headlens curve --budget``.
        steps: of recovery; a step of the larger model takes about ten times as long.
        recover: more options of ``headlens recover``.
    """

    model: str
    methods: tuple[str, ...]
    budgets: tuple[str, ...]
    steps: int
    recover: tuple[str, ...] = ()


@dataclass(frozen=True)
class Commands:
    """``headlens`` commands, each done once: what it gave is kept in a file that is named by the command.

    Attributes:
        folder: where they are kept.
        stage: the one of :data:`STAGES` that is at work.
    """

    folder: Path
    stage: str

    def run(self, stages: Sequence[str], *arguments: object) -> Json | None:
        """What the command gives with ``--json``: kept, or done now; None where that is for another stage.

        Ends the program where the command fails.
        """
        command = ["-m", "headlens", *(str(argument) for argument in arguments), "--json"]
        said = f"python {shlex.join(command)}"
        path = self.folder / f"{arguments[0]}-{hashlib.sha256(said.encode()).hexdigest()[:16]}.json"
        if path.is_file():
            return json.loads(path.read_text(encoding="utf-8"))["result"]
        if self.stage not in stages:
            return None
        print(f"$ {said}", file=sys.stderr, flush=True)
        busy, started = os.getloadavg()[0], time.time()
        done = subprocess.run([sys.executable, *command], stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.returncode)
        result = json.loads(done.stdout) | {"wall_seconds": round(time.time() - started, 1), "load_before": busy}
        beside = path.with_suffix(".part")
        beside.write_text(json.dumps({"command": said, "result": result}, indent=1) + "\n", encoding="utf-8")
        beside.replace(path)
        return result


def plan_for(model: str, commands: Commands) -> Plan:
    """Loss for models that predict, drift for bare encoders."""
    facts = commands.run(STAGES, "inspect", model)
    if (facts or {})["task"] == "embedding":
        budgets = ("drift+0.01", "drift+0.05", "drift+0.1")
        return Plan(model, ("ablation", "magnitude"), budgets, 200, ("--distill", "--teacher", model))
    return Plan(model, ("gradient", "ablation", "magnitude"), ("loss+1%", "loss+5%", "loss+10%"), 50)


def curves(plan: Plan, options: argparse.Namespace, commands: Commands) -> dict[str, Json]:
    """The curve of each method; the first one also with scores made anew at every step."""
    wanted: list[Any] = ["--step", options.step, "--random", options.random]
    for budget in plan.budgets:
        wanted += ["--budget", budget]
    if options.data:
        wanted += ["--data", options.data, "--split", "held-out"]
    first = plan.methods[0]
    asked: dict[str, tuple[str, ...]] = {method: ("--method", method) for method in plan.methods}
    if options.rescore:
        asked[f"{first}, re-scored"] = ("--method", first, "--rescore")
    found = {}
    for name, method in asked.items():
        stages = STAGES if name == first else ("curves",)  # the cuts are those of the first one
        if curve := commands.run(stages, "curve", plan.model, *method, *wanted):
            found[name] = curve
    return found


def cut_and_measure(plan: Plan, budget: Json, data: str, options: argparse.Namespace, commands: Commands) -> Json:
    """One cut with its benchmark and its recovery, None where that is not measured (yet).

    Nothing is cut where no head may go, and where all may.
    """
    best = budget["series"]["ranked"]["best"]
    found: Json = {"budget": budget["budget"], "best": best, "cut": None, "speed": None, "recovered": None}
    if best is None or best["fraction"] == 1:
        return found
    folder = options.work / f"{Path(plan.model).name}-{best['heads_off']}-heads"
    off = ("--off", best["off"])
    found["cut"] = commands.run(STAGES[1:], "prune", plan.model, *off, "--out", folder, "--overwrite")
    if found["cut"] is None:
        return found
    texts = ("--data", options.data, "--split", "score") if options.data else ()
    if data in TEXTS:
        texts = ("--data", ",".join(TEXTS), "--held-out", data)
    training = ("--steps", options.steps or plan.steps, "--patience", 0, "--control", options.control, *plan.recover)
    recovered = folder.with_name(f"{folder.name}-recovered")
    asked = ("recover", folder, "--out", recovered, "--overwrite", *training, *texts)
    found["recovered"] = commands.run(("recover",), *asked)
    found["speed"] = commands.run(("speed",), "benchmark", plan.model, folder, "--repeats", options.repeats)
    return found


def main() -> None:
    """Measures what is wanted, prints Markdown and writes all numbers as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["smollm2-135m", "minilm-l6"])
    parser.add_argument("--only", action="append", choices=STAGES, help="with what it needs; may be given again")
    parser.add_argument("--step", type=float, default=0.05)
    parser.add_argument("--random", type=int, default=5)
    parser.add_argument("--rescore", action="store_true", help="also the first method re-scored at every step")
    parser.add_argument("--steps", type=int, help="steps of recovery; 50 (200 for bare encoders) where left out")
    parser.add_argument("--control", type=int, default=3, help="random cuts that are recovered too")
    parser.add_argument("--repeats", type=int, default=15, help="rounds of the benchmark")
    parser.add_argument("--data", help="instead of each task's default set")
    parser.add_argument("--work", type=Path, default=Path("build/pruning-table"), help="for cut models and results")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/pruning_table.json"))
    options = parser.parse_args()
    (options.work / "results").mkdir(parents=True, exist_ok=True)
    tables = ""
    for stage in STAGES:  # the latencies of all models come last
        if stage in (options.only or STAGES):
            tables = measure(options, Commands(options.work / "results", stage))
    print(tables)


def measure(options: argparse.Namespace, commands: Commands) -> str:
    """One stage for every model; gives the tables as they are then."""
    date = datetime.now(UTC).date().isoformat()
    found: Json = {"date": date, "machine": f"{platform.machine()}, Python {platform.python_version()}", "models": {}}
    tables = []
    for model in options.models:
        plan = plan_for(model, commands)
        measured = curves(plan, options, commands)
        first = measured[plan.methods[0]]
        cuts = [cut_and_measure(plan, one, first["data"], options, commands) for one in first["budgets"]]
        done = [one for one in cuts if one["cut"]]
        found["models"][model] = {"curves": measured, "cuts": done}
        tables += [f"\n### {model} ({first['data']}, {first['split']}, {first['examples']} examples)\n"]
        nothing = "Nothing is cut: not asked for, or no budget leaves something to cut."
        tables += [share_table(measured), "", cut_table(done) if done else nothing]
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return "\n".join(tables)


if __name__ == "__main__":
    main()
