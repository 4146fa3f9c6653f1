/* Real redis-servers: started, killed, frozen, and looked into. */
#include "world.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/free_port.h"

struct master {
    pid_t pid; /* 0: not running */
    int port;  /* 0: on a unix socket */
    bool frozen;
    const char *folder, *socket;
    redisContext *connection;
};

static struct {
    struct master list[WORLD_MASTERS];
    size_t count;
    enum masters_kind kind;
    const char *option, *value;
    bool clocks;     /* that can be set */
    const char *tls; /* NULL: in the clear; otherwise its --tls-auth-clients */
} masters;

size_t master_count(void)
{
    return masters.count;
}

void masters_forget_layouts(void)
{
    for (size_t i = 0; i < master_count(); i++)
        master_do(i, "DEL lockagent:layouts");
}

const char *master_url(size_t index)
{
    const struct master *master = &masters.list[index];
    return master->port ? format("redis%s://127.0.0.1:%d", masters.tls ? "s" : "", master->port)
                        : format("unix:%s", master->socket);
}

void masters_plan(size_t count, enum masters_kind kind)
{
    cr_assert_leq(count, WORLD_MASTERS);
    masters.count = count;
    masters.kind = kind;
    for (size_t i = 0; i < count; i++) {
        struct master *master = &masters.list[i];
        master->folder = world_path(format("redis%zu", i));
        master->socket = format("%s.sock", master->folder);
        master->port = i && !masters.tls ? 0 : free_port();
        cr_assert_eq(mkdir(master->folder, 0700), 0);
    }
}

static void disconnect(struct master *master)
{
    if (master->connection)
        redisFree(master->connection);
    master->connection = NULL;
}

static bool connect_to(struct master *master)
{
    const struct timeval patience = {.tv_sec = 2};
    disconnect(master);
    master->connection = master->port && !masters.tls
                             ? redisConnectWithTimeout("127.0.0.1", master->port, patience)
                             : redisConnectUnixWithTimeout(master->socket, patience);
    if (master->connection && !master->connection->err) {
        redisSetTimeout(master->connection, patience);
        return true;
    }
    disconnect(master);
    return false;
}

/* Up means that it answers PING: while it loads its file it answers an error. */
static bool answers(struct master *master)
{
    if (!master->connection && !connect_to(master))
        return false;
    redisReply *reply = redisCommand(master->connection, "PING");
    const bool is_up = reply && (reply->type == REDIS_REPLY_STATUS || strstr(reply->str, "NOAUTH"));
    freeReplyObject(reply);
    if (!is_up)
        disconnect(master);
    return is_up;
}

const char *masters_right_to_compare(void)
{
    int major = 0, minor = 0;
    const char *said =
        program_run("redis-server", (const char *const[]){"--version", NULL}, NULL).out;
    if (sscanf(said, "Valkey server v=%d", &major) == 1)
        return major >= 9 ? "+delifeq" : "";
    cr_assert_eq(sscanf(said, "Redis server v=%d.%d", &major, &minor), 2, "%s", said);
    return major > 8 || (major == 8 && minor >= 4) ? "+delex" : "";
}

/* The rights that lockagent needs and no more (D5.7), and all rights for the test's own
 * connection. */
static const char *rights_file(void)
{
    const char *path = world_path("rights.acl");
    const char *needed =
        read_whole_file(format("%s/deploy/acl/full.acl", getenv("LOCKAGENT_SOURCE")));
    const char *password = strstr(needed, "resetpass");
    cr_assert_not_null(password);
    if (access(path, F_OK) != 0)
        write_file("rights.acl",
                   format("user default on nopass ~* &* +@all\n%.*s>%s%s %s\n",
                          (int)(password - needed), needed, MASTERS_PASSWORD,
                          format("%.*s", (int)strcspn(password, "\n") - (int)strlen("resetpass"),
                                 password + strlen("resetpass")),
                          masters_right_to_compare()));
    return path;
}

bool masters_know_lockagent(void)
{
    return masters.option == NULL;
}

static const char *clock_file(const struct master *master)
{
    return format("%s.clock", master->folder);
}

void master_clock(size_t index, int64_t offset_ms)
{
    /* it is mapped: it must stay the same file */
    FILE *file = fopen(clock_file(&masters.list[index]), "r+b");
    cr_assert(file && fwrite(&offset_ms, sizeof(offset_ms), 1, file) == 1);
    fclose(file);
}

static void launch(struct master *master)
{
    const bool durable = masters.kind == MASTERS_DURABLE;
    const char *log = format("%s.log", master->folder);
    const char *const usual[] = {"redis-server",
                                 masters.tls ? "--tls-port" : "--port",
                                 format("%d", master->port),
                                 "--bind",
                                 "127.0.0.1",
                                 "--save",
                                 "",
                                 "--dir",
                                 master->folder,
                                 "--appendonly",
                                 durable ? "yes" : "no",
                                 "--appendfsync",
                                 "always",
                                 "--maxmemory-policy",
                                 "noeviction"};
    const char *arguments[40] = {"env"};
    size_t count = 1;
    if (masters.clocks) {
        arguments[count++] =
            format("LD_PRELOAD=%s/tests/faults/fault-clock.so", getenv("LOCKAGENT_BUILD"));
        arguments[count++] = format("FAULT_CLOCK=%s", clock_file(master));
    }
    memcpy(&arguments[count], usual, sizeof(usual));
    count += sizeof(usual) / sizeof(usual[0]);
    if (masters.tls) {
        const char *const over_tls[] = {"--port",
                                        "0",
                                        "--tls-cert-file",
                                        world_path("master.pem"),
                                        "--tls-key-file",
                                        world_path("master.key"),
                                        "--tls-ca-cert-file",
                                        world_path("ca.pem"),
                                        "--tls-auth-clients",
                                        masters.tls};
        memcpy(&arguments[count], over_tls, sizeof(over_tls));
        count += sizeof(over_tls) / sizeof(over_tls[0]);
    }
    if (!master->port || masters.tls) {
        unlink(master->socket);
        arguments[count++] = "--unixsocket";
        arguments[count++] = master->socket;
    }
    arguments[count++] = masters.option ? masters.option : "--aclfile";
    arguments[count++] = masters.option ? masters.value : rights_file();
    master->pid = spawn(arguments, NULL, log, log);
    master->frozen = false;
}

static void start_range(size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++) {
        cr_assert_eq(masters.list[i].pid, 0, "master %zu runs already", i);
        launch(&masters.list[i]);
    }
    for (size_t i = begin; i < end; i++)
        cr_assert(eventually(answers(&masters.list[i])), "master %zu did not start:\n%s", i,
                  read_whole_file(format("%s.log", masters.list[i].folder)));
}

void master_start(size_t index)
{
    start_range(index, index + 1);
}

void masters_start_again(size_t count)
{
    start_range(0, count);
}

/* As redis-cli of tests/mark.lua. */
void master_mark(size_t index)
{
    const char *script = read_whole_file(format("%s/tests/mark.lua", getenv("LOCKAGENT_SOURCE")));
    const redisReply *marked =
        master_do(index, "EVAL %s 2 lockagent:marker lockagent:votes", script);
    cr_assert(marked->type == REDIS_REPLY_STRING, "master %zu is not marked: %s", index,
              marked->str);
}

/* Masters with a password, and those of a cluster, are the test's own business. */
static bool can_be_marked(void)
{
    return masters.option == NULL || strcmp(masters.option, "--aclfile") == 0 ||
           strcmp(masters.option, "--maxclients") == 0;
}

void masters_start_with_clocks(size_t count)
{
    static const char now[sizeof(int64_t)];
    masters.clocks = true;
    for (size_t i = 0; i < count; i++) {
        FILE *file = fopen(world_path(format("redis%zu.clock", i)), "wb");
        cr_assert(file && fwrite(now, sizeof(now), 1, file) == 1);
        fclose(file);
    }
    masters_start(count, MASTERS_FORGETFUL);
}

void masters_start_new(size_t count, enum masters_kind kind)
{
    masters_plan(count, kind);
    masters_start_again(count);
}

void masters_start_with(size_t count, enum masters_kind kind, const char *option, const char *value)
{
    masters.option = option;
    masters.value = value;
    masters_start_new(count, kind);
    for (size_t i = 0; can_be_marked() && i < count; i++)
        master_mark(i);
}

void masters_start_over_tls(size_t count, const char *auth_clients)
{
    masters.tls = auth_clients;
    if (access(world_path("ca.pem"), F_OK) != 0)
        authority("ca");
    if (access(world_path("master.pem"), F_OK) != 0)
        certificate("master", "ca", "IP:127.0.0.1", 2);
    masters_start(count, MASTERS_FORGETFUL);
}

/* ---- certificates ---- */

static void openssl(const char *const *arguments)
{
    const struct outcome made = program_run("openssl", arguments, NULL);
    cr_assert_eq(made.exit_status, 0, "openssl %s: %s", arguments[0], made.err);
}
#define openssl(...) openssl((const char *const[]){__VA_ARGS__, NULL})

static void new_key(const char *name)
{
    openssl("ecparam", "-genkey", "-noout", "-name", "prime256v1", "-out",
            world_path(format("%s.key", name)));
}

const char *authority(const char *name)
{
    const char *path = world_path(format("%s.pem", name));
    new_key(name);
    openssl("req", "-x509", "-new", "-key", world_path(format("%s.key", name)), "-out", path,
            "-subj", format("/CN=authority %s", name), "-days", "2");
    return path;
}

const char *certificate(const char *name, const char *signed_by, const char *alternatives, int days)
{
    const char *path = world_path(format("%s.pem", name)),
               *request = world_path(format("%s.csr", name)),
               *extensions =
                   write_file(format("%s.ext", name), format("subjectAltName=%s\n", alternatives));
    new_key(name);
    openssl("req", "-new", "-key", world_path(format("%s.key", name)), "-out", request, "-subj",
            format("/CN=%s", name));
    const char *valid = days < 0 ? "default_startdate = 20200101000000Z\n"
                                   "default_enddate = 20200102000000Z"
                                 : format("default_days = %d", days),
               *database = write_file(format("%s.index", name), ""),
               *config = write_file(
                   format("%s.cnf", name),
                   format("[ca]\ndefault_ca = here\n[here]\ndatabase = %s\nnew_certs_dir = %s\n"
                          "default_md = sha256\nrand_serial = yes\n%s\npolicy = any\n"
                          "certificate = %s.pem\nprivate_key = %s.key\n"
                          "[any]\ncommonName = supplied\n",
                          database, world_path("."), valid, world_path(signed_by),
                          world_path(signed_by)));
    openssl("ca", "-batch", "-notext", "-config", config, "-in", request, "-extfile", extensions,
            "-out", path);
    return path;
}

/* ---- all of them ---- */

void masters_start(size_t count, enum masters_kind kind)
{
    masters_start_with(count, kind, NULL, NULL);
}

void master_kill(size_t index)
{
    struct master *master = &masters.list[index];
    cr_assert_neq(master->pid, 0);
    disconnect(master);
    end_process(master->pid);
    master->pid = 0;
}

void master_lose_data(size_t index)
{
    const struct master *master = &masters.list[index];
    cr_assert_eq(master->pid, 0);
    remove_tree(master->folder);
    cr_assert_eq(mkdir(master->folder, 0700), 0);
}

void master_freeze(size_t index)
{
    masters.list[index].frozen = true;
    cr_assert_eq(kill(masters.list[index].pid, SIGSTOP), 0);
}

void master_thaw(size_t index)
{
    masters.list[index].frozen = false;
    cr_assert_eq(kill(masters.list[index].pid, SIGCONT), 0);
}

redisReply *master_do(size_t index, const char *format_, ...)
{
    static redisReply *last;
    struct master *master = &masters.list[index];
    cr_assert(master->connection || connect_to(master), "master %zu is not there", index);
    va_list list;
    va_start(list, format_);
    if (last)
        freeReplyObject(last);
    last = redisvCommand(master->connection, format_, list);
    va_end(list);
    cr_assert_not_null(last, "master %zu: %s", index, master->connection->errstr);
    return last;
}

size_t masters_with(const char *stored_key)
{
    size_t count = 0;
    for (size_t i = 0; i < masters.count; i++)
        if (masters.list[i].pid && !masters.list[i].frozen)
            count += (size_t)master_do(i, "EXISTS %s", stored_key)->integer;
    return count;
}

const char *master_get(size_t index, const char *stored_key)
{
    const redisReply *reply = master_do(index, "GET %s", stored_key);
    return reply->type == REDIS_REPLY_STRING ? format("%s", reply->str) : NULL;
}

const char *bucket_of(const char *key)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (const char *at = format("lock:%s", key); *at; at++)
        hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
    return format("lockagent:number:lock:%u", (unsigned)((hash ^ hash >> 32) % 16384));
}

int64_t master_number(size_t index, const char *key)
{
    const redisReply *reply = master_do(index, "ZSCORE %s n", bucket_of(key));
    return reply->type == REDIS_REPLY_STRING ? strtoll(reply->str, NULL, 10) : 0;
}

int64_t master_pttl(size_t index, const char *stored_key)
{
    return master_do(index, "PTTL %s", stored_key)->integer;
}

void masters_close(void)
{
    for (size_t i = 0; i < masters.count; i++) {
        disconnect(&masters.list[i]);
        if (masters.list[i].pid)
            end_process(masters.list[i].pid);
    }
}
