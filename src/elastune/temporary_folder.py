"""A folder in the system's temporary folder that goes with the process that made it, even if that is killed.

A shell that outlives the process waits for the process's end of a pipe to close, and then removes the folder.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

# A background job of the shell has no stdin, so it reads the pipe as file 3. Processes that still write into
# the folder get a second. Ray ends the children of a worker with it, but not its grandchildren.
_JANITOR = 'exec 3<&0; { read -r _ <&3; rm -rf -- "$0" || { sleep 1; rm -rf -- "$0"; }; } >/dev/null 2>&1 &'


class TemporaryFolder:
    """Removed by `close`, or after this process has exited."""

    def __init__(self, prefix: str) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=prefix))
        self._owner = os.getpid()
        # Only this process has the writing end, which closes when it exits.
        reading, self._writing = os.pipe()
        try:
            janitor = ["/bin/sh", "-c", _JANITOR, str(self.path)]
            subprocess.run(janitor, stdin=reading, check=True, start_new_session=True)  # noqa: S603
        except BaseException:
            os.close(self._writing)
            raise
        finally:
            os.close(reading)

    def close(self) -> None:
        """In a process that was forked from the one that made it, nothing happens."""
        if os.getpid() == self._owner and self._writing >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._writing)
            self._writing = -1
