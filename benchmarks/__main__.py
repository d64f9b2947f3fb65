"""``python -m benchmarks NAME [--quick] [--output json]``, from the project's root."""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table

from benchmarks import step, visit
from benchmarks.report import Report


class Output(StrEnum):
    """For whom a report is printed."""

    TEXT = "text"
    JSON = "json"


Name = Literal["step", "visit"]
BENCHMARKS: dict[Name, Callable[..., Report]] = {"step": step.run, "visit": visit.run}


def main(
    name: Annotated[Name, typer.Argument(help="The benchmark.")],
    quick: Annotated[bool, typer.Option("--quick", help="Less of everything: within 45 seconds.")] = False,
    output: Annotated[Output, typer.Option("--output", "-o", help="For people, or one JSON object.")] = Output.TEXT,
) -> None:
    """Measures ratios against a floor in the same run, and says which aims are met; exit code 0 whether or not."""
    with Console(stderr=True).status(f"{name}: starting") as status:
        report = BENCHMARKS[name](lambda said: status.update(f"{name}: {said}"), quick=quick)
    if output is Output.JSON:
        print(json.dumps(report.document))
    else:
        _print(report)


def _print(report: Report) -> None:
    console = Console(highlight=False)
    console.print(f"[bold]{report.name}[/]: {report.measured},\nagainst {report.against}.\n")
    table = Table("aim", "measured", "at most", "", box=None)
    for aim in report.aims:
        table.add_row(aim.name, f"{aim.measured:g}", f"{aim.aim:g}", "[green]met[/]" if aim.met else "[red]not met[/]")
    console.print(table)
    console.print_json(json.dumps(report.figures))


typer.run(main)
