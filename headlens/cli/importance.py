"""``headlens importance``: a score for every head."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headlens.cli.engine import working_on
from headlens.cli.forecast import SWEEPING, fitting, foresee
from headlens.cli.importance_show import rows, show
from headlens.cli.inputs import check_data, check_model, check_out, load, open_lens
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
from headlens.cli.output import emit, say
from headlens.cli.progress import computing
from headlens.cli.question import Asked
from headlens.cli.question import find as find_answer
from headlens.cli.question import give as give_answer
from headlens.cli.question import parse as parse_question
from headlens.errors import Cancelled, HeadlensError

if TYPE_CHECKING:
    from headlens.importance import Method, Request
    from headlens.importance.score import Normalize
    from headlens.lens import Lens
    from headlens.scores import HeadScores

NAME = "importance"


def run(
    model: Model,
    method: Annotated[str, typer.Option("--method", metavar="NAME", help="A method of `headlens methods`.")],
    out: Out = None,
    data: Data = None,
    split: Split = None,
    metric: Metric = None,
    ablation: Ablation = "zero",
    unit: Unit = "head",
    signed: Annotated[
        bool, typer.Option("--signed", help="gradient: keep the sign, an estimate of the ablation score.")
    ] = False,
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
    question: Asked = None,
    as_json: AsJson = False,
) -> None:
    """Score every head (default data: the score half).

    With --out S.csv the scores go there and how they came about into S.json; without, both ends of the ranking are
    shown.
    """
    check_model(model)
    with computing() as reporter, ExitStack() as stack:
        from headlens.data.encode import encode
        from headlens.importance import Request, method_for
        from headlens.metrics import metric_for
        from headlens.store import Store

        chosen = method_for(method)
        asked = parse_question(question, method, normalize, engine)
        metric_for(metric, "causal-lm")  # is there such a metric?
        target = None if out is None else check_out(out, ".csv")
        check_data(data)
        stack.enter_context(working_on(engine, address, workers, reporter, device_map))
        reporter.phase(f"opening {model}")
        lens = open_lens(model, device, dtype, device_map, max_memory)
        examples = None
        if chosen.needs:
            loaded = load(lens, data, split, limit, seed, default_split="score")
            examples = encode(lens, loaded, max_tokens=max_tokens, seed=seed)
        reporter.phase(f"{method} of {model}")
        request = Request(
            metric=metric_for(metric, lens.task),
            data=examples,
            ablation=ablation,
            unit=unit,
            signed=signed,
            seed=seed,
            batch_size=batch_size,
            store=Store(),
            resume=not no_resume,
            on_progress=reporter,
        )
        answer = None if asked is None else find_answer(lens, chosen, request, asked)
        scores = None
        if asked is None:
            scale = foresee(lens, chosen, request)
            scores = fitting(lambda: compute(lens, chosen, request, normalize), batch_size, scale)
    if answer is not None:
        give_answer(answer, target, as_json)
    if scores is not None:
        units = all_units(lens) if method == SWEEPING else 0
        beside = None if target is None else _save(scores, target, units)
        _remark(scores, chosen, request, data)
        result = {"out": target, "json": beside, "units": units or None, **scores.describe()}
        if target is None:
            result["scores"] = rows(scores)
        emit(result, as_json, lambda console: show(console, scores, chosen, target))


def compute(lens: Lens, method: Method, request: Request, normalize: Normalize) -> HeadScores:
    """The scores.

    Raises:
        Cancelled: on Ctrl-C, with what is stored and how to go on.
    """
    from headlens.importance.score import score

    try:
        return score(lens, method, request, normalize=normalize)
    except (KeyboardInterrupt, Cancelled) as stop:
        if method.name != SWEEPING:
            raise Cancelled(f"{method.name} keeps no parts; the same command starts again") from stop
        how = "the same command" if request.resume else "the same command without --no-resume"
        done = f"{stored_units(lens, request)} of {all_units(lens)} units are stored"
        raise Cancelled(f"{done}; {how} resumes there") from stop


def all_units(lens: Lens) -> int:
    """Units of work of an exact sweep: one a layer of each site."""
    return sum(len(site.layers) for site in lens.topology.sites)


def stored_units(lens: Lens, request: Request) -> int:
    """How many units of a sweep are in the store. Asked from the store itself: a signal may come between the moment
    when a unit is on the disk and the one when it is reported."""
    from headlens.sweep import Sweep, SweepSpec

    spec = SweepSpec(request.metric, request.ablation, request.unit, request.seed)
    store = request.store
    if store is None:
        return 0
    sweep = Sweep(lens, request.need_data(), spec, batch_size=1, store=store)
    places = ((site.name, layer) for site in lens.topology.sites for layer in range(len(site.layers)))
    return sum(sweep.key(site=site, layer=layer) in store for site, layer in places)


def _save(scores: HeadScores, path: Path, units: int) -> Path:
    try:
        return scores.save(path)
    except HeadlensError as error:
        if not units:
            raise
        raise HeadlensError(f"{error}; the computed units are stored, so the same command is quick then") from error


def _remark(scores: HeadScores, method: Method, request: Request, data: str | None) -> None:
    """One sentence on how far the ranking can be trusted, and one for each option that did nothing."""
    if scores.n == 0:
        say(f"No data were needed for {method.name}, so there is no split-half reliability.")
    else:
        say(scores.stability())
    idle = {
        "--ablation": request.ablation != "zero" and method.name != SWEEPING,
        "--signed": request.signed and method.name not in ("gradient", SWEEPING),
        "--data": data is not None and not method.needs,
    }
    for option in (option for option, is_idle in idle.items() if is_idle):
        say(f"note: {option} has no effect on {method.name}")
