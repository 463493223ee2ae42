"""What a storage that fails means, and what to do about it."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator

from elastune.errors import ExecutionError

_ELSEWHERE = "or keep the checkpoints elsewhere"
_ADVICE = {
    errno.ENOSPC: f"the disk is full; free some space, {_ELSEWHERE}",
    errno.EDQUOT: f"your quota is used up; free some space, {_ELSEWHERE}",
    errno.EFBIG: f"the file would be larger than allowed; raise the limit, {_ELSEWHERE}",
    errno.EROFS: "the file system is read-only; keep the checkpoints elsewhere",
    errno.EACCES: f"permission denied; make the folder writable for this user, {_ELSEWHERE}",
    errno.EPERM: f"not permitted; make the folder writable for this user, {_ELSEWHERE}",
    errno.ENOTDIR: f"a file stands where a folder is expected; move it away, {_ELSEWHERE}",
    errno.EEXIST: f"a file stands where a folder is expected; move it away, {_ELSEWHERE}",
}


@contextlib.contextmanager
def told(verb: str, path: str) -> Iterator[None]:
    """Drivers raise errors of every kind; all of them mean that the storage did not do what it was told."""
    try:
        yield
    except ExecutionError:
        raise
    except OSError as error:
        reason = _ADVICE.get(error.errno or 0, str(error))
        if isinstance(error, FileNotFoundError) and verb == "read":
            reason = "there is no such checkpoint; it was deleted, or never written"
        raise ExecutionError(f"cannot {verb} {path}: {reason}") from error
    except Exception as error:
        raise ExecutionError(f"cannot {verb} {path}: {type(error).__name__}: {error}") from error
