"""The server's memory before, during and after floods of bodies and of followers that do not read. Prints NAME=VALUE lines."""

import os
import time

from load import KEY, call, connect, head, raise_file_limit

SENDERS, BODY_BYTES = 1_500, 2 * 1024 * 1024
FOLLOWERS, LOG_BYTES = 2_000, 5_000_000
SIGNAL_BYTES = 200_000
# Seconds that the server has to return memory.
SETTLE_S = 60
# The difference at which the wait ends.
NEAR_MIB = 16


def rss():
    with open(f"/proc/{os.environ['GOLDSEAM_PID']}/status") as status:
        line = next(line for line in status if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def settled(before):
    """Memory once it is near what it was, or after SETTLE_S, under light traffic: threads return memory while they work."""
    end = time.monotonic() + SETTLE_S
    while rss() > before + NEAR_MIB and time.monotonic() < end:
        for _ in range(10):
            call("GET", "/v1/runs", KEY)
        time.sleep(0.3)
    return rss()


def flood(name, before, request):
    """Sends bodies without their last byte from many senders at once; prints the peak memory and the memory after."""
    body, peak, clients = b"x" * (BODY_BYTES - 1), rss(), []
    for number in range(SENDERS):
        try:
            client = connect(number)
            client.setblocking(False)
            client.send(request)
            clients.append([client, 0])
        except OSError:
            continue
    end = time.monotonic() + 20
    while clients and time.monotonic() < end:
        moved = False
        for entry in list(clients):
            try:
                sent = entry[0].send(body[entry[1] : entry[1] + 65_536])
                entry[1] += sent
                moved = moved or sent > 0
            except BlockingIOError:
                continue
            except OSError:
                clients.remove(entry)
        peak = max(peak, rss())
        if not moved:
            time.sleep(0.05)
    for client, _ in clients:
        client.close()
    print(f"{name}_peak_mib={peak:.0f}")
    print(f"{name}_after_mib={settled(before):.0f}", flush=True)


def followers(before):
    """Opens followers of a long log that do not read."""
    call("POST", "/v1/runs", KEY, {"workflow": "greet", "id": "long-1"})
    for _ in range(LOG_BYTES // SIGNAL_BYTES):
        call("POST", "/v1/runs/long-1/signal", KEY, {"name": "go", "payload": "x" * SIGNAL_BYTES})
    peak, clients = rss(), []
    request = head("GET", "/v1/runs/long-1/events", KEY)
    for number in range(FOLLOWERS):
        client = connect(number, receive_bytes=4_096)
        client.sendall(request)
        clients.append(client)
        peak = max(peak, rss())
    end = time.monotonic() + 20
    while time.monotonic() < end:
        peak = max(peak, rss())
        time.sleep(0.1)
    for client in clients:
        client.close()
    print(f"followers_peak_mib={peak:.0f}")
    print(f"followers_after_mib={settled(before):.0f}", flush=True)


raise_file_limit()
for _ in range(200):
    call("GET", "/v1/runs", KEY)
before = rss()
print(f"before_mib={before:.0f}")
flood("probe_bodies", before, head("GET", "/healthz", length=BODY_BYTES))
flood("bodies", before, head("POST", "/v1/runs", KEY, length=BODY_BYTES))
followers(before)
