# One line of `word=value` pairs -> one line of JSON.
{
    line = ""
    for (i = 1; i <= NF; i++) {
        at = index($i, "=")
        value = substr($i, at + 1)
        if (value !~ /^-?[0-9]+(\.[0-9]+)?$/)
            value = "\"" value "\""
        line = line (i > 1 ? "," : "") "\"" substr($i, 1, at - 1) "\":" value
    }
    print "{" line "}"
}
