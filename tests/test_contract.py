"""The contract: linted, formatted, compatible with what was released, and in step with the code."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from turnledger.client.errors import BY_REASON
from turnledger.v1 import error_reason_pb2

ROOT = Path(__file__).parents[1]
PROTOS = ROOT / "protos"
GENERATED = ROOT / "grpc" / "_gen"
TOOLS = Path(sys.executable).parent


@pytest.mark.parametrize(
    "arguments",
    [["lint"], ["format", "--diff", "--exit-code"], ["breaking", "--against", "released.binpb"]],
    ids=lambda arguments: arguments[0],
)
def test_buf(arguments: list[str]) -> None:
    """Every element is commented and named by the rules; nothing that was released is broken."""
    ended = subprocess.run([TOOLS / "buf", *arguments], cwd=PROTOS, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout + ended.stderr) == (0, "")


def test_generated_code_is_in_step(tmp_path: Path) -> None:
    """What is committed is what the generator makes of the contract now."""
    protos = sorted(str(p.relative_to(PROTOS)) for p in PROTOS.rglob("*.proto"))
    outs = [f"--python_out={tmp_path}", f"--grpc_python_out={tmp_path}"]
    typed = [f"--mypy_out=quiet:{tmp_path}", f"--mypy_grpc_out=quiet:{tmp_path}"]
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I.", *outs, *typed, *protos]
    subprocess.run(command, check=True, cwd=PROTOS, env={**os.environ, "PATH": f"{TOOLS}:{os.environ['PATH']}"})
    made = {p.relative_to(tmp_path): p.read_text() for p in tmp_path.rglob("*.py*")}
    committed = {p.relative_to(GENERATED): p.read_text() for p in GENERATED.rglob("*_pb2*.py*") if p.suffix != ".pyc"}
    assert made == committed


def test_the_synchronous_client_is_in_step() -> None:
    """It is made from the asynchronous one."""
    assert subprocess.run([sys.executable, ROOT / "tests/support/async_to_sync.py", "--check"]).returncode == 0


def test_lower_bounds_are_those_of_the_generator() -> None:
    """Generated code runs on what it was generated with, or newer."""
    text = (GENERATED / "turnledger/v1/run_pb2.py").read_text()
    grpc_text = (GENERATED / "turnledger/v1/ledger_service_pb2_grpc.py").read_text()
    protobuf = re.search(r"Protobuf Python Version: (\S+)", text)
    grpcio = re.search(r"GRPC_GENERATED_VERSION = '(\S+)'", grpc_text)
    assert protobuf and grpcio
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert f"protobuf>={protobuf[1]}" in wanted
    assert f"grpcio>={grpcio[1]}" in wanted


def test_every_error_is_in_the_catalogue_and_every_reason_has_an_error() -> None:
    """The catalogue and the classes say the same."""
    reasons = {name.removeprefix("ERROR_REASON_") for name in error_reason_pb2.ErrorReason.keys()} - {"UNSPECIFIED"}
    assert set(BY_REASON) == reasons


def test_every_reason_says_what_it_carries() -> None:
    """Cause, code, what the caller does and the metadata keys stand at every reason."""
    text = (PROTOS / "turnledger/v1/error_reason.proto").read_text()
    blocks = re.findall(r"((?:  //.*\n)+)  ERROR_REASON_(\w+) = [1-9]", text)
    assert len(blocks) == len(error_reason_pb2.ErrorReason.keys()) - 1
    incomplete = [name for comment, name in blocks if "Metadata:" not in comment]
    assert incomplete == []
    for comment, name in blocks:
        keys = re.search(r"Metadata: ([^.]+?)(?: \(.*\))?\.", comment.replace("\n  //", ""))
        assert keys
        listed = set() if keys[1] == "none" else {key.strip() for key in keys[1].split(",")}
        assert listed == _metadata_keys(name), name


def _metadata_keys(reason: str) -> set[str]:
    from turnledger.domain.errors import Unavailable

    cls = BY_REASON[reason]
    if issubclass(cls, Unavailable):
        return set()
    return set(cls.from_metadata({}).metadata)
