"""A stand-in for a vLLM engine process: takes its arguments, answers /health, and misbehaves on request.

--fake-die TEXT       print 30 lines and TEXT, exit with status 7
--fake-start-s S      stay silent for S seconds before serving
--fake-stubborn       ignore SIGTERM, and start a grandchild that does too
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

from agentix.engine.child import run_guarded

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(300)"


class Health(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--fake-die")
    parser.add_argument("--fake-start-s", type=float, default=0.0)
    parser.add_argument("--fake-stubborn", action="store_true")
    args, _ = parser.parse_known_args()
    print("(APIServer pid=1) INFO 11-30 09:00:00 [fake.py:1] Loading weights", flush=True)
    if args.fake_stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        subprocess.Popen([sys.executable, "-S", "-c", STUBBORN])
    if args.fake_die:
        print("\n".join(f"line {n}" for n in range(30)), args.fake_die, sep="\n", flush=True)
        sys.exit(7)
    time.sleep(args.fake_start_s)
    HTTPServer(("127.0.0.1", args.port), Health).serve_forever()


if __name__ == "__main__":
    run_guarded(main, grace_s=0.5)
