"""The bank: all questions and the main page's text, read from ``assets/interview`` and checked against each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from string import Formatter
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from headlens.errors import DataError
from headlens.interview.claims import CLAIMS
from headlens.interview.page import Main
from headlens.interview.quantities import QUANTITIES
from headlens.interview.questions import Free, Number, Option, Predict, Question, QuestionFile
from headlens.interview.schema import Cite, Source, SourceFile
from headlens.interview.shape import GPT2_SMALL
from headlens.paths import asset_dir

SOURCES, MAIN = "sources.yaml", "main.yaml"
_File = TypeVar("_File", bound=BaseModel)


@dataclass(frozen=True)
class Bank:
    """All questions by id, the page around the main one, and the works they cite."""

    questions: Mapping[str, Question]
    main: Main
    sources: Mapping[str, Source]

    def __len__(self) -> int:
        return len(self.questions)

    def __contains__(self, question: object) -> bool:
        return question in self.questions

    def __getitem__(self, question: str) -> Question:
        return self.questions[question]

    @cached_property
    def roots(self) -> tuple[str, ...]:
        """Questions that follow no other, in the order of the files."""
        followed = {name for question in self.questions.values() for name in question.follow_ups}
        return tuple(name for name in self.questions if name not in followed)

    def chain(self, start: str) -> tuple[str, ...]:
        """``start`` and its first follow-ups, down to the end."""
        found = [start]
        while self.questions[found[-1]].follow_ups:
            found.append(self.questions[found[-1]].follow_ups[0])
        return tuple(found)


def interview_dir() -> Path:
    """Folder of the bank and its picture."""
    return asset_dir() / "interview"


def load_bank(folder: Path | None = None) -> Bank:
    """Reads and checks the bank.

    Args:
        folder: of the YAML files; None: the one that comes with HeadLens. ``sources.yaml`` and ``main.yaml`` have
            their own form, every other ``*.yaml`` is a list of questions.

    Raises:
        DataError: a file that cannot be read or that breaks a rule; names the file, the place and the rule.
    """
    folder = interview_dir() if folder is None else folder
    sources = _read(folder / SOURCES, SourceFile).sources
    main = _read(folder / MAIN, Main)
    files = [path for path in sorted(folder.glob("*.yaml")) if path.name not in (SOURCES, MAIN)]
    read = [(path.name, question) for path in files for question in _read(path, QuestionFile).questions]
    questions = [question for _, question in read]
    problems = list(_problems(questions, main, sources, {question.id: name for name, question in read}))
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise DataError(f"{folder}: {problems[0]}{more}")
    return Bank({question.id: question for question in questions}, main, sources)


def _read(path: Path, form: type[_File]) -> _File:
    import yaml

    content: Any = None
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        return form.model_validate(content)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: is not UTF-8 text; save it as such") from error
    except yaml.YAMLError as error:
        raise DataError(f"{path}: is not YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise DataError(f"{path}: is nested too deeply") from error
    except ValidationError as error:
        first = error.errors()[0]
        raise DataError(f"{path}: {_place(content, first['loc'])}: {first['msg']}") from error


def _place(content: Any, loc: tuple[int | str, ...]) -> str:
    """Where a file breaks a rule: ``question 4 (sp-half), options.0.why``."""
    if loc[:1] != ("questions",) or len(loc) < 2 or not isinstance(loc[1], int):
        return ".".join(str(part) for part in loc) or "the whole file"
    item = content["questions"][loc[1]]
    name = f" ({str(item['id'])[:60]})" if isinstance(item, Mapping) and "id" in item else ""
    rest = ".".join(str(part) for part in loc[2:])
    return f"question {loc[1] + 1}{name}{', ' + rest if rest else ''}"


def _problems(
    questions: list[Question], main: Main, sources: Mapping[str, Source], files: Mapping[str, str]
) -> Iterable[str]:
    """Broken rules that one file alone does not show; ``files`` says where each question stands."""
    repeated = [name for name, count in Counter(question.id for question in questions).items() if count > 1]
    yield from (f"two questions have the id {name}" for name in repeated)
    by_id = {question.id: question for question in questions}
    if main.question not in by_id:
        yield f"the main question {main.question} does not exist"
    cites = [*main.cites(), *(cite for question in questions for cite in question.sources)]
    yield from (f"the source {name} is not in {SOURCES}" for name in sorted({c.id for c in cites} - set(sources)))
    for question in questions:
        yield from (f"{files[question.id]}: {problem}" for problem in _problems_of(question, by_id))
    yield from _cycles(by_id)


def _problems_of(question: Question, by_id: Mapping[str, Question]) -> Iterable[str]:
    yield from (f"{question.id}: no follow-up {name}" for name in question.follow_ups if name not in by_id)
    if question.claim is not None and question.claim not in CLAIMS:
        yield f"{question.id}: no claim {question.claim}"
    if isinstance(question, Number):
        names = [question.quantity, *(slip.quantity for slip in question.slips if slip.quantity)]
        yield from (f"{question.id}: no quantity {name}" for name in names if name not in QUANTITIES)
        known = QUANTITIES[question.quantity].options if question.quantity in QUANTITIES else ()
        yield from (f"{question.id}: {question.quantity} has no option {o}" for o in question.options if o not in known)
        if any(value <= 0 for value in question.options.values()):
            yield f"{question.id}: an option is not above 0"
    if isinstance(question, (Number, Predict)):
        yield from (
            f"{question.id}: its ask names {{{name}}}, which is no number of a model" for name in _unknown(question.ask)
        )
    texts = Counter(option.text for option in _options(question))
    yield from (f"{question.id}: an option stands there twice" for count in texts.values() if count > 1)


def _unknown(ask: str) -> Iterable[str]:
    """What stands in braces and is not exactly the name of a model's number: no parts of it, no formats."""
    known = GPT2_SMALL.facts()
    try:
        fields = [(name, spec, conversion) for _, name, spec, conversion in Formatter().parse(ask) if name is not None]
    except ValueError as error:
        return [str(error)]
    return [name for name, spec, conversion in fields if name not in known or spec or conversion]


def _options(question: Question) -> tuple[Option, ...]:
    return getattr(question, "options", ()) if not isinstance(question, (Number, Predict, Free)) else ()


def _cycles(by_id: Mapping[str, Question]) -> Iterable[str]:
    """Chains of follow-ups that never end."""
    state: dict[str, int] = {}  # 1: being followed, 2: known to end

    def follow(name: str, path: tuple[str, ...]) -> str | None:
        if state.get(name) == 2 or name not in by_id:
            return None
        if state.get(name) == 1:
            return " -> ".join((*path[path.index(name) :], name))
        state[name] = 1
        for following in by_id[name].follow_ups:
            found = follow(following, (*path, name))
            if found:
                return found
        state[name] = 2
        return None

    for name in by_id:
        found = follow(name, ())
        if found:
            yield f"follow-ups go round in a circle: {found}"
            return


def cite_text(cite: Cite, sources: Mapping[str, Source]) -> str:
    """``Michel et al. 2019, Table 4 [N]``: the short form that stands behind a statement."""
    source = sources[cite.id]
    place = f", {cite.at}" if cite.at else ""
    year = f" {source.year}" if source.year else ""
    return f"{source.who}{year}{place} [{cite.grade}]"
