"""``headlens curve``: what the model loses as more and more heads are off."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from headlens.cli.engine import working_on
from headlens.cli.forecast import fitting, foresee_curve
from headlens.cli.inputs import check_data, check_model, check_out, open_lens
from headlens.cli.options import (
    MAX_TOKENS,
    Ablation,
    Address,
    AsJson,
    BatchSize,
    Data,
    Device,
    DeviceMap,
    Dtype,
    EngineName,
    Limit,
    MaxMemory,
    MaxTokens,
    Metric,
    Model,
    NoResume,
    NormalizeChoice,
    Out,
    Seed,
    Split,
    Unit,
    Workers,
)
from headlens.cli.output import say
from headlens.cli.progress import computing
from headlens.errors import Cancelled, HeadlensError

if TYPE_CHECKING:
    from headlens.importance import Method
    from headlens.lens import Lens

NAME = "curve"
BLEU = "bleu"

MethodName = Annotated[
    str | None, typer.Option("--method", metavar="NAME", help="A method of `headlens methods` that orders the heads.")
]
Gates = Annotated[
    str | None,
    typer.Option("--gates", metavar="LIST", help="Also learned gates, one set for each penalty, say 0.003,0.01,0.03."),
]
Sites = Annotated[
    list[str] | None, typer.Option("--site", metavar="NAME", help="Only heads of this site; may be given again.")
]
Budgets = Annotated[
    list[str] | None,
    typer.Option("--budget", metavar="B", help="loss+1%, perplexity+2, accuracy-0.01, drift+0.05; may be given again."),
]
ScoreData = Annotated[
    str | None,
    typer.Option("--score-data", metavar="FILE|SET", help="Choose heads on these. Default: the score half of --data."),
]


def run(
    model: Model,
    method: MethodName = None,
    out: Out = None,
    step: Annotated[float, typer.Option("--step", metavar="F", help="Share of the heads between two points.")] = 0.1,
    rescore: Annotated[bool, typer.Option("--rescore", help="Score anew at every step.")] = False,
    random: Annotated[int, typer.Option("--random", min=0, metavar="N", help="Random orders to compare with.")] = 5,
    greedy: Annotated[bool, typer.Option("--greedy", help="Also the greedy reference (exact; small models).")] = False,
    gates: Gates = None,
    gate_steps: Annotated[int, typer.Option("--gate-steps", min=1, metavar="N", help="Steps of each training.")] = 300,
    floor: Annotated[int, typer.Option("--floor", min=0, metavar="K", help="Heads that stay in every layer.")] = 0,
    site: Sites = None,
    budget: Budgets = None,
    all_but_one: Annotated[
        bool, typer.Option("--all-but-one", help="Instead: each layer with its best head alone.")
    ] = False,
    data: Data = None,
    score_data: ScoreData = None,
    split: Split = None,
    metric: Metric = None,
    ablation: Ablation = "zero",
    unit: Unit = "head",
    signed: Annotated[bool, typer.Option("--signed", help="gradient: keep the sign.")] = False,
    normalize: Annotated[
        NormalizeChoice, typer.Option("--normalize", help="layer: divide each layer by its l2 norm.")
    ] = "none",
    limit: Limit = None,
    max_tokens: MaxTokens = MAX_TOKENS,
    batch_size: BatchSize = None,
    seed: Seed = 0,
    device: Device = "auto",
    device_map: DeviceMap = None,
    max_memory: MaxMemory = None,
    dtype: Dtype = None,
    engine: EngineName = "local",
    address: Address = None,
    workers: Workers = None,
    no_resume: NoResume = False,
    as_json: AsJson = False,
) -> None:
    """Switch more and more heads off: in the order of a method, in its reverse, and at random.

    Heads are chosen on the score half of the data and the curve is reported on the held-out half. With --out C.csv the
    points go there and how they came about into C.json.
    """
    from headlens.cli.curve_report import give_curve, give_layers
    from headlens.cli.curve_work import CurveWork, examples_for

    check_model(model)
    with computing() as reporter, ExitStack() as stack:
        from headlens.cli.evaluate import check_metric
        from headlens.metrics import metric_for
        from headlens.pruning.budget import parse_budget
        from headlens.pruning.figures import check_figure
        from headlens.pruning.plan import Steps

        check_metric(metric, ablation, live=False)
        ordering = None if all_but_one else _method(method)
        penalties = _penalties(gates)
        budgets = [parse_budget(text) for text in budget or ()]
        target = None if out is None else check_out(out, ".csv")
        check_data(data)
        check_data(score_data)
        stack.enter_context(working_on(engine, address, workers, reporter, device_map))
        reporter.phase(f"opening {model}")
        lens = open_lens(model, device, dtype, device_map, max_memory)
        for one in budgets:
            check_figure(one.figure, lens.task, bleu=metric == BLEU)
        steps = Steps(lens.topology, unit, _sites(lens, site), floor, step)
        examples = examples_for(lens, data, score_data, split, limit, seed, max_tokens)
        kind = metric_for(None if metric == BLEU else metric, lens.task)
        layers, found, learned = None, None, []
        work = CurveWork(lens, steps, examples, batch_size, seed, not no_resume, reporter)
        with _stopping(no_resume):
            if ordering is None:
                layers = work.layers(kind, ablation)
            else:
                from headlens.pruning.curve import CurveSpec

                spec = CurveSpec(ordering, kind, steps, rescore, random, greedy, ablation, signed, normalize, seed)
                scale = foresee_curve(lens, spec, examples.choosing, examples.reported)
                learned = work.gates(penalties, gate_steps)
                bleu = work.bleu(max_tokens) if metric == BLEU else None
                found = fitting(lambda: work.curve(spec, learned, bleu), batch_size, scale)
    result = layers or found
    if result is not None and not result.held_out:
        say("note: chosen and reported on the same examples, which flatters; --split held-out keeps them apart")
    if layers is not None:
        give_layers(layers, target, as_json)
    if found is not None and ordering is not None:
        _remark(ordering, rescore, found.scores.stability())
        give_curve(found, budgets, learned, target, as_json)


def _method(name: str | None) -> Method:
    from headlens.importance import METHODS, method_for

    if name is None:
        raise HeadlensError(f"say how the heads are ordered: --method NAME, one of {', '.join(METHODS)}")
    return method_for(name)


def _penalties(text: str | None) -> list[float]:
    """The list of ``--gates``; raises HeadlensError."""
    from headlens.pruning.gate_training import GateSpec

    try:
        return [GateSpec(float(part)).penalty for part in (text.split(",") if text is not None else ())]
    except ValueError as error:
        raise HeadlensError(f"--gates {text!r}: give penalties as numbers, for example 0.003,0.01,0.03") from error


def _sites(lens: Lens, names: list[str] | None) -> tuple[str, ...] | None:
    return tuple(lens.topology.site(name).name for name in names) if names else None


def _remark(method: Method, rescore: bool, stability: str) -> None:
    say(stability)
    if rescore and not method.needs:
        say(f"note: --rescore has no effect on {method.name}, whose scores do not depend on which heads are off")


@contextmanager
def _stopping(no_resume: bool) -> Iterator[None]:
    """Ctrl-C: what is measured is in the store."""
    try:
        yield
    except (KeyboardInterrupt, Cancelled) as stop:
        how = "the same command without --no-resume" if no_resume else "the same command"
        raise Cancelled(f"what was finished is stored; {how} resumes there") from stop
