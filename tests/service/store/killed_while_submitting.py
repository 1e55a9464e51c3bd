"""Children that submit with four threads, each killed at a seeded moment; prints what they knew and what is there."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading

from muster.service.request import JobRequest
from muster.service.store import Store
from muster.service.store.rows import Submission

THREADS, MOST = 4, 40


def submit_for_ever(url: str, out: int, life: int) -> None:
    """Writes a line `id name` for each job once its submission has returned."""
    store = Store.open(url)

    def client(number: int) -> None:
        turn = 0
        while True:
            names = [f"{life}.{number}.{turn}.{part}" for part in range(1 + turn % 3)]
            requests = [JobRequest(name=name, command=("true",), directory="/") for name in names]
            ids = store.submit([Submission("ann", request) for request in requests])
            lines = "".join(f"{job} {name}\n" for job, name in zip(ids, names, strict=True))
            os.write(out, lines.encode())
            turn += 1

    for number in range(THREADS):
        threading.Thread(target=client, args=(number,)).start()


def one_life(url: str, life: int, lines: int) -> list[tuple[int, str]]:
    """What a child knew before it was killed, once so many lines had come."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        submit_for_ever(url, write, life)
        threading.Event().wait()
    os.close(write)
    reply = b""
    while reply.count(b"\n") < lines:
        reply += os.read(read, 4096)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while more := os.read(read, 4096):
        reply += more
    os.close(read)
    return [(int(job), name) for job, name in (line.split() for line in reply.decode().splitlines())]


def main() -> None:
    url, lives = sys.argv[1], int(sys.argv[2])
    chance = random.Random(17)
    reply, last = [], 0
    for life in range(lives):
        acknowledged = one_life(url, life, chance.randint(0, MOST))
        store = Store.open(url)
        there = [(row.id, row.request.name) for row in store.after(last)]
        store.close()
        last = there[-1][0] if there else last
        reply.append({"acknowledged": acknowledged, "there": there})
    print(json.dumps(reply))


main()
