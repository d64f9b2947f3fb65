"""``serve`` and ``health``: the service itself."""

from __future__ import annotations

import sys
from typing import Annotated

import grpc
import typer
from grpc_health.v1 import health_pb2, health_pb2_grpc

from turnledger.cli.exits import Exit
from turnledger.cli.output import Output, OutputOption, emit, say
from turnledger.grpc import server as service
from turnledger.grpc.server import DEFAULT_LISTEN

HEALTH_TIMEOUT_SECONDS = 5.0


def serve(
    store: Annotated[
        str, typer.Option(help="Where events are kept: sqlite:///FILE or memory:.", envvar="TURNLEDGER_STORE")
    ] = "sqlite:///turnledger.db",
    listen: Annotated[
        str, typer.Option(help="HOST:PORT (port 0: a free one) or unix:PATH to serve on.", envvar="TURNLEDGER_LISTEN")
    ] = DEFAULT_LISTEN,
    output: OutputOption = Output.TEXT,
) -> None:
    """Serves until SIGTERM or Ctrl-C.

    Logs one JSON line a call, without content, on standard error; on a terminal, lines for people. Says on standard
    output where it serves once it does.
    """

    def ready(address: str) -> None:
        if output is Output.JSON:
            emit({"address": address, "store": store})
        else:
            say(f"turnledger serves {store} on {address}")

    for_people = output is Output.TEXT and sys.stderr.isatty()
    service.serve(store, listen, ready, for_people=for_people)


def health(
    server: Annotated[
        str, typer.Option(help="HOST:PORT of the service.", envvar=["TURNLEDGER_SERVER", "TURNLEDGER_LISTEN"])
    ] = DEFAULT_LISTEN,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for an answer.", min=0.1)] = HEALTH_TIMEOUT_SECONDS,
    output: OutputOption = Output.TEXT,
) -> None:
    """Asks a service whether it serves; the exit code says so: 0 serving, 1 not serving, 3 unreachable."""
    status, detail = ask_health(server, timeout)
    if output is Output.JSON:
        emit({"server": server, "status": status.replace(" ", "-")})
    elif status == UNREACHABLE:
        typer.echo(f"{server} does not answer: {detail}", err=True)
    else:
        say(f"{server}: {status}", "green" if status == SERVING else "red")
    if status != SERVING:
        raise typer.Exit(Exit.UNREACHABLE if status == UNREACHABLE else Exit.DOES_NOT_HOLD)


SERVING = "serving"
UNREACHABLE = "unreachable"


def ask_health(server: str, timeout: float) -> tuple[str, str]:
    """How a service says it is (``serving``, ``not serving``, ``unreachable``), and why it does not answer."""
    with grpc.insecure_channel(server) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        try:
            answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=timeout)  # type: ignore[attr-defined]  # stubs lack it
        except grpc.RpcError as error:
            return UNREACHABLE, error.code().name
    return health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status).lower().replace("_", " "), ""
