"""A pytest plugin that runs the tests in the order of a seed, the same on every machine and Python version."""

import hashlib

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--order-seed`; without it the tests run in the order of their files."""
    parser.addoption("--order-seed", default="", help="order the tests by this seed instead of by file")


def pytest_report_header(config: pytest.Config) -> str:
    """Name the order at the top of the output, so that a run can be repeated from its log."""
    return f"test order: {_seed(config) or 'by file'}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort by a hash of seed and name: a test that is added later leaves the order of the others as it was."""
    seed = _seed(config)
    if seed:
        items.sort(key=lambda item: hashlib.sha256(f"{seed}:{item.nodeid}".encode()).digest())


def _seed(config: pytest.Config) -> str:
    return str(config.getoption("--order-seed"))
