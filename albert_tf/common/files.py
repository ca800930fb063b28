"""Files on disk or in a bucket: find them by pattern, replace them atomically.

Paths with a scheme (`gs://`, `ram://`) go through `tf.io.gfile`; plain paths
use the standard library, so that preparing data never loads TensorFlow for
them.
"""

import contextlib
import difflib
import errno
import fcntl
import glob
import hashlib
import os
import pathlib
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Any

from absl import logging

from albert_tf.common import errors

# Endings of files beside record files that are no record files: manifest, data
# card, incomplete files.
BESIDE_RECORDS = (".manifest.json", ".card.md", ".card.png", ".partial")

# What `os.path.dirname` returns for gs://NAME; no folder is created for it.
_BUCKET = re.compile(r"[a-z0-9]+:")
# Ending of what is not complete yet; nothing else has it.
PARTIAL = ".albert_tf.partial"
REPLACED = ".albert_tf.replaced"  # Ending of a folder that is being replaced.
# Names of a folder that a wrong one is compared with; they take 0.1 s at most.
_MOST_COMPARED = 1000
_MOST_COMMAS = 8  # In a name among several.
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
# Errors where a file cannot be created.
NO_PLACE = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
# Errors of file systems that have no locks.
_NO_LOCKS = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS})


def is_remote(path: str) -> bool:
    """Tell whether only TensorFlow can open `path`."""
    return "://" in path


def _gfile():  # type: ignore[no-untyped-def]
    from tensorflow.io import gfile  # Slow to import: only for remote paths.

    return gfile


def exists(path: str) -> bool:
    return _gfile().exists(path) if is_remote(path) else os.path.exists(path)


def list_folder(folder: str) -> list[str]:
    """Return the names in a folder, sorted; none if it does not exist."""
    if is_remote(folder):
        names = _gfile().listdir(folder) if _gfile().isdir(folder) else []
        return sorted(name.rstrip("/") for name in names)
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


def size_and_time(path: str) -> tuple[int, int]:
    """Return the bytes of a file, and when it was changed, in nanoseconds."""
    if is_remote(path):
        remote = _gfile().stat(path)
        return int(remote.length), int(remote.mtime_nsec)
    local = os.stat(path)
    return local.st_size, local.st_mtime_ns


def size(path: str) -> int:
    return size_and_time(path)[0]


def find_by_ending(folder: str, ending: str) -> list[str]:
    """Return the paths in a folder whose names have this ending, sorted."""
    if is_remote(folder):
        return sorted(_gfile().glob(f"{folder}/*{ending}"))
    return sorted(glob.glob(os.path.join(glob.escape(folder), f"*{ending}")))


def remove(path: str) -> None:
    _gfile().remove(path) if is_remote(path) else os.remove(path)


def make_folder(path: str, option: str | None = None) -> None:
    """Create a folder and its parents; "" is the current one."""
    if is_remote(path):
        _gfile().makedirs(path)
        return
    if _BUCKET.fullmatch(path):
        return
    try:
        with contextlib.suppress(FileNotFoundError):
            os.stat(path)  # A name may be too long, even for `makedirs`.
        os.makedirs(path or ".", exist_ok=True)
    except OSError as error:
        prefix = f"`{option}`: " if option else ""
        existing = path
        while existing and not os.path.exists(existing):
            existing = os.path.dirname(existing)
        reason = f"{error.strerror}. Choose a place that you may write to."
        if existing and not os.path.isdir(existing):
            reason = f"{existing!r} is a file. Name another folder, or move it."
        raise errors.UserError(
            f"{prefix}Cannot create the folder {path!r}: {reason}"
        ) from error


def split_list(text: str) -> list[str]:
    """Divide names at their commas, but for a comma in an existing name."""
    parts, names = text.split(","), list[str]()
    while parts:
        for count in range(min(len(parts), _MOST_COMMAS + 1), 0, -1):
            name = ",".join(parts[:count]).strip()
            if count == 1 or (not is_remote(name) and exists(name)):
                break
        names += filter(None, [name])
        del parts[:count]
    return names


def expand_patterns(
    patterns: str, option: str, without: tuple[str, ...] = ()
) -> list[str]:
    """Expand comma-separated glob patterns into a sorted list of files.

    Args:
        without: Files with these endings are ignored; `BESIDE_RECORDS` where
            record files are wanted.

    Returns:
        Paths, sorted within each pattern, each file once.
    """
    paths: list[str] = []
    globs = split_list(patterns)
    if not globs:
        raise errors.UserError(
            f"`{option}` is empty. Give one or more files or glob patterns, "
            "separated by commas."
        )
    for pattern in globs:
        matches = [
            path
            for path in match_pattern(pattern)
            if is_remote(path) or os.path.isfile(path)
            if not path.endswith(without)
        ]
        if not matches:
            reason = _explain_none(pattern)
            raise errors.UserError(f"`{option}={pattern}` {reason}")
        paths += matches
    return drop_repeated(paths)


def match_pattern(pattern: str) -> list[str]:
    """Return the paths that a glob pattern matches, sorted.

    If a path is equal to the pattern, it is the only match. A name that is not
    UTF-8 is an error, because it cannot be written into a report.
    """
    if exists(pattern):
        return [pattern]
    paths = sorted((_gfile() if is_remote(pattern) else glob).glob(pattern))
    for path in paths:
        if re.search("[\ud800-\udfff]", path):
            raise errors.UserError(
                f"{pattern} matches {path!a}, whose name is not UTF-8. Rename "
                "the file."
            )
    return paths


def drop_repeated(paths: Sequence[str]) -> list[str]:
    """Keep one path of each file or folder: `a` of `a`, `./a` and links."""
    path_of: dict[Any, str] = {}
    for path in dict.fromkeys(paths):
        key = identity(path) or path
        first = path_of.setdefault(key, path)
        if first == path:
            continue
        logging.warning("%s is %s, which is read once.", path, first)
        if os.path.islink(first) and not os.path.islink(path):
            path_of[key] = path  # Its manifest may stand beside it.
    return list(path_of.values())


def identity(path: str) -> Any:
    """Return a key that all paths of a file share; None if it is missing."""
    if is_remote(path):
        return path
    try:
        status = os.stat(path)
    except (OSError, ValueError):  # There may be NUL in the name.
        return None
    return status.st_dev, status.st_ino


def _explain_none(pattern: str) -> str:
    """Explain why a pattern matches no file, and what to do."""
    if os.path.isdir(pattern):
        inside = os.path.join(glob.escape(pattern), "*")
        return f"is a folder. Files are needed. Use '{inside}'."
    if is_special(pattern):
        return (
            "is a pipe or a device. Regular files are needed. Write its "
            "content to a file, or, where the program allows it, pipe it into "
            "standard input."
        )
    if os.path.exists(pattern):
        return "stands beside record files, but is none. Name those."
    return (
        f"matches no file.{suggest(pattern)} Check the spelling (the "
        f"current folder is {os.getcwd()}), and quote patterns so that the "
        "shell leaves them alone."
    )


def is_special(path: str) -> bool:
    """Tell whether something other than a regular file has this local path."""
    return os.path.exists(path) and not os.path.isfile(path)


def require_file(path: str, option: str) -> str:
    """Return `path` if it is a file; a missing one or a folder is an error."""
    if exists(path) if is_remote(path) else os.path.isfile(path):
        return path
    reason = f"Check the path (the current folder is {os.getcwd()})."
    if os.path.isdir(path):
        raise errors.UserError(
            f"`{option}={path}` is not a file but a folder. Name a file in it."
        )
    raise errors.UserError(
        f"`{option}={path}` is not a file.{suggest(path)} {reason}"
    )


def suggest(path: str, others: Sequence[str] = ()) -> str:
    """Return " Did you mean ...?" with a name much like that of a missing path.

    Args:
        others: Further names to choose from, which need not exist.

    Example:
        For "sqad.json" beside squad.json: " Did you mean squad.json?"
    """
    if is_remote(path):
        return ""
    if os.path.islink(path) and not os.path.exists(path):
        return f" It is a link to {os.readlink(path)}, which is missing."
    folder, name = os.path.split(path.rstrip("/"))
    while folder and not os.path.isdir(folder) and folder != "/":
        folder, name = os.path.split(folder)
    candidates = list(others)
    with contextlib.suppress(OSError):  # It may not be readable.
        candidates += list_folder(folder or ".")[:_MOST_COMPARED]
    candidates = [
        other for other in candidates if os.path.join(folder, other) != path
    ]
    near = difflib.get_close_matches(name, candidates, 1, 0.8)
    return f" Did you mean {os.path.join(folder, near[0])}?" if near else ""


def safe_join(folder: str, name: str) -> str:
    """Return the path of a file in a folder; refuse a link that leaves it.

    A model's folder from elsewhere must not show files of this machine. A link
    may lead to another place in it, or into the blobs of the Hugging Face cache
    (from MODEL/snapshots/REVISION/NAME to MODEL/blobs/HASH).
    """
    path = os.path.join(folder, name)
    if is_remote(path):
        return path
    root, target = (pathlib.Path(os.path.realpath(p)) for p in (folder, path))
    allowed = [root]
    for parent in root.parents:
        if parent.name == "snapshots":
            allowed.append(parent.parent / "blobs")
    if not any(target.is_relative_to(place) for place in allowed):
        raise errors.UserError(
            f"{path} is a link to {target}, outside of its folder. Put the "
            "file itself in its place if it belongs there."
        )
    require_regular(path)
    return path


def refuse_file(path: str, option: str) -> None:
    """Make sure that the path of a folder is not that of a file."""
    if os.path.exists(path) and not os.path.isdir(path):
        raise errors.UserError(
            f"`{option}={path}` is a file. A folder is needed. Name the folder."
        )


def open_binary(path: str) -> IO[bytes]:
    if is_remote(path):
        return _gfile().GFile(path, "rb")
    return open(path, "rb")


def require_regular(path: str) -> None:
    """Refuse a pipe or a device: reading it may never end.

    What a shell makes of <(COMMAND) is allowed.
    """
    is_read_once = path.startswith("/dev/fd/")
    if is_special(path) and not (is_read_once or os.path.isdir(path)):
        raise errors.UserError(
            f"{path} is a pipe or a device. Put a regular file in its place."
        )


def read_bytes(path: str) -> bytes:
    """Read a whole file, a regular one."""
    if os.path.isdir(path):
        raise errors.UserError(f"{path} is a folder. Put a file in its place.")
    require_regular(path)
    with open_binary(path) as stream:
        return bytes(stream.read())


def read_lines(path: str, option: str) -> list[str]:
    """Return the lines of a UTF-8 file; errors name the option of its path."""
    content = read_bytes(require_file(path, option))
    try:
        return content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise errors.UserError(
            f"`{option}={path}` is not UTF-8: "
            f"{errors.bad_byte(content, 'the file')}. Convert it first, for "
            "example with: iconv -f latin1 -t utf-8."
        ) from error


def sha256(path: str) -> str:
    """Return the SHA-256 of a file; a pipe, which is read once, is refused."""
    if is_special(path) and not os.path.isdir(path):
        raise errors.UserError(
            f"{path} is a pipe or a device, but is read twice. Write its "
            "content to a file, and name that."
        )
    digest = hashlib.sha256()
    with open_binary(path) as stream:
        while content := stream.read(2**20):
            digest.update(content)
    return digest.hexdigest()


@contextlib.contextmanager
def name_full_disk(path: str) -> Iterator[None]:
    """Name the written file in errors about a full disk, TensorFlow's too."""
    try:
        yield
    except errors.or_tensorflow(OSError) as error:
        if isinstance(error, OSError):
            is_named = not str(error.filename or PARTIAL).endswith(".partial")
            candidates = [] if is_named else [error.errno]
        else:  # TensorFlow's have no number.
            candidates = [n for n in NO_ROOM if os.strerror(n) in str(error)]
        code = next(filter(NO_ROOM.__contains__, candidates), None)
        if code is None or is_remote(path):
            raise
        free = shutil.disk_usage(os.path.dirname(path) or ".").free
        limit = "; ulimit -f shows the limit" if code == errno.EFBIG else ""
        reason = f"{os.strerror(code)} ({free:,} bytes are free now{limit})"
        raise OSError(code, reason, path) from error


def require_disk_space(folder: str, needed: int, option: str) -> None:
    """Make sure that the disk of a local folder has room for some bytes."""
    if is_remote(folder):
        return
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise OSError(
            f"`{option}={folder}` is on a disk with {free:,} free bytes, but "
            f"{needed:,} are needed. Make room there, or choose another folder"
        )


def find_leftovers(path: str, *, remove: bool = False) -> list[str]:
    """Return the partial files of a path that killed processes have left over.

    Where the file system has no locks, nobody knows which those are, and none
    is returned.
    """
    folder, name = os.path.split(path)
    partial_name = re.compile(
        rf"{re.escape(name)}(\.[0-9a-f]{{8}})?{re.escape(PARTIAL)}"
    )
    leftovers, names = [], list[str]()
    with contextlib.suppress(PermissionError):  # It may be for writing only.
        names = list_folder(folder or ".")
    for partial in filter(partial_name.fullmatch, names):
        partial = os.path.join(folder, partial)
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            # This program makes no links, and locks no folders.
            if not (os.path.islink(partial) or os.path.isdir(partial)):
                # NFS gives locks to those alone who may write.
                descriptor = os.open(partial, os.O_RDWR | os.O_NONBLOCK)
                stack.callback(os.close, descriptor)
                if try_lock(descriptor):
                    continue
            leftovers.append(partial)
            if remove:
                os.remove(partial)  # Not that of a folder.
    return leftovers


def try_lock(descriptor: int) -> OSError | None:
    """Lock an open file against other processes, until it is closed.

    Returns:
        The error of a file system that has no locks.

    Raises:
        BlockingIOError: Another process holds it.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        return error
    return None


def is_at(descriptor: int, path: str) -> bool:
    """Tell whether an open file is still the one at its path."""
    try:
        present = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(descriptor), present)


@contextlib.contextmanager
def replace_atomically(
    path: str, *, through_link: bool = True, unfinished_work: bool = False
) -> Iterator[IO[bytes]]:
    """Open a file for writing that appears under its name only when complete.

    The bytes go to a file of another name, `PATH.TOKEN.albert_tf.partial`, are
    synced to the disk and renamed. After an error inside the `with` block that
    file is removed, and an earlier file at `path` is unchanged. Of two
    processes that write one file the last one wins. Each has locked its partial
    file: what is not locked was left by a killed process, and is removed.

    Args:
        through_link: Whether a symbolic link is followed, so that its target is
            replaced: for files that the user names. Otherwise the link itself
            is replaced: for files in the folder of a run, which may have come
            with a link to any other file of the user.
        unfinished_work: True for files that a checksum elsewhere protects. They
            are not synced, which takes milliseconds: after a power failure they
            may be empty.
    """
    if is_remote(path):  # Object stores show an object only when it is closed.
        with _gfile().GFile(path, "wb") as stream:
            yield stream
        return
    is_replaced = os.path.islink(path) and not through_link
    if is_special(path) and not is_replaced:
        raise OSError(errno.EEXIST, "Not a regular file", path)
    target = path if is_replaced else os.path.realpath(path)
    with name_full_disk(path), _open_partial(target) as stream:
        try:
            if not unfinished_work:
                find_leftovers(target, remove=True)
            yield stream
            stream.flush()
            if not unfinished_work:
                os.fsync(stream.fileno())
            os.replace(stream.name, target)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.remove(stream.name)
            raise


def _open_partial(target: str) -> IO[bytes]:
    """Open and lock a new file beside another, which nobody else writes."""
    while True:
        name = f"{target}.{secrets.token_hex(4)}{PARTIAL}"
        try:
            stream = open(name, "xb")
        except OSError as error:
            if error.errno not in NO_PLACE:
                raise
            raise errors.UserError(
                f"Cannot write {target!r}: {error.strerror}. Choose a place "
                "that you may write to."
            ) from error
        with contextlib.suppress(BlockingIOError):  # It is being removed.
            try_lock(stream.fileno())
            if is_at(stream.fileno(), name):
                return stream
        stream.close()


def write_together(
    contents: Mapping[str, bytes], old: Iterable[str] = ()
) -> None:
    """Write several files, each of which is complete before one appears.

    The first appears last. So after a kill the others belong to its partial
    file, see `outputs.check`. Links are replaced.

    Args:
        old: Paths of an earlier result. What is not written is removed then.
    """
    with contextlib.ExitStack() as stack:
        for path, content in contents.items():
            stream = stack.enter_context(
                replace_atomically(path, through_link=False)
            )
            stream.write(content)
            stream.flush()
    for path in old:
        if path not in contents and exists(path):
            remove(path)


def sync(path: str) -> None:
    with name_full_disk(path), open(path, "rb") as stream:
        os.fsync(stream.fileno())


def write_text(path: str, text: str, *, unfinished_work: bool = False) -> None:
    """Write a small text file atomically, as UTF-8; a link is replaced."""
    with replace_atomically(
        path, through_link=False, unfinished_work=unfinished_work
    ) as stream:
        stream.write(text.encode("utf-8"))


@contextlib.contextmanager
def replace_folder(path: str) -> Iterator[str]:
    """Create a folder that replaces `path` at the end of the block.

    After an error inside the block it is removed, and `path` is unchanged. Of a
    link, the folder that it leads to is replaced. Two processes must not do
    this at the same time: the caller holds a lock.
    """
    path = os.path.realpath(path)
    clear_replacement(path)
    new, old = path + PARTIAL, path + REPLACED
    os.makedirs(new)
    try:
        yield new
        for folder, _, names in os.walk(new):
            for name in names:
                sync(os.path.join(folder, name))
        if os.path.exists(path):
            os.replace(path, old)
        try:
            os.replace(new, path)
        except OSError:
            if os.path.exists(old):
                os.replace(old, path)
            raise
    finally:
        _remove_folder(new)
    _remove_folder(old)


def require_folder_target(path: str, option: str) -> None:
    """Make sure that `replace_folder` can make a local folder of this name.

    It is called after `clear_replacement`.
    """
    path = path.rstrip("/") or path
    if os.path.islink(path) and not os.path.exists(path):
        make_folder(path, option)  # A link is in the way.
    for ending in (PARTIAL, REPLACED):
        make_folder(os.path.realpath(path) + ending, option)
        os.rmdir(os.path.realpath(path) + ending)


def clear_replacement(path: str) -> None:
    """Clear up after a `replace_folder` that was killed.

    The unfinished folder is removed. The earlier folder is put back if it was
    not replaced.
    """
    path = os.path.realpath(path)
    _remove_folder(path + PARTIAL)
    if os.path.exists(path + REPLACED) and not os.path.exists(path):
        os.replace(path + REPLACED, path)
    _remove_folder(path + REPLACED)


def _remove_folder(path: str) -> None:
    """Remove a folder, or a link, as earlier versions left one."""
    if os.path.islink(path):
        os.remove(path)
    shutil.rmtree(path, ignore_errors=True)
