#!/usr/bin/env python3
"""The fault proxy does to bytes what it says: proxy_test.py PROXY. Each test talks to an echo server through a link of its own."""
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time


def echo(listener):
    """Echoes on every connection; sends the end back too."""
    def serve(connection):
        with connection:
            try:
                while data := connection.recv(65536):
                    connection.sendall(data)
            except OSError:
                pass

    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


class Link:
    def __init__(self, proxy, number, port):
        self.proxy, self.number, self.port = proxy, number, port

    def set(self, words):
        self.proxy.stdin.write(f"{self.number} {words}\n")
        self.proxy.stdin.flush()
        return self.proxy.stdout.readline().strip()

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=5)


def exact(connection, length):
    data = b""
    while len(data) < length and (more := connection.recv(length - len(data))):
        data += more
    return data


def silent(connection, seconds):
    return not select.select([connection], [], [], seconds)[0]


def round_trip_s(connection, data=b"ping"):
    began = time.monotonic()
    connection.sendall(data)
    assert exact(connection, len(data)) == data
    return time.monotonic() - began


def passes_bytes_and_their_end(link):
    with link.connect() as connection:
        data = os.urandom(3 << 20)
        threading.Thread(target=lambda: (connection.sendall(data), connection.shutdown(socket.SHUT_WR))).start()
        assert exact(connection, len(data)) == data
        assert connection.recv(1) == b""


def delays_each_way(link):
    assert link.set("delay_us=50000") == "ok"
    with link.connect() as connection:
        assert 0.1 <= round_trip_s(connection) < 1
        assert link.set("up.delay_us=0") == "ok"
        assert 0.05 <= round_trip_s(connection) < 1


def jitter_keeps_the_order(link):
    assert link.set("delay_us=10000 jitter_us=10000") == "ok"
    with link.connect() as connection:
        for byte in range(50):
            connection.sendall(bytes([byte]))
            time.sleep(0.001)
        assert exact(connection, 50) == bytes(range(50))


def loses_by_stalling(link):
    assert link.set("loss_permille=999") == "ok"
    with link.connect() as connection:
        connection.sendall(b"x")
        assert silent(connection, 0.4)
        assert link.set("loss_permille=0") == "ok"
        connection.sendall(b"y")
        assert exact(connection, 2) == b"xy"


def a_hole_delivers_late(link):
    for direction in ("up.", "down.", ""):
        with link.connect() as connection:
            round_trip_s(connection)
            assert link.set(f"{direction}hole=1") == "ok"
            connection.sendall(b"late")
            assert silent(connection, 0.2)
            assert link.set("hole=0") == "ok"
            assert exact(connection, 4) == b"late"


def what_a_gone_caller_sent_into_a_hole_arrives(link):
    received, server = link.own_server()
    assert link.set("hole=1") == "ok"
    with link.connect() as connection:
        connection.sendall(b"SET k v")
    time.sleep(0.1)
    assert received == []
    assert link.set("hole=0") == "ok"
    server.join(5)
    assert b"".join(received) == b"SET k v"


def slices(link):
    assert link.set("down.slice_us=5000") == "ok"
    with link.connect() as connection:
        connection.sendall(b"0123456789")
        pieces = [connection.recv(100) for _ in range(5)]
        assert all(len(piece) < 5 for piece in pieces), pieces


def limits_the_rate(link):
    assert link.set("up.rate_bytes=100000") == "ok"
    with link.connect() as connection:
        assert 0.19 <= round_trip_s(connection, bytes(20000)) < 2


def resets_in_the_middle(link):
    assert link.set("down.reset_permille=1000") == "ok"
    with link.connect() as connection:
        connection.sendall(b"0123456789")
        data = b""
        try:
            while more := connection.recv(10):
                data += more
            raise AssertionError("an orderly end")
        except ConnectionResetError:
            assert len(data) <= 5, data


def cuts(link):
    with link.connect() as connection:
        round_trip_s(connection)
        assert link.set("cut=1") == "ok"
        try:
            assert connection.recv(1) is None
        except ConnectionResetError:
            pass


def refuses_and_returns(link):
    assert link.set("refuse=1") == "ok"
    try:
        link.connect()
        raise AssertionError("connected")
    except ConnectionRefusedError:
        pass
    assert link.set("refuse=0") == "ok"
    with link.connect() as connection:
        round_trip_s(connection)


def refuses_bad_commands(link):
    for words in ("hole=2", "delay_us=-1", "up.nothing=1", "hole"):
        assert link.set(words).startswith("error"), words


TESTS = [passes_bytes_and_their_end, delays_each_way, jitter_keeps_the_order, loses_by_stalling, a_hole_delivers_late,
         what_a_gone_caller_sent_into_a_hole_arrives, slices, limits_the_rate, resets_in_the_middle, cuts, refuses_and_returns,
         refuses_bad_commands]


def own_server(listener):
    """What one connection brings, until its end; in place of the echo."""
    received = []

    def collect():
        connection = listener.accept()[0]
        while data := connection.recv(100):
            received.append(data)
        connection.close()

    thread = threading.Thread(target=collect, daemon=True)
    thread.start()
    return received, thread


def main():
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="lockagent-proxy-") as folder:
        listeners = []
        for number in range(len(TESTS)):
            listeners.append(socket.socket(socket.AF_UNIX))
            listeners[-1].bind(f"{folder}/{number}")
            listeners[-1].listen()
        with subprocess.Popen([sys.argv[1], *(f"{folder}/{number}" for number in range(len(TESTS)))], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as proxy:
            ports = proxy.stdout.readline().split()[1:]
            for number, test in enumerate(TESTS):
                link = Link(proxy, number, int(ports[number]))
                if "gone_caller" in test.__name__:
                    link.own_server = lambda listener=listeners[number]: own_server(listener)
                else:
                    threading.Thread(target=echo, args=(listeners[number],), daemon=True).start()
                try:
                    test(link)
                    passed += 1
                except (AssertionError, OSError) as error:
                    failed += 1
                    print(f"FAILED {test.__name__}: {error!r}")
            proxy.stdin.close()
    print(f"{passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
