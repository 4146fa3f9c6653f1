#!/usr/bin/env bash
# Checks what deploy/ says about metrics: the rules and their tests, the inhibitions, the runbook,
# the dashboard, and that every metric they name is one that the agent has
# (agent/metrics/families.h).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
rules=deploy/prometheus/lockagent.rules.yaml
rules_test=deploy/prometheus/lockagent.rules.test.yaml
fleet_test=deploy/prometheus/fleet_test.py
inhibitions=deploy/prometheus/alertmanager.yaml
runbook=docs/runbook.md
dashboard=deploy/grafana/lockagent.json
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
status=0

complain() {
    echo "$*" >&2
    status=1
}

# Names of all series, from the table of families: a histogram has three.
series_names() {
    tr '\n\134' '  ' <agent/metrics/families.h |
        grep -oE 'X\([A-Z_]+, *"[a-z_]+", *(COUNTER|GAUGE|HISTOGRAM)' |
        sed -E 's/.*"([a-z_]+)", *([A-Z]+)/\1 \2/' | while read -r name type; do
        if [ "$type" = HISTOGRAM ]; then
            printf '%s\n' "${name}_bucket" "${name}_sum" "${name}_count"
        else
            echo "$name"
        fi
    done
}

# The series that PromQL on stdin names, and the records that it names (those hold a colon), one on
# a line.
named() {
    sed -E "s/\"[^\"]*\"|'[^']*'//g" |
        grep -oE '[a-z_]*:?(lockagent|process)_[a-z0-9_]+(:[a-z0-9_]+)?' | sort -u
}

series_names | sort -u >"$dir/known"
[ "$(wc -l <"$dir/known")" -gt 40 ] ||
    complain "agent/metrics/families.h: no table of families found"
sed -nE 's/^ *- record: *//p' "$rules" >>"$dir/known"

# Every expression of the dashboard, its variables and Grafana's own filled in.
jq -r '[.. | objects | .expr? // empty] | .[]' "$dashboard" >"$dir/dashboard"
jq -r '.templating.list[] | select(.type == "query") | .query.query |
    sub("^label_values\\("; "") | sub(", *[a-z]+\\)$"; "")' "$dashboard" >>"$dir/dashboard"
sed -i -E 's/[$]__(rate_interval|range)/5m/g; s/[$][a-z]+/.*/g' "$dir/dashboard"

# Rules are YAML: their expressions are the lines of expr keys, and what is indented below them. In
# the tests, series are named too.
other_keys='^ *(- (alert|record)|labels|for|annotations):'
sed -nE "/^ *expr:/,/$other_keys/p" "$rules" | grep -vE "$other_keys" >"$dir/rules"
sed -nE "s/^ *- \{series: '([^{']*).*/\1/p" "$rules_test" >"$dir/rules_test"

# shellcheck disable=SC2016 # Backquotes are those of Markdown.
grep -oE '`[^`]*(lockagent|process)_[^`]*`' "$runbook" >"$dir/runbook"
for place in dashboard rules rules_test runbook; do
    named <"$dir/$place" >"$dir/named"
    [ -s "$dir/named" ] || complain "$place: names no metric at all"
    unknown=$(comm -23 "$dir/named" <(sort -u "$dir/known"))
    [ -z "$unknown" ] || complain "$place: names what the agent does not have: ${unknown//$'\n'/, }"
done

# The dashboard's expressions parse: as rules they go through promtool.
{
    echo 'groups: [{name: dashboard, rules: ['
    while IFS= read -r expression; do
        jq -nc --arg expr "$expression" \
            '{record: "dashboard:check", labels: {n: ($expr | @base64)}, expr: $expr}' |
            sed 's/$/,/'
    done <"$dir/dashboard"
    echo ']}]'
} >"$dir/dashboard.yaml"
promtool check rules "$dir/dashboard.yaml" >"$dir/said" 2>&1 || complain "$(cat "$dir/said")"

jq -e '
    ([.panels[].id] | length == (unique | length)) and
    (.uid != null) and (.schemaVersion >= 36) and (.templating.list[0].type == "datasource") and
    all(.panels[] | select(.type != "row") | .targets[]; .datasource.uid == "${datasource}") and
    all(.panels[].gridPos; .x + .w <= 24)' "$dashboard" >/dev/null ||
    complain "$dashboard: ids twice, a panel beside the grid, or a data source that is no variable"

promtool check rules "$rules" || status=1
promtool test rules "$rules_test" || status=1
deploy/prometheus/fleet_test.py "$rules" || status=1
sed -nE 's/^ *- alert: *//p' "$rules" >"$dir/alerts"
while read -r alert; do
    grep -qE "alertname=\"$alert\"|[ [(]\"$alert\"" "$rules_test" "$fleet_test" ||
        complain "$rules_test: $alert is never seen to fire"
done <"$dir/alerts"

# Each alert has a section of the runbook, which its annotation names, and each section an alert.
sed -nE 's/^## (Lockagent.*)/\1/p' "$runbook" >"$dir/sections"
differing=$(diff <(sort "$dir/alerts") <(sort "$dir/sections") || true)
[ -z "$differing" ] || complain "$runbook: sections (>) are not the alerts (<):
$differing"
sed -nE "s/^ *runbook: 'docs\/runbook.md#(.*)'/\1/p" "$rules" >"$dir/anchors"
differing=$(diff <(tr '[:upper:]' '[:lower:]' <"$dir/alerts") "$dir/anchors" || true)
[ -z "$differing" ] || complain "$rules: an annotation names another section:
$differing"
awk '/^## /{ended = 1; if (section != "" && said != "MLD") print section; section = $2; said = ""}
    /^\*\*Means\.\*\*/{said = said "M"} /^\*\*Look at\.\*\*/{said = said "L"}
    /^\*\*Do\.\*\*/{said = said "D"}
    END{if (!ended || said != "MLD") print section}' "$runbook" >"$dir/short"
[ ! -s "$dir/short" ] || complain "$runbook: not Means, Look at, Do: $(tr '\n' ' ' <"$dir/short")"

# Alertmanager: alerts that the inhibitions name exist, and the inhibitions work.
unknown=$(grep -v '^ *#' "$inhibitions" | grep -oE 'Lockagent[A-Z][A-Za-z]+' | sort -u |
    comm -23 - <(sort "$dir/alerts"))
[ -z "$unknown" ] || complain "$inhibitions: no such alerts: ${unknown//$'\n'/, }"
deploy/prometheus/inhibition_test.py "$inhibitions" || status=1
[ "$status" -ne 0 ] || echo "rules, their tests and the dashboard are sound"
exit "$status"
