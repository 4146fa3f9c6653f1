# Results of waiting.sh -> tables of medians over the rounds.

function median(list, n,    i, j, value) {
    for (i = 2; i <= n; i++) {
        value = list[i]
        for (j = i - 1; j >= 1 && list[j] > value; j--)
            list[j + 1] = list[j]
        list[j + 1] = value
    }
    return n == 0 ? 0 : n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2
}

function of(row, word,    round, n, list) {
    n = 0
    for (round = 1; round <= rounds; round++)
        if ((row, round, word) in result)
            list[++n] = result[row, round, word]
    return median(list, n)
}

# Both figures of each round divided, and the median of that.
function ratio(row, above, below,    round, n, list) {
    n = 0
    for (round = 1; round <= rounds; round++)
        if (result[row, round, below] > 0)
            list[++n] = result[row, round, above] / result[row, round, below]
    return median(list, n)
}

# What a grant at another agent than the one before cost: all commands, less what those within an agent cost by the figure for one agent.
function commands_between(row, one,    round, n, list, all, share, each) {
    n = 0
    for (round = 1; round <= rounds; round++) {
        share = result[row, round, "between_share"]
        if (share <= 0 || result[one, round, "all_grants"] <= 0)
            continue
        each = result[one, round, "commands"] / result[one, round, "all_grants"]
        all = result[row, round, "commands"] / result[row, round, "all_grants"]
        list[++n] = (all - each * (1 - share)) / share
    }
    return median(list, n)
}

function name_of(client,    part) {
    split(client, part, "-")
    if (part[1] == "agents")
        return (part[2] == 1 ? "one agent" : part[2] " agents") (part[3] == "fair" ? ", fair" : "")
    return (part[2] == 1 ? "SET NX" : "Redlock") ", " (part[3] == 0 ? "no pause" : part[3] " ms")
}

{
    split("", words)
    for (i = 1; i <= NF; i++) {
        at = index($i, "=")
        words[substr($i, 1, at - 1)] = substr($i, at + 1)
    }
    row = words["section"] " " words["hold"] " " words["client"]
    if (!(row in known)) {
        known[row] = 1
        rows[++row_count] = row
        client_of[row] = words["client"]
        hold_of[row] = words["hold"]
        section_of[row] = words["section"]
        callers_of[row] = words["callers"]
        if (words["section"] == "contest")
            contenders = words["callers"]
    }
    if (words["round"] + 0 > rounds)
        rounds = words["round"] + 0
    for (word in words)
        result[row, words["round"], word] = words[word] + 0
    if (words["refused"] + words["unanswered"] > 0 && words["client"] ~ /^agents/)
        print "SPOILED: " $0
}

END {
    print ""
    print "One key, " contenders " callers. Waits in ms, release to next grant in us (p50); commands to all masters per grant."
    print ""
    format = "%-4s %-18s | %8s %7s | %8s %8s %8s %8s %8s | %9s %9s | %8s %8s | %7s %7s\n"
    printf format, "hold", "client", "grants/s", "held", "wait", "wait", "longest", "ideal", "longest/", "commands", "of those", "release", \
        "between", "again", "between"
    printf format, "ms", "", "", "ms", "p50", "p99", "", "", "median", "per grant", "between", "to grant", "agents", "same", "agents"
    for (i = 1; i <= row_count; i++) {
        row = rows[i]
        if (section_of[row] != "contest")
            continue
        one = "contest " hold_of[row] " agents-1-any"
        between = of(row, "between_share")
        printf format, hold_of[row], name_of(client_of[row]), sprintf("%.0f", of(row, "grants_per_s")), \
            sprintf("%.2f", of(row, "held_us") / 1000), sprintf("%.1f", of(row, "wait_p50_us") / 1000), \
            sprintf("%.1f", of(row, "wait_p99_us") / 1000), sprintf("%.1f", of(row, "wait_longest_us") / 1000), \
            hold_of[row] * callers_of[row], sprintf("%.2f", ratio(row, "wait_longest_us", "wait_p50_us")), \
            sprintf("%.1f", ratio(row, "commands", "all_grants")), \
            (between > 0 ? sprintf("%.1f", commands_between(row, one)) : "-"), \
            sprintf("%.0f", of(row, "within_p50_us")), (between > 0 ? sprintf("%.0f", of(row, "between_p50_us")) : "-"), \
            sprintf("%.1f%%", 100 * of(row, "same_caller_share")), sprintf("%.1f%%", 100 * between)
    }
    print ""
    for (i = 1; i <= row_count; i++)
        if (section_of[rows[i]] == "free")
            printf "One caller alone, hold %s ms: its acquire takes %.0f us (p50), %.0f us (p99).\n", hold_of[rows[i]], \
                of(rows[i], "wait_p50_us"), of(rows[i], "wait_p99_us")
    for (i = 1; i <= row_count; i++) {
        row = rows[i]
        if (section_of[row] != "park")
            continue
        if (client_of[row] ~ /^agents/) {
            printf "\n%d callers wait for %d keys that others hold, and nothing happens:\n\n", callers_of[row], callers_of[row]
            printf "agent: %.1f KiB resident per connection, %.1f more per waiter\n", \
                (of(row, "connected") - of(row, "before")) / callers_of[row], (of(row, "waiting") - of(row, "connected")) / callers_of[row]
        }
        printf "%-16s %9.1f commands/s, agent %5.1f%%, masters %5.1f%% of a core\n", name_of(client_of[row]), \
            of(row, "commands") / of(row, "rest"), of(row, "agent_ms") / of(row, "rest") / 10, of(row, "redis_ms") / of(row, "rest") / 10
    }
}
