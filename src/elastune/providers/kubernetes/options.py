"""`cluster.options` of a job with `provider: kubernetes`, and the price that follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from elastune.errors import JobError
from elastune.model.billing import Options, Quotation
from elastune.model.quantities import ExpectedError, positive_duration
from elastune.wording import did_you_mean, seen


def _seconds(value: object) -> object:
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        return value
    try:
        return positive_duration(value)
    except ExpectedError as error:
        raise ValueError(str(error)) from None


Name = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=63)]
Seconds = Annotated[float, BeforeValidator(_seconds), Field(gt=0.0, allow_inf_nan=False)]


class KubernetesOptions(BaseModel):
    """Which worker group, and how it is reached."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)

    cluster: Name
    """The name of the RayCluster."""
    group: Name
    """A worker group of it that Elastune alone scales: one node pool, one price."""
    namespace: Name | None = None
    """None: that of this pod, or of the context of the kubeconfig."""
    context: str | None = None
    """Of the kubeconfig; None: the current one. Inside a cluster, the service account of the pod is used."""
    ray: str = "auto"
    """The Ray cluster, host:port; auto: this machine is a node of it."""
    patience: Seconds | None = None
    """How long a pod may wait for a machine; None: four times the expected time, at least 10 minutes."""
    price_per_node_hour: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] | None = None
    """What a machine of the node pool costs; None: nothing."""

    @classmethod
    def parse(cls, options: Mapping[str, Any]) -> KubernetesOptions:
        """Raises `JobError` that names the option."""
        try:
            return cls(**options)
        except ValidationError as error:
            raise JobError("\n".join(_describe(each) for each in error.errors())) from None


def quote_price(options: Options) -> Quotation:
    parsed = KubernetesOptions.parse(options)
    usd = parsed.price_per_node_hour
    source = "Kubernetes, no price given" if usd is None else "Kubernetes, cluster.options"
    return Quotation(usd_per_hour=usd or 0.0, source=source, as_of="the job")


def _describe(wrong: Any) -> str:
    name = str(wrong["loc"][0])
    match wrong["type"]:
        case "missing":
            text = "is missing; expected the name of a RayCluster and of one of its worker groups"
        case "extra_forbidden":
            hint = did_you_mean(name, KubernetesOptions.model_fields)
            known = ", ".join(KubernetesOptions.model_fields)
            text = f"is no option of kubernetes; expected one of {known}{hint}"
        case "value_error":
            text = f"is {seen(wrong['input'])}; expected {wrong['ctx']['error']}"
        case _:
            text = f"is {seen(wrong['input'])}; {wrong['msg'].lower()}"
    return f"cluster.options.{name} {text}"
