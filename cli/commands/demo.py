"""``demo``: a real agent loop through a real service."""

from __future__ import annotations

import io
import os
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from turnledger.cli.exits import Exit, ModelSilent, NotInstalled
from turnledger.cli.output import Output, OutputOption, console, emit
from turnledger.grpc.server import start


def demo(
    base_url: Annotated[
        str, typer.Option(help="An OpenAI-compatible endpoint, in place of the scripted stand-in.")
    ] = "",
    model: Annotated[str, typer.Option(help="The model's name there; its key is read from OPENAI_API_KEY.")] = "",
    output: OutputOption = Output.TEXT,
) -> None:
    """Drives a real agent loop through a service on SQLite and shows what the model would be sent."""
    if bool(base_url) != bool(model):
        raise typer.BadParameter("--base-url and --model are given together, or neither")
    if find_spec("pytest") is None:
        raise NotInstalled("the demonstration runs a real test suite: install 'turnledger[demo]'")
    # Not for the other commands, which are quicker without.
    from turnledger.examples.flaky_hunt.model import ModelUnavailable, OpenAICompatibleModel
    from turnledger.examples.flaky_hunt.story import run_demo

    try:
        chosen = OpenAICompatibleModel(base_url, os.environ.get("OPENAI_API_KEY", ""), model) if base_url else None
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--base-url") from error
    screen = Console(file=io.StringIO()) if output is Output.JSON else console()
    with (
        tempfile.TemporaryDirectory(prefix="turnledger-demo-") as folder,
        start(f"sqlite:///{Path(folder, 'demo.db')}") as service,
    ):
        try:
            told = run_demo(service.address, screen, chosen)
        except ModelUnavailable as error:
            raise ModelSilent(f"the model does not answer: {error}") from error
    if output is Output.JSON:
        emit(told.document)
    if not told.holds:
        raise typer.Exit(Exit.DOES_NOT_HOLD)
