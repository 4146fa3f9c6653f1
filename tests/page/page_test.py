#!/usr/bin/env python3
"""The status page without a browser: page_test.py BUILD_DIR. Real masters, a real agent, hostile
keys and labels."""

import base64
import hashlib
import html.parser
import re
import sys

from stage import Stage, eventually, furnish

MANY = 1000


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


def holds_and_waiters_stand_in_their_tables(stage):
    text = stage.ask("GET", "/")[1]
    holds = {(row[0], row[1]): row[2:] for row in rows(text, "holds")}
    mode, held, valid, renewed, number, confirmed = holds["nightly/invoices", "billing-7f9c, pod 2"]
    assert mode == "exclusive" and renewed == "agent" and number.isdigit(), holds
    assert held.endswith((" s", "ms")) and valid.endswith(" s"), holds
    assert re.fullmatch("[0-5] of 5", confirmed), holds
    assert holds["import/customers", "crm-import"][3] == "caller"
    assert {row[2] for row in rows(text, "holds") if row[0] == "report/2026-11"} == {"read"}
    slots = [row[2] for row in rows(text, "holds") if row[0] == "pool/gpu"]
    assert len(set(slots)) == 2 and all(re.fullmatch("slot [0-3] of 4", each) for each in slots)
    waits = [row[:3] for row in rows(text, "waits")]
    assert waits[0] == ["nightly/invoices", "billing-7f9c, pod 3", "exclusive"], waits
    assert ["report/2026-11", "writer", "write"] in waits, waits


def masters_stand_there_with_votes_and_errors(stage):
    text = stage.ask("GET", "/")[1]
    masters = rows(text, "group-0")
    assert [row[1].split()[0] for row in masters] == ["up", "guarded", "up", "up", "down"], masters
    assert masters[0][2] == "yes" and masters[1][2].startswith("no, in "), masters
    assert masters[0][3].endswith(" ms") and masters[4][3] == "\u2013", masters
    assert re.search("refused|closed|reset", masters[4][7]) and masters[4][7].endswith(" ago")
    assert 'class="live fair"' in text and "1 is down, 1 is guarded" in text
    assert "None of the others may fail" in text


def hostile_keys_and_labels_are_text(stage):
    nasty = "tenant/42/<script>alert(1)</script>"
    text = stage.ask("GET", "/")[1]
    assert nasty in [row[0] for row in rows(text, "holds")]
    for key, label in (
        ("a/\"><img src=x onerror=alert(1)>'&amp;", "' onmouseover='alert(1)"),
        ("b/--><!--</style></title></table>{{holds}}", "\u202e\u00e4\U0001f512</td>"),
    ):
        stage.hold(key, label=label)
        for text in (stage.ask("GET", "/")[1], stage.ask("GET", "/", key=key)[1]):
            reader = Reader(text)
            assert [row[:2] for row in rows(text, "holds") if row[0] == key] == [[key, label]]
            assert reader.tags.count("script") == 1 and "img" not in reader.tags
            assert not reader.handlers, reader.handlers


def no_token_and_no_secret_is_in_it(stage):
    status, body = stage.ask("POST", "/locks/secret/one", label="shown")
    assert status == 201
    token = re.search('"token":"(.*?)"', body)[1]
    for admin in (False, True):
        status, text = stage.ask("GET", "/", admin=admin)
        assert status == 200 and "secret/one" in text
        assert token not in text and token.split(".")[0] not in text


def the_filter_takes_a_part_of_the_key(stage):
    for admin in (False, True):
        text = stage.ask("GET", "/", key="nightly", admin=admin)[1]
        assert [row[0] for row in rows(text, "holds")] == ["nightly/invoices"]
        assert {row[0] for row in rows(text, "waits")} == {"nightly/invoices"}
        assert 'value="nightly"' in text
    assert "No key contains this." in stage.ask("GET", "/", key="nobody's")[1]
    too_long = stage.ask("GET", "/", key="k" * 129)[1]
    assert len(rows(too_long, "holds")) > 1 and 'value=""' in too_long


def a_thousand_holds_are_shown_and_told_when_there_are_more(stage):
    caller = stage.send("GET", "/livez")
    caller.getresponse().read()
    for number in range(MANY + 1):
        status = 0
        while status != 201:  # a busy machine may miss a node_timeout
            caller.request("POST", f"/locks/many/{number}?label=worker-{number}")
            answer = caller.getresponse()
            answer.read()
            status = answer.status
    text = stage.ask("GET", "/", key="many/")[1]
    assert len(rows(text, "holds")) == MANY and f"Only the first {MANY} are shown" in text
    text = stage.ask("GET", "/", key="many/99")[1]
    assert len(rows(text, "holds")) == 11 and "Only the first" not in text
    assert re.search(r'id="held" value="10\d\d">1,0\d\d</data> of 10,000', text)


def without_a_quorum_the_verdict_says_so(stage):
    stage.stop("master0")
    stage.stop("master2")
    assert eventually(lambda: 'class="live bad"' in stage.ask("GET", "/")[1])
    text = stage.ask("GET", "/")[1]
    assert "<title>lockagent: Not ready</title>" in text
    assert re.search("No new locks: group main: [0-9] of 5 masters are", text)


TESTS = (
    the_policy_lets_run_what_was_built_in_and_nothing_else,
    masters_stand_there_with_votes_and_errors,
    holds_and_waiters_stand_in_their_tables,
    hostile_keys_and_labels_are_text,
    no_token_and_no_secret_is_in_it,
    the_filter_takes_a_part_of_the_key,
    a_thousand_holds_are_shown_and_told_when_there_are_more,
    without_a_quorum_the_verdict_says_so,
)


def main():
    stage, failed = Stage(sys.argv[1]), 0
    try:
        furnish(stage)
        for test in TESTS:
            try:
                test(stage)
            except AssertionError as why:
                failed += 1
                line = why.__traceback__.tb_next.tb_lineno
                print(f"FAILED {test.__name__}, line {line}: {why}")
    finally:
        stage.close()
    print(f"{len(TESTS) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
