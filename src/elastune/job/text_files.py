"""Reading a text file that a user named, with an error that says what is wrong with it."""

from __future__ import annotations

from pathlib import Path

from elastune.errors import JobError


def read_text(path: str | Path, what: str) -> str:
    """The text of the file; a byte order mark is dropped."""
    try:
        return Path(path).read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise JobError(f"{path}: there is no such file; expected a {what}") from None
    except IsADirectoryError:
        raise JobError(f"{path}: this is a folder; expected a {what}") from None
    except UnicodeDecodeError as error:
        raise JobError(f"{path}: not UTF-8 text (byte {error.start + 1}); expected a {what}") from None
    except OSError as error:
        raise JobError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValueError:
        raise JobError(f"{str(path)!r}: not the name of a file") from None
