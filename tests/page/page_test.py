#!/usr/bin/env python3
"""The status page without a browser: page_test.py BUILD_DIR. Real masters, a real agent, hostile
keys and labels."""

import base64
import hashlib
import html.parser
import re
import signal
import subprocess
import sys

from stage import Stage, eventually, furnish

MANY = 1001


class Reader(html.parser.HTMLParser):
    """The rows of each table as texts, and other parts that a page may not have."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.table, self.tags, self.handlers = {}, None, [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on") or name == "style"]
        if tag == "table":
            self.table = self.tables.setdefault(dict(attrs)["aria-labelledby"], [])
        elif tag == "tr" and self.table is not None:
            self.table.append([])
        elif tag in ("td", "th") and self.table is not None:
            self.table[-1].append("")

    def handle_endtag(self, tag):
        if tag == "table":
            self.table = None

    def handle_data(self, data):
        if self.table and self.table[-1]:
            self.table[-1][-1] = (self.table[-1][-1] + data).rstrip("\n")


def rows(text, name):
    return Reader(text).tables.get(f"{name}-name", [[]])[1:]


def verdict(text):
    """The class of the verdict, and its text."""
    tone, inside = re.search(r'<div id="verdict" class="live (\w+)".*?>(.*?)</div>', text).groups()
    return tone, re.sub(r"<.*?>", "", inside.replace("</p>", " "))


def confirmed(stage, key):
    """On how many masters the page and the list say that the hold is confirmed."""
    row = next(row for row in rows(stage.shown(key=key), "holds") if row[0] == key)
    return row[7], stage.confirmed(key)


def order(text):
    """The parts of the page, from its top."""
    return re.findall(r'id="(holds|waits|masters)"', text)


def count(stage, name):
    return int(re.search(f'id="{name}" value="(\\d+)"', stage.shown())[1])


def lost_total(stage):
    metrics = stage.shown("/metrics")
    return sum(map(float, re.findall(r"^lockagent_locks_lost_total\{.*\} (\S+)", metrics, re.M)))


def sha256(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def policy_of(headers):
    parts = (part.split() for part in headers["Content-Security-Policy"].split(";"))
    return {name: sources for name, *sources in parts}


def the_policy_lets_run_what_was_built_in_and_nothing_else(stage):
    caller = stage.send("GET", "/")
    answer = caller.getresponse()
    text, policy = answer.read().decode(), policy_of(answer.headers)
    scripts = re.findall(r"<script>(.*?)</script>", text, re.S)
    styles = re.findall(r"<style>(.*?)</style>", text, re.S)
    assert policy["script-src"] == [sha256(script) for script in scripts], policy
    assert policy["style-src"] == [sha256(style) for style in styles], policy
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == ["'none'"]
    assert answer.headers["Cache-Control"] == "no-store"
    assert not Reader(text).handlers, "the policy would refuse them"
    caller.request("HEAD", "/")
    head = caller.getresponse()
    assert (head.status, head.read()) == (200, b"")
    assert policy_of(head.headers) == policy


def all_masters_are_well(stage):
    assert eventually(lambda: verdict(stage.shown())[0] == "good")
    text = stage.shown()
    told = verdict(text)[1]
    assert order(text) == ["holds", "waits", "masters"], order(text)
    assert "locks are granted, 5 of 5 masters vote, and 2 may fail." in told, told


def a_stopped_master_confirms_nothing(stage):
    """SIGSTOP: its connection lives, and it is silent."""
    stage.hold_everywhere("stopped/one", ttl="60s")
    assert confirmed(stage, "stopped/one") == ("5 of 5", 5)
    stage.running["master0"].send_signal(signal.SIGSTOP)
    try:
        assert eventually(lambda: confirmed(stage, "stopped/one") == ("4 of 5", 4))
        text = stage.shown()
        tone, told = verdict(text)
        assert (tone, order(text)) == ("fair", ["masters", "holds", "waits"]), (tone, order(text))
        assert f"{stage.url(0)} is down: " in told, told
        assert "locks are granted, 4 of 5 masters vote, and 1 more may fail." in told, told
    finally:
        stage.running["master0"].send_signal(signal.SIGCONT)
    assert eventually(lambda: confirmed(stage, "stopped/one") == ("5 of 5", 5)), "it has its keys"
    assert eventually(lambda: verdict(stage.shown())[0] == "good")


def the_last_minute_is_counted(stage):
    granted, lost, lost_before = count(stage, "granted"), count(stage, "lost"), lost_total(stage)
    stage.hold("minute/one")
    assert count(stage, "granted") == granted + 1
    refused = count(stage, "refused")
    assert stage.ask("POST", "/locks/minute/one")[0] == 409
    assert stage.ask("POST", "/locks/minute/one", wait="50ms")[0] == 409
    assert count(stage, "refused") == refused + 2
    stage.hold("minute/two", ttl="500ms")  # it runs out
    assert eventually(lambda: count(stage, "lost") > lost)
    assert count(stage, "lost") - lost == lost_total(stage) - lost_before == 1


def holds_and_waiters_stand_in_their_tables(stage):
    text = stage.shown()
    holds = {(row[0], row[1]): row[2:] for row in rows(text, "holds")}
    mode, held, valid, renewed, number, confirmed_by = holds[
        "nightly/invoices", "billing-7f9c, pod 2"
    ]
    assert mode == "exclusive" and renewed == "agent" and number.isdigit(), holds
    assert held.endswith((" s", "ms")) and valid.endswith(" s"), holds
    assert re.fullmatch("[34] of 5", confirmed_by), holds
    assert holds["import/customers", "crm-import"][3] == "caller"
    assert {row[2] for row in rows(text, "holds") if row[0] == "report/2026-11"} == {"read"}
    waits = [row[:3] for row in rows(text, "waits")]
    assert waits[0] == ["nightly/invoices", "billing-7f9c, pod 3", "exclusive"], waits
    assert ["report/2026-11", "writer", "write"] in waits, waits


def slots_are_counted_from_one(stage):
    for number in range(2):
        slot = stage.hold("pool/cpu", label=f"worker-{number}")["slot"]
        text = stage.shown(key="pool/cpu")
        shown = {row[1]: row[2] for row in rows(text, "holds")}
        assert shown[f"worker-{number}"] == f"slot {slot + 1} of 4", (slot, shown)


def a_killed_master_confirms_nothing(stage):
    """One is dead. The other came back without its keys, and this hold is not renewed."""
    assert confirmed(stage, "import/customers") == ("3 of 5", 3)


def the_longest_held_come_first(stage):
    text = stage.shown()
    keys = [row[0] for row in rows(text, "holds")]
    taken = ["stopped/one", "minute/one", "nightly/invoices", "import/customers", "pool/gpu"]
    assert [key for key in keys if key in taken] == [*taken, "pool/gpu"], keys
    assert text.count('<th aria-sort="descending">') == 2
    waits = [row[:2] for row in rows(text, "waits")]
    text = stage.shown(sort="latest")
    assert [row[0] for row in rows(text, "holds")] == keys[::-1]
    assert [row[:2] for row in rows(text, "waits")] == waits[::-1]
    assert text.count('<th aria-sort="ascending">') == 2
    assert '<option value="latest" selected>' in text
    assert [row[0] for row in rows(stage.shown(sort="size"), "holds")] == keys


def masters_stand_first_with_votes_and_errors(stage):
    text = stage.shown()
    masters = rows(text, "group-0")
    assert order(text) == ["masters", "holds", "waits"]
    assert [row[1].split()[0] for row in masters] == ["up", "guarded", "up", "up", "down"], masters
    assert masters[0][2] == "yes" and masters[1][2].startswith("no, in "), masters
    assert masters[0][3].endswith(" ms") and masters[4][3] == "\u2013", masters
    assert re.search("refused|closed|reset", masters[4][7]) and masters[4][7].endswith(" ago")
    tone, told = verdict(text)
    assert tone == "fair" and f"{stage.url(4)} is down: " in told, told
    assert re.search(f"{stage.url(1)} answers, and does not vote yet: [0-9 mins]+ left", told)
    assert "locks are granted, 3 of 5 masters vote, and none of them may fail." in told, told


def hostile_keys_and_labels_are_text(stage):
    nasty = "tenant/42/<script>alert(1)</script>"
    text = stage.shown()
    assert nasty in [row[0] for row in rows(text, "holds")]
    for key, label in (
        ("a/\"><img src=x onerror=alert(1)>'&amp;", "' onmouseover='alert(1)"),
        ("b/--><!--</style></title></table>{{holds}}", "\u202e\u00e4\U0001f512</td>"),
    ):
        stage.hold(key, label=label)
        for text in (stage.shown(), stage.shown(key=key)):
            reader = Reader(text)
            assert [row[:2] for row in rows(text, "holds") if row[0] == key] == [[key, label]]
            assert reader.tags.count("script") == 1 and "img" not in reader.tags
            assert not reader.handlers, reader.handlers


def no_token_and_no_secret_is_in_it(stage):
    token = stage.hold("secret/one", label="shown")["token"]
    for admin in (False, True):
        text = stage.shown(admin=admin)
        assert "secret/one" in text
        assert token not in text and token.split(".")[0] not in text


def the_filter_takes_a_part_of_the_key(stage):
    for admin in (False, True):
        text = stage.shown(key="nightly", admin=admin)
        assert [row[0] for row in rows(text, "holds")] == ["nightly/invoices"]
        assert {row[0] for row in rows(text, "waits")} == {"nightly/invoices"}
        assert 'value="nightly"' in text
    assert "No key contains this." in stage.shown(key="nobody's")
    too_long = stage.shown(key="k" * 129)
    assert len(rows(too_long, "holds")) > 1 and 'value=""' in too_long


def take_many(stage, prefix, many):
    caller = stage.send("GET", "/livez")
    caller.getresponse().read()
    for number in range(many):
        status = 0
        while status != 201:  # a busy machine may miss a node_timeout
            caller.request("POST", f"/locks/{prefix}/{number}?label=worker-{number}")
            answer = caller.getresponse()
            answer.read()
            status = answer.status


def fifty_holds_are_shown_and_more_on_request(stage):
    take_many(stage, "many", MANY)

    def shown(**asked):
        text = stage.shown(key="many/", **asked)
        more = re.search(r'<p class="more">(.*?)</p>', text)[1]
        return [int(row[0][5:]) for row in rows(text, "holds")], more

    numbers, more = shown()
    assert numbers == list(range(50)), numbers
    assert more.startswith("50 of 1,001 are shown. <button "), more
    assert 'form="filter" name="limit" value="100">Show 50 more<' in more, more
    assert shown(sort="latest")[0] == list(range(1000, 950, -1))
    numbers, more = shown(limit=600)
    assert numbers == list(range(600)) and 'value="1000">Show 400 more<' in more, more
    assert shown(limit=1000) == (
        list(range(1000)),
        "1,000 of 1,001 are shown: filter by key to see others.",
    )
    for bad in ("0", "1001", "4294967297", "some", "-1"):
        assert shown(limit=bad)[0] == list(range(50)), bad
    text = stage.shown(key="many/99")
    assert len(rows(text, "holds")) == 11 and "are shown" not in text
    assert re.search(r'id="held" value="10\d\d">1,0\d\d</data> of 10,000', text)


def a_master_that_was_flushed_has_no_vote(stage):
    """The others are too few to grant, and enough to renew."""
    before = confirmed(stage, "import/customers")[1]
    subprocess.run(
        ("redis-cli", "-p", str(stage.ports[0]), "FLUSHALL"), check=True, stdout=subprocess.DEVNULL
    )
    guarded = f"{stage.url(0)} answers, and does not vote yet: [0-9 mins]+ left"
    assert eventually(lambda: re.search(guarded, verdict(stage.shown())[1]))
    assert confirmed(stage, "import/customers")[1] == before - 1
    text = stage.shown()
    tone, told = verdict(text)
    assert tone == "bad" and told.startswith("No lock can be granted"), told
    assert re.search(r"1,0\d\d locks are held, and can be renewed\.", told), told
    assert rows(text, "group-0")[0][1].startswith("guarded ")


def without_a_quorum_the_verdict_says_what_ends(stage):
    stage.stop("master0")
    stage.stop("master2")
    ends = r"1,0\d\d locks end within [0-9 mins]+, unless so many masters come back that 3 are up"
    assert eventually(lambda: re.search(ends, verdict(stage.shown())[1]))
    text = stage.shown()
    tone, told = verdict(text)
    assert tone == "bad" and "<title>lockagent: No lock can be granted</title>" in text
    assert "group main: 2 of 5 masters are up, 3 are needed: no lock can be granted." in told
    assert f"{stage.url(0)} is down: " in told and f"{stage.url(2)} is down: " in told, told


def of_two_groups_one_has_no_quorum(stage):
    stage.hold("left/one")
    stage.hold("right/one")
    stage.stop("master1")
    ends = "group right: 0 of 1 masters are up, 1 are needed: no lock can be granted. 1 lock ends "
    assert eventually(lambda: ends in verdict(stage.shown())[1])
    tone, told = verdict(stage.shown())
    assert tone == "bad" and told.startswith("Some locks cannot be granted"), told
    assert "group left: locks are granted, 1 of 1 masters vote, and none of them may fail." in told
    assert confirmed(stage, "right/one") == ("0 of 1", 0)
    assert confirmed(stage, "left/one") == ("1 of 1", 1)


# while all masters are well; then furnish() follows
BEFORE = (
    all_masters_are_well,
    a_stopped_master_confirms_nothing,
    the_last_minute_is_counted,
)
TESTS = (
    the_policy_lets_run_what_was_built_in_and_nothing_else,
    masters_stand_first_with_votes_and_errors,
    a_killed_master_confirms_nothing,
    holds_and_waiters_stand_in_their_tables,
    the_longest_held_come_first,
    slots_are_counted_from_one,
    hostile_keys_and_labels_are_text,
    no_token_and_no_secret_is_in_it,
    the_filter_takes_a_part_of_the_key,
    fifty_holds_are_shown_and_more_on_request,
    a_master_that_was_flushed_has_no_vote,
    without_a_quorum_the_verdict_says_what_ends,
)


def play(stage, test):
    try:
        test(stage)
    except AssertionError as why:
        line = why.__traceback__.tb_next.tb_lineno
        print(f"FAILED {test.__name__}, line {line}: {why}", flush=True)
        return False
    return True


def main():
    stage, good = Stage(sys.argv[1]), []
    try:
        stage.await_ready()
        good += [play(stage, test) for test in BEFORE]
        furnish(stage)
        good += [play(stage, test) for test in TESTS]
    finally:
        stage.close()
    stage = Stage(sys.argv[1], {"left": 1, "right": 1})
    try:
        stage.await_ready()
        good.append(play(stage, of_two_groups_one_has_no_quorum))
    finally:
        stage.close()
    print(f"{good.count(True)} passed, {good.count(False)} failed")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
