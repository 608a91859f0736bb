"""A collector, and an object store, that takes any request, and keeps nothing."""

from __future__ import annotations

from benchmarks.servers import Handler, serve


class Sink(Handler):
    """Reads what it is sent and says that all is well."""

    def do_POST(self) -> None:  # noqa: N802 - the name that the server looks for
        """Take a request."""
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            while size := int(self.rfile.readline().split(b";")[0], 16):
                self.rfile.read(size + 2)
            self.rfile.readline()
        else:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
        without = self.command == "PUT" or "protobuf" in self.headers.get("Content-Type", "")
        answer = b"" if without else b"{}"
        self.send_response(200)
        if self.command == "PUT":
            self.send_header("ETag", '"0"')
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_PATCH = do_PUT = do_POST  # noqa: N815 - the names that the server looks for


if __name__ == "__main__":
    serve(Sink)
