"""Lets a program in any language wait until the gateway has learned from what it was told: it gets an address, which answers then."""

import re
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from harness import wait_for

WAITING = re.compile(r"^backstory_outbox_depth (\d+)$", re.MULTILINE)


class Settled:
    """`with Settled(gateway) as url`: a GET of the url is answered when nothing waits to be learned from."""

    def __init__(self, gateway):
        def waiting():
            with urllib.request.urlopen(f"{gateway}/metrics", timeout=10) as reply:
                return int(WAITING.search(reply.read().decode()).group(1))

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                wait_for(lambda: waiting() == 0, "all is learned")
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self.server.server_port}/"

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
