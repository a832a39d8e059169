"""Makes ``assets/lab/bits.json``: the lab's experiment with many seeds, which the page shows beside one's own runs.

    python benchmarks/lab_bits.py [--seeds 12] [--workers 2]

Every run is kept in the store, so the script can be stopped and started again. It writes what has ended so far. Runs
that the file has, computed by the same versions of the libraries, are not done again unless ``--anew`` is given.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import date

from headlens.lab import Architecture, RunSpec
from headlens.lab.pool import run_all
from headlens.lab.questions import CONTROLS, Question
from headlens.lab.results import RunResult, versions
from headlens.lab.shipped import BITS, save_runs, shipped_runs
from headlens.lab.specs import SHAPES
from headlens.store import Store

HEADS = (8, 4, 16, 2, 3)


def wanted(seeds: range) -> Iterator[list[RunSpec]]:
    """The runs, portion by portion, the most telling ones first."""
    questions = [Question(4, 8, architecture=Architecture(4, shape)) for shape in SHAPES]
    for question in questions:
        for heads in HEADS:
            yield _seeded(question.scratch(heads, checkpoints=heads >= 8), seeds)
    for question in questions:
        for name, control in CONTROLS.items():
            if name != "other-shape":  # both are there
                for arm in control.arms(question):
                    yield _seeded(arm.template, seeds)
        for arm in CONTROLS["extra-steps"].arms(replace(question, large=16)):
            yield _seeded(arm.template, seeds)


def known() -> dict[RunSpec, RunResult]:
    """Runs that the file has and that would come out the same."""
    shipped = shipped_runs()
    return {} if shipped is None or shipped.versions != versions() else {run.spec: run for run in shipped.runs}


def _seeded(template: RunSpec, seeds: range) -> list[RunSpec]:
    return [replace(template, training=replace(template.training, seed=seed)) for seed in seeds]


def main() -> None:
    """Runs what is missing and writes the file after every portion."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--anew", action="store_true", help="do the runs again that the file has already")
    options = parser.parse_args()
    command = f"python benchmarks/lab_bits.py --seeds {options.seeds}"
    store, results = Store(), {} if options.anew else known()
    for number, portion in enumerate(wanted(range(options.seeds))):
        for result in run_all([spec for spec in portion if spec not in results], store, workers=options.workers):
            results[result.spec] = result
        save_runs(BITS, list(results.values()), command=command, made=date.today().isoformat())
        sys.stderr.write(f"portion {number}: {len(results)} runs, last {portion[0].architecture} {portion[0].after}\n")


if __name__ == "__main__":
    main()
