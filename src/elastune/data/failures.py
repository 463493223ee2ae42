"""What it means that a file cannot be read, and what to do about it."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Iterator

from elastune.errors import ElastuneError, ExecutionError, JobError
from elastune.wording import without_secrets


@contextlib.contextmanager
def told(path: str, verb: str) -> Iterator[None]:
    """`verb` ends "cannot be ...". Libraries raise errors of every kind for content that is wrong."""
    shown = without_secrets(path)
    try:
        yield
    except ElastuneError:
        raise
    except FileNotFoundError:
        raise JobError(
            f"{shown}: there is no such file on this machine ({platform.node()}); expected data that every "
            "machine can reach, or `hosts` that say which machines have which partition"
        ) from None
    except (PermissionError, IsADirectoryError, NotADirectoryError) as error:
        raise JobError(f"{shown}: cannot be {verb}: {error.strerror}") from None
    except OSError as error:
        if error.errno is None:  # pyarrow's way to say that the content is wrong
            raise JobError(f"{shown}: cannot be {verb}: {_first_line(error)}") from error
        raise ExecutionError(f"{shown}: cannot be {verb} now: {_first_line(error)}") from error
    except Exception as error:
        raise JobError(f"{shown}: cannot be {verb}: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    words = str(error).strip().splitlines()
    return f"{type(error).__name__}: {without_secrets(words[0])}" if words else type(error).__name__
