"""A little AWS on loopback that knows prices: documents as the Pricing API and EC2 answer them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import pytest

from tests.aws import models_read_once

_XML = 'xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"'


@dataclass(kw_only=True)
class Prices:
    """What is asked, and what is answered. `on_demand` by type and region, `spot` by type and zone."""

    on_demand: Mapping[tuple[str, str], float] = field(default_factory=dict)
    spot: Mapping[tuple[str, str], float] = field(default_factory=dict)
    subnets: Mapping[str, str] = field(default_factory=dict)
    denied: bool = False
    asked: list[Any] = field(default_factory=list)

    def products(self, request: Any) -> dict[str, object]:
        wanted = {each["Field"]: each["Value"] for each in request["Filters"]}
        usd = self.on_demand.get((wanted["instanceType"], wanted["regionCode"]))
        return {
            "FormatVersion": "aws_v1",
            "PriceList": [] if usd is None else [json.dumps(_product(wanted, usd))],
        }

    def history(self, form: Mapping[str, list[str]]) -> str:
        wanted = form["InstanceType.1"][0]
        found = [(zone, usd) for (name, zone), usd in self.spot.items() if name == wanted]
        # An older price of the same zone comes along, as it does when the price has just changed.
        items = [_spot(wanted, zone, usd, "2026-11-16T10:12:13.000Z") for zone, usd in found]
        items += [_spot(wanted, zone, usd * 9, "2026-11-15T01:02:03.000Z") for zone, usd in found]
        return (
            f"<DescribeSpotPriceHistoryResponse {_XML}><requestId>1</requestId><spotPriceHistorySet>"
            f"{''.join(items)}</spotPriceHistorySet><nextToken/></DescribeSpotPriceHistoryResponse>"
        )

    def zones(self, form: Mapping[str, list[str]]) -> str:
        names = [values[0] for key, values in form.items() if key.startswith("SubnetId.")]
        items = "".join(
            f"<item><subnetId>{name}</subnetId><availabilityZone>{self.subnets[name]}</availabilityZone></item>"
            for name in names
        )
        return f"<DescribeSubnetsResponse {_XML}><subnetSet>{items}</subnetSet></DescribeSubnetsResponse>"


def _product(wanted: Mapping[str, str], usd: float) -> dict[str, object]:
    dimension = {
        "unit": "Hrs", "endRange": "Inf", "beginRange": "0", "appliesTo": [],
        "rateCode": "H7NGEAC6UEHNTKSJ.JRTCKXETXF.6YS6EN2CT7", "pricePerUnit": {"USD": f"{usd:.10f}"},
        "description": f"${usd} per On Demand Linux {wanted['instanceType']} Instance Hour",
    }  # fmt: skip
    term = {
        "sku": "H7NGEAC6UEHNTKSJ", "offerTermCode": "JRTCKXETXF", "effectiveDate": "2026-11-01T00:00:00Z",
        "priceDimensions": {"H7NGEAC6UEHNTKSJ.JRTCKXETXF.6YS6EN2CT7": dimension}, "termAttributes": {},
    }  # fmt: skip
    reserved = {"priceDimensions": {"X": {"unit": "Quantity", "pricePerUnit": {"USD": "9999"}}}}
    return {
        "product": {
            "productFamily": "Compute Instance",
            "attributes": dict(wanted),
            "sku": "H7NGEAC6UEHNTKSJ",
        },
        "serviceCode": "AmazonEC2",
        "terms": {"OnDemand": {"H7NGEAC6UEHNTKSJ.JRTCKXETXF": term}, "Reserved": {"R": reserved}},
        "version": "20261113201502",
        "publicationDate": "2026-11-13T20:15:02Z",
    }


def _spot(instance_type: str, zone: str, usd: float, when: str) -> str:
    return (
        f"<item><instanceType>{instance_type}</instanceType><productDescription>Linux/UNIX</productDescription>"
        f"<spotPrice>{usd:.6f}</spotPrice><timestamp>{when}</timestamp>"
        f"<availabilityZone>{zone}</availabilityZone></item>"
    )


@contextmanager
def serving(prices: Prices, monkeypatch: pytest.MonkeyPatch) -> Iterator[Prices]:
    """boto3 of this process asks there, with credentials that are none."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            if "X-Amz-Target" in self.headers:
                request = json.loads(body)
                prices.asked.append(request)
                kind, answer = "application/x-amz-json-1.1", json.dumps(prices.products(request))
                if prices.denied:
                    answer = json.dumps({"__type": "AccessDeniedException", "Message": "secret-hint"})
            else:
                form = parse_qs(body)
                prices.asked.append(form)
                ask = {"DescribeSpotPriceHistory": prices.history, "DescribeSubnets": prices.zones}
                kind, answer = "text/xml", ask[form["Action"][0]](form)
            self.send_response(400 if prices.denied else 200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(answer.encode())))
            self.end_headers()
            self.wfile.write(answer.encode())

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    try:
        with models_read_once():
            yield prices
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def without_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has never heard of AWS: no credentials, no region, no metadata service."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE",
                 "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
