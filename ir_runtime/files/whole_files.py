"""Files that appear complete or not at all: written under another name, and renamed once they are on the disk."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO

from .. import threads
from ..errors import FileError


class NewFile(io.BufferedWriter):
    """A file that is written under another name; one that is stopped takes no more bytes, from any thread."""

    is_stopped = False

    def write(self, data: bytes | memoryview) -> int:  # type: ignore[override]
        """Append bytes, and return their number."""
        self._check()
        return super().write(data)

    def write_at(self, position: int, data: bytes | memoryview) -> int:
        """Write bytes at an offset without moving the file's position, and return their number."""
        self._check()
        rest = memoryview(data)
        while rest:
            count = os.pwrite(self.fileno(), rest, position)
            rest, position = rest[count:], position + count
        return len(data)

    def _check(self) -> None:
        if self.is_stopped:
            raise OSError(errno.ECANCELED, os.strerror(errno.ECANCELED))


Write = Callable[[NewFile], object]

_SYNC_SECONDS = 0.01
"""Seconds between two flushes of written data to the disk."""


def check_target(path: str | os.PathLike[str]) -> None:
    """Raises :class:`FileError` where ``path`` exists and is no regular file: a folder, a device, a pipe.

    A file is written under another name and then renamed, which would replace the device by a file.
    """
    path = Path(path)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.stat(path)  # which refuses what no path may hold, where path.exists() is False
        refused = path.exists() and not path.is_file()
    except ValueError as error:
        raise FileError(f"{str(path)!r} cannot be the path of a file: {error}") from error
    except OSError as error:
        raise FileError.of(error, path, "written") from error
    if refused:
        raise FileError(f"'{path}' exists and is not a regular file: it cannot be written over")


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raises :class:`FileError` where :func:`write_whole` cannot write this file. Called before the work.

    Its folder must be writable, or be one that can be created, and what is there under its name must be a file.
    """
    check_target(path)
    with _refusals_name(Path(path)):
        _try_to_write_in(Path(path).parent)


def check_folder(path: str | os.PathLike[str]) -> None:
    """Raises :class:`FileError` where this folder cannot be made, or is not writable."""
    with _refusals_name(Path(path)):
        _try_to_write_in(Path(path))


def _try_to_write_in(folder: Path) -> None:
    """Write a file in a folder, or in the first folder above that exists, and remove it."""
    while not folder.exists() and folder.parent != folder:
        folder = folder.parent
    with _temporary(folder / "file"):
        pass


def write_whole(path: Path, write: Write) -> None:
    """Write one file, in a folder that is created where there is none.

    Raises :class:`FileError`, which names the file; an older file is then kept.
    """
    check_target(path)
    with _refusals_name(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with _refusals_name(path), _temporary(path) as (file, temporary):
        _write_to(file, write)
        os.replace(temporary, path)
        _sync_folder(path.parent)


def write_pair(second: Path, text: Callable[[], Iterable[bytes | memoryview]], first: Path, write_first: Write) -> None:
    """Write two files that belong together; a process that sees the new ``second`` also sees the new ``first``.

    ``text`` gives the contents of the second; it is computed while the first is written. Raises :class:`FileError`,
    which names the file that cannot be written.
    """
    with (
        _refusals_name(first),
        _temporary(first) as (first_file, first_temporary),
        _refusals_name(second),
        _temporary(second) as (second_file, second_temporary),
    ):
        with (
            _refusals_name(first),
            _descriptor(first_file) as descriptor,
            _Aside(lambda: _write_to(first_file, write_first)) as aside,
        ):
            try:
                content = text()
                while not aside.is_done_within(_SYNC_SECONDS):
                    _sync_data(descriptor)  # the disk works while the processor prepares further weights
            except BaseException:  # KeyboardInterrupt, too, does not wait for gigabytes
                first_file.is_stopped = True
                raise
        _write_to(second_file, lambda file: file.writelines(content))
        with _alone_in(second.parent):
            # An old second must never be beside a new first: it is removed, and the new one comes last.
            second.unlink(missing_ok=True)
            os.replace(first_temporary, first)
            os.replace(second_temporary, second)
        _sync_folder(second.parent)


@contextlib.contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """A folder to write in; at the end its files become those of ``target``, all of them or none.

    ``target`` is created where there is none, and gone where that fails; its files of other names stay. Raises
    :class:`FileError`, which names the file in ``target``.
    """
    from shutil import rmtree  # single files need none of it

    with contextlib.ExitStack() as folders:
        with _refusals_name(target):
            _make_folder(target, folders)
            aside = target / f".{os.urandom(6).hex()}.part"
            _make_folder(aside / "new", folders)
        new = aside / "new"
        try:
            try:
                yield new
            except OSError as error:  # named as what was to be written
                failure = FileError.of(error, error.filename2 or error.filename or target, "written")
                renamed = FileError(str(failure).replace(str(new), str(target)))
                renamed.errno = failure.errno
                raise renamed from error
            files = sorted(path.relative_to(new) for path in new.rglob("*") if not path.is_dir())
            for file in files:
                check_target(target / file)
            with _refusals_name(target), _alone_in(target):
                _move(files, new, target, aside, folders)
                for number in range(len(files)):
                    (aside / str(number)).unlink(missing_ok=True)
            _sync_folder(target)
        finally:
            rmtree(new, ignore_errors=True)


def _make_folder(folder: Path, cleanup: contextlib.ExitStack) -> None:
    """Create a folder and its missing parents; leaving ``cleanup`` removes those that are empty."""
    if not folder.is_dir():
        if folder.parent != folder:
            _make_folder(folder.parent, cleanup)
        cleanup.callback(_remove_empty, folder)
        folder.mkdir(exist_ok=True)


def _remove_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()


def _move(files: list[Path], new: Path, target: Path, aside: Path, folders: contextlib.ExitStack) -> None:
    """Move files from ``new`` to ``target``, and those that they replace to ``aside``, by number; or move nothing."""
    with contextlib.ExitStack() as undo:
        # No old file must be beside a new one that it belongs to, and weights come before their .xml.
        for number, file in enumerate(files):
            if os.path.lexists(target / file):
                undo.callback(_move_back, aside / str(number), target / file)
                os.replace(target / file, aside / str(number))
        for file in files:
            _make_folder((target / file).parent, folders)
            undo.callback(_move_back, target / file, new / file)
            os.replace(new / file, target / file)
        undo.pop_all()


def _move_back(source: Path, target: Path) -> None:
    with contextlib.suppress(FileNotFoundError):  # interrupted before it was moved
        os.replace(source, target)


class _Aside:
    """A context that runs ``work`` in a thread of its own; at the end it waits, and raises what ``work`` raised.

    Without threads the context begins after the work.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._raised: BaseException | None = None
        self._thread = threading.Thread(target=self._run) if threads.are_available() else None

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # raised again by the thread that waits
            self._raised = error

    def __enter__(self) -> _Aside:
        if self._thread is None:
            self._work()
        else:
            self._thread.start()
        return self

    def is_done_within(self, seconds: float) -> bool:
        """Wait at most so long; whether the work is done."""
        if self._thread is None:
            return True
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def __exit__(self, error_type: type[BaseException] | None, *_: object) -> None:
        if self._thread is not None:
            self._thread.join()
        if error_type is None and self._raised is not None:
            raise self._raised


def _sync_data(descriptor: int) -> None:
    if hasattr(os, "fdatasync"):
        os.fdatasync(descriptor)


@contextlib.contextmanager
def _descriptor(file: IO[bytes]) -> Iterator[int]:
    """A further descriptor of an open file, which stays open when the file is closed."""
    descriptor = os.dup(file.fileno())
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _write_to(file: NewFile, write: Write) -> None:
    write(file)
    file.flush()
    os.fsync(file.fileno())
    file.close()


@contextlib.contextmanager
def _refusals_name(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FileError.of(error, path, "written") from error


@contextlib.contextmanager
def _temporary(path: Path) -> Iterator[tuple[NewFile, str]]:
    """A file beside ``path`` that is gone afterwards unless it was renamed."""
    handle, name = _create(path.parent)
    try:
        with NewFile(io.FileIO(handle, "wb")) as file:
            yield file, name
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


def _create(folder: Path) -> tuple[int, str]:
    """A new file in ``folder``, open for writing; tempfile would bring a dozen modules for it."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
    while True:
        # The name is short, so that it does not exceed the limit where the file's own name does not.
        name = str(folder / f".{os.urandom(6).hex()}.part")
        with contextlib.suppress(FileExistsError):
            # The system applies the process's umask, as to every new file.
            return os.open(name, flags, 0o666), name


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """A lock, where the system has them: no other process renames a pair in ``folder``. It ends with the process."""
    try:
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):
        yield
        return
    try:
        with contextlib.suppress(OSError):  # not every file system has locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # not every system lets a folder be opened
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
