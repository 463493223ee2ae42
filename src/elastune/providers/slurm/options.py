"""`cluster.options` of a job with `provider: slurm`, and the price that follows from them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from elastune.errors import JobError
from elastune.model.billing import Options, Quotation
from elastune.model.quantities import ExpectedError, positive_duration
from elastune.wording import did_you_mean, seen

OWN_FLAGS = (
    "array", "chdir", "comment", "export", "job-name", "no-requeue", "nodes", "ntasks", "output", "requeue",
    "signal", "time", "wrap",
)  # fmt: skip
"""Of sbatch: what Elastune sets itself."""
_GPUS = re.compile(r"(?:^|,)gpu(?::[A-Za-z][\w.-]*)?(?::(\d+))?(?=,|$)")


def _several(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _seconds(value: object) -> object:
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        return value
    try:
        return positive_duration(value)
    except ExpectedError as error:
        raise ValueError(str(error)) from None


Line = Annotated[str, Field(min_length=1, pattern=r"^[^\n\r\x00]+$")]
Lines = Annotated[tuple[Line, ...], BeforeValidator(_several)]
Seconds = Annotated[float, BeforeValidator(_seconds), Field(gt=0.0, allow_inf_nan=False)]
UsdPerHour = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]


class SlurmOptions(BaseModel):
    """Where and how jobs are submitted. What is left out is the site's default."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)

    partition: Lines = ()
    """One or several: Slurm starts a job in the one that has room first."""
    account: Line | None = None
    qos: Line | None = None
    time_limit: Seconds | None = None
    """Of a job; None: until the deadline, or three times the predicted time, but at most what the partition
    allows. When it is reached, the run saves and goes on with another node."""
    gres: Line | None = None
    """Such as gpu:a100:4; None: as many GPUs as the slots of a node need."""
    constraint: Line | None = None
    memory: Line | None = None
    """Of a node, such as 64G; None: the site's default, or all with `exclusive`."""
    exclusive: bool = False
    """No other jobs on the machine."""
    extra: Lines = ()
    """More arguments for sbatch, such as --reservation=tuning."""
    setup: Lines = ()
    """Shell commands before the node starts: module load, conda activate."""
    python: Line | None = None
    """The interpreter on the machines, with Elastune and Ray; None: the one that runs this."""
    folder: Line | None = None
    """A folder that all machines see, for the address of the run, its token and logs of the jobs; None:
    .elastune/slurm in the home folder."""
    address: Line | None = None
    """The name or address of this machine as compute nodes reach it; None: that of the interface towards
    the first of them."""
    ports: (
        tuple[Annotated[int, Field(ge=1024, le=65535)], Annotated[int, Field(ge=1024, le=65535)]] | None
    ) = None
    """The range of ports in which Ray listens on compute nodes; None: any. At least 50."""
    notice: Seconds = 60.0
    """How long before the end of its time limit a node is given up."""
    patience: Seconds | None = None
    """How long a job may wait in the queue; None: four times the expected time, at least 10 minutes."""
    lost_head_after: Seconds = 60.0
    """A node that cannot reach the run for so long ends itself."""
    price_per_node_hour: UsdPerHour | None = None
    price_per_gpu_hour: UsdPerHour | None = None
    """What the site charges; None: nothing."""

    @field_validator("ports")
    @classmethod
    def _enough_ports(cls, ports: tuple[int, int] | None) -> tuple[int, int] | None:
        if ports is not None and ports[1] - ports[0] < 49:
            raise ValueError("expected a range of at least 50 ports, such as [20000, 20999]")
        return ports

    @field_validator("extra")
    @classmethod
    def _not_ours(cls, extra: tuple[str, ...]) -> tuple[str, ...]:
        for line in extra:
            name = line.partition("=")[0].partition(" ")[0]
            if not name.startswith("--") or name.removeprefix("--") in OWN_FLAGS:
                flags = f"--{', --'.join(OWN_FLAGS)}"
                raise ValueError(f"expected arguments such as --reservation=tuning, none of {flags}")
        return extra

    @classmethod
    def parse(cls, options: Mapping[str, Any]) -> SlurmOptions:
        """Raises `JobError` that names the option."""
        try:
            found = cls(**options)
        except ValidationError as error:
            raise JobError("\n".join(_describe(each) for each in error.errors())) from None
        if found.price_per_node_hour is not None and found.price_per_gpu_hour is not None:
            raise JobError(
                "cluster.options.price_per_node_hour and price_per_gpu_hour exclude each other; expected one"
            )
        return found

    def gpus_in_gres(self) -> int | None:
        """None: it names no GPUs."""
        found = _GPUS.search(self.gres or "")
        return None if found is None else int(found[1] or 1)


def quote_price(options: Options, slot_gpus: int = 0) -> Quotation:
    """Of one node, whose slots have so many GPUs. Without a price, node time costs nothing and is counted all
    the same."""
    parsed = SlurmOptions.parse(options)
    if parsed.price_per_node_hour is not None:
        return Quotation(
            usd_per_hour=parsed.price_per_node_hour, source="Slurm, cluster.options", as_of="the job"
        )
    if parsed.price_per_gpu_hour is None:
        return Quotation(usd_per_hour=0.0, source="Slurm, no price in cluster.options", as_of="the job")
    gpus = slot_gpus if parsed.gres is None else parsed.gpus_in_gres()
    if not gpus:
        raise JobError(
            "cluster.options.price_per_gpu_hour needs the number of GPUs of a node; expected slots with "
            "GPUs, such as slot: {gpus: 1}, or cluster.options.gres, such as gpu:4"
        )
    usd = gpus * parsed.price_per_gpu_hour
    return Quotation(usd_per_hour=usd, source=f"Slurm, {gpus} GPUs, cluster.options", as_of="the job")


_EXAMPLES = {
    "partition": "the name of a partition, or several",
    "time_limit": "a duration such as 4h",
    "notice": "a duration such as 60s",
    "patience": "a duration such as 30m",
    "lost_head_after": "a duration such as 60s",
    "setup": "a list of shell commands, each on one line",
    "exclusive": "true or false",
    "price_per_node_hour": "dollars such as 2.50",
    "price_per_gpu_hour": "dollars such as 0.80",
}


def _describe(wrong: Any) -> str:
    name = str(wrong["loc"][0])
    match wrong["type"]:
        case "extra_forbidden":
            hint = did_you_mean(name, SlurmOptions.model_fields)
            text = f"is no option of slurm; expected one of {', '.join(SlurmOptions.model_fields)}{hint}"
        case "value_error":
            said = str(wrong["ctx"]["error"])
            said = said if said.startswith("expected") else f"expected {said}"
            text = f"is {seen(wrong['input'])}; {said}"
        case _:
            expected = f"expected {_EXAMPLES[name]}" if name in _EXAMPLES else wrong["msg"].lower()
            text = f"is {seen(wrong['input'])}; {expected}"
    return f"cluster.options.{name} {text}"
