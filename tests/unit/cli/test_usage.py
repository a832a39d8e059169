"""Mistakes are told in one line with exit code 2; help and lists are quick and need no torch."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import get_args

import pytest

from headlens.cli import failures, options
from headlens.cli.main import main

from .conftest import ROOT, Cli, finish, start

COMMANDS = ("models", "methods", "data", "inspect", "evaluate", "importance", "attention", "app")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("evaluate", "Missing argument 'MODEL'"),
        ("inspect", "Missing argument 'MODEL'"),
        ("importance x", "--method"),
        ("attention x --out a.npz", "--prompt"),
        ("attention x --prompt a", "--out"),
        ("evalute x", "evaluate"),
        ("evaluate x --ablatoin zero", "--ablation"),
        ("--wrong", "--wrong"),
        ("inspect x y", "unexpected extra argument"),
        ("evaluate x --ablation none", "'zero', 'mean', 'resample'"),
        ("evaluate x --unit group", "'head', 'kv'"),
        ("evaluate x --split test", "'score', 'held-out', 'all'"),
        ("evaluate x --dtype int8", "'float32', 'bfloat16', 'float16'"),
        ("importance x --method magnitude --normalize l2", "'none', 'layer'"),
        ("evaluate x --limit 0", "greater than or equal to 1"),
        ("evaluate x --limit ten", "'--limit'"),
        ("evaluate x --batch-size -1", "'--batch-size'"),
        ("evaluate x --max-tokens 1", "'--max-tokens'"),
        ("evaluate x --seed -3", "'--seed'"),
        ("app --port 70000", "'--port'"),
        ("evaluate x --off", "--off"),
    ],
)
def test_usage_errors(cli: Cli, arguments: str, expected: str) -> None:
    found = cli(*arguments.split())
    assert found.code == 2
    assert found.out == ""
    assert len(found.lines) == 1
    assert found.err.startswith("error: ")
    assert expected in found.err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("importance MODEL --method gradeint", "gradient"),
        ("importance MODEL --method ablation --metric los", "'los'"),
        ("evaluate MODEL --metric blue", "bleu"),
        ("evaluate MODEL --metric bleu --ablation mean", "--ablation mean"),
        ("evaluate MODEL --metric bleu --live", "--live"),
        ("evaluate MODEL --live --limit 3", "--limit"),
        ("importance MODEL --method magnitude --out no/folder/s.csv", "no folder no/folder"),
        ("importance MODEL --method magnitude --out s.json", ".csv"),
        ("importance MODEL --method magnitude --out FOLDER.csv", "is a folder"),
        ("attention MODEL --prompt a --out a.npy", ".npz"),
        ("evaluate MODEL --data missing.txt", "no such file"),
        ("evaluate MODEL --data FOLDER.csv", "is a folder"),
    ],
)
def test_mistakes_are_found_before_the_model_is_opened(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, expected: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("FOLDER.csv", "MODEL"):  # a model that is nowhere is told of before everything else
        (tmp_path / name).mkdir()

    def opened(*_: object, **__: object) -> None:
        raise AssertionError("the model was opened")

    monkeypatch.setattr("headlens.lens.open_model", opened)
    found = cli(*arguments.split())
    assert found.code == 2, found.err
    assert len(found.lines) == 1
    assert found.err.startswith("error: ")
    assert expected in found.err


def test_unwritable_folder(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headlens.cli.inputs.os.access", lambda *_: False)  # root may write everywhere
    found = cli("importance", tmp_path, "--method", "magnitude", "--out", tmp_path / "s.csv")
    assert (found.code, len(found.lines)) == (2, 1)
    assert "cannot be written" in found.err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--off", "L9"), "L0 to L4"),
        (("--off", "L0H0,,L1"), "empty label"),
        (("--off", "enc.L0"), "no site 'enc'"),
        (("--data", "no-such-set"), "no-such-set"),
        (("--metric", "bleu"), "encoder-decoder"),
        (("--device", "abacus"), "abacus"),
    ],
)
def test_mistakes_that_need_the_model(cli: Cli, gpt2: Path, arguments: tuple[str, ...], expected: str) -> None:
    found = cli("evaluate", gpt2, "--json", *arguments)
    assert (found.code, found.out, len(found.lines)) == (2, "", 1), found.err
    assert found.err.startswith("error: ")
    assert expected in found.err


def test_unknown_model(cli: Cli) -> None:
    found = cli("inspect", "./no-such-folder", "--json")
    assert (found.code, found.out, len(found.lines)) == (2, "", 1)
    assert "no-such-folder" in found.err


def test_a_model_that_is_nowhere_is_told_of_without_importing_torch() -> None:
    program = """
import sys
from headlens.cli.main import main
for line in ("inspect {}", "evaluate {}", "importance {} --method gradient", "attention {} --prompt a --out a.npz"):
    assert main(line.format("some-owner/no-such-model").split()) == 2
sys.exit("torch" in sys.modules)
"""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert found.returncode == 0, found.stderr
    assert [line.partition(":")[0] for line in found.stderr.splitlines()] == ["error"] * 4


@pytest.mark.parametrize(
    "arguments", ["inspect ~no-such-user/m", "attention MODEL --prompt a --out ~no-such-user/a.npz"]
)
def test_a_home_of_nobody(cli: Cli, tmp_path: Path, arguments: str) -> None:
    found = cli(*(str(tmp_path) if part == "MODEL" else part for part in arguments.split()))
    assert (found.code, found.out, len(found.lines)) == (2, "", 1), found.err
    assert "~no-such-user" in found.err


def test_a_bug_is_one_line_and_with_debug_a_traceback(cli: Cli, gpt2: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("two\nlines")

    monkeypatch.setattr("headlens.lens.open_model", broken)
    found = cli("inspect", gpt2)
    assert (found.code, found.out, len(found.lines)) == (1, "", 1)
    assert found.err.startswith("error: internal: ZeroDivisionError: two lines; ")
    assert "HEADLENS_DEBUG" in found.err
    monkeypatch.setenv("HEADLENS_DEBUG", "1")
    found = cli("inspect", gpt2)
    assert found.code == 1
    assert found.err.startswith("Traceback")


@pytest.mark.parametrize(
    ("error", "code", "start_of_line"),
    [
        (OSError(28, "No space left on device", "/x/y"), 2, "error: /x/y: No space left on device"),
        (MemoryError(), 2, "error: not enough memory"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"), 2, "error: not enough"),
        (RuntimeError("shapes"), 1, "error: internal: RuntimeError: shapes"),
        (OSError(9, "Bad file descriptor"), 1, "error: internal"),
        (KeyboardInterrupt(), 130, "cancelled"),
    ],
)
def test_explain(error: BaseException, code: int, start_of_line: str) -> None:
    found, line = failures.explain(error)
    assert found == code
    assert line.startswith(start_of_line)
    assert "\n" not in line


def test_choices_are_those_of_the_library() -> None:
    from headlens.data.dataset import Split
    from headlens.heads import Unit
    from headlens.importance.score import Normalize
    from headlens.models.loading import DTYPES
    from headlens.switches import Ablation

    assert get_args(options.AblationChoice) == get_args(Ablation)
    assert get_args(options.NormalizeChoice) == get_args(Normalize)
    assert get_args(options.DtypeChoice) == DTYPES
    assert get_args(options.SplitChoice) == get_args(Split)
    assert get_args(options.UnitChoice) == get_args(Unit)


def test_help_and_version(cli: Cli) -> None:
    for arguments in ((), ("--help",), ("-h",)):
        found = cli(*arguments)
        assert (found.code, found.err) == (0, "")
        assert all(f"  {name} " in found.out for name in COMMANDS)
    for name in COMMANDS:
        found = cli(name, "--help")
        assert (found.code, found.err) == (0, "")
        assert f"Usage: headlens {name}" in found.out
    assert cli("--version").out.startswith("headlens ")


HEAVY = ("torch", "transformers", "pandas", "numpy", "scipy", "streamlit", "plotly", "rich.table", "sacrebleu")


def test_help_is_quick_and_imports_nothing_heavy() -> None:
    program = (
        "import sys\nfrom headlens.cli.main import main\n"
        f"for name in {COMMANDS!r}:\n    assert main([name, '--help']) == 0\n"
        f"assert main(['--help']) == 0\nprint([name for name in {HEAVY!r} if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert found.stdout.splitlines()[-1] == "[]"
    # The best of some runs, user time: other work on the machine is not our slowness.
    seconds = []
    for _ in range(3):
        before = os.times()
        subprocess.run([sys.executable, "-m", "headlens", "--help"], capture_output=True, check=True, cwd=ROOT)
        after = os.times()
        seconds.append(after.children_user + after.children_system - before.children_user - before.children_system)
    assert min(seconds) < 0.5


def test_lists_need_no_torch() -> None:
    program = (
        "import sys\nfrom headlens.cli.main import main\nmain(['models', '--json'])\nmain(['data', '--json'])\n"
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, cwd=ROOT)


def test_usage_error_in_a_process_of_its_own() -> None:
    found = subprocess.run(
        [sys.executable, "-m", "headlens", "evaluate"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr == "error: Missing argument 'MODEL' (see `headlens evaluate --help`)\n"


def test_closed_pipe_is_no_error() -> None:
    process = start("models", "--json", stdout=subprocess.PIPE, script="import time; time.sleep(0.5)")
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the device /dev/full of Linux")
def test_full_disk_under_stdout() -> None:
    with Path("/dev/full").open("w") as full:
        found = finish(start("models", "--json", stdout=full))
    assert found.code == 2
    assert found.err == "error: the output: No space left on device; free space there or choose another place\n"


def test_signal_handlers_and_logging_are_put_back(cli: Cli) -> None:
    import logging
    import signal

    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    cli("models")
    cli("evaluate")
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    logger = logging.getLogger("headlens")
    assert logger.handlers == []
    assert logger.propagate


def test_runs_in_a_thread_too(capsys: pytest.CaptureFixture[str]) -> None:
    from concurrent.futures import ThreadPoolExecutor

    start_time = time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(main, ["models", "--json"]).result(timeout=30) == 0
    assert capsys.readouterr().out.startswith('{"models": [')
    assert time.monotonic() - start_time < 30
