"""Every class of error reply (D5.5), and Redis's treatment of its clients, provoked on a real
master: how it begins, and how it ends."""
import os
import socket
import subprocess
import time

from means import ADMIN, Failure


class Refusal:
    """`begin` and `end` take the world and a master; `guarded`: the master has forgotten
    everything."""

    def __init__(self, name, begin, end, guarded=False, **world):
        self.name, self.begin, self.end, self.guarded, self.world = name, begin, end, guarded, world


def asks(*commands):
    """A function that sends a master these commands; each is one string of words."""

    def ask(world, master):
        for command in commands:
            if world.ask_master(master, *command.split()) is None:
                raise Failure(f"master {master} refused {command}")

    return ask


CUT = "CLIENT KILL TYPE normal SKIPME yes"
NOBODY = "REPLICAOF 127.0.0.1 1"  # no master listens there


def snapshot(world, master):
    return os.path.join(world.path(f"master{master}"), "dump.rdb")


def misconf_begins(world, master):
    os.mkdir(snapshot(world, master))  # no snapshot can be put there
    asks("CONFIG SET stop-writes-on-bgsave-error yes")(world, master)
    world.ask_master(master, "CONFIG", "SET", "save", "1000 1000")
    asks("BGSAVE")(world, master)


def misconf_ends(world, master):
    os.rmdir(snapshot(world, master))
    asks("CONFIG SET stop-writes-on-bgsave-error no")(world, master)
    world.ask_master(master, "CONFIG", "SET", "save", "")


def in_background(world, master, *command):
    return subprocess.Popen(
        [*world.client(master), *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def busy_begins(world, master):
    world.helpers.append(in_background(world, master, "EVAL", "while true do end", "0"))


def loading_begins(world, master):
    keys = int(world.ask_master(master, "DBSIZE")[0])
    world.ask_master(master, "CONFIG", "SET", "key-load-delay", str(1000000 // max(keys, 1)))
    world.helpers.append(in_background(world, master, "DEBUG", "RELOAD"))


def loading_ends(world, master):
    world.await_master(master)
    asks("CONFIG SET key-load-delay 0")(world, master)


def full_begins(world, master):
    """One client alone, which keeps the place to end it."""
    keeper = socket.socket(socket.AF_UNIX)
    keeper.connect(world.socket(master))
    world.keepers[master] = keeper
    say(keeper, f"AUTH {ADMIN[0]} any")
    say(keeper, "CONFIG SET maxclients 1")
    say(keeper, CUT)


def full_ends(world, master):
    keeper = world.keepers.pop(master)
    say(keeper, "CONFIG SET maxclients 10000")
    keeper.close()


def say(connection, command):
    connection.sendall(f"{command}\r\n".encode())
    if not connection.recv(4096).startswith((b"+", b":")):
        raise Failure(f"refused: {command}")


FOREIGN = [f"lock:shared/{key}" for key in range(8)]


def foreign_begins(world, master):
    for key in FOREIGN:  # if the lock is free
        world.ask_master(master, "RPUSH", key, "somebody else's")


def foreign_ends(world, master):
    world.ask_master(
        master,
        "EVAL",
        "for _, key in ipairs(KEYS) do if redis.call('TYPE', key).ok == 'list' then "
        "redis.call('DEL', key) end end",
        str(len(FOREIGN)),
        *FOREIGN,
    )


def again_and_again(command):
    def ask(world, master):
        for _ in range(5):
            world.ask_master(master, *command.split())
            time.sleep(0.05)

    return ask


ALL = [
    Refusal("OOM", asks("CONFIG SET maxmemory 1"), asks("CONFIG SET maxmemory 0")),
    Refusal("MISCONF", misconf_begins, misconf_ends),
    Refusal("READONLY", asks(NOBODY), asks("REPLICAOF NO ONE")),
    Refusal(
        "NOREPLICAS",
        asks("CONFIG SET min-replicas-to-write 1"),
        asks("CONFIG SET min-replicas-to-write 0"),
    ),
    Refusal("LOADING", loading_begins, loading_ends),
    Refusal("BUSY", busy_begins, asks("SCRIPT KILL")),
    Refusal(
        "MASTERDOWN",
        asks("CONFIG SET replica-serve-stale-data no", NOBODY),
        asks("REPLICAOF NO ONE"),
    ),
    Refusal(
        "NOAUTH",
        asks("CONFIG SET requirepass secret", CUT),
        lambda world, master: world.ask_master(master, "CONFIG", "SET", "requirepass", ""),
    ),
    Refusal(
        "WRONGPASS",
        asks("ACL SETUSER agent resetpass >other", CUT),
        asks("ACL SETUSER agent resetpass >secret"),
        user="agent",
    ),
    Refusal(
        "NOPERM", asks("ACL SETUSER default -evalsha -eval"), asks("ACL SETUSER default +@all")
    ),
    Refusal(
        "NOPERM inside EVAL", asks("ACL SETUSER default -set"), asks("ACL SETUSER default +@all")
    ),
    Refusal("maxclients", full_begins, full_ends),
    Refusal("WRONGTYPE", foreign_begins, foreign_ends),
    Refusal("NOSCRIPT", again_and_again("SCRIPT FLUSH"), lambda world, master: None),
    Refusal("CLIENT KILL", again_and_again(CUT), lambda world, master: None),
    Refusal("CLIENT PAUSE WRITE", asks("CLIENT PAUSE 60000 WRITE"), asks("CLIENT UNPAUSE")),
    Refusal("CLIENT PAUSE ALL", asks("CLIENT PAUSE 1000 ALL"), lambda world, master: None),
]
