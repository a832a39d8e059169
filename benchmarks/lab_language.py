"""Makes ``assets/lab/language.json`` and ``sharing.json``: the lab's question on small English, and MHA to MLA.

    python benchmarks/lab_language.py [--seeds 5] [--sharing-seeds 3] [--steps 1500]

About ten minutes of one core a seed with 1500 steps. What has ended is kept in the store and in the files, so the
script can be stopped and started again.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import date
from typing import Any

import torch

from headlens.lab import language as lm
from headlens.lab import language_measure as measure
from headlens.lab import language_pruning as pruning
from headlens.lab.results import versions
from headlens.lab.shipped import LANGUAGE, SHARING, folder, write
from headlens.store import Store, unit_key

SIZES = (4, 2, 1)
MOMENTS = (0.8, 0.5)
VERSION = 1
Row = dict[str, Any]


class Work:
    """Units of work that are done once and kept."""

    def __init__(self, spec: lm.Language, store: Store) -> None:
        self.spec, self.store = spec, store
        self.scores = measure.stories("score", measure.SCORE_STORIES)
        self.held_out = measure.stories("held-out", measure.HELD_OUT_STORIES)
        self.vocabulary = int(self.scores.ids.max()) + 1

    def key(self, **what: Any) -> str:
        """The store's key of a unit."""
        return unit_key(lab_language=VERSION, spec=asdict(self.spec), versions=versions(), **what)

    def row(self, arm: str, heads: int, compute: Callable[[], Row]) -> Row:
        """A row of the table, from the store where it is there."""
        key = self.key(arm=arm, heads=heads)
        known = self.store.meta(key)
        if known is None:
            known = {"arm": arm, "heads": heads, "seed": self.spec.seed, **compute()}
            self.store.put(key, {}, known)
            sys.stderr.write(f"seed {self.spec.seed}, {arm}, {heads} heads: gap {known['gap']:.4f}\n")
        return known

    def measured(self, model: Any, spec: lm.Language, flops: float | None, **more: Any) -> Row:
        """Gap on held-out stories, and what the training cost."""
        found = measure.gap(measure.excess(model, self.held_out, d_head=spec.d_head), self.held_out)
        return {"gap": found.value, "sem_stories": found.sem, "steps": spec.steps, "flops": flops, **more}

    def flops(self, spec: lm.Language, steps: float) -> float:
        """Training FLOPs, each step read as ``batch`` stories of 85 tokens."""
        return steps * spec.batch * 85 * spec.flops_a_token(self.vocabulary)

    def at(self, share: float) -> Any:
        """The large model after that share of its steps."""
        model = lm.untrained(self.spec)
        known = self.store.get(self.key(weights=share))
        if known is None:
            self._train_large(model)
            known = self.store.get(self.key(weights=share))
        assert known is not None
        model.load_state_dict({name: torch.from_numpy(weight) for name, weight in known.items()})
        return model.eval()

    def _train_large(self, model: Any) -> None:
        stops = {round(share * self.spec.steps): share for share in (*MOMENTS, 1.0)}

        def keep(done: int, _total: int) -> None:
            if done in stops:
                weights = {name: weight.detach().clone().numpy() for name, weight in model.state_dict().items()}
                self.store.put(self.key(weights=stops[done]), weights)

        lm.train(model, self.spec, on_progress=keep)

    def keep(self, share: float, size: int) -> dict[int, tuple[int, ...]]:
        """The heads that greedy pruning keeps when it stops at ``size`` in every layer."""
        key = self.key(keep=share, size=size)
        if (known := self.store.meta(key)) is None:
            gone = [each for each, _ in pruning.greedy(self.at(share), self.spec, size, self.scores)]
            known = {"kept": [list(heads) for _, heads in sorted(pruning.kept_heads(self.spec, gone).items())]}
            self.store.put(key, {}, known)
        return {layer: tuple(heads) for layer, heads in enumerate(known["kept"])}

    def recovered(self, share: float, keep: dict[int, tuple[int, ...]]) -> Row:
        """Cut at that moment, then trained for the rest of the steps."""
        small, spec = pruning.cut(self.at(share), self.spec, keep)
        before = measure.gap(measure.excess(small, self.held_out, d_head=spec.d_head), self.held_out).value
        done = round(share * spec.steps)
        lm.train(small, spec, first=done)
        return self.measured(small, spec, self.path_flops(share, spec), before=before)

    def path_flops(self, share: float, small: lm.Language) -> float:
        """FLOPs of training the large model up to that moment and the small one from there."""
        return self.flops(self.spec, share * small.steps) + self.flops(small, (1 - share) * small.steps)

    def language_rows(self) -> list[Row]:
        """All arms of one seed."""
        spec = self.spec
        rows = [self.row("large", spec.heads, lambda: self.measured(self.at(1.0), spec, self.flops(spec, spec.steps)))]
        for size in SIZES:
            small = replace(spec, heads=size)
            equal = replace(
                small, steps=round(small.steps * self.path_flops(0.8, small) / self.flops(small, small.steps))
            )
            rows.append(self.row("scratch", size, lambda s=small: self._scratch(s)))
            for share in MOMENTS:
                name = f"{share:.0%}".rstrip("%")
                rows.append(
                    self.row(f"pruned-{name}", size, lambda a=share, n=size: self.recovered(a, self.keep(a, n)))
                )
                random = pruning.random_heads(spec, size)
                rows.append(self.row(f"random-{name}", size, lambda a=share, k=random: self.recovered(a, k)))
            rows.append(self.row("scratch-flops", size, lambda s=equal: self._scratch(s)))
            rows.append(self.row("pruned-only", size, lambda n=size: self._pruned_only(n)))
        return rows

    def _scratch(self, spec: lm.Language) -> Row:
        return self.measured(lm.train(lm.untrained(spec), spec), spec, self.flops(spec, spec.steps))

    def _pruned_only(self, size: int) -> Row:
        small, spec = pruning.cut(self.at(1.0), self.spec, self.keep(1.0, size))
        return self.measured(small, spec, self.flops(self.spec, self.spec.steps))

    def sharing_row(self, within: float = 0.01) -> Row:
        """One model: gap, cache and how much of it could go."""
        spec = self.spec

        def compute() -> Row:
            model = lm.train(lm.untrained(spec), spec)
            share = pruning.prunable_within(model, spec, within, self.scores, self.held_out)
            parameters = sum(weight.numel() for weight in model.parameters())
            more = {"kv_bytes": spec.kv_bytes, "prunable": share, "within": within, "parameters": parameters}
            return self.measured(model, spec, None, **more)

        return self.row(spec.sharing, spec.heads, compute)


def save(name: str, rows: list[Row], command: str, spec: lm.Language) -> None:
    """Writes a file of ``assets/lab``."""
    plain = {key: value for key, value in asdict(spec).items() if key not in ("seed", "sharing")}
    head = {"command": command, "made": date.today().isoformat(), "versions": versions(), "setting": plain}
    rounded = [{k: round(v, 6) if isinstance(v, float) and abs(v) < 1e6 else v for k, v in row.items()} for row in rows]
    lines = ",\n".join(json.dumps(row) for row in rounded)
    folder().mkdir(parents=True, exist_ok=True)
    write(folder() / name, json.dumps(head)[:-1] + f', "rows": [\n{lines}\n]}}\n')


def main() -> None:
    """Seed by seed, so that whatever has ended is a whole comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sharing-seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=1500)
    options = parser.parse_args()
    torch.set_num_threads(1)
    command = f"python benchmarks/lab_language.py --seeds {options.seeds} --sharing-seeds {options.sharing_seeds}"
    command += f" --steps {options.steps}"
    store, spec = Store(), lm.Language(steps=options.steps)
    rows: list[Row] = []
    shared: list[Row] = []
    for seed in range(max(options.seeds, options.sharing_seeds)):
        if seed < options.seeds:
            rows += Work(replace(spec, seed=seed), store).language_rows()
            save(LANGUAGE, rows, command, spec)
        if seed < options.sharing_seeds:
            shared += [Work(replace(spec, seed=seed, sharing=s), store).sharing_row() for s in lm.SHARINGS]
            save(SHARING, shared, command, spec)


if __name__ == "__main__":
    main()
