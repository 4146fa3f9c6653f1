# Results -> tables of medians. A ratio is the median of the ratios within each round, because rounds differ more than what is compared.
# A run with all masters up in which requests were refused or not answered is named: on a machine that is busy with other things masters miss
# their deadlines. Exits with 1 when those are more than one in twenty pairs: then the rates mean nothing.

function median(list, n,    i, j, value) {
    for (i = 2; i <= n; i++) {
        value = list[i]
        for (j = i - 1; j >= 1 && list[j] > value; j--)
            list[j + 1] = list[j]
        list[j + 1] = value
    }
    return n == 0 ? 0 : n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2
}

function of(row, client, word,    round, n, list) {
    n = 0
    for (round = 1; round <= rounds; round++)
        if ((row, client, round, word) in result)
            list[++n] = result[row, client, round, word]
    return median(list, n)
}

function ratio(row_a, client_a, row_b, client_b, word,    round, n, list, under) {
    n = 0
    for (round = 1; round <= rounds; round++) {
        under = result[row_b, client_b, round, word]
        if (under > 0)
            list[++n] = result[row_a, client_a, round, word] / under
    }
    return median(list, n)
}

{
    split("", words)
    for (i = 1; i <= NF; i++) {
        at = index($i, "=")
        words[substr($i, 1, at - 1)] = substr($i, at + 1)
    }
    row = words["section"] " " words["fencing"] " " words["callers"] " " words["masters"]
    if (!(row in known)) {
        known[row] = 1
        rows[++row_count] = row
    }
    if (words["round"] + 0 > rounds)
        rounds = words["round"] + 0
    for (word in words)
        result[row, words["client"], words["round"], word] = words[word] + 0
    amiss = words["refused"] + words["broken"] + words["unanswered"]
    if (words["masters"] == "up" && amiss > 0) {
        print "SPOILED: " $0
        spoiled += amiss * 20 > words["pairs"]
    }
}

END {
    print ""
    print "Acquire + release over five masters: the agent over HTTP next to the bare client. Times in us; CPU in us per pair."
    print ""
    format = "%-7s %7s | %9s %7s %7s %7s %7s | %9s %7s %7s | %9s | %9s %9s %9s %9s %9s\n"
    printf format, "", "", "agent", "acquire", "", "pair", "", "bare", "acquire", "", "ratio", "agent", "only", "redis", "bare", "redis"
    printf format, "fencing", "callers", "pairs/s", "p50", "p99", "p50", "p99", "pairs/s", "p50", "p99", "of rates", "CPU", "HTTP", "CPU", \
        "CPU", "CPU"
    for (i = 1; i <= row_count; i++) {
        row = rows[i]
        split(row, part, " ")
        if (part[1] != "bare")
            continue
        printf "%-7s %7s | %9.0f %7.0f %7.0f %7.0f %7.0f | %9.0f %7.0f %7.0f | %9.2f | %9.1f %9.1f %9.1f %9.1f %9.1f\n", part[2], part[3], \
            of(row, "agent", "pairs_per_s"), of(row, "agent", "acquire_p50_us"), of(row, "agent", "acquire_p99_us"), \
            of(row, "agent", "pair_p50_us"), of(row, "agent", "pair_p99_us"), of(row, "bare", "pairs_per_s"), \
            of(row, "bare", "acquire_p50_us"), of(row, "bare", "acquire_p99_us"), ratio(row, "agent", row, "bare", "pairs_per_s"), \
            of(row, "agent", "agent_cpu_us"), of("http off " part[3] " up", "http", "agent_cpu_us"), \
            of(row, "agent", "redis_cpu_us"), of(row, "bare", "client_cpu_us"), \
            of(row, "bare", "redis_cpu_us")
    }
    print ""
    print "The agent when masters fail under load, in the instant in which the measuring begins. Fencing on; ratio to all up in the same round."
    print ""
    format = "%-16s %7s | %9s %8s | %7s %7s %8s | %7s %7s %8s | %8s %8s | %9s\n"
    printf format, "", "", "", "", "acquire", "", "", "pair", "", "", "refused", "unan-", "agent"
    printf format, "masters", "callers", "pairs/s", "ratio", "p50", "p99", "max", "p50", "p99", "max", "", "swered", "CPU"
    name["up"] = "all up"; name["stopped"] = "1 stopped"; name["killed"] = "1 killed"; name["both"] = "stopped + killed"
    for (i = 1; i <= row_count; i++) {
        row = rows[i]
        split(row, part, " ")
        if (part[1] != "faults")
            continue
        printf "%-16s %7s | %9.0f %8.2f | %7.0f %7.0f %8.0f | %7.0f %7.0f %8.0f | %8.0f %8.0f | %9.1f\n", name[part[4]], part[3], \
            of(row, "agent", "pairs_per_s"), ratio(row, "agent", "faults " part[2] " " part[3] " up", "agent", "pairs_per_s"), \
            of(row, "agent", "acquire_p50_us"), of(row, "agent", "acquire_p99_us"), of(row, "agent", "acquire_max_us"), \
            of(row, "agent", "pair_p50_us"), of(row, "agent", "pair_p99_us"), of(row, "agent", "pair_max_us"), \
            of(row, "agent", "refused") + of(row, "agent", "broken"), of(row, "agent", "unanswered"), of(row, "agent", "agent_cpu_us")
    }
    exit spoiled > 0
}
