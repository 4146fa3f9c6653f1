"""Masters that are hostile, or broken: the text that they send in place of a reply, beside one,
unasked, or half of one. The proxy sends it for them, in front of real ones (lies.h)."""
import time

from means import PATIENCE_S, Failure, Skipped

HELD_S = 1.8  # of one class, however many acts it has
ACT_S, LOOK_EVERY_S = 0.3, 0.15
UNASKED_PERMILLE, LOUD_PERMILLE = 400, 200
LIES_LEAST = 5
CHANNEL = "lockagent:channel:lock:shared/0"


class Act:
    """`how`: instead (of a reply), beside, unasked, half (then silence), half_and_end, torn (the
    other half is lost). `texts`: one is drawn; `tail` follows it `times` times. `permille`: of the
    replies; unasked: of the moments of 10 ms in which nothing is due.
    """

    def __init__(self, how, *texts, tail=b"", times=0, permille=60):
        self.settings = {
            "lie_texts": "/".join(text.hex() for text in texts),
            "lie_tail": tail.hex(),
            "lie_times": times,
            "lie_permille": permille,
            "lie": how,
        }


class Hostile:
    """`lies`: the text can pass for a grant that never was: outside the promise (A5)."""

    def __init__(self, name, *acts, lies=False):
        self.name, self.acts, self.lies = name, acts, lies


def bulk(text):
    return b"$%d\r\n%s\r\n" % (len(text), text.encode())


def array(*elements):
    return b"*%d\r\n%s" % (len(elements), b"".join(elements))


def number(value):
    return b":%d\r\n" % value


NIL, NO_ARRAY, EMPTY = b"$-1\r\n", b"*-1\r\n", b"*0\r\n"
MESSAGE = array(bulk("message"), bulk(CHANNEL), bulk("3 0123456789abcdef"))
FOR_NOBODY = array(
    bulk("message"), bulk("lockagent:channel:lock:nobody"), bulk("99999999999999999999 zz")
)
PATTERN = array(bulk("pmessage"), bulk("*"), bulk(CHANNEL), bulk("1"))
SHARDED = array(bulk("smessage"), bulk(CHANNEL), bulk("-1"))
SUBSCRIBED = array(bulk("subscribe"), bulk("elsewhere"), number(1 << 40))
PUSH = b">" + MESSAGE[1:]
INVALIDATE = b">2\r\n" + bulk("invalidate") + array(bulk("lock:shared/0"))
# as fencing numbers: years ahead, or no double
FAR_AHEAD = (2**63 - 1, 9999999999999999, 9007199254740993, 2**53)

ALL = [
    Hostile(
        "wrong types",
        Act(
            "instead",
            b"+OK\r\n",
            NIL,
            NO_ARRAY,
            EMPTY,
            bulk(""),
            bulk("held"),
            array(array(array(b"+x\r\n"))),
            array(bulk("held"), bulk("x")),
            array(bulk("held"), number(5)),
            array(bulk("held"), number(5), array()),
            array(bulk("guarded"), NIL),
            array(NIL, NIL, NIL),
        ),
        Act(
            "instead",
            b"-ERR you know why\r\n",
            b"-\r\n",
            b"-WRONGTYPE no\r\n",
            b"-NOSCRIPT no\r\n",
            b"-LOADING\r\n",
            b"-NOAUTH \xff\xfe %s%n\r\n",
            b"hello\r\n",
            b"\r\n",
            b"\0\0\0\0\r\n",
            b"%1\r\n",
            b"$x\r\n",
            b"*x\r\n",
            b":\r\n",
            b":1e9\r\n",
            permille=30,
        ),
    ),
    Hostile(
        "surplus replies",
        Act(
            "unasked",
            b"+OK\r\n",
            NIL,
            EMPTY,
            b"*1\r\n" + NIL,
            b"-ERR nobody asked\r\n",
            array(bulk("held"), number(3), bulk("x")),
            permille=UNASKED_PERMILLE,
        ),
    ),
    Hostile("truncated replies", Act("half", permille=10), Act("half_and_end", permille=20)),
    Hostile(
        "huge replies",
        Act(
            "instead",
            b"*2147483647\r\n",
            b"*4294967297\r\n",
            b"*9223372036854775807\r\n",
            b"$2147483647\r\n",
            b"$9223372036854775807\r\n",
            b"*1\r\n" * 64,
            b"*4096\r\n" * 7,
            permille=20,
        ),
        Act("instead", b"*2000000\r\n", tail=b":1\r\n", times=2000000, permille=10),
        Act("instead", b"$20000000\r\n", tail=b"0123456789", times=2000000, permille=10),
    ),
    Hostile(
        "endless replies",
        Act("instead", b"+", b"-", b":", b"$", b"*", tail=b"1" * 64, times=1 << 20, permille=10),
        Act(
            "instead",
            b"$500000000\r\n",
            b"*1\r\n$500000000\r\n",
            tail=b"x" * 64,
            times=1 << 20,
            permille=10,
        ),
    ),
    Hostile(
        "numbers out of range",
        Act("instead", *map(number, (-2, -(2**63), 2**64, 10**30, *FAR_AHEAD)), permille=150),
        Act(
            "instead",
            *(
                array(bulk(word), number(value), *more)
                for word, more in (("held", [bulk("x")]), ("guarded", []), ("foreign", []))
                for value in (-2, -(2**63), 2**63 - 1, 10**30)
            ),
        ),
    ),
    Hostile(
        "unasked pushes",
        Act(
            "unasked",
            PUSH,
            INVALIDATE,
            MESSAGE,
            FOR_NOBODY,
            PATTERN,
            SHARDED,
            SUBSCRIBED,
            permille=UNASKED_PERMILLE,
        ),
        Act("instead", PUSH, INVALIDATE, MESSAGE, SUBSCRIBED),
    ),
    # A reply too many or too few lets every later one pass for the answer to another question, and
    # a number is a grant.
    Hostile(
        "replies out of step",
        Act("beside", number(7), b"*1\r\n:7\r\n", b"+OK\r\n", permille=20),
        Act("unasked", number(7), b"*1\r\n:7\r\n"),
        Act("torn", permille=10),
        lies=True,
    ),
    Hostile("false grants", Act("instead", number(2**50), permille=900), lies=True),
]


def to_subscribers(act):
    """Agents get fewer replies. But a master that was lied to comes back later and later, until it
    has received the truth for once."""
    louder = Act("never")
    louder.settings = {
        **act.settings,
        "lie_permille": max(act.settings["lie_permille"], LOUD_PERMILLE),
    }
    return louder


TO_SUBSCRIBERS = Hostile("all", *(to_subscribers(act) for each in ALL for act in each.acts))


def told(world):
    return int(world.ask_proxy("lies").split()[1])


def look(world, seconds, enough):
    """All agents live, and say so, for any text of one master. It takes at least `seconds`, and
    goes on until enough was said: a link that is busy leaves few moments for unasked lies.
    """
    until = time.monotonic() + seconds
    while time.monotonic() < until or not enough():
        if time.monotonic() > until + PATIENCE_S:
            raise Failure(f"only {told(world)} lies were told")
        world.expect_alive()
        time.sleep(LOOK_EVERY_S)


def play(world, hostile, masters, to):
    if world.over_tls:
        raise Skipped("nobody between can lie over TLS")
    links, peaks, before = world.links(masters=masters), world.peaks_kib(), told(world)
    seconds = max(HELD_S / len(hostile.acts), ACT_S)
    for act in hostile.acts:
        world.weather(links, lie_to=to, **act.settings)
        least = LIES_LEAST if act is hostile.acts[-1] else int(to == "commands")
        look(world, seconds, lambda least=least: told(world) >= before + least)
    world.weather("all", lie="never")
    world.expect_alive()
    world.expect_bounded(peaks)
