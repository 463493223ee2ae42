"""What the command line does, as functions.

`planning` prices a job; `running` simulates it and looks at runs. They are apart because planning alone
loads in two thirds of the time.
"""

from elastune.api.arguments import AnyJob, as_job
from elastune.api.planning import plan, quote

__all__ = ["AnyJob", "as_job", "plan", "quote"]
