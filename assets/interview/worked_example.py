"""Score heads, cut the lowest fifth, compare with chance. Usage: worked_example.py [MODEL]"""

import sys

import numpy as np

import headlens
from headlens.data.encode import encode
from headlens.data.select import default_for, load_data
from headlens.evaluate import evaluate
from headlens.heads import HeadSet
from headlens.importance import METHODS, Request
from headlens.importance.score import score
from headlens.metrics import metric_for

MODEL = sys.argv[1] if len(sys.argv) > 1 else "smollm2-135m"
SHARE, SEEDS, EXAMPLES = 0.2, 5, 8

lens = headlens.open_model(MODEL)
metric = metric_for(None, lens.task)


def half(split):
    data = load_data(default_for(lens), task=lens.task, split=split, limit=EXAMPLES)
    return encode(lens, data)


score_half, held_out = half("score"), half("held-out")

# I_h = mean over examples of |dL / d xi_h|, all heads in one backward pass
# (Michel et al. 2019, equation 2).
scores = score(lens, METHODS["gradient"], Request(metric, score_half))
print(scores.stability())

heads = list(lens.topology.heads())
order = np.argsort(scores.flat(), kind="stable")  # heads() and flat() have one order
count = round(SHARE * len(heads))


def change(chosen):
    """The metric on held-out text with these heads off, against all on."""
    off = HeadSet.of(heads[i] for i in chosen)
    found = evaluate(lens, held_out, off, metric=metric).main
    error = f"+- {found.delta_sem:.3f}"
    return f"{found.baseline:.3f} -> {found.value:.3f} ({found.delta:+.3f} {error})"


print(f"{count} of {len(heads)} heads off, {metric.title.lower()} on held-out text")
print("  lowest scores ", change(order[:count]))
print("  highest scores", change(order[-count:]))
for seed in range(SEEDS):
    drawn = np.random.default_rng(seed).permutation(len(heads))[:count]
    print(f"  random, seed {seed}", change(drawn))
