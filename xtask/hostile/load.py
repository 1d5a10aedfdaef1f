"""Shared by the load generators: sockets from many loopback addresses, and timed requests."""

import http.client
import json
import os
import resource
import socket
import time

URL = os.environ["GOLDSEAM_URL"].removeprefix("http://")
HOST, PORT = URL.rsplit(":", 1)[0], int(URL.rsplit(":", 1)[1])
KEY, OTHER_KEY = os.environ["GOLDSEAM_KEY"], os.environ["GOLDSEAM_OTHER_KEY"]


def raise_file_limit():
    """Raises the soft limit of open files to the hard one."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def connect(number, per_address=400, receive_bytes=None):
    """Connects from a loopback address chosen by `number`: a server bounds the connections per address."""
    client = socket.socket()
    if receive_bytes:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    client.settimeout(10)
    client.bind((f"127.0.1.{1 + number // per_address}", 0))
    client.connect((HOST, PORT))
    return client


def head(method, path, key=None, length=None):
    """The head of a request as bytes."""
    lines = [f"{method} {path} HTTP/1.1", f"host: {URL}"]
    lines += [f"authorization: Bearer {key}"] if key else []
    lines += [f"content-length: {length}", "content-type: application/json"] if length is not None else []
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def call(method, path, key, body=None):
    """Sends one request and returns the JSON document of the response."""
    connection = http.client.HTTPConnection(HOST, PORT, timeout=30)
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    assert answer.status == 200, (method, path, answer.status, text[:300])
    return json.loads(text)


def timed(port, path, key=None, connection=None):
    """Milliseconds until the response is complete, and its status."""
    begin = time.monotonic()
    own = connection or http.client.HTTPConnection(HOST, port, timeout=30)
    own.request("GET", path, headers={"authorization": f"Bearer {key}"} if key else {})
    answer = own.getresponse()
    answer.read()
    took = (time.monotonic() - begin) * 1000
    if connection is None:
        own.close()
    return took, answer.status


def rank(values, share):
    """The quantile `share` of the values."""
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))]
