"""All commands in one place: a new one is a file here and a line below."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import headlens
from headlens.cli import (
    app,
    attention,
    benchmark,
    claims,
    curve,
    data,
    evaluate,
    families,
    importance,
    inspect,
    lab,
    methods,
    models,
    probes,
    prune,
    recover,
    replicate,
    report,
    roles,
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"headlens {headlens.__version__}")
        raise typer.Exit


def command() -> Any:
    """The command ``headlens`` with its subcommands, ready to be invoked."""
    # Plain help: the boxes would cost the time of importing rich.
    root = typer.Typer(
        name="headlens",
        add_completion=False,
        no_args_is_help=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    root.callback(invoke_without_command=True)(_root)
    for module in (
        models,
        methods,
        data,
        inspect,
        evaluate,
        importance,
        attention,
        roles,
        probes,
        replicate,
        curve,
        prune,
        benchmark,
        recover,
        report,
        lab,
        claims,
        families,
        app,
    ):
        root.command(module.NAME)(module.run)
    return typer.main.get_command(root)


def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and leave.")
    ] = False,
) -> None:
    """Which attention heads of a transformer matter: score, look, switch off, compare."""
    if context.invoked_subcommand is None and not version:
        typer.echo(context.get_help())
