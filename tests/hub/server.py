"""A small hub on the loopback: as much of the hub's HTTP API as downloads use.

Repositories lie in a folder as {models|datasets}/{owner}/{name}/{commit}/files; a branch is a link
to a commit. As on the hub, small files come from the repository itself and have git's hash for a
name, large ones (LFS) have their sha256 and come, without the token, from another host: this
server under its other name, `localhost`. Faults are asked for one by one.
"""

import hashlib
import json
import socket
import struct
import sys
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

SIGNATURE = {"Expires": ["1"], "Signature": ["a/b+c~"]}
LARGE = (".safetensors", ".bin", ".parquet", ".gguf")


@dataclass(frozen=True)
class Seen:
    """One request, and how it was answered."""

    method: str
    path: str
    range: str | None
    headers: dict[str, str]
    status: int


@dataclass
class Cut:
    """Break the connection of the next download of a file after some bytes.

    `how`: "close" ends it early, "reset" is what a broken line looks like, "hang" sends no more.
    """

    after: int
    how: str = "close"


@dataclass
class Failure:
    """Answer requests with `part` in their path with this status, `times` times from `after` on."""

    part: str
    status: int
    code: str | None = None
    message: str = "the hub is unwell"
    after: int = 0
    times: int = 1000


@dataclass
class Hub:
    """The server and what is wrong with it; a context manager."""

    folder: Path
    tokens: set[str] = field(default_factory=set)
    """Those it knows; any other is refused, even for what is public."""
    gated: set[str] = field(default_factory=set)
    """Repositories whose files need an account that accepted the licence: none here did."""
    private: set[str] = field(default_factory=set)
    """Repositories that need a known token."""
    cuts: dict[str, list[Cut]] = field(default_factory=dict)
    """By file name, one for each download in turn."""
    broken: set[str] = field(default_factory=set)
    """Files that are sent with one bit flipped."""
    failures: list[Failure] = field(default_factory=list)
    ranges: bool = True
    page: int = 1000
    """Files in one page of a listing."""
    seen: list[Seen] = field(default_factory=list)

    def __enter__(self) -> "Hub":
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.hub = self
        self.port = self._server.server_address[1]
        self.ended = threading.Event()
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Answer no more: nothing listens on the port."""
        if not self.ended.is_set():
            self.ended.set()
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()

    @property
    def endpoint(self) -> str:
        """What goes into HF_ENDPOINT."""
        return f"http://127.0.0.1:{self.port}"

    def publish(
        self, kind: str, repository: str, files: dict[str, bytes | Path], branch: str = "main"
    ) -> str:
        """Put files into a new commit of a repository; its hash."""
        contents = {
            name: file.read_bytes() if isinstance(file, Path) else file
            for name, file in files.items()
        }
        digest = hashlib.sha1(repository.encode())
        for name, content in sorted(contents.items()):
            digest.update(name.encode() + content)
        commit = digest.hexdigest()
        home = self.folder / kind / repository
        for name, content in contents.items():
            file = home / commit / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        (home / branch).unlink(missing_ok=True)
        (home / branch).symlink_to(commit)
        return commit

    def downloads(self, name: str) -> list[Seen]:
        """The requests that asked for bytes of a file, and how far they were redirected."""
        return [
            one
            for one in self.seen
            if one.method == "GET" and one.status != 302 and _file_name(one.path) == name
        ]


def _file_name(path: str) -> str:
    return unquote(urlsplit(path).path).rsplit("/", 1)[-1]


def _oid(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    hub: Hub

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # a client may go when it likes
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def hub(self) -> Hub:
        assert isinstance(self.server, _Server)
        return self.server.hub

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def _answer(self) -> None:
        parts = [unquote(part) for part in urlsplit(self.path).path.strip("/").split("/")]
        for failure in self.hub.failures:
            if failure.part not in self.path:
                continue
            failure.after -= 1
            if failure.after < 0 < failure.times:
                failure.times -= 1
                self._refuse(failure.status, failure.code, failure.message)
                return
        if parts[0] == "cdn":
            self._send_signed(self.hub.folder.joinpath(*parts[1:]))
            return
        bearer = self.headers.get("Authorization", "")
        token = bearer.removeprefix("Bearer ")
        if bearer and token not in self.hub.tokens:
            self._refuse(401, None, "Invalid credentials in Authorization header")
        elif parts[0] == "api":
            self._with_repository(parts[1], parts[2:], bool(bearer))
        elif parts[0] == "datasets":
            self._with_repository("datasets", parts[1:], bool(bearer))
        else:
            self._with_repository("models", parts, bool(bearer))

    def _with_repository(self, kind: str, parts: list[str], known: bool) -> None:
        repository, rest = "/".join(parts[:2]), parts[2:]
        home = self.hub.folder / kind / repository
        if not home.is_dir() or (repository in self.hub.private and not known):
            self._refuse(404 if known else 401, "RepoNotFound", "Repository not found")
            return
        verb = rest[0] if rest else "revision"
        revision = rest[1] if len(rest) > 1 else "main"
        commit = (home / revision).resolve()
        if not commit.is_dir():
            self._refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        elif verb == "revision":
            self._send_info(repository, commit)
        elif verb == "tree":
            self._send_tree(commit)
        elif repository in self.hub.gated:
            self._refuse(
                403 if known else 401, "GatedRepo", f"Access to model {repository} is restricted"
            )
        else:
            self._resolve(commit, "/".join(rest[2:]))

    def _send_info(self, repository: str, commit: Path) -> None:
        files = sorted(
            file.relative_to(commit).as_posix() for file in commit.rglob("*") if file.is_file()
        )
        self._send_json(
            {
                "_id": "0",
                "id": repository,
                "sha": commit.name,
                "private": False,
                "gated": False,
                "tags": [],
                "downloads": 0,
                "likes": 0,
                "siblings": [{"rfilename": file} for file in files],
            }
        )

    def _send_tree(self, commit: Path) -> None:
        query = parse_qs(urlsplit(self.path).query)
        assert query["recursive"] == ["true"], query
        entries: list[dict[str, Any]] = []
        for path in sorted(commit.rglob("*")):
            name = path.relative_to(commit).as_posix()
            if path.is_dir():
                entries.append({"type": "directory", "path": name, "oid": _oid(b""), "size": 0})
                continue
            content = path.read_bytes()
            entry = {"type": "file", "path": name, "size": len(content), "oid": _oid(content)}
            if name.endswith(LARGE):
                sha256 = hashlib.sha256(content).hexdigest()
                entry["lfs"] = {"oid": sha256, "size": len(content), "pointerSize": 130}
                entry["oid"] = _oid(sha256.encode())  # on the hub: of the pointer
            entries.append(entry)
        first = int(query.get("cursor", ["0"])[0])
        end = first + self.hub.page
        more = {}
        if end < len(entries):
            url = f"{self.hub.endpoint}{urlsplit(self.path).path}?recursive=true&cursor={end}"
            more = {"Link": f'<{url}>; rel="next"'}
        self._send_json(entries[first:end], more)

    def _resolve(self, commit: Path, name: str) -> None:
        file = commit / name
        about = {"X-Repo-Commit": commit.name}
        if not file.is_file():
            self._refuse(404, "EntryNotFound", "Entry not found", about)
        elif name.endswith(LARGE):
            content = file.read_bytes()
            place = file.relative_to(self.hub.folder).as_posix()
            self._send(
                302,
                b"",
                about
                | {
                    "Location": f"http://localhost:{self.hub.port}/cdn/{quote(place)}"
                    f"?{urlencode(SIGNATURE, doseq=True)}",
                    "X-Linked-Size": str(len(content)),
                    "X-Linked-Etag": f'"{hashlib.sha256(content).hexdigest()}"',
                },
            )
        else:
            self._send_file(file, about | {"ETag": f'"{_oid(file.read_bytes())}"'})

    def _send_signed(self, file: Path) -> None:
        """As the other host does: for the signature in the address, and for no token."""
        if parse_qs(urlsplit(self.path).query) != SIGNATURE:
            self._refuse(403, None, "MissingKey")
        elif "Authorization" in self.headers:
            self._refuse(400, None, "Only one auth mechanism allowed")
        else:
            self._send_file(file, {"ETag": '"of-the-other-host"'})

    def _send_file(self, file: Path, headers: dict[str, str]) -> None:
        content = file.read_bytes()
        if file.name in self.hub.broken:
            content = content[:-1] + bytes([content[-1] ^ 1])
        wanted = self.headers.get("Range")
        headers = headers | {"Accept-Ranges": "bytes"}
        status = 200
        if wanted and self.hub.ranges:
            first = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if first >= len(content):
                self._refuse(416, None, "no such range")
                return
            headers["Content-Range"] = f"bytes {first}-{len(content) - 1}/{len(content)}"
            content, status = content[first:], 206
        cuts = self.hub.cuts.get(file.name, [])
        cut = cuts.pop(0) if cuts and self.command == "GET" else None
        self._send(status, content, headers, cut)

    def _send_json(self, value: Any, headers: dict[str, str] | None = None) -> None:
        self._send(
            200,
            json.dumps(value).encode(),
            {"Content-Type": "application/json"} | (headers or {}),
        )

    def _refuse(
        self, status: int, code: str | None, message: str, headers: dict[str, str] | None = None
    ) -> None:
        about = {"X-Error-Message": message, "Content-Type": "application/json"}
        if code:
            about["X-Error-Code"] = code
        self._send(status, json.dumps({"error": message}).encode(), about | (headers or {}))

    def _send(
        self, status: int, body: bytes, headers: dict[str, str], cut: Cut | None = None
    ) -> None:
        self.hub.seen.append(
            Seen(self.command, self.path, self.headers.get("Range"), dict(self.headers), status)
        )
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        self.wfile.write(body if cut is None else body[: cut.after])
        if cut is not None:
            self.close_connection = True
            if cut.how == "hang":
                self.hub.ended.wait(30)
            elif cut.how == "reset":
                linger = struct.pack("ii", 1, 0)
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                self.connection.close()
