"""Atomic writing of files: they are written under a temporary name, and renamed once they are on the disk."""

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
    """A file under a temporary name. Once :attr:`is_stopped` is set, writes from any thread raise :class:`OSError`."""

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
    """Raise :class:`FileError` where ``path`` exists and is no regular file: a folder, a device, a pipe.

    A file is written under another name and then renamed, which would replace the device by a file.
    """
    path = Path(path)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.stat(path)  # raises for invalid paths, for which path.exists() may be False
        is_refused = path.exists() and not path.is_file()
    except ValueError as error:
        raise FileError(f"{str(path)!r} cannot be the path of a file: {error}") from error
    except OSError as error:
        raise FileError.of(error, path, "written") from error
    if is_refused:
        raise FileError(f"'{path}' exists and is not a regular file: it cannot be written over")


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise :class:`FileError` where :func:`write_whole` cannot write this file; to be called before long work.

    Its folder must be writable, or possible to create, and an existing entry of its name must be a regular file.
    """
    check_target(path)
    with _naming_file(Path(path)):
        _try_to_write_in(Path(path).parent)


def check_folder(path: str | os.PathLike[str]) -> None:
    """Raise :class:`FileError` where this folder cannot be created, or is not writable."""
    with _naming_file(Path(path)):
        _try_to_write_in(Path(path))


def _try_to_write_in(folder: Path) -> None:
    """Create a file in a folder, or in its closest existing parent, and remove it."""
    while not folder.exists() and folder.parent != folder:
        folder = folder.parent
    with _temporary(folder / "file"):
        pass


def write_whole(path: Path, write: Write) -> None:
    """Write one file; missing folders are created.

    Raises :class:`FileError`, which names the file; an older file then stays.
    """
    check_target(path)
    with _naming_file(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with _naming_file(path), _temporary(path) as (file, temporary):
        _write_to(file, write)
        os.replace(temporary, path)
        _sync_folder(path.parent)


def write_pair(second: Path, text: Callable[[], Iterable[bytes | memoryview]], first: Path, write_first: Write) -> None:
    """Write two files that belong together; a process that sees the new ``second`` also sees the new ``first``.

    ``text`` returns the contents of the second; it runs while the first is written. Raises :class:`FileError`,
    which names the file that cannot be written.
    """
    with (
        _naming_file(first),
        _temporary(first) as (first_file, first_temporary),
        _naming_file(second),
        _temporary(second) as (second_file, second_temporary),
    ):
        with (
            _naming_file(first),
            _descriptor(first_file) as descriptor,
            _InThread(lambda: _write_to(first_file, write_first)) as writing,
        ):
            try:
                content = text()
                while not writing.is_done_within(_SYNC_SECONDS):
                    _sync_data(descriptor)  # so that the disk writes while the processor prepares further weights
            except BaseException:  # KeyboardInterrupt as well: the thread must not write further gigabytes
                first_file.is_stopped = True
                raise
        _write_to(second_file, lambda file: file.writelines(content))
        with _locked(second.parent):
            # An old second must never be beside a new first: it is removed, and the new one comes last.
            second.unlink(missing_ok=True)
            os.replace(first_temporary, first)
            os.replace(second_temporary, second)
        _sync_folder(second.parent)


@contextlib.contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """Return a context with a folder to write in; at its end all files are moved to ``target``, or none.

    ``target`` is created where it is missing, and removed again on failure; its files of other names stay. Raises
    :class:`FileError`, which names the file in ``target``.
    """
    from shutil import rmtree  # imported here, as single files do not need it

    with contextlib.ExitStack() as folders:
        with _naming_file(target):
            _make_folder(target, folders)
            aside = target / f".{os.urandom(6).hex()}.part"
            _make_folder(aside / "new", folders)
        new = aside / "new"
        try:
            try:
                yield new
            except OSError as error:  # the message names the file in target, not in the temporary folder
                failure = FileError.of(error, error.filename2 or error.filename or target, "written")
                renamed = FileError(str(failure).replace(str(new), str(target)))
                renamed.errno = failure.errno
                raise renamed from error
            files = sorted(path.relative_to(new) for path in new.rglob("*") if not path.is_dir())
            for file in files:
                check_target(target / file)
            with _naming_file(target), _locked(target):
                _move(files, new, target, aside, folders)
                for number in range(len(files)):
                    (aside / str(number)).unlink(missing_ok=True)
            _sync_folder(target)
        finally:
            rmtree(new, ignore_errors=True)


def _make_folder(folder: Path, cleanup: contextlib.ExitStack) -> None:
    """Create a folder and its missing parents; the end of ``cleanup`` removes those that are empty."""
    if not folder.is_dir():
        if folder.parent != folder:
            _make_folder(folder.parent, cleanup)
        cleanup.callback(_remove_empty, folder)
        folder.mkdir(exist_ok=True)


def _remove_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()


def _move(files: list[Path], new: Path, target: Path, aside: Path, folders: contextlib.ExitStack) -> None:
    """Move files from ``new`` to ``target``, and those that they replace to ``aside``, by number; or move none."""
    with contextlib.ExitStack() as undo:
        # Old files go first, so that no .xml is ever beside weights of another version; new weights precede their .xml.
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


class _InThread:
    """A context that runs ``work`` in a thread; its end waits for the thread, and raises the error of ``work``.

    On platforms without threads the work runs before the context begins.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._raised: BaseException | None = None
        self._thread = threading.Thread(target=self._run) if threads.are_available() else None

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # __exit__ raises it in the waiting thread
            self._raised = error

    def __enter__(self) -> _InThread:
        if self._thread is None:
            self._work()
        else:
            self._thread.start()
        return self

    def is_done_within(self, seconds: float) -> bool:
        """Wait for at most ``seconds``; True if the work is done."""
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
    """Duplicate the descriptor of an open file; it stays valid when the file is closed."""
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
def _naming_file(path: Path) -> Iterator[None]:
    """Turn an :class:`OSError` inside the context into a :class:`FileError` that names ``path``."""
    try:
        yield
    except OSError as error:
        raise FileError.of(error, path, "written") from error


@contextlib.contextmanager
def _temporary(path: Path) -> Iterator[tuple[NewFile, str]]:
    """Create a file beside ``path``, which is removed at the end unless it was renamed."""
    handle, name = _create(path.parent)
    try:
        with NewFile(io.FileIO(handle, "wb")) as file:
            yield file, name
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


def _create(folder: Path) -> tuple[int, str]:
    """Create a file in ``folder``, open for writing; an import of ``tempfile`` would load a dozen modules."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
    while True:
        # The name is short, so that it does not exceed the limit where the file's own name does not.
        name = str(folder / f".{os.urandom(6).hex()}.part")
        with contextlib.suppress(FileExistsError):
            # The system applies the process's umask, as to every new file.
            return os.open(name, flags, 0o666), name


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock ``folder``, so that no other process renames files in it; the system releases the lock of a dead process."""
    try:
        import fcntl  # not on Windows

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
