"""What the pages of one run show, as plain data: from its follower, or from the page that was kept."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable

from elastune.dashboard.importance import importance_json
from elastune.journal.records import JournalHead
from elastune.journal.run_folders import FoundRun
from elastune.journal.store import Journal
from elastune.runs.control.requests import RunRequest
from elastune.views.page.figures import Json, figures_json
from elastune.views.page.follower import RunFollower
from elastune.views.page.kept_pages import keep, read_kept
from elastune.views.page.run_page import Page, facts_json, moment_json, place_json
from elastune.views.page.trials import table_csv, table_json

# How long a request reads the journal of a large run before it answers with what there is.
_PATIENCE_S = 0.25
# A snapshot of ten thousand trials takes a tenth of a second, so there are few until all is read.
_PIECE_S = 0.75


class RunData:
    """Raises `ElastuneError` where a journal cannot be read or replayed."""

    def __init__(self, found: FoundRun) -> None:
        self.found = found
        self._follower: RunFollower | None = None
        self._kept: Page | None = None
        self._kept_head: JournalHead | None = None
        self._journal = Journal.open(found.journal, read_only=True)
        self._made: dict[str, tuple[int, Json]] = {}
        self._ranked: tuple[Json, Json] | None = None
        self._lock, self._making = threading.Lock(), threading.Lock()

    def facts(self) -> Json:
        """What does not change during a run."""
        kept = self._still_kept()
        return facts_json(self._followed()) if kept is None else kept["facts"] | place_json(self.found)

    def figures(self, for_s: float = _PATIENCE_S) -> Json:
        return self._of("figures", figures_json, for_s)

    def table(self, for_s: float = _PATIENCE_S) -> Json:
        return self._of(
            "table", lambda follower: table_json(follower.trials(), follower.setup.terms.mode), for_s
        )

    def csv(self) -> str:
        """Of all trials, however long the journal takes."""
        return str(self._of("csv", lambda follower: {"text": table_csv(follower.trials())}, math.inf)["text"])

    def importance(self) -> Json:
        """It takes seconds, so it is computed once for a state of the run."""
        table = self.table()
        with self._making:
            known = self._ranked
            if known is None or known[0] is not table:
                known = self._ranked = (table, importance_json(table))
            return known[1]

    def refusal(self, request: RunRequest) -> str | None:
        """Why the run would refuse this request now; None: it would not."""
        return self._followed().refusal(request)

    def moment(self, age_s: float) -> Json:
        """The state of the run, by a look that is no older."""
        kept = self._still_kept()
        if kept is not None:
            return kept["moment"]
        follower = self._followed()
        moment = follower.recent(age_s, _PIECE_S if follower.has_looked else _PATIENCE_S)
        data = moment_json(moment)
        if moment.is_whole and moment.writer is None and moment.snapshot.is_over:
            self._keep(data)
        return data

    def _keep(self, moment: Json) -> None:
        head = self._head()
        with self._lock:
            if head == self._kept_head or head.events != moment["events"]:
                return
            self._kept_head = head
        page = {"moment": moment, "facts": self.facts(), "figures": self.figures(), "table": self.table()}
        keep(self.found, head, {**page, "csv": {"text": self.csv()}})

    def _of(self, name: str, make: Callable[[RunFollower], Json], for_s: float) -> Json:
        kept = self._still_kept()
        if kept is not None:
            return kept[name]
        follower = self._followed()
        events = follower.read(for_s)
        with self._making:
            made = self._made.get(name)
            if made is None or made[0] != events:
                made = self._made[name] = (events, make(follower))
            return made[1]

    def _still_kept(self) -> Page | None:
        """The kept page, unless the run went on."""
        if self._follower is not None:
            return None
        head = self._head()
        if self._kept is None or head != self._kept_head:
            self._kept, self._kept_head = read_kept(self.found, head), head
        return self._kept

    def _head(self) -> JournalHead:
        return self._journal.summary(self.found.record.run).head

    def _followed(self) -> RunFollower:
        with self._lock:
            if self._follower is None:
                self._follower = RunFollower(self.found)
                self._kept_head = None
            return self._follower


class FollowedRuns:
    """Data of runs by their place; the least recently used are dropped."""

    def __init__(self, most: int = 16) -> None:
        self._most = most
        self._runs: dict[str, RunData] = {}
        self._lock = threading.Lock()

    def of(self, found: FoundRun) -> RunData:
        key = f"{found.journal}#{found.record.run}"
        with self._lock:
            data = self._runs.pop(key, None) or RunData(found)
            self._runs[key] = data
            while len(self._runs) > self._most:
                self._runs.pop(next(iter(self._runs)))
        return data

    def forget(self, found: FoundRun) -> None:
        """After an error: the journal may be mended, or the run begun anew."""
        with self._lock:
            self._runs.pop(f"{found.journal}#{found.record.run}", None)
