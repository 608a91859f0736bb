"""A program that records queries from several threads as fast as it can, and says after each that it is done.

Arguments: store, spool, seed, size of a spool file in bytes. A line on standard output, written in one piece right
after a query's ``with`` block ended, is the acknowledgement: its qid and the sha256 of its prompt.
"""

from __future__ import annotations

import hashlib
import os
import random
import sys
import threading

import otel_prompt_trace as pt

_THREADS = 4
_ALPHABET = "abc defg. éß÷\u2028\u200f日本語🏳️‍🌈\r\n\0"


def _text(rng: random.Random, characters: int) -> str:
    block = "".join(rng.choices(_ALPHABET, k=200))
    return (block * (characters // 200 + 1))[:characters]


def _record(rng: random.Random) -> None:
    while True:
        prompt = pt.Prompt().add("system", _text(rng, 500), trust="policy").literal("\n\n")
        prompt.add("user", _text(rng, rng.randrange(500, 30_000)) + str(rng.random()), trust="user")
        if rng.random() < 0.1:
            prompt.add("tail", "half \ud83d")
        digest = hashlib.sha256(prompt.text.encode("utf-8", "surrogatepass")).hexdigest()
        with pt.query(question=f"what of {digest}?") as q:
            q.retrieved([(f"c{n}", rng.random()) for n in range(3)], top_k=3)
            with q.call(model="m", prompt=prompt) as call:
                call.respond(f"answer to {digest}", finish_reason="stop")
        os.write(1, f"{q.qid} {digest}\n".encode())


def main() -> None:
    """Record until killed."""
    store, spool, seed, file_bytes = sys.argv[1:]
    pt.install(store=store, spool=spool, durability="written", spool_file_bytes=int(file_bytes))
    for number in range(_THREADS):
        threading.Thread(target=_record, args=(random.Random(f"{seed}-{number}"),), daemon=True).start()
    threading.Event().wait()


if __name__ == "__main__":
    main()
