"""Measures how idle connections, long polls and slow clients affect other clients. Prints NAME=VALUE lines."""

import multiprocessing
import os
import select
import threading
import time

from load import KEY, OTHER_KEY, PORT, call, connect, head, http, HOST, raise_file_limit, rank, timed

IDLE, POLLS, SLOW = 4_000, 2_000, 20
HEALTH_PORT = int(os.environ["GOLDSEAM_HEALTH_PORT"])
SECONDS = 20


def keep_idle(ready):
    """Keeps IDLE silent connections open, and reconnects those that the server closes."""
    raise_file_limit()
    poll, clients = select.epoll(), {}

    def open_connection(number):
        client = connect(number)
        clients[client.fileno()] = (number, client)
        poll.register(client.fileno(), select.EPOLLIN)

    for number in range(IDLE):
        open_connection(number)
    ready.set()
    while True:
        for file, _ in poll.poll():
            number, client = clients.pop(file)
            client.close()
            open_connection(number)


def long_polls():
    """Starts POLLS long polls of one key that outlast this test."""
    mark = call("GET", "/v1/changes", KEY)["mark"]
    request = head("GET", f"/v1/changes?after={mark}&wait_ms=60000", KEY)
    clients = []
    for number in range(POLLS):
        client = connect(IDLE + number)
        client.sendall(request)
        clients.append(client)
    return clients


def still_waiting(clients):
    """Counts the clients without a response."""
    waiting = 0
    for client in clients:
        client.setblocking(False)
        try:
            client.recv(1)
        except BlockingIOError:
            waiting += 1
    return waiting


def closed_after(kind, results):
    """Sends a byte per second; records the seconds until the server responds with a problem or closes."""
    client = connect(IDLE + POLLS + len(kind), per_address=100_000)
    if kind == "headers":
        client.sendall(b"GET /healthz HTTP/1.1\r\nhost: ")
    else:
        client.sendall(head("POST", "/v1/runs", KEY, length=1_000))
    begin = time.monotonic()
    client.settimeout(1)
    while time.monotonic() - begin < 60:
        try:
            client.sendall(b"x")
            client.recv(1)
            break
        except TimeoutError:
            continue
        except OSError:
            break
    results.append(time.monotonic() - begin)
    client.close()


raise_file_limit()
call("POST", "/v1/runs", OTHER_KEY, {"workflow": "greet", "id": "other-1"})
ready = multiprocessing.Event()
idle = multiprocessing.Process(target=keep_idle, args=(ready,), daemon=True)
idle.start()
assert ready.wait(120), "timed out: opening the idle connections"
polls = long_polls()

health, listener, reads = [], [], []
keep = http.client.HTTPConnection(HOST, PORT, timeout=30)
end = time.monotonic() + SECONDS
while time.monotonic() < end:
    for values, answer in (
        (health, timed(PORT, "/healthz")),
        (listener, timed(HEALTH_PORT, "/healthz")),
        (reads, timed(PORT, "/v1/runs/other-1", OTHER_KEY, keep)),
        (reads, timed(PORT, "/v1/runs?limit=50", OTHER_KEY, keep)),
    ):
        assert answer[1] == 200, answer
        values.append(answer[0])
    time.sleep(0.005)
print(f"polls={still_waiting(polls)}")
print(f"healthz_max_ms={max(health):.1f}")
print(f"listener_max_ms={max(listener):.1f}")
print(f"reads={len(reads)}")
print(f"reads_p99_ms={rank(reads, 0.99):.1f}")

slow = {"headers": [], "bodies": []}
threads = [threading.Thread(target=closed_after, args=one) for one in slow.items() for _ in range(SLOW)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for kind, seconds in slow.items():
    print(f"slow_{kind}_s={max(seconds):.1f}")
idle.terminate()
