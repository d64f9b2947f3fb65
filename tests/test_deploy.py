"""The image and the compose file: linted, and the image's own commands run in a fresh environment."""

from __future__ import annotations

import json
import re
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

from support.waiting import wait_until

ROOT = Path(__file__).parents[1]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
TOOLS = Path(sys.executable).parent


def test_the_image_is_linted() -> None:
    """Hadolint has nothing to say."""
    ended = subprocess.run([TOOLS / "hadolint", DOCKERFILE], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, "")


def test_the_compose_file_is_linted() -> None:
    """Yamllint has nothing to say."""
    command = [TOOLS / "yamllint", "--strict", "-d", "{extends: default, rules: {line-length: {max: 120}}}"]
    ended = subprocess.run([*command, ROOT / "deploy" / "compose.yaml"], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, "")


def _json_command(instruction: str) -> list[str]:
    """The command of CMD or HEALTHCHECK in exec form."""
    line = re.search(rf"^{instruction}.*?(\[.*\])$", DOCKERFILE.read_text(), re.MULTILINE)
    assert line
    command: list[str] = json.loads(line[1])
    return command


def _install_commands() -> list[list[str]]:
    """The commands of the RUN that makes the environment."""
    joined = DOCKERFILE.read_text().replace("\\\n", "")
    run = re.search(r"^RUN (uv venv .*)$", joined, re.MULTILINE)
    assert run
    return [shlex.split(command) for command in run[1].split("&&")]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_the_images_commands_run(tmp_path: Path) -> None:
    """Its installation, its start, its health check and its stop, with folders and port of this test."""
    home, data, port = tmp_path / "turnledger", tmp_path / "data", str(_free_port())
    data.mkdir()

    def here(command: list[str]) -> list[str]:
        """On this machine, the service is bound to the loopback address alone."""
        mapped = [part.replace("/opt/turnledger", str(home)).replace("/data", str(data)) for part in command]
        return [part.replace("50551", port).replace("0.0.0.0", "127.0.0.1") for part in mapped]

    for command in _install_commands():
        # The image starts from an empty cache; this machine's may be used.
        known = [part for part in here(command) if part != "--no-cache"]
        subprocess.run([TOOLS / "uv", *known[1:], *(["--quiet"])], check=True, cwd=ROOT)

    def command_of(instruction: str) -> list[str]:
        program, *arguments = here(_json_command(instruction))
        return [str(home / "bin" / program), *arguments]

    service = subprocess.Popen(command_of("CMD"), cwd=data, stderr=subprocess.PIPE)
    try:
        check = command_of("HEALTHCHECK")
        wait_until(lambda: subprocess.run(check, capture_output=True).returncode == 0, seconds=20)
        service.send_signal(signal.SIGTERM)
        assert service.wait(timeout=15) == 0
    finally:
        service.kill()
        service.communicate()
    assert (data / "turnledger.db").exists()
