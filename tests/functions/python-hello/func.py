"""The function contract with Python's standard library alone: HTTP over the Unix socket that
FN_LISTENER names. The header Case says what to do with a body; without it, it comes back."""
import json
import os
import socketserver
import sys
from http.server import BaseHTTPRequestHandler

IDLE_S = 1  # of a connection between two calls
INSTANCE = os.urandom(8).hex()  # one container is told from another by it


class Call(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = IDLE_S

    def body(self):
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():  # trailers
            pass
        return b"".join(parts)

    def answer(self, status, kind, body):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        body, case = self.body(), self.headers.get("Case")
        if case == "hello":
            said = {"message": "Hello " + json.loads(body)["name"], "instance": INSTANCE}
            self.answer(200, "application/json", json.dumps(said).encode())
        elif case == "error":
            self.answer(502, "text/plain", b"went wrong")
        else:
            self.answer(200, self.headers.get("Content-Type", "application/octet-stream"), body)

    def address_string(self):
        return "the runner"


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


def main():
    scheme, _, path = os.environ["FN_LISTENER"].partition(":")
    if scheme != "unix" or os.environ.get("FN_FORMAT") != "http-stream":
        sys.exit("FN_LISTENER and FN_FORMAT are not those of http-stream")
    # Under its name only when it listens, and for everybody: the runner has another user.
    hidden = os.path.join(os.path.dirname(path), "." + os.path.basename(path))
    with Server(hidden, Call) as server:
        os.chmod(hidden, 0o666)
        os.symlink(os.path.basename(hidden), path)
        server.serve_forever()


if __name__ == "__main__":
    main()
