"""``turnledger``: serve, check a service, and see a real run go through one."""

from __future__ import annotations

import os
import sys
import tempfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import grpc
import typer
from eventsourcing.persistence import PersistenceError
from grpc_health.v1 import health_pb2, health_pb2_grpc

from turnledger.domain.errors import TurnledgerError
from turnledger.grpc.server import DEFAULT_LISTEN, serve, start

app = typer.Typer(
    name="turnledger", help="A ledger for AI-agent runs.", no_args_is_help=True, pretty_exceptions_enable=False
)
EXIT_FAILED = 1
EXIT_UNREACHABLE = 3


@app.callback(invoke_without_command=True)
def root(show_version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False) -> None:
    """A ledger for AI-agent runs: every message kept, every window explained, every iteration replayable."""
    if show_version:
        typer.echo(version("turnledger"))
        raise typer.Exit


@app.command("serve")
def serve_command(
    store: Annotated[
        str, typer.Option(help="Where events are kept: sqlite:///FILE or memory:.", envvar="TURNLEDGER_STORE")
    ] = "sqlite:///turnledger.db",
    listen: Annotated[str, typer.Option(help="HOST:PORT to serve on.", envvar="TURNLEDGER_LISTEN")] = DEFAULT_LISTEN,
) -> None:
    """Serves until SIGTERM or SIGINT. Logs JSON lines, without content, on standard error."""
    serve(store, listen)


@app.command()
def health(
    server: Annotated[
        str, typer.Option(help="HOST:PORT of the service.", envvar=["TURNLEDGER_SERVER", "TURNLEDGER_LISTEN"])
    ] = DEFAULT_LISTEN,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for an answer.")] = 5.0,
) -> None:
    """Asks a service whether it serves; the exit code says so (0 serving, 1 not serving, 3 unreachable)."""
    with grpc.insecure_channel(server) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        try:
            answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=timeout)  # type: ignore[attr-defined]  # stubs lack it
        except grpc.RpcError as error:
            typer.echo(f"{server} does not answer: {error.code().name}", err=True)
            raise typer.Exit(EXIT_UNREACHABLE) from None
    name = health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
    typer.echo(f"{server}: {name.lower().replace('_', ' ')}")
    if answer.status != health_pb2.HealthCheckResponse.SERVING:
        raise typer.Exit(EXIT_FAILED)


@app.command()
def demo(
    base_url: Annotated[
        str, typer.Option(help="An OpenAI-compatible endpoint, in place of the scripted stand-in.")
    ] = "",
    model: Annotated[str, typer.Option(help="The model's name there; its key is read from OPENAI_API_KEY.")] = "",
) -> None:
    """Drives a real agent loop through a service on SQLite and shows what the model would be sent."""
    if bool(base_url) != bool(model):
        raise typer.BadParameter("--base-url and --model are given together, or neither")
    if find_spec("pytest") is None:
        typer.echo("turnledger: the demonstration runs a real test suite: install 'turnledger[demo]'", err=True)
        raise typer.Exit(EXIT_FAILED)
    # Not for the other commands, which are quicker without.
    from rich.console import Console

    from turnledger.examples.flaky_hunt.model import ModelUnavailable, OpenAICompatibleModel
    from turnledger.examples.flaky_hunt.story import run_demo

    try:
        chosen = OpenAICompatibleModel(base_url, os.environ.get("OPENAI_API_KEY", ""), model) if base_url else None
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--base-url") from error
    with (
        tempfile.TemporaryDirectory(prefix="turnledger-demo-") as folder,
        start(f"sqlite:///{Path(folder, 'demo.db')}") as service,
    ):
        try:
            holds = run_demo(service.address, Console(), chosen)
        except ModelUnavailable as error:
            typer.echo(f"turnledger: the model does not answer: {error}", err=True)
            raise typer.Exit(EXIT_FAILED) from None
        if not holds:
            raise typer.Exit(EXIT_FAILED)


def main() -> None:
    """The entry point: errors that people can mend are one line, not a traceback."""
    try:
        app()
    except (TurnledgerError, PersistenceError) as error:
        typer.echo(f"turnledger: {error}", err=True)
        sys.exit(EXIT_FAILED)
