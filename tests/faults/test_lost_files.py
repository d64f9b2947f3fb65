"""Files of the store that are deleted, moved or replaced under the running service."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from eventsourcing.persistence import OperationalError

from support.process import serving
from support.service import sqlite_store
from support.store_rows import RUN, head, held, request, write
from support.wire import RPCS, WRITES, Refusal, good, is_replayed, standing, wired, wired_to
from turnledger.ledger.sqlite import SqliteRecorder

UNAVAILABLE = Refusal("UNAVAILABLE", "STORE_UNAVAILABLE", {}, ("RetryInfo",))
SUFFIXES = ("", "-wal", "-shm")


def _delete(file: Path) -> None:
    file.unlink()


def _move_away(file: Path) -> None:
    file.rename(f"{file}.moved")


def _replace(file: Path) -> None:
    """By a copy of it, as a backup that is put back would be."""
    shutil.copy(file, f"{file}.copy")
    Path(f"{file}.copy").replace(file)


@pytest.mark.parametrize("lose", [_delete, _move_away, _replace])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_nothing_is_answered_from_lost_files(tmp_path: Path, suffix: str, lose: Callable[[Path], None]) -> None:
    """Every call says that the store is not there, and no empty store takes its place."""
    with wired(tmp_path) as wire:
        runs = {rpc: standing(wire, f"lost-{rpc}") for rpc in RPCS}
        runs["OpenRun"] = "new"
        lose(tmp_path / f"ledger.db{suffix}")
        left = sorted(path.name for path in tmp_path.iterdir())
        for rpc, run in runs.items():
            assert wire.refused(rpc, good(rpc, run)) == UNAVAILABLE
        assert sorted(path.name for path in tmp_path.iterdir()) == left


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_files_that_are_back_are_used_again(tmp_path: Path, suffix: str) -> None:
    """The same service goes on with the same files; a request that was refused has left nothing."""
    file = tmp_path / f"ledger.db{suffix}"
    with wired(tmp_path) as wire:
        runs = {rpc: standing(wire, f"back-{rpc}") for rpc in WRITES}
        requests = {rpc: good(rpc, run, request_id="once") for rpc, run in runs.items()}
        requests["OpenRun"] = good("OpenRun", "new", request_id="once")
        before = wire.rows()
        _move_away(file)
        for rpc, refused in requests.items():
            assert wire.refused(rpc, refused) == UNAVAILABLE
        Path(f"{file}.moved").rename(file)
        assert wire.rows() == before
        for rpc, refused in requests.items():
            assert not is_replayed(wire.call(rpc, refused))
            assert is_replayed(wire.call(rpc, refused))


@pytest.mark.parametrize("lose", [_delete, _replace])
@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
def test_stopping_saves_what_a_lost_log_held(tmp_path: Path, suffix: str, lose: Callable[[Path], None]) -> None:
    """The service still has the log open, and folds it into the file when it stops."""
    with wired(tmp_path) as wire:
        run = standing(wire, "kept")
        before = wire.rows()
        lose(tmp_path / f"ledger.db{suffix}")
        assert wire.refused("Append", good("Append", run)) == UNAVAILABLE
    with wired(tmp_path) as wire:
        assert wire.rows() == before
        wire.call("Append", good("Append", run))


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files can be copied on Linux only")
def test_a_deleted_file_is_saved_from_the_open_one(tmp_path: Path) -> None:
    """As docs/faults.md says: copies of what the service has open, put in place once it has ended."""
    file = tmp_path / "ledger.db"
    with serving(sqlite_store(tmp_path)) as process, wired_to(process.address, file) as wire:
        run = standing(wire, "saved")
        before = wire.rows()
        _delete(file)
        assert wire.refused("Append", good("Append", run)) == UNAVAILABLE
        held_open = {str(entry.readlink()): entry for entry in Path(f"/proc/{process.popen.pid}/fd").iterdir()}
        saved = {
            file: held_open[f"{file} (deleted)"].read_bytes(),
            Path(f"{file}-wal"): held_open[f"{file}-wal"].read_bytes(),
        }
        code, logged = process.stop()
    assert code == 0
    assert [str(line["store_error"])[:19] for line in logged if "store_error" in line] == ["deleted or replaced"]
    Path(f"{file}-shm").unlink()
    for path, content in saved.items():
        path.write_bytes(content)
    with wired(tmp_path) as wire:
        assert wire.rows() == before
        wire.call("Append", good("Append", run))


def test_a_write_during_which_the_file_goes_is_not_acknowledged(tmp_path: Path) -> None:
    """It was there when the write began, and is looked for once more after the commit."""
    path = tmp_path / "runs.db"

    class Losing(SqliteRecorder):
        def _insert_request(self, *arguments: object) -> None:
            super()._insert_request(*arguments)  # type: ignore[arg-type]
            path.rename(tmp_path / "moved.db")

    with closing(Losing(str(path))) as store:
        with pytest.raises(OperationalError, match=r"deleted or replaced .*runs\.db;"):
            write(store, None, head(version=1), request("r-1"))
        with pytest.raises(OperationalError, match="put the same file back"):
            held(store)
        (tmp_path / "moved.db").rename(path)
        assert store.select_head(RUN) == head(version=1)


def test_a_reader_never_makes_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where the file goes between the look at it and the opening."""
    path = tmp_path / "runs.db"
    with closing(SqliteRecorder(str(path))) as store:
        path.unlink()
        monkeypatch.setattr(store._files, "check", lambda: None)
        with pytest.raises(OperationalError, match="unable to open"):
            store.select_head(RUN)
        assert not path.exists()


def test_a_path_stays_the_same_file_where_the_process_goes_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path is that of the folder in which the store was opened."""
    monkeypatch.chdir(tmp_path)
    with closing(SqliteRecorder("runs.db")) as store:
        monkeypatch.chdir("/")
        write(store, None, head(version=1))
        assert store.select_head(RUN) == head(version=1)
