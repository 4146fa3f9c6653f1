"""The measurements of the benchmark, as Markdown: medians over the rounds, ratios within each."""
import collections
import statistics
import textwrap

import plot

BEGINS = "<!-- measured by make bench WRITE=1; do not edit -->\n"
ENDS = "<!-- end of what was measured -->\n"
CONTENDERS = (
    ("lockagent", "lockagent"),
    ("nothing", "do-nothing agent"),
    ("http", "HTTP alone"),
    ("bare", "bare client"),
    ("redsync", "redsync"),
    ("redis-py", "redis-py, one master"),
)
PLOTTED = ("lockagent", "nothing", "bare", "redsync", "redis-py")
BUSY = 0.1  # cores of others' load beyond which figures are called noise
COLUMNS = 120


class Results:
    """Records by (section, row, contestant), and in that by round; `few` is how many callers are
    few.
    """

    def __init__(self, result):
        self.few = result["about"]["few"]
        records = result["records"]
        self.rows = collections.defaultdict(lambda: collections.defaultdict(list))
        for record in records:
            place = record["section"], record["row"], record["who"]
            self.rows[place][record["round"]].append(record)

    def names(self, section, who=None):
        """The rows of a section, in their order."""
        found = [row for s, row, w in self.rows if s == section and who in (None, w)]
        return list(dict.fromkeys(found))

    def rounds(self, place, word):
        """{round: value}, of the rounds that have one."""
        found = {}
        for number, records in self.rows.get(place, {}).items():
            values = [record[word] for record in records if word in record]
            if values:
                found[number] = statistics.median(values)
        return found

    def value(self, section, row, who, word):
        values = self.rounds((section, row, who), word).values()
        return statistics.median(values) if values else None

    def ratio(self, above, below, word, word_below=None):
        over, under = self.rounds(above, word), self.rounds(below, word_below or word)
        ratios = [over[n] / under[n] for n in over if under.get(n)]
        return statistics.median(ratios) if ratios else None


def whole(value):
    return "-" if value is None else f"{value:,.0f}"


def tenths(value):
    return "-" if value is None else f"{value:.1f}"


def times(value):
    return "-" if value is None else f"{value:.2f}"


def share(value):
    return "-" if value is None else f"{100 * value:.2f} %"


def ms(us):
    return "-" if us is None else f"{us / 1000:.2f}"


def paragraph(text):
    return textwrap.fill(text, COLUMNS, break_long_words=False, break_on_hyphens=False) + "\n"


def table(head, rows):
    lines = ["| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *rows)]
    return "\n".join(lines) + "\n"


# ---- the goals ----


class Goal:
    """A figure, and the bound that it must keep; `text` shows both."""

    def __init__(self, what, figure, compare, bound, text, measured="", beside=""):
        self.what, self.figure, self.compare, self.bound = what, figure, compare, bound
        self.text, self.measured, self.beside = text, measured, beside

    def cells(self):
        if self.figure is None:
            return [self.what, self.measured, self.beside, "-", self.sign(), "not measured"]
        kept = self.figure >= self.bound if self.compare == ">=" else self.figure <= self.bound
        cells = [self.what, self.measured, self.beside, self.text(self.figure), self.sign()]
        return cells + ["yes" if kept else "**no**"]

    def sign(self):
        return {">=": "at least ", "<=": "at most "}[self.compare] + self.text(self.bound)


def against(results, what, above, below, word, compare, bound, name=None):
    """A ratio of the same word in two places, or of two words in the same rounds."""
    word_below = word if isinstance(word, str) else word[1]
    word = word if isinstance(word, str) else word[0]
    beside = whole(results.value(*below, word_below)) + (f" ({name})" if name else "")
    figure = results.ratio(above, below, word, word_below)
    measured = whole(results.value(*above, word))
    return Goal(what, figure, compare, bound, times, measured, beside)


def refused_share(results, row):
    place = "pairs", row, "lockagent"
    refused, pairs = results.value(*place, "refused"), results.value(*place, "pairs")
    return None if refused is None else refused / (refused + pairs)


def goals_of_pairs(results):
    def at(row, who="lockagent"):
        return "pairs", row, who

    for row, bound in ("64", 4.5), ("16", 3), ("1", 1.5):
        what = f"pairs/s at {row} caller" + ("" if row == "1" else "s")
        place = at(row), at(row, "redsync")
        yield against(results, what, *place, "pairs_per_s", ">=", bound, "redsync")
    what = "us of the masters for a pair, at 64"
    place = at("64"), at("64", "bare")
    yield against(results, what, *place, "masters_cpu_us", "<=", 1.6, "bare client")
    what = "us of the agent for a pair, at 64"
    place = at("64"), at("64", "nothing")
    yield against(results, what, *place, "agent_cpu_us", "<=", 1.3, "do-nothing agent")
    for row, bound in ("1000", 0.95), ("4000", 0.85):
        what = f"pairs/s at {int(row):,} callers"
        yield against(results, what, at(row), at("64"), "pairs_per_s", ">=", bound, "at 64")
        refused = refused_share(results, row)
        yield Goal(f"refused at {int(row):,} callers", refused, "<=", 0.001, share)


def goals_of_holds(results):
    if rows := results.names("held"):
        place, none = ("held", rows[-1], "lockagent"), ("held", rows[0], "lockagent")
        many = f"with {int(rows[-1]):,} held locks that are renewed"
        yield Goal(
            f"a core of the agent, {many}", results.value(*place, "agent_core"), "<=", 0.05, share
        )
        yield Goal(
            f"a core of each master, {many}",
            results.value(*place, "master_core"),
            "<=",
            0.05,
            share,
        )
        what = f"pairs/s at {results.few} callers, {many}"
        yield against(results, what, place, none, "pairs_per_s", ">=", 0.85, "with none")
        p99 = results.value(*place, "livez_p99_us")
        yield Goal(f"`/livez` p99 in ms, {many}", p99, "<=", 5000, ms)
        each = results.value(*place, "lock_bytes")
        yield Goal("bytes for a held lock, its name of 14 to 18 counted", each, "<=", 316, whole)
    if rows := results.names("leased"):
        place, none = ("leased", rows[-1], "lockagent"), ("leased", rows[0], "lockagent")
        what = f"pairs/s at {results.few} callers, with {int(rows[-1]):,} held locks that are not"
        yield against(results, what, place, none, "pairs_per_s", ">=", 0.95, "with none")
    if rows := results.names("idle"):
        place, one = ("idle", rows[-1], "lockagent"), ("idle", rows[0], "lockagent")
        each = results.value(*place, "connection_bytes")
        yield Goal("bytes for an idle connection", each, "<=", 8192, whole)
        what = f"pairs/s at {results.few} callers, with {int(rows[-1]):,} idle connections"
        yield against(results, what, place, one, "pairs_per_s", ">=", 0.95, f"with {rows[0]}")


def goals_of_faults(results):
    none = "faults", "none", "lockagent"
    for row in results.names("faults")[1:]:
        bound = 0.95 if row.startswith("one") else 0.9
        place = "faults", row, "lockagent"
        what = f"pairs/s, {row}"
        yield against(results, what, place, none, "pairs_per_s", ">=", bound, "none")
        what = f"pairs/s in the second of the fault, {row}"
        yield against(results, what, place, none, "first_pairs_per_s", ">=", bound, "none")


def goals_of_waiting(results):
    for row in [row for row in results.names("contention") if row != "0"]:
        for who in "one agent", "three agents", "three agents, fair":
            place, words = ("contention", row, who), ("wait_longest_us", "wait_p50_us")
            what = f"us of the longest wait, hold {row} ms, {who}"
            yield against(results, what, place, place, words, "<=", 1.1, "median")


def goals_of_kinds(results):
    names = results.names("kinds", "mutex")
    if not names:
        return
    mixed, many = names[0], names[-1]
    place, mutex = ("kinds", mixed, "read-mostly"), ("kinds", mixed, "mutex")
    what = f"grants/s at {mixed} callers, 95 % of them to read"
    yield against(results, what, place, mutex, "grants_per_s", ">=", 5, "mutex")
    place, mutex = ("kinds", many, "permits"), ("kinds", many, "mutex")
    words = "grants_per_permit_s", "grants_per_s"
    what = f"grants/s of each of 8 permits at {many} callers"
    yield against(results, what, place, mutex, words, ">=", 0.95, "mutex")


def goals_of_readers(results):
    names = results.names("readers", "read")
    for row in names[1:]:
        place, none = ("readers", row, "read"), ("readers", names[0], "read")
        beside = f"{tenths(results.value(*none, 'read_us'))} (none)"
        measured = tenths(results.value(*place, "read_us"))
        figure = results.ratio(place, none, "read_us")
        what = f"us of a master for a read beside {int(row):,} readers"
        yield Goal(what, figure, "<=", 1.2, times, measured, beside)


def goals_of_starts(results):
    place = "start", "first lock", "lockagent"
    first = results.value(*place, "first_lock_ms")
    yield Goal("ms from the start to the first lock", first, "<=", 15, tenths)
    yield Goal("bytes of memory, idle", results.value(*place, "rss_bytes"), "<=", 6.0e6, whole)


def goals(results):
    sections = {
        "pairs": goals_of_pairs,
        "held": goals_of_holds,
        "faults": goals_of_faults,
        "contention": goals_of_waiting,
        "kinds": goals_of_kinds,
        "readers": goals_of_readers,
        "start": goals_of_starts,
    }
    measured = {section for section, _, _ in results.rows}
    if measured & {"idle", "leased"}:
        measured.add("held")
    found = [goal for name in sections if name in measured for goal in sections[name](results)]
    head = ["what", "measured", "beside it", "figure, or ratio", "goal", "reached"]
    return "### Against the goals\n\n" + table(head, [goal.cells() for goal in found])


# ---- everything else ----


def pairs(results):
    names = results.names("pairs")
    present = [(who, name) for who, name in CONTENDERS if results.names("pairs", who)]
    rows, details = [], []
    for row in names:
        ours = "pairs", row, "lockagent"
        cells = [f"{int(row):,}"]
        cells += [whole(results.value("pairs", row, who, "pairs_per_s")) for who, _ in present]
        for who in "redsync", "bare":
            cells.append(times(results.ratio(ours, ("pairs", row, who), "pairs_per_s")))
        rows.append(cells)
        p50, p99 = (ms(results.value(*ours, f"pair_{p}_us")) for p in ("p50", "p99"))
        cells = [f"{int(row):,}", p50, p99, share(refused_share(results, row))]
        cells.append(times(results.ratio(ours, ("pairs", "64", "lockagent"), "pairs_per_s")))
        details.append(cells)
    head = ["callers", *(name for _, name in present), "lockagent / redsync", "lockagent / bare"]
    text = "### Pairs per second\n\n" + table(head, rows)
    head = ["callers", "a pair takes, p50 (ms)", "p99 (ms)", "refused", "pairs/s, to those at 64"]
    text += "\nThe same runs of lockagent:\n\n" + table(head, details)
    return text + "\n" + cpu(results, present)


def cpu(results, present):
    rows = []
    for row in [row for row in ("1", "16", "64") if row in results.names("pairs")]:
        for who, name in present:
            words = [
                results.value("pairs", row, who, f"{word}_cpu_us")
                for word in ("masters", "agent", "client")
            ]
            rows.append([row, name, *map(tenths, words), tenths(sum(filter(None, words)))])
    head = ["callers", "", "masters", "agent", "client", "all"]
    return "CPU of one pair, in us; masters are all of them together:\n\n" + table(head, rows)


def faults(results):
    none = "faults", "none", "lockagent"
    rows = []
    for row in results.names("faults"):
        place = "faults", row, "lockagent"
        cells = [row]
        for word in "pairs_per_s", "first_pairs_per_s":
            cells += [whole(results.value(*place, word)), times(results.ratio(place, none, word))]
        cells += [ms(results.value(*place, f"pair_{p}_us")) for p in ("p99", "max")]
        cells.append(whole(results.value(*place, "refused")))
        rows.append(cells)
    head = ["masters that fail", "pairs/s", "ratio", "in the first second", "ratio"]
    head += ["a pair takes, p99 (ms)", "longest (ms)", "refused"]
    return "### Masters that fail under load\n\n" + table(head, rows)


def held(results):
    names = results.names("held")
    rows = []
    for row in names:
        place = "held", row, "lockagent"
        cells = [f"{int(row):,}"]
        cells += [share(results.value(*place, word)) for word in ("agent_core", "master_core")]
        cells += [ms(results.value(*place, "livez_rest_p99_us"))]
        cells += [whole(results.value(*place, "pairs_per_s"))]
        cells += [times(results.ratio(place, ("held", names[0], "lockagent"), "pairs_per_s"))]
        cells += [ms(results.value(*place, "livez_p99_us"))]
        cells += [whole(results.value(*place, "lock_bytes"))]
        rows.append(cells)
    head = ["held locks", "agent, of a core", "each master, of a core", "`/livez` p99 (ms)"]
    head += [
        f"pairs/s at {results.few} callers",
        "ratio",
        "`/livez` p99 then (ms)",
        "bytes per lock",
    ]
    return "### Held locks that the watchdog renews\n\n" + table(head, rows)


def idle(results):
    names, rows = results.names("idle"), []
    for row in names:
        place = "idle", row, "lockagent"
        cells = [f"{int(row):,}", whole(results.value(*place, "pairs_per_s"))]
        cells += [times(results.ratio(place, ("idle", names[0], "lockagent"), "pairs_per_s"))]
        cells += [whole(results.value(*place, "connection_bytes"))]
        cells += [whole(results.value(*place, "waiter_bytes"))]
        cells += [share(results.value(*place, "waiters_core"))]
        cells += [whole(results.value(*place, "waiters_commands_per_s"))]
        rows.append(cells)
    head = [
        "idle connections",
        f"pairs/s at {results.few} callers",
        "ratio",
        "bytes per connection",
    ]
    head += ["more, when each waits for a key", "agent then, of a core", "commands/s to masters"]
    return "### Idle connections, and callers that wait for keys of others\n\n" + table(head, rows)


def contention(results):
    rows = []
    for section, row, who in results.rows:
        if section != "contention":
            continue
        place = section, row, who
        cells = [row, who, whole(results.value(*place, "grants_per_s"))]
        cells += [ms(results.value(*place, f"wait_{p}_us")) for p in ("p50", "p99", "longest")]
        cells += [times(results.ratio(place, place, "wait_longest_us", "wait_p50_us"))]
        cells += [tenths(results.value(*place, "commands"))]
        cells += [share(results.value(*place, "same_caller_share"))]
        cells += [
            whole(results.value(*place, f"{where}_p50_us")) for where in ("within", "between")
        ]
        rows.append(cells)
    head = ["hold (ms)", "", "grants/s", "wait p50 (ms)", "p99", "longest", "longest / p50"]
    head += ["commands per grant", "same caller again", "release to grant (us)", "between agents"]
    return "### One key for all\n\n" + table(head, rows)


def kinds(results):
    rows = []
    for section, row, who in results.rows:
        if section != "kinds":
            continue
        place = section, row, who
        cells = [row, who, whole(results.value(*place, "grants_per_s"))]
        cells += [times(results.ratio(place, (section, row, "mutex"), "grants_per_s"))]
        cells += [whole(results.value(*place, "most_holding"))]
        cells += [ms(results.value(*place, f"wait_{p}_us")) for p in ("p50", "p99", "longest")]
        cells += [ms(results.value(*place, "write_wait_longest_us") or None)]
        cells += [tenths(results.value(*place, "commands"))]
        rows.append(cells)
    head = ["callers", "", "grants/s", "to a mutex", "most at once", "wait p50 (ms)", "p99"]
    head += ["longest", "longest of a writer", "commands per grant"]
    return "### One key with several holders\n\n" + table(head, rows)


def readers(results):
    names = results.names("readers", "read")
    rows = []
    for row in names:
        cells = [f"{int(row):,}"]
        for who in "read", "read and release":
            place, none = ("readers", row, who), ("readers", names[0], who)
            cells += [tenths(results.value(*place, "read_us"))]
            cells += [times(results.ratio(place, none, "read_us"))]
        rows.append(cells)
    head = ["live readers", "a read (us of a master)", "ratio", "with its release", "ratio"]
    return "### A read beside other readers\n\n" + table(head, rows)


def start(results):
    place = "start", "first lock", "lockagent"
    first = tenths(results.value(*place, "first_lock_ms"))
    memory = whole(results.value(*place, "rss_bytes"))
    text = f"From the start of the program to its first lock: {first} ms. It uses {memory} bytes of"
    return "### Start\n\n" + paragraph(text + " memory then.")


def tls(results):
    rows = []
    for row in results.names("tls"):
        clear, over = ("tls", row, "lockagent"), ("tls", row, "over TLS")
        cells = [f"{int(row):,}"]
        for word, show in (
            ("pairs_per_s", whole),
            ("pair_p50_us", ms),
            ("agent_cpu_us", tenths),
            ("masters_cpu_us", tenths),
        ):
            cells += [show(results.value(*place, word)) for place in (clear, over)]
            cells.append(times(results.ratio(over, clear, word)))
        rows.append(cells)
    head = ["callers", "pairs/s", "over TLS", "ratio", "a pair takes, p50 (ms)", "over TLS"]
    head += ["ratio", "us of the agent for a pair", "over TLS", "ratio"]
    head += ["us of the masters", "over TLS", "ratio"]
    return "### TLS to the masters\n\n" + table(head, rows)


def noise(result):
    """Returns why the figures are not to be believed; empty if they may be."""
    load = statistics.median([record["foreign"] for record in result["records"]] or [0])
    if result["about"]["quick"]:
        return "the quick form, which shows that all rows work, and not how fast"
    return f"noise: others used {load:.2f} cores in the median" if load > BUSY else ""


def foreign(result):
    loads = [record["foreign"] for record in result["records"]] or [0]
    text = f"Others' load on the machine: {statistics.median(loads):.2f} cores in the median of"
    text += f" all runs, {max(loads):.2f} in the worst."
    why = noise(result)
    return text + (f" **To be measured again; {why}.**" if why else "")


def conditions(about):
    text = f"The program is of the sources `{about['sources']}`. Five masters on loopback TCP,"
    text += f" appendonly {about['appendonly']}; {about['machine']};"
    text += f" medians of {about['rounds']} interleaved rounds, windows of {about['seconds']:g} s."
    beside = ", ".join(about["peers"].values())
    text += f" Beside it: {beside or 'no client of others'}."
    for name, why in about["skipped"].items():
        text += f" Skipped: {name}, {why}."
    return text


def markdown(result):
    results = Results(result)
    parts = [paragraph(conditions(result["about"])), paragraph(foreign(result))]
    parts.append(goals(results))
    for section in pairs, faults, held, idle, contention, kinds, readers, start, tls:
        if results.names(section.__name__):
            parts.append(section(results))
    return "\n".join(parts)


def picture(result):
    """The plot of the pairs as SVG; None if there are none."""
    results, lines = Results(result), []
    for who, name in CONTENDERS:
        points = [
            (int(row), results.value("pairs", row, who, "pairs_per_s"))
            for row in results.names("pairs", who)
        ]
        if who in PLOTTED and points:
            lines.append((who, name, points))
    return plot.svg(lines, noise(result)) if lines else None


def write(top, result):
    """Into docs/performance.md, between its markers, and the plot beside it."""
    path = top / "docs/performance.md"
    before, begins, rest = path.read_text().partition(BEGINS)
    _, ends, after = rest.partition(ENDS)
    if not begins or not ends:
        raise SystemExit(f"bench: {path} lacks its markers")
    text = markdown(result)
    if svg := picture(result):
        (top / "docs/performance.svg").write_text(svg)
        text = "![Pairs per second over callers](performance.svg)\n\n" + text
    path.write_text(before + begins + "\n" + text + "\n" + ends + after)
