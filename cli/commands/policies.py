"""``policies``: the strategies and their options."""

from __future__ import annotations

from typing import Any

from turnledger.cli.output import Output, OutputOption, cell, console, emit, say, table
from turnledger.domain.policies import POLICY_CLASSES, Policy


def policies(output: OutputOption = Output.TEXT) -> None:
    """Lists every strategy with its options, defaults and what they mean. Needs no service."""
    found = [_strategy(name, policy) for name, policy in POLICY_CLASSES.items()]
    if output is Output.JSON:
        emit({"policies": found})
        return
    for strategy in found:
        say(strategy["strategy"], "bold")
        say(f"  {strategy['about']}")
        rows = table("  option", "default", "values", "meaning", wrap=("values", "meaning"))
        for option in strategy["options"]:
            default = "required" if option["required"] else _word(option["default"])
            rows.add_row(cell(f"  {option['name']}", "cyan"), default, option["values"], option["about"])
        console().print(rows)
        console().print()


def _strategy(name: str, policy: type[Policy]) -> dict[str, Any]:
    schema = policy.model_json_schema()
    options = [
        {
            "name": option,
            "required": option in schema.get("required", ()),
            "default": field.get("default"),
            "values": _values(field),
            "about": _sentence(field["description"]),
        }
        for option, field in schema["properties"].items()
        if option not in ("strategy", "version")
    ]
    version = schema["properties"]["version"]["default"]
    return {
        "strategy": name,
        "version": version,
        "about": _sentence(schema["description"]),
        "options": options,
        "schema": schema,
    }


def _values(field: dict[str, Any]) -> str:
    """The values that an option takes, in words."""
    if "anyOf" in field:
        return " or ".join(_values(branch) for branch in field["anyOf"])
    if "enum" in field:
        return ", ".join(map(_word, field["enum"]))
    if "const" in field:
        return _word(field["const"])
    if field["type"] == "integer":
        return f"whole, from {field['minimum']}"
    return {"boolean": "true, false", "string": "text", "null": "none"}[field["type"]]


def _sentence(docstring: str) -> str:
    return " ".join(docstring.replace("``", "").split())


def _word(value: object) -> str:
    words = {True: "true", False: "false", None: "none"}
    return words[value] if value is None or isinstance(value, bool) else str(value)
