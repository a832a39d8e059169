"""Trains models of the zoo and puts them into ``assets/models``: ``python -m headlens.zoo.train NAME ...|all``.

A training that was stopped goes on where it was when the same command is given again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from headlens.cli.output import say
from headlens.cli.progress import computing
from headlens.errors import HeadlensError
from headlens.models.catalogue import zoo_dir
from headlens.paths import cache_dir


def main(arguments: Sequence[str] | None = None) -> int:
    """Trains what the command line asks for; returns the exit code."""
    from headlens.zoo.recipes import RECIPES

    parser = argparse.ArgumentParser(prog="python -m headlens.zoo.train", description="Train models of the zoo.")
    parser.add_argument(
        "names", nargs="+", choices=[*RECIPES, "all"], metavar="NAME", help=f"{', '.join(RECIPES)}, all"
    )
    parser.add_argument("--steps", type=int, help="instead of the recipe's number of steps")
    parser.add_argument("--seed", type=int, default=0, help="draws the first weights and the examples")
    parser.add_argument("--device", default="cpu", help="cpu (the same bits each time) or cuda")
    parser.add_argument("--threads", type=int, default=1, help="threads of a CPU")
    parser.add_argument("--out", type=Path, default=zoo_dir(), help="folder of the models")
    options = parser.parse_args(arguments)
    names = list(RECIPES) if "all" in options.names else options.names
    try:
        for name in names:
            _train(name, options)
    except HeadlensError as error:
        say(f"error: {error}")
        return 2
    except KeyboardInterrupt:
        say("stopped; the same command goes on from the last saved step")
        return 130
    return 0


def _train(name: str, options: argparse.Namespace) -> None:
    import torch

    from headlens.zoo.recipes import RECIPES
    from headlens.zoo.shipping import ship
    from headlens.zoo.training import forget, train

    torch.set_num_threads(options.threads)
    recipe, states = RECIPES[name], cache_dir() / "training"
    with computing() as reporter:
        reporter.phase(f"training {name}")
        trained = train(
            recipe,
            seed=options.seed,
            steps=options.steps,
            device=options.device,
            folder=states,
            on_progress=reporter,
        )
        reporter.phase(f"measuring {name}")
        card = ship(recipe, trained, options.out / name, seed=options.seed, on_progress=reporter)
        forget(states, recipe)
    say(f"{name}: {card['note']} {card['seconds']} s, {card['parameters']:,} parameters.")


if __name__ == "__main__":
    sys.exit(main())
