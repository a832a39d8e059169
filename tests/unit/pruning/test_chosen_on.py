"""Whether what is reported was chosen on: against the examples themselves."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from headlens.data.select import load_data
from headlens.pruning.chosen_on import chosen_on
from tests.unit.pruning import recovery_toys as toys


@pytest.mark.parametrize("spec", ["file", "stories"])
def test_it_says_so_where_the_parts_share_an_example(spec: str, tmp_path: Path) -> None:
    name = str(toys.text_file(tmp_path / "lines.txt", 40)) if spec == "file" else spec
    for (part, seed), (reported, other) in product(product(("score", "held-out", "all"), (0, 1)), repeat=2):
        one = load_data(name, task="causal-lm", split=part, seed=seed)
        two = load_data(name, task="causal-lm", split=reported, seed=other)
        choice = {"method": "gradient", "data": one.name, "split": part, "seed": seed}
        shared = set(one.examples) & set(two.examples)
        assert chosen_on(choice, two.name, reported, other) is bool(shared), (part, seed, reported, other)


def test_other_data_no_data_and_sets_that_are_joined() -> None:
    choice = {"method": "gradient", "data": "stories", "split": "all", "seed": 0}
    assert not chosen_on(choice, "english", "held-out", 0)
    assert chosen_on(choice, "english,stories", "held-out", 0)
    assert not chosen_on({"method": "magnitude", "data": None, "split": None}, "stories", "held-out", 0)
    assert not chosen_on({}, "stories", "held-out", 0)
