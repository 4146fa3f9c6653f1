#!/usr/bin/env python3
"""Callers that hold their locks by a connection (bind=connection), until they are killed: bound.py
SEED FIRST_CALLER TTL_MS HISTORY PORT...

They write the history as the callers in C do (history.c): a line `renewed` of a stream is written
as a look."""
import http.client
import json
import random
import sys
import threading
import time

CALLERS, KEYS, WAIT_MS, HOLD_S = 12, 4, 1000, (0.02, 0.6)


def boottime_us():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


class Caller(threading.Thread):
    def __init__(self, number, agent, port, ttl_ms, seed, tell):
        super().__init__(daemon=True)
        self.number, self.agent, self.port, self.ttl_ms, self.tell_all = (
            number,
            agent,
            port,
            ttl_ms,
            tell,
        )
        self.random, self.key, self.hold, self.fence = (
            random.Random(seed * 1000 + number),
            "",
            "",
            0,
        )

    def tell(self, op, began_us, outcome, answer=None, **more):
        event = {
            "op": op,
            "caller": self.number,
            "agent": self.agent,
            "key": self.key,
            "hold": self.hold,
            "t0": began_us,
            "t1": boottime_us(),
            "outcome": outcome,
            **more,
        }
        if answer and "valid_until_boottime_ms" in answer:
            event.update(
                fence=self.fence,
                until_ms=answer["valid_until_boottime_ms"],
                for_ms=answer["valid_for_ms"],
            )
        self.tell_all(event)
        return event["t1"]

    def run(self):
        while True:
            self.key, self.hold = f"bound/{self.random.randrange(KEYS)}", ""
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
            began_us = boottime_us()
            try:
                connection.request(
                    "POST",
                    f"/locks/{self.key}?bind=connection&ttl={self.ttl_ms}ms&wait={WAIT_MS}ms",
                )
                self.hear(connection, connection.getresponse(), began_us)
            except (OSError, http.client.HTTPException):
                self.tell("acquire" if not self.hold else "release", began_us, "info")
            connection.close()
            time.sleep(self.random.uniform(0.005, 0.05))

    def hear(self, connection, response, began_us):
        line = json.loads(response.readline())
        if response.status != 201:
            self.tell(
                "acquire", began_us, "fail", status=response.status, code=line.get("code", "")
            )
            return
        self.hold, self.fence = line["token"], line["fencing_token"]
        heard_us, until = self.tell(
            "acquire", began_us, "ok", line, status=201, code=""
        ), time.monotonic() + self.random.uniform(*HOLD_S)
        while time.monotonic() < until:
            connection.sock.settimeout(max(until - time.monotonic(), 0.001))
            try:
                line = json.loads(response.readline() or '{"event": "ended"}')
            except TimeoutError:
                break
            if line["event"] != "renewed":
                self.tell("look", heard_us, "fail", status=410, code="lock_lost")
                return
            heard_us = self.tell("look", heard_us, "ok", line, status=200, code="")
        self.tell("release", boottime_us(), "ok")


def main():
    seed, first, ttl_ms = map(int, sys.argv[1:4])
    ports, lock = [int(port) for port in sys.argv[5:]], threading.Lock()
    with open(sys.argv[4], "a", encoding="utf-8", buffering=1) as history:

        def tell(event):
            with lock:
                history.write(json.dumps(event, separators=(",", ":")) + "\n")

        for number in range(CALLERS):
            Caller(
                first + number, number % len(ports), ports[number % len(ports)], ttl_ms, seed, tell
            ).start()
        threading.Event().wait()


if __name__ == "__main__":
    main()
