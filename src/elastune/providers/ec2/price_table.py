"""List prices of common instance types, for when AWS cannot be asked. They go out of date, and say of when
they are.

P3, P4d, P5, G5, G6 and Trn1 are as instances.vantage.sh had them on that day (P4d and P5 are cheaper since
June 2025). G4dn and the CPU families are older knowledge, which other lists of 2025 and 2026 agree with.
Within a CPU family every size costs the same per vCPU, so one price and the vCPUs say it all. Other regions
cost the same (us-east-2, us-west-2) or up to 1.7 times as much (sa-east-1).
"""

from __future__ import annotations

REGION = "us-east-1"
AS_OF = "26 Aug 2026"

_VCPUS = {
    "large": 2, "xlarge": 4, "2xlarge": 8, "4xlarge": 16, "8xlarge": 32, "9xlarge": 36, "12xlarge": 48,
    "16xlarge": 64, "18xlarge": 72, "24xlarge": 96, "32xlarge": 128,
}  # fmt: skip
_M5 = ("large", "xlarge", "2xlarge", "4xlarge", "8xlarge", "12xlarge", "16xlarge", "24xlarge")
_C5 = ("large", "xlarge", "2xlarge", "4xlarge", "9xlarge", "12xlarge", "18xlarge", "24xlarge")
_PER_VCPU = {
    "c5": (0.0425, _C5),
    "c6i": (0.0425, (*_M5, "32xlarge")),
    "m5": (0.048, _M5),
    "m6i": (0.048, (*_M5, "32xlarge")),
    "r5": (0.063, _M5),
}
_ACCELERATED = {
    "g4dn.xlarge": 0.526, "g4dn.2xlarge": 0.752, "g4dn.4xlarge": 1.204, "g4dn.8xlarge": 2.176,
    "g4dn.12xlarge": 3.912, "g4dn.16xlarge": 4.352, "g4dn.metal": 7.824,
    "g5.xlarge": 1.006, "g5.2xlarge": 1.212, "g5.4xlarge": 1.624, "g5.8xlarge": 2.448,
    "g5.12xlarge": 5.672, "g5.16xlarge": 4.096, "g5.24xlarge": 8.144, "g5.48xlarge": 16.288,
    "g6.xlarge": 0.8048, "g6.2xlarge": 0.9776, "g6.4xlarge": 1.3232, "g6.8xlarge": 2.0144,
    "g6.12xlarge": 4.6016, "g6.16xlarge": 3.3968, "g6.24xlarge": 6.6752, "g6.48xlarge": 13.3504,
    "p3.2xlarge": 3.06, "p3.8xlarge": 12.24, "p3.16xlarge": 24.48,
    "p4d.24xlarge": 21.957642,
    "p5.4xlarge": 6.88, "p5.48xlarge": 55.04,
    "trn1.2xlarge": 1.34375, "trn1.32xlarge": 21.5,
}  # fmt: skip

USD_PER_HOUR = _ACCELERATED | {
    f"{family}.{size}": round(usd * _VCPUS[size], 6)
    for family, (usd, sizes) in _PER_VCPU.items()
    for size in sizes
}
"""On demand, Linux, shared tenancy, in `REGION`."""
