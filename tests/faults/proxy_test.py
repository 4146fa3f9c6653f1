#!/usr/bin/env python3
"""The fault proxy does to bytes as it promises: proxy_test.py PROXY. Each test talks to an echo
server through a link of its own."""
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
        threading.Thread(
            target=lambda: (connection.sendall(data), connection.shutdown(socket.SHUT_WR))
        ).start()
        assert exact(connection, len(data)) == data
        assert connection.recv(1) == b""


def delays_each_way(link):
    assert link.set("delay_us=50000") == "ok"
    with link.connect() as connection:
        assert 0.1 <= round_trip_s(connection)
        assert link.set("up.delay_us=0") == "ok"
        assert 0.05 <= round_trip_s(connection)


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
        assert 49 * 0.005 <= round_trip_s(connection, bytes(range(50)))


def limits_the_rate(link):
    assert link.set("up.rate_bytes=100000") == "ok"
    with link.connect() as connection:
        assert 0.19 <= round_trip_s(connection, bytes(20000))


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


# the echo makes replies of them
PING, NESTED = b"*1\r\n$4\r\nPING\r\n", b"*3\r\n*2\r\n:1\r\n$-1\r\n$5\r\n*1\r\n:\r\n+x\r\n"


def lies(text, how, **more):
    settings = {
        "lie_permille": 1000,
        "lie_texts": text.hex(),
        "lie_tail": "",
        "lie_to": "all",
        **more,
    }
    return " ".join(f"{name}={value}" for name, value in settings.items()) + f" lie={how}"


def told(link):
    link.proxy.stdin.write("lies\n")
    link.proxy.stdin.flush()
    return int(link.proxy.stdout.readline().split()[1])


def lies_in_place_of_replies(link):
    before = told(link)
    with link.connect() as connection:
        assert round_trip_s(connection, PING) < 1
        assert link.set(lies(b"+lie\r\n", "instead")) == "ok"
        connection.sendall(NESTED[:20])
        time.sleep(0.05)
        connection.sendall(NESTED[20:] + PING + PING[:7])
        assert exact(connection, 12) == b"+lie\r\n+lie\r\n"
        assert silent(connection, 0.1)
        assert link.set("lie=never") == "ok"  # the reply that has begun is lied about to its end
        connection.sendall(PING[7:] + NESTED)
        assert exact(connection, 6 + len(NESTED)) == b"+lie\r\n" + NESTED
    assert told(link) == before + 3


def draws_one_of_its_texts(link):
    assert link.set(lies(b"", "instead", lie_texts="2b610d0a/2b620d0a/2b630d0a")) == "ok"
    with link.connect() as connection:
        connection.sendall(PING * 100)
        assert set(exact(connection, 400).split()) == {b"+a", b"+b", b"+c"}


def lies_now_and_then(link):
    assert link.set(lies(b"+a\r\n", "beside", lie_permille=200)) == "ok"
    with link.connect() as connection:
        connection.sendall(PING * 200 + NESTED)
        heard = b""
        while not heard.endswith(NESTED) and not heard.endswith(NESTED + b"+a\r\n"):
            heard += connection.recv(65536)
        assert heard.count(PING) == 200 and 10 < heard.count(b"+a\r\n") < 90, heard.count(b"+a\r\n")
        assert heard.replace(b"+a\r\n", b"") == PING * 200 + NESTED


def says_more_than_was_asked(link):
    with link.connect() as connection:
        round_trip_s(connection, PING)
        assert link.set(lies(b":7\r\n", "unasked")) == "ok"
        assert exact(connection, 8) == b":7\r\n" * 2
        assert link.set("lie=never") == "ok"
        assert silent(connection, 0.1) or set(connection.recv(100)) == set(b":7\r\n")
        round_trip_s(connection, PING)


def says_nothing_unasked_while_a_reply_is_due(link):
    server = link.mute_server()
    with link.connect() as connection:
        connection.sendall(PING)
        time.sleep(0.05)
        assert link.set(lies(b":7\r\n", "unasked")) == "ok"
        assert silent(connection, 0.2)
        assert link.set("lie=never") == "ok"
    server.join(5)


def tells_subscribers_from_others(link):
    subscribe = b"*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\nc\r\n"
    with link.connect() as subscriber, link.connect() as other:
        round_trip_s(subscriber, subscribe)
        round_trip_s(other, PING)
        for to, liar, honest in (
            ("subscriber", subscriber, other),
            ("commands", other, subscriber),
        ):
            assert link.set(lies(b"+lie\r\n", "instead", lie_to=to)) == "ok"
            honest.sendall(PING)
            liar.sendall(PING)
            assert exact(honest, len(PING)) == PING and exact(liar, 6) == b"+lie\r\n", to


def falls_silent_half_way(link):
    with link.connect() as connection:
        assert link.set(lies(b"", "half")) == "ok"
        connection.sendall(NESTED + PING)
        half = (len(NESTED) + 1) // 2
        assert exact(connection, half) == NESTED[:half]
        assert link.set("lie=never") == "ok"
        connection.sendall(PING)
        assert silent(connection, 0.2)
    with link.connect() as connection:  # the next one is sound
        round_trip_s(connection, NESTED)


def ends_half_way(link):
    with link.connect() as connection:
        assert link.set(lies(b"", "half_and_end")) == "ok"
        connection.sendall(PING + PING)
        assert exact(connection, 100) == PING[: len(PING) // 2]


def loses_half_a_reply(link):
    with link.connect() as connection:
        assert link.set(lies(b"", "torn")) == "ok"
        connection.sendall(NESTED + PING)
        halves = NESTED[: (len(NESTED) + 1) // 2] + PING[: (len(PING) + 1) // 2]
        assert exact(connection, len(halves)) == halves
        assert link.set("lie=never") == "ok"
        round_trip_s(connection, PING)


def goes_on_and_on(link):
    with link.connect() as connection:
        assert (
            link.set(
                lies(b"$900000\r\n", "instead", lie_tail=b"0123456789".hex(), lie_times=100000)
            )
            == "ok"
        )
        connection.sendall(PING)
        assert exact(connection, 9 + 1000000) == b"$900000\r\n" + b"0123456789" * 100000
    with link.connect() as connection:  # its bytes are cut off, or it is ended from outside
        connection.sendall(PING)
        assert exact(connection, 1000)[:9] == b"$900000\r\n"
    with link.connect() as connection:
        assert link.set("lie_times=16000000") == "ok"
        connection.sendall(PING)
        assert exact(connection, 1000)[:9] == b"$900000\r\n"
        assert link.set("lie=never") == "ok"
        while not silent(connection, 0.3):
            connection.recv(1 << 20)


def refuses_bad_commands(link):
    for words in (
        "hole=2",
        "delay_us=-1",
        "up.nothing=1",
        "hole",
        "lie=sometimes",
        "lie_to=you",
        "lie_texts=2",
        "lie_texts=2b/2",
        "lie_tail=zz",
        "lie_permille=1001",
        "lie_texts=" + "2b" * 1025,
        "lie_tail=" + "2b" * 65,
        "lie_nothing=1",
    ):
        assert link.set(words).startswith("error"), words


TESTS = [
    passes_bytes_and_their_end,
    delays_each_way,
    jitter_keeps_the_order,
    loses_by_stalling,
    a_hole_delivers_late,
    what_a_gone_caller_sent_into_a_hole_arrives,
    slices,
    limits_the_rate,
    resets_in_the_middle,
    cuts,
    refuses_and_returns,
    lies_in_place_of_replies,
    draws_one_of_its_texts,
    lies_now_and_then,
    says_more_than_was_asked,
    says_nothing_unasked_while_a_reply_is_due,
    tells_subscribers_from_others,
    falls_silent_half_way,
    ends_half_way,
    loses_half_a_reply,
    goes_on_and_on,
    refuses_bad_commands,
]


def own_server(listener):
    """Returns the bytes of one connection, until its end; in place of the echo."""
    received = []

    def collect():
        connection = listener.accept()[0]
        while data := connection.recv(100):
            received.append(data)
        connection.close()

    thread = threading.Thread(target=collect, daemon=True)
    thread.start()
    return received, thread


def mute_server(listener):
    """Takes one connection, and says nothing until its end; in place of the echo."""

    def listen():
        connection = listener.accept()[0]
        while connection.recv(100):
            pass
        connection.close()

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    return thread


def main():
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="lockagent-proxy-") as folder:
        listeners = []
        for number in range(len(TESTS)):
            listeners.append(socket.socket(socket.AF_UNIX))
            listeners[-1].bind(f"{folder}/{number}")
            listeners[-1].listen()
        with subprocess.Popen(
            [sys.argv[1], *(f"{folder}/{number}" for number in range(len(TESTS)))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as proxy:
            ports = proxy.stdout.readline().split()[1:]
            for number, test in enumerate(TESTS):
                link = Link(proxy, number, int(ports[number]))
                if "gone_caller" in test.__name__:
                    link.own_server = lambda listener=listeners[number]: own_server(listener)
                elif "is_due" in test.__name__:
                    link.mute_server = lambda listener=listeners[number]: mute_server(listener)
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
