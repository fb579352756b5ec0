"""Lesson 21: a ring of real processes, which run a program that the lesson shows, and what its ranks hold."""

import json
import subprocess
import sys
import threading

import numpy as np

PRELUDE = """
import json, socket, sys, time
import numpy as np
rank, world, *arguments = map(int, sys.argv[1:])
server = socket.create_server(("127.0.0.1", 0))  # the system chooses a port
print(server.getsockname()[1], flush=True)
ports = json.loads(sys.stdin.readline())
right = socket.create_connection(("127.0.0.1", ports[(rank + 1) % world]))
left, _ = server.accept()
for each in (left, right):
    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # small messages leave at once

def send(array):
    right.sendall(memoryview(array).cast("B"))

def receive(array):
    view = memoryview(array).cast("B")
    while view:
        view = view[left.recv_into(view):]
"""


def run_ring(program, world, *arguments, patience=60.0):
    """What rank 0 of `world` processes prints as JSON in the end; None when they are not done after `patience` seconds.

    program: Python source, in which rank, world, arguments (whole numbers), send(array) to the right and receive(array)
    from the left are defined.
    """
    command = [sys.executable, "-c", PRELUDE + program]
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    ranks = [subprocess.Popen([*command, *map(str, (rank, world, *arguments))], **pipes) for rank in range(world)]
    alarm = threading.Timer(patience, lambda: [process.kill() for process in ranks])
    alarm.start()
    try:
        ports = [int(process.stdout.readline()) for process in ranks]
        for process in ranks:
            process.stdin.write(json.dumps(ports) + "\n")
            process.stdin.flush()
        said = [process.stdout.read() for process in ranks]
        done = [process.wait() == 0 for process in ranks]
    finally:
        alarm.cancel()
        for process in ranks:
            process.kill()
            process.communicate()  # waits, and closes its pipes
    return json.loads(said[0]) if all(done) else None


def ring(arrays):
    """[[the chunks of each rank] before each turn, and after the last one]: what ranks without mistakes hold.

    In turn t, counted through both halves, rank r sends chunk r - t.
    """
    N = len(arrays)
    states = [[np.array_split(array, N) for array in arrays]]
    for t in range(2 * (N - 1)):
        before, after = states[-1], [[*chunks] for chunks in states[-1]]
        for r in range(N):
            k = (r - 1 - t) % N
            after[r][k] = before[r - 1][k] + (before[r][k] if t < N - 1 else 0)
        states.append(after)
    return states
