"""Makes ``assets/lab/initial.json``: are the heads of the lab's models dependent or alike, before and after training?

    python benchmarks/lab_initial.py [--seeds 5]

Trained weights are taken from the store where ``benchmarks/lab_bits.py`` has left them, else trained (10 to 20 s each).
"""

from __future__ import annotations

import argparse
import json
from datetime import date

from headlens.lab import Architecture, RunSpec, Task, Training
from headlens.lab.experiment import trained
from headlens.lab.initial import bench_similarity
from headlens.lab.model import LabModel, build
from headlens.lab.pruning import held_out_bench
from headlens.lab.results import versions
from headlens.lab.shipped import INITIAL, folder, write
from headlens.lab.specs import SHAPES
from headlens.store import Store

HEADS = (4, 8, 16)


def row(model: LabModel, seed: int, when: str) -> dict[str, object]:
    """One model's figures."""
    found = bench_similarity(held_out_bench(model))
    return {
        "shape": model.architecture.shape,
        "heads": found.heads,
        "seed": seed,
        "when": when,
        "rank": found.rank,
        "smallest": round(found.smallest, 5),
        "mean_cka": round(found.mean_cka, 4),
        "most_alike": round(found.most_alike, 4),
        "shuffled": round(found.shuffled, 4),
        "positions": found.positions,
    }


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    rows, store = [], Store()
    for shape in SHAPES:
        for heads in HEADS:
            for seed in range(options.seeds):
                spec = RunSpec(Task(), Architecture(heads, shape), Training(seed=seed))
                rows.append(row(build(spec.task, spec.architecture, seed), seed, "initial"))
                rows.append(row(trained(spec, store), seed, "trained"))
    command = f"python benchmarks/lab_initial.py --seeds {options.seeds}"
    head = {"command": command, "made": date.today().isoformat(), "versions": versions()}
    lines = ",\n".join(json.dumps(each) for each in rows)
    write(folder() / INITIAL, json.dumps(head)[:-1] + f', "rows": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
