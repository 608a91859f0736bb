"""A model host: answers a request at once, or with a stream of as many chunks as its argument says."""

from __future__ import annotations

import json
import sys

from benchmarks.servers import Handler, serve

CHUNKS = int(sys.argv[1]) if len(sys.argv) > 1 else 100
_CHUNK = json.dumps({"id": "r", "model": "a", "choices": [{"index": 0, "delta": {"content": "word "}}]}).encode()
_LAST = json.dumps({"id": "r", "model": "a", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}).encode()
_ANSWER = json.dumps(
    {
        "id": "r",
        "model": "a",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "word"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
).encode()


class Host(Handler):
    """Answers at once, or with a chunk an event."""

    def do_POST(self) -> None:  # noqa: N802 - the name that the server looks for
        """Answer a request."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        if body["stream"]:
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for event in [*[_CHUNK] * CHUNKS, _LAST, b"[DONE]"]:
                data = b"data: " + event + b"\n\n"
                self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(_ANSWER)))
            self.end_headers()
            self.wfile.write(_ANSWER)


if __name__ == "__main__":
    serve(Host)
