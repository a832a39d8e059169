"""``headlens claims``: each sentence of the textbook answer, checked on a model."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headlens.cli.engine import working_on
from headlens.cli.inputs import check_data, check_model, check_out, open_lens
from headlens.cli.options import (
    Address,
    AsJson,
    BatchSize,
    Data,
    Device,
    Dtype,
    EngineName,
    Limit,
    Model,
    NoResume,
    Seed,
    Workers,
)
from headlens.cli.output import emit, say, table
from headlens.cli.progress import clock, computing
from headlens.errors import Cancelled, HeadlensError

if TYPE_CHECKING:
    from rich.console import Console

    from headlens.claims.run import Checked
    from headlens.cli.progress import Reporter

NAME = "claims"
ENDINGS = (".md", ".html", ".csv")


def run(
    model: Model,
    only: Annotated[
        str | None, typer.Option("--only", metavar="ID,...", help="Only these claims (also costly ones).")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Also the claims that take long.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.md|.html|.csv", help="Where to write them as well.")
    ] = None,
    data: Data = None,
    tokens: Annotated[
        int | None,
        typer.Option("--tokens", min=16, metavar="N", help="Tokens of each half. Default: 300, more for small models."),
    ] = None,
    limit: Limit = None,
    max_tokens: Annotated[int, typer.Option("--max-tokens", min=2, metavar="N", help="Cut each example here.")] = 48,
    batch_size: BatchSize = None,
    seed: Seed = 0,
    device: Device = "auto",
    dtype: Dtype = None,
    engine: EngineName = "local",
    address: Address = None,
    workers: Workers = None,
    no_resume: NoResume = False,
    as_json: AsJson = False,
) -> None:
    """Check what is said about head pruning on a model: holds, fails, mixed or not measurable, each by a fixed rule.

    Heads are chosen on the score half and judged on the held-out half. Finished claims are kept, so a run that was
    stopped goes on where it was.
    """
    check_model(model)
    target = None if out is None else check_out(out, _ending(out))
    check_data(data)
    from headlens.claims.registry import find_claims

    names = None if only is None else [name.strip() for name in only.split(",") if name.strip()]
    claims = find_claims(names)
    done: list[Checked] = []
    with computing() as reporter, ExitStack() as stack:
        from headlens.claims.costs import seconds
        from headlens.claims.examples import make_context
        from headlens.claims.export import exported
        from headlens.claims.run import check_all, headline
        from headlens.scores import write_text
        from headlens.store import Store

        stack.enter_context(working_on(engine, address, workers, reporter))
        reporter.phase(f"opening {model}")
        lens = open_lens(model, device, dtype)
        context = make_context(
            lens,
            data,
            limit=limit,
            max_tokens=max_tokens,
            tokens=tokens,
            seed=seed,
            batch_size=batch_size,
            store=Store(),
            resume=not no_resume,
            on_progress=reporter,
        )
        watch = _Watch(reporter, len(claims))
        context.on_phase = watch.phase
        if len(claims) > 1:
            guess = seconds(context, [one for one in claims if not one.costly or everything or only])
            say(f"{len(claims)} claims on {lens.name}, about {clock(guess)} if nothing is stored")
        try:
            check_all(
                context,
                claims,
                costly=everything or only is not None,
                on_start=lambda claim: watch.start(claim.name),
                on_found=done.append,
            )
        except (KeyboardInterrupt, Cancelled) as stop:
            raise Cancelled(
                f"{len(done)} of {len(claims)} claims are kept; the same command goes on from there"
            ) from stop
        if target is not None:
            write_text(target, exported(done, lens.name, target.suffix.lower()))
    result = {
        "model": model,
        "data": context.score.name,
        "score_examples": len(context.score),
        "held_out_examples": len(context.held_out),
        "seed": seed,
        "out": target,
        "summary": headline(done),
        "claims": [one.record() for one in done],
    }
    emit(result, as_json, lambda console: _show(console, done, result))


class _Watch:
    """Says which claim is at work."""

    def __init__(self, reporter: Reporter, total: int) -> None:
        self.reporter, self.total = reporter, total
        self.number, self.name = 0, ""

    def start(self, name: str) -> None:
        """The next claim begins."""
        self.number, self.name = self.number + 1, name
        self.phase("")

    def phase(self, title: str) -> None:
        """A part of it begins."""
        place = f"claim {self.number} of {self.total}, {self.name}"
        self.reporter.phase(f"{place}: {title}" if title else place)


def _ending(out: Path) -> str:
    ending = out.suffix.lower()
    if ending not in ENDINGS:
        raise HeadlensError(f"--out {out}: give a name that ends in {', '.join(ENDINGS)}")
    return ending


def _show(console: Console, done: list[Checked], result: dict[str, Any]) -> None:
    columns = ("claim", "verdict", "value", "95 % interval", "unit", "seconds")
    rows = []
    for one in done:
        found = one.finding
        span = None if found.low is None or found.high is None else f"{found.low:.3g} to {found.high:.3g}"
        value = None if found.value is None else float(found.value)
        rows.append((one.claim.name, found.verdict, value, span, found.unit, round(one.seconds, 1)))
    table(console, columns, rows, numbers=("value", "95 % interval", "seconds"))
    console.print(result["summary"], markup=False)
    for one in done:
        console.print(f"- {one.claim.name}: {one.finding.sentence}", markup=False)
