"""Measures the presenter's story and writes ``assets/interview/story.json``; the app shows it without computing.

Run it again after anything that changes numbers. On two cores the default model takes about ten minutes; finished
layers are kept in the store, so it can be stopped.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

OUT = Path(__file__).resolve().parent.parent / "assets" / "interview" / "story.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2-135m", help="MODEL of the command line")
    parser.add_argument("--data", default="stories", help="name of a built-in set")
    parser.add_argument("--limit", type=int, default=None, help="examples of each half; all where nothing is said")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=OUT)
    chosen = parser.parse_args()

    from headlens.interview.prepare import prepare
    from headlens.lens import open_model
    from headlens.scores import write_text
    from headlens.store import Store

    last = 0.0

    def say(what: str, done: int, total: int) -> None:
        nonlocal last
        if done == total or time.monotonic() - last > 5:
            last = time.monotonic()
            print(f"{what}: {done} of {total}", file=sys.stderr, flush=True)

    lens = open_model(chosen.model)
    story = prepare(lens, chosen.data, limit=chosen.limit, seed=chosen.seed, store=Store(), on_progress=say)
    write_text(chosen.out, json.dumps(story, indent=1, allow_nan=False) + "\n")
    print(f"written to {chosen.out}")


if __name__ == "__main__":
    main()
