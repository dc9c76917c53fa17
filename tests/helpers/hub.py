"""A Hugging Face hub that stands in for the real one: the parts of its API by which files are sent and fetched."""

import base64
import contextlib
import hashlib
import http.server
import json
import re
import socket
import threading
from urllib.parse import unquote, urlsplit

TOKEN = "hf_of_the_stand_in"  # may write
UP, SICK, GONE = "up", "sick", "gone"  # answers; answers 503 to everything; ends connections without an answer


class Hub:
    """Repositories in memory.

    Attributes:
      files: contents by repository and file.
      asked: method and path of every request, in order.
      state: UP, SICK or GONE.
      lost: files that are listed, and whose connections end without an answer.
    """

    def __init__(self):
        self.files, self.asked, self.state, self.address = {}, [], UP, ""
        self.lost = set()

    def fetched(self):
        """The names of the files that were read."""
        return {path.rsplit("/", 1)[1] for method, path in self.asked if method == "GET" and "/resolve/" in path}

    def commit(self, name):
        """Names a repository's latest commit by its contents, as a client may keep what it knows of a commit."""
        parts = [f"{file} {_oid(data)}" for file, data in sorted(self.files[name].items())]
        return _oid("\n".join(parts).encode())


class _Handler(http.server.BaseHTTPRequestHandler):
    hub: Hub

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        self._answer(b"")

    do_HEAD = do_GET

    def do_POST(self):
        self._answer(self.rfile.read(int(self.headers.get("Content-Length", 0))))

    def _answer(self, body):
        path = unquote(urlsplit(self.path).path)
        self.hub.asked.append((self.command, path))
        if self.hub.state == GONE:
            return self.connection.shutdown(socket.SHUT_RDWR)
        if self.hub.state == SICK:
            return self._send(503, {})
        if self.command == "POST" and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self._send(401, {"error": "Invalid username or password."})
        if path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked['organization']}/{asked['name']}"
            status = 409 if name in self.hub.files else 200
            self.hub.files.setdefault(name, {})
            return self._send(status, {"url": f"{self.hub.address}/{name}"})
        if path == "/api/validate-yaml":
            return self._send(200, {"errors": [], "warnings": []})
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(\w+)/([^/]+))?", path):
            return self._model(*found.groups(), body)
        if found := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            return self._file(*found.groups())
        return self._send(404, {"error": path})

    def _model(self, name, verb, revision, body):
        if name not in self.hub.files:
            return self._send(404, {}, {"X-Error-Code": "RepoNotFound"})
        if revision not in (None, "main", self.hub.commit(name)):
            return self._send(404, {}, {"X-Error-Code": "RevisionNotFound"})
        files = self.hub.files[name]
        if verb == "preupload":
            names = [file["path"] for file in json.loads(body)["files"]]
            return self._send(
                200, {"files": [{"path": n, "uploadMode": "regular", "shouldIgnore": False} for n in names]}
            )
        if verb == "commit":
            for line in body.splitlines():
                item = json.loads(line)
                if item["key"] == "file":
                    files[item["value"]["path"]] = base64.b64decode(item["value"]["content"])
            commit = self.hub.commit(name)
            return self._send(200, {"commitUrl": f"{self.hub.address}/{name}/commit/{commit}", "commitOid": commit})
        if verb == "tree":
            return self._send(
                200, [{"type": "file", "path": n, "size": len(data), "oid": _oid(data)} for n, data in files.items()]
            )
        return self._send(
            200, {"id": name, "sha": self.hub.commit(name), "siblings": [{"rfilename": n} for n in files]}
        )

    def _file(self, name, revision, file):
        if file in self.hub.lost:
            return self.connection.shutdown(socket.SHUT_RDWR)
        data = self.hub.files[name].get(file)
        if data is None or revision not in ("main", self.hub.commit(name)):
            return self._send(404, {}, {"X-Error-Code": "EntryNotFound" if data is None else "RevisionNotFound"})
        self._send(200, data, {"ETag": f'"{_oid(data)}"', "X-Repo-Commit": self.hub.commit(name)})

    def _send(self, status, content, headers=None):
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for key, value in {**(headers or {}), "Content-Length": len(data)}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def _oid(data):
    return hashlib.sha1(data).hexdigest()


@contextlib.contextmanager
def serve():
    """Yields a hub on a port of this machine."""
    hub = Hub()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    hub.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
