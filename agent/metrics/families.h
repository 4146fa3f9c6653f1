/* The one table of metric families: it drives registration, counting, rendering, the table of
 * docs/metrics.md, and what rules and dashboards in deploy/ may name (deploy/check.sh). */
#ifndef LOCKAGENT_METRICS_FAMILIES_H
#define LOCKAGENT_METRICS_FAMILIES_H

#include <stddef.h>
#include <stdint.h>

/* X(id, label names as people are shown them). The values of each are known from the start, so that
 * every series is there, as 0, before anything has happened. */
#define LABELS(X)                                                                                  \
    X(NONE, "")                                                                                    \
    X(BUILD, "`version`")                                                                          \
    X(POLICY, "`policy`")   /* the policy's `match` pattern */                                     \
    X(ATTEMPT, "`outcome`") /* how an acquire round ended */                                       \
    X(CAUSE, "`cause`")     /* what set an acquire round off */                                    \
    X(ANSWER, "`outcome`")  /* how an acquire request was answered */                              \
    X(RENEWAL, "`outcome`")                                                                        \
    X(REASON, "`reason`")                                                                          \
    X(ELSEWHERE, "`reason`") /* Reason of a hold that did not end here. */                         \
    X(GROUP, "`group`")                                                                            \
    X(MASTER, "`group`, `master`") /* host:port or the path of a socket */                         \
    X(STATE, "`state`")                                                                            \
    X(OP, "`op`")                                                                                  \
    X(RESULT, "`outcome`") /* ok, error, lost, not_sent */                                         \
    X(CLASS, "`class`")    /* Class of an error reply (D5.5). */                                   \
    X(FAULT, "`fault`")    /* surplus, malformed, oversized */                                     \
    X(TLS_FAULT, "`fault`")                                                                        \
    X(ROUTE, "`route`")                                                                            \
    X(METHOD, "`method`")                                                                          \
    X(STATUS, "`status`")    /* 2xx, 4xx, 5xx: no route sends another class */                     \
    X(RESTORED, "`outcome`") /* Outcome of a hold in the journal. */                               \
    X(RELOAD, "`outcome`")

/* Upper bounds of histogram buckets in millionths: microseconds, or parts per million of a
 * ratio. */
#define BUCKET_SETS(X)                                                                             \
    X(PLAIN, 0) /* no histogram */                                                                 \
    X(FAST, 100, 250, 500, 1000, 2500, 5000, 10000, 25000, 50000, 100000, 250000, 500000, 1000000) \
    X(WAIT, 100, 250, 500, 1000, 2500, 5000, 10000, 25000, 50000, 100000, 250000, 500000, 1000000, \
      2500000, 5000000, 10000000, 30000000, 60000000, 300000000)                                   \
    X(HOLD, 1000, 5000, 10000, 50000, 100000, 500000, 1000000, 5000000, 10000000, 30000000,        \
      60000000, 300000000, 600000000, 1800000000, 3600000000)                                      \
    X(MARGIN, 10000, 50000, 100000, 250000, 500000, 1000000, 2500000, 5000000, 10000000, 20000000, \
      30000000, 60000000, 300000000, 1800000000)                                                   \
    X(SHARE, 50000, 100000, 150000, 200000, 250000, 300000, 400000, 500000, 600000, 700000,        \
      800000, 900000, 1000000)                                                                     \
    X(TRIES, 1000000, 2000000, 3000000, 4000000, 8000000, 16000000, 64000000)                      \
    X(LAG, 100, 500, 1000, 5000, 10000, 25000, 50000, 100000, 250000, 500000, 1000000, 5000000)

/* X(id, name, type, unit, first label, second label, third label, buckets, help). Unit MICRO: the
 * value is kept in millionths. */
#define FAMILIES(X)                                                                                \
    X(BUILD_INFO, "lockagent_build_info", GAUGE, WHOLE, BUILD, NONE, NONE, PLAIN,                  \
      "Always 1; the label names the version of this agent.")                                      \
    /* The promise: locks taken, kept, lost. */                                                    \
    X(ACQUIRE_ATTEMPTS, "lockagent_acquire_attempts_total", COUNTER, WHOLE, POLICY, ATTEMPT, NONE, \
      PLAIN, "Acquire rounds over the masters of a group, by how they were decided.")              \
    X(ACQUIRE_CAUSES, "lockagent_acquire_causes_total", COUNTER, WHOLE, POLICY, CAUSE, NONE,       \
      PLAIN,                                                                                       \
      "Acquire rounds by what set them off: arrival of a request, handover by a holder here, "     \
      "message of a release, "                                                                     \
      "subscribed (to messages), ttl (of the holder has run out), back_off, sat_out (after "       \
      "handover_max).")                                                                            \
    X(ACQUIRE_REQUESTS, "lockagent_acquire_requests_total", COUNTER, WHOLE, POLICY, ANSWER, NONE,  \
      PLAIN, "Acquire requests that reached the lock core, by how they were answered.")            \
    X(ACQUIRE_SECONDS, "lockagent_acquire_duration_seconds", HISTOGRAM, MICRO, POLICY, NONE, NONE, \
      FAST, "Time from the start of an acquire round to its decision.")                            \
    X(WAIT_SECONDS, "lockagent_wait_duration_seconds", HISTOGRAM, MICRO, POLICY, NONE, NONE, WAIT, \
      "Time from the arrival of an acquire request to its answer, waiting for other holders "      \
      "included.")                                                                                 \
    X(HOLD_SECONDS, "lockagent_hold_duration_seconds", HISTOGRAM, MICRO, POLICY, NONE, NONE, HOLD, \
      "Time that locks were held until they were released or lost.")                               \
    X(RENEWALS, "lockagent_renewals_total", COUNTER, WHOLE, POLICY, RENEWAL, NONE, PLAIN,          \
      "Renewal rounds: renewed, or failed (not confirmed by a quorum; the lease may still be "     \
      "valid).")                                                                                   \
    X(MARGIN_SECONDS, "lockagent_renewal_margin_seconds", HISTOGRAM, MICRO, POLICY, NONE, NONE,    \
      MARGIN,                                                                                      \
      "Validity that was left when a renewal completed: the leading indicator of lost locks.")     \
    X(MARGIN_RATIO, "lockagent_renewal_margin_ratio", HISTOGRAM, MICRO, POLICY, NONE, NONE, SHARE, \
      "Validity that was left when a renewal completed, as a share of the lease.")                 \
    X(LOST, "lockagent_locks_lost_total", COUNTER, WHOLE, POLICY, REASON, NONE, PLAIN,             \
      "Holds that ended without a release, by reason.")                                            \
    X(ENDED_ELSEWHERE, "lockagent_locks_ended_elsewhere_total", COUNTER, WHOLE, POLICY, ELSEWHERE, \
      NONE, PLAIN,                                                                                 \
      "Holds that ended here because another agent adopted them (moved), or because their key "    \
      "was gone from the masters (gone: released at another agent, or deleted by hand).")          \
    X(RELEASES, "lockagent_releases_total", COUNTER, WHOLE, POLICY, NONE, NONE, PLAIN,             \
      "Holds that ended by a release.")                                                            \
    X(ADOPTIONS, "lockagent_adoptions_total", COUNTER, WHOLE, POLICY, NONE, NONE, PLAIN,           \
      "Holds of an earlier run, or of another agent, that were adopted by their token.")           \
    X(HELD, "lockagent_locks_held", GAUGE, WHOLE, POLICY, NONE, NONE, PLAIN, "Locks held now.")    \
    X(SLOTS_HELD, "lockagent_slots_held", GAUGE, WHOLE, POLICY, NONE, NONE, PLAIN,                 \
      "Slots of semaphores held now; only of policies with more than one permit.")                 \
    X(SLOT_ATTEMPTS, "lockagent_slot_attempts_per_grant", HISTOGRAM, MICRO, POLICY, NONE, NONE,    \
      TRIES,                                                                                       \
      "Acquire rounds that it took to find a free slot of a semaphore; a hand-over takes "         \
      "one.")                                                                                      \
    X(READ, "lockagent_locks_read", GAUGE, WHOLE, POLICY, NONE, NONE, PLAIN,                       \
      "Locks held now that are reads, of those of lockagent_locks_held.")                          \
    X(LOCKS_LIMIT, "lockagent_locks_limit", GAUGE, WHOLE, NONE, NONE, NONE, PLAIN,                 \
      "Locks that may be held or attempted at once (limits.locks).")                               \
    X(TRACKED, "lockagent_locks_tracked", GAUGE, WHOLE, NONE, NONE, NONE, PLAIN,                   \
      "Entries of the lock table: attempts, holds, releases owed, remembered losses.")             \
    X(WAITERS, "lockagent_waiters", GAUGE, WHOLE, NONE, NONE, NONE, PLAIN,                         \
      "Requests that wait for a lock now.")                                                        \
    X(WAITERS_LIMIT, "lockagent_waiters_limit", GAUGE, WHOLE, NONE, NONE, NONE, PLAIN,             \
      "Requests that may wait at once (limits.waiters).")                                          \
    X(REQUESTS, "lockagent_requests_unanswered", GAUGE, WHOLE, NONE, NONE, NONE, PLAIN,            \
      "Requests inside the lock core, waiters included.")                                          \
    X(DEBT_DROPPED, "lockagent_releases_dropped_total", COUNTER, WHOLE, GROUP, NONE, NONE, PLAIN,  \
      "Releases that a master still owed and that were given up before the lease had run out.")    \
    X(JOURNAL_HOLDS, "lockagent_journal_holds_total", COUNTER, WHOLE, RESTORED, NONE, NONE, PLAIN, \
      "Holds found in the journal at the start: resumed, ended (over: its keys are released, or "  \
      "run out), or refused "                                                                      \
      "(torn, or of other masters or policies).")                                                  \
    X(JOURNAL_ERRORS, "lockagent_journal_write_errors_total", COUNTER, WHOLE, NONE, NONE, NONE,    \
      PLAIN, "Changes of a hold that could not be written to the journal.")                        \
    /* Groups and masters. */                                                                      \
    X(QUORUM_AVAILABLE, "lockagent_quorum_available", GAUGE, WHOLE, GROUP, NONE, NONE, PLAIN,      \
      "1 when as many masters of the group are up as its least demanding policy needs, else 0.")   \
    X(GROUP_QUORUM, "lockagent_group_quorum", GAUGE, WHOLE, GROUP, NONE, NONE, PLAIN,              \
      "Masters that the least demanding policy of the group needs.")                               \
    X(GROUP_MASTERS, "lockagent_group_masters", GAUGE, WHOLE, GROUP, NONE, NONE, PLAIN,            \
      "Masters of the group.")                                                                     \
    X(GROUP_UP, "lockagent_group_masters_up", GAUGE, WHOLE, GROUP, NONE, NONE, PLAIN,              \
      "Masters of the group that are up.")                                                         \
    X(GROUP_VOTING, "lockagent_group_masters_voting", GAUGE, WHOLE, GROUP, NONE, NONE, PLAIN,      \
      "Masters of the group that are up and have a vote on new locks: are not guarded, and may "   \
      "not evict keys.")                                                                           \
    X(LAYOUT_DISAGREEMENTS, "lockagent_layout_disagreements", GAUGE, WHOLE, GROUP, NONE, NONE,     \
      PLAIN, "Masters of the group that know agents at work with a layout that is no neighbour.")  \
    X(LAYOUTS, "lockagent_layouts", GAUGE, WHOLE, GROUP, NONE, NONE, PLAIN,                        \
      "Layouts of agents at work that a master of the group has noted: 1 outside of roll-outs.")   \
    X(ROUNDS_IN_FLIGHT, "lockagent_group_rounds_in_flight", GAUGE, WHOLE, GROUP, NONE, NONE,       \
      PLAIN, "Acquire rounds in flight that a place is taken for (hand-overs need none).")         \
    X(ROUNDS_LIMIT, "lockagent_group_rounds_limit", GAUGE, WHOLE, GROUP, NONE, NONE, PLAIN,        \
      "Acquire rounds that may be in flight at once: grows while masters are quick, is halved "    \
      "when they are slow.")                                                                       \
    X(ROUNDS_WAITING, "lockagent_group_rounds_waiting", GAUGE, WHOLE, GROUP, NONE, NONE, PLAIN,    \
      "Keys that wait for a place for their acquire round.")                                       \
    X(ROUNDS, "lockagent_group_rounds_total", COUNTER, WHOLE, GROUP, NONE, NONE, PLAIN,            \
      "Acquire rounds that took a place and were decided.")                                        \
    X(ROUND_WAIT, "lockagent_group_round_wait_seconds_total", COUNTER, MICRO, GROUP, NONE, NONE,   \
      PLAIN, "Time that those rounds waited for their place.")                                     \
    X(AGENT_CLOCK, "lockagent_agent_clock_offset_seconds", GAUGE, MICRO, GROUP, NONE, NONE, PLAIN, \
      "What most masters of the group agree this agent's clock to be off by; 0 below a second.")   \
    X(OWN_CERTIFICATE, "lockagent_client_certificate_end_timestamp_seconds", GAUGE, MICRO, GROUP,  \
      NONE, NONE, PLAIN,                                                                           \
      "When the agent's own certificate for the group (tls.cert_file) ends, in unix time; the "    \
      "file is looked at every 10 s. Absent without one.")                                         \
    X(MASTER_UP, "lockagent_master_up", GAUGE, WHOLE, MASTER, NONE, NONE, PLAIN,                   \
      "1 when the master is connected, ready and serving, else 0.")                                \
    X(MASTER_STATE, "lockagent_master_state", GAUGE, WHOLE, MASTER, STATE, NONE, PLAIN,            \
      "1 for the state that the master is in, 0 for the others.")                                  \
    X(MASTER_GUARDED, "lockagent_master_guarded_seconds", GAUGE, MICRO, MASTER, NONE, NONE, PLAIN, \
      "Time until the master has a vote on new locks, because it may have forgotten keys; 0: it "  \
      "has one.")                                                                                  \
    X(MASTER_GUESSED, "lockagent_master_guessed", GAUGE, WHOLE, MASTER, NONE, NONE, PLAIN,         \
      "1 when the master forgot its numbers and votes by a guess, because too few others "         \
      "remembered them, else 0.")                                                                  \
    X(MASTER_DEGRADED, "lockagent_master_degraded", GAUGE, WHOLE, MASTER, NONE, NONE, PLAIN,       \
      "1 when the master is a replica, lacks replicas that are waited for, may evict keys, is "    \
      "another master's double or has another time, else 0.")                                      \
    X(UNREPLICATED, "lockagent_master_unreplicated_total", COUNTER, WHOLE, MASTER, NONE, NONE,     \
      PLAIN, "Grants and renewals that fewer replicas than replicas.ack confirmed in time.")       \
    X(COMMANDS, "lockagent_master_commands_total", COUNTER, WHOLE, MASTER, OP, RESULT, PLAIN,      \
      "Commands by what came of them: ok, error (an error reply), lost (the connection ended "     \
      "first), not_sent.")                                                                         \
    X(ERRORS, "lockagent_master_error_replies_total", COUNTER, WHOLE, MASTER, CLASS, NONE, PLAIN,  \
      "Error replies of the master by their class.")                                               \
    X(BROKEN, "lockagent_master_protocol_errors_total", COUNTER, WHOLE, MASTER, FAULT, NONE,       \
      PLAIN,                                                                                       \
      "Connections that ended because the master broke the protocol: by a reply that nobody "      \
      "waited for (surplus), by "                                                                  \
      "what is no reply to what was asked (malformed), or beyond the bounds of one (oversized).")  \
    X(TLS_FAILURES, "lockagent_master_tls_failures_total", COUNTER, WHOLE, MASTER, TLS_FAULT,      \
      NONE, PLAIN,                                                                                 \
      "Connections that ended because TLS failed: our own files (files), the master's "            \
      "certificate (authority, expired, name), the master that does not accept ours "              \
      "(refused), a port without TLS (not_tls), no answer to it (silent), other.")                 \
    X(MASTER_CERTIFICATE, "lockagent_master_certificate_end_timestamp_seconds", GAUGE, MICRO,      \
      MASTER, NONE, NONE, PLAIN,                                                                   \
      "When the first certificate of the master's chain ends, in unix time, as the last "          \
      "handshake showed it. Absent without TLS.")                                                  \
    X(COMMAND_SECONDS, "lockagent_master_command_duration_seconds", HISTOGRAM, MICRO, MASTER,      \
      NONE, NONE, FAST, "Time from the sending of a command to its reply.")                        \
    X(RECONNECTS, "lockagent_master_reconnects_total", COUNTER, WHOLE, MASTER, NONE, NONE, PLAIN,  \
      "Attempts to connect after the first.")                                                      \
    X(CLOCK_OFFSET, "lockagent_master_clock_offset_seconds", GAUGE, MICRO, MASTER, NONE, NONE,     \
      PLAIN, "The master's wall clock minus this agent's.")                                        \
    X(DEBT, "lockagent_master_release_debt", GAUGE, WHOLE, MASTER, NONE, NONE, PLAIN,              \
      "Releases that the master has not confirmed yet.")                                           \
    X(IN_FLIGHT, "lockagent_master_commands_in_flight", GAUGE, WHOLE, MASTER, NONE, NONE, PLAIN,   \
      "Commands that wait for a reply of the master.")                                             \
    X(FOREIGN, "lockagent_master_foreign_keys_total", COUNTER, WHOLE, MASTER, NONE, NONE, PLAIN,   \
      "Times that a key of another type was found in place of a lock or its tickets, or no "       \
      "possible fencing number.")                                                                  \
    X(CLOCK_GAINS, "lockagent_master_clock_gains_total", COUNTER, WHOLE, MASTER, NONE, NONE,       \
      PLAIN,                                                                                       \
      "Times that the master's clock gained on this agent's: it jumped forward, or this agent "    \
      "was "                                                                                       \
      "paused together with its clocks.")                                                          \
    /* HTTP. */                                                                                    \
    X(HTTP_REQUESTS, "lockagent_http_requests_total", COUNTER, WHOLE, ROUTE, METHOD, STATUS,       \
      PLAIN, "HTTP requests by route, method and class of status.")                                \
    X(HTTP_SECONDS, "lockagent_http_request_duration_seconds", HISTOGRAM, MICRO, ROUTE, NONE,      \
      NONE, WAIT,                                                                                  \
      "Time from the start of an HTTP request to its answer, waiting for locks included.")         \
    X(HTTP_CONNECTIONS, "lockagent_http_connections", GAUGE, WHOLE, NONE, NONE, NONE, PLAIN,       \
      "Connections of the API that are open, on all addresses of listen.")                         \
    X(HTTP_CONNECTIONS_LIMIT, "lockagent_http_connections_limit", GAUGE, WHOLE, NONE, NONE, NONE,  \
      PLAIN,                                                                                       \
      "Connections of the API that may be open at once: limits.connections for each address of "   \
      "listen.")                                                                                   \
    X(STREAMS, "lockagent_streams", GAUGE, WHOLE, NONE, NONE, NONE, PLAIN,                         \
      "Answers that stay open: bound holds, watchers of holds, and followers of keys.")            \
    X(FOLLOWED, "lockagent_followed_keys", GAUGE, WHOLE, NONE, NONE, NONE, PLAIN,                  \
      "Keys that callers follow (?watch=key). The agent looks at each of them again and again.")   \
    X(STREAMS_DROPPED, "lockagent_streams_dropped_total", COUNTER, WHOLE, NONE, NONE, NONE, PLAIN, \
      "Streams that were given up because the caller did not read them.")                          \
    /* The process. */                                                                             \
    X(LOOP_LAG, "lockagent_loop_lag_seconds", HISTOGRAM, MICRO, NONE, NONE, NONE, LAG,             \
      "How late the event loop came to a deadline of the lock core.")                              \
    X(LOOP_TURN, "lockagent_loop_turn_seconds", HISTOGRAM, MICRO, NONE, NONE, NONE, LAG,           \
      "How long the event loop was awake from one look at its sockets to the next.")               \
    X(STALLS, "lockagent_stalls_total", COUNTER, WHOLE, NONE, NONE, NONE, PLAIN,                   \
      "Times that this process was stopped, suspended or late enough to look at its locks before " \
      "it acted.")                                                                                 \
    X(STALL_SECONDS, "lockagent_stall_seconds_total", COUNTER, MICRO, NONE, NONE, NONE, PLAIN,     \
      "Time that this process was late in stalls.")                                                \
    X(RELOADS, "lockagent_config_reloads_total", COUNTER, WHOLE, RELOAD, NONE, NONE, PLAIN,        \
      "Reloads of the configuration by outcome.")                                                  \
    X(RELOAD_OK, "lockagent_config_last_reload_successful", GAUGE, WHOLE, NONE, NONE, NONE, PLAIN, \
      "1 when the last reload (or the start) took the configuration, 0 when it was refused.")      \
    X(RELOAD_TIME, "lockagent_config_last_reload_success_timestamp_seconds", GAUGE, MICRO, NONE,   \
      NONE, NONE, PLAIN, "When the configuration in use was read, in unix time.")                  \
    X(LOG_DROPPED, "lockagent_log_lines_dropped_total", COUNTER, WHOLE, NONE, NONE, NONE, PLAIN,   \
      "Log lines that stderr did not take.")                                                       \
    X(PROCESS_CPU, "process_cpu_seconds_total", COUNTER, MICRO, NONE, NONE, NONE, PLAIN,           \
      "User and system CPU time spent.")                                                           \
    X(PROCESS_RESIDENT, "process_resident_memory_bytes", GAUGE, WHOLE, NONE, NONE, NONE, PLAIN,    \
      "Resident memory.")                                                                          \
    X(PROCESS_VIRTUAL, "process_virtual_memory_bytes", GAUGE, WHOLE, NONE, NONE, NONE, PLAIN,      \
      "Virtual memory.")                                                                           \
    X(PROCESS_FDS, "process_open_fds", GAUGE, WHOLE, NONE, NONE, NONE, PLAIN,                      \
      "Open file descriptors.")                                                                    \
    X(PROCESS_FDS_MAX, "process_max_fds", GAUGE, WHOLE, NONE, NONE, NONE, PLAIN,                   \
      "File descriptors that may be open at once.")                                                \
    X(PROCESS_START, "process_start_time_seconds", GAUGE, MICRO, NONE, NONE, NONE, PLAIN,          \
      "When this process started, in unix time.")

/* X(id, part): the families of a page with metrics.detail: basic. The alerts and the first row of
 * the dashboard (deploy/) need no others. Five masters and nine policies have at most 250 series.
 * WHOLE: all series. SUMMED: one series for all values of the first label. QUARTER: of the buckets,
 * 0.25 alone. */
#define BASIC_FAMILIES(X)                                                                          \
    X(BUILD_INFO, WHOLE)                                                                           \
    X(ACQUIRE_REQUESTS, SUMMED)                                                                    \
    X(RENEWALS, SUMMED)                                                                            \
    X(MARGIN_RATIO, QUARTER)                                                                       \
    X(LOST, SUMMED)                                                                                \
    X(HELD, WHOLE)                                                                                 \
    X(LOCKS_LIMIT, WHOLE)                                                                          \
    X(WAITERS, WHOLE)                                                                              \
    X(WAITERS_LIMIT, WHOLE)                                                                        \
    X(DEBT_DROPPED, WHOLE)                                                                         \
    X(JOURNAL_ERRORS, WHOLE)                                                                       \
    X(QUORUM_AVAILABLE, WHOLE)                                                                     \
    X(GROUP_QUORUM, WHOLE)                                                                         \
    X(GROUP_MASTERS, WHOLE)                                                                        \
    X(GROUP_UP, WHOLE)                                                                             \
    X(GROUP_VOTING, WHOLE)                                                                         \
    X(LAYOUT_DISAGREEMENTS, WHOLE)                                                                 \
    X(LAYOUTS, WHOLE)                                                                              \
    X(ROUNDS_WAITING, WHOLE)                                                                       \
    X(AGENT_CLOCK, WHOLE)                                                                          \
    X(OWN_CERTIFICATE, WHOLE)                                                                      \
    X(MASTER_UP, WHOLE)                                                                            \
    X(MASTER_DEGRADED, WHOLE)                                                                      \
    X(UNREPLICATED, WHOLE)                                                                         \
    X(BROKEN, WHOLE)                                                                               \
    X(TLS_FAILURES, WHOLE)                                                                         \
    X(MASTER_CERTIFICATE, WHOLE)                                                                   \
    X(CLOCK_OFFSET, WHOLE)                                                                         \
    X(DEBT, WHOLE)                                                                                 \
    X(FOREIGN, WHOLE)                                                                              \
    X(LOOP_LAG, WHOLE)                                                                             \
    X(LOOP_TURN, WHOLE)                                                                            \
    X(STALLS, WHOLE)                                                                               \
    X(RELOAD_OK, WHOLE)                                                                            \
    X(LOG_DROPPED, WHOLE)                                                                          \
    X(PROCESS_CPU, WHOLE)                                                                          \
    X(PROCESS_RESIDENT, WHOLE)                                                                     \
    X(PROCESS_FDS, WHOLE)                                                                          \
    X(PROCESS_START, WHOLE)

enum { FAMILY_LABELS = 3 }; /* labels of one family, at most */

#define X(id, ...) FAMILY_##id,
enum family_id { FAMILIES(X) FAMILY_COUNT };
#undef X
#define X(id, ...) LABEL_##id,
enum label { LABELS(X) LABEL_COUNT };
#undef X
#define X(id, ...) BUCKETS_##id,
enum bucket_set { BUCKET_SETS(X) BUCKET_SET_COUNT };
#undef X

/* The part of a family that a page has. */
enum family_part { PART_NONE, PART_WHOLE, PART_SUMMED, PART_QUARTER };

enum metric_type { TYPE_COUNTER, TYPE_GAUGE, TYPE_HISTOGRAM };
enum metric_unit { UNIT_WHOLE, UNIT_MICRO };

struct bucket_bounds {
    const int64_t *bounds;
    size_t count;
};
extern const struct bucket_bounds bucket_bounds[BUCKET_SET_COUNT];

/* The description of one family on a page, and the origin of its series. */
struct family {
    const char *name, *help;
    enum metric_type type;
    enum metric_unit unit;
    enum label labels[FAMILY_LABELS]; /* LABEL_NONE has one value, which is empty */
    enum bucket_set buckets;
};
extern const struct family metric_families[FAMILY_COUNT];
extern const enum family_part basic_parts[FAMILY_COUNT]; /* With metrics.detail: basic. */

#endif
