"""What the provider of a job says about money, written into the job: its journal then has it for good."""

from __future__ import annotations

from elastune.errors import JobError
from elastune.job import Job
from elastune.providers.prices import interruption_teller, price_teller

# A job keeps names of so many characters.
_MOST_CHARACTERS = 200


def with_price(job: Job) -> Job:
    """The job with a price. One that is written in it is not asked about: the user knows better."""
    cluster = job.cluster
    if cluster.price_per_hour is not None or cluster.kinds:
        return job
    tell = price_teller(cluster.provider)
    if tell is None:
        raise JobError(
            f"cluster.price_per_hour is missing, and {cluster.provider} knows no prices; expected what one "
            "node costs per hour, such as 12.24"
        )
    told = tell(cluster.options)
    found = {
        "price_per_hour": told.usd_per_hour,
        "price_source": str(told)[:_MOST_CHARACTERS],
        "most_price_per_hour": told.most_usd_per_hour,
    }
    return job.model_copy(update={"cluster": cluster.model_copy(update=found)})


def interruptions_per_hour(job: Job) -> float:
    """How often a node of this job is expected to be taken away: as the job says, else the provider."""
    if job.cluster.interruptions_per_hour is not None:
        return job.cluster.interruptions_per_hour
    tell = interruption_teller(job.cluster.provider)
    return 0.0 if tell is None else tell(job.cluster.options)
