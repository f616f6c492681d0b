"""Run by an engine's pod before it stops, and when it starts: tells every gateway to send it no more calls, or to begin again.

    python3 drain.py drain      waits until the engine has no call left, or the pod's time is up
    python3 drain.py undrain

Needs nothing but the standard library. The engine's id is the pod's name. Environment: AGENTIX_GATEWAYS (a name that has the
address of every gateway), AGENTIX_API_KEY (of an admin), POD_NAME.
"""

import json
import os
import re
import socket
import sys
import time
import urllib.request

BUSY = re.compile(r"^vllm:num_requests_(?:running|waiting)(?:\{.*\})? ([0-9.e+]+)", re.MULTILINE)
SETTLE_S = 1.0  # until calls that were on their way have arrived


def gateways(name: str, port: int) -> list[str]:
    """Addresses of all gateways; [] if there are none now."""
    try:
        hosts = sorted({str(info[4][0]) for info in socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)})
    except socket.gaierror:
        return []
    return [f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}" for host in hosts]


def tell(gateway: str, engine_id: str, what: str, key: str) -> str:
    """Tell one gateway; says what came of it, and raises nothing: one that is gone sends no calls."""
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    request = urllib.request.Request(f"{gateway}/v1/engines/{engine_id}/{what}", b"{}", headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=5) as response:
            return "draining" if json.load(response)["draining"] else "takes calls"
    except (OSError, ValueError, KeyError) as error:
        return repr(error)


def num_calls(engine: str) -> float:
    """Calls that the engine has, running and waiting; 0 if it does not answer any more."""
    try:
        with urllib.request.urlopen(f"{engine}/metrics", timeout=5) as response:
            return sum(map(float, BUSY.findall(response.read().decode())))
    except OSError:
        return 0


def main(what: str) -> None:
    """Tell all gateways; wait for the last call."""
    engine_id, key = os.environ["POD_NAME"], os.environ["AGENTIX_API_KEY"]
    engine = os.environ.get("AGENTIX_ENGINE_URL", "http://127.0.0.1:8000")
    for gateway in gateways(os.environ["AGENTIX_GATEWAYS"], int(os.environ.get("AGENTIX_GATEWAY_PORT", "8080"))):
        print(f"{what} {engine_id} at {gateway}: {tell(gateway, engine_id, what, key)}", flush=True)
    if what == "drain":
        time.sleep(SETTLE_S)
        while num_calls(engine):
            time.sleep(SETTLE_S)


if __name__ == "__main__":
    main(sys.argv[1])
