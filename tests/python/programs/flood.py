"""Calls a port as fast as it can from some threads, with what strangers say, until its input ends.

``flood.py PORT THREADS``; prints how many connections were made.
"""

import random
import socket
import sys
import threading
from collections import deque

PORT, THREADS = map(int, sys.argv[1:])
over = threading.Event()
made = [0] * THREADS


def flood(index: int) -> None:
    chance = random.Random(index)
    # Half-open: they say nothing and stay.
    silent: deque[socket.socket] = deque(maxlen=100)
    while not over.is_set():
        caller = socket.socket()
        caller.settimeout(0.5)
        try:
            caller.connect(("127.0.0.1", PORT))
            made[index] += 1
            kind = chance.randrange(3)
            if kind == 0:
                caller.send(chance.randbytes(chance.randrange(1, 3000)))
            elif kind == 1:
                caller.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            else:
                silent.append(caller)
                continue
        except OSError:
            pass
        caller.close()


threads = [threading.Thread(target=flood, args=(index,)) for index in range(THREADS)]
for thread in threads:
    thread.start()
sys.stdin.read()
over.set()
for thread in threads:
    thread.join()
print(sum(made))
