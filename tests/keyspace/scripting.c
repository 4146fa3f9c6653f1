/* The server's side of its scripts: redis.call and its kin, and how values become those of the
 * other language and errors become replies. The conversions are those of Redis 7.0: script.c and
 * script_lua.c there. */
#include "scripting.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "agent/redis/asking.h"
#include "agent/redis/scripts.h"

enum {
    HEAP_BYTES = 4 << 20,
    REWIND_BYTES = 256 << 10,
    TEXTS_MAX = 16,
    DIGITS = 32,
    CALL_ARGS = 256,
    NUMBERS_MAX = 32
};

/* A text that was given with EVAL. */
struct text_chunk {
    char *text;
    size_t len;
    int function;
};

/* Lua's memory. No block is freed alone. The heap is rewound, byte by byte, to its state after all
 * scripts had been compiled. That drops the garbage of scripts. It is sound between scripts, when
 * no pointer from outside leads into the heap, and many times faster than collecting. */
struct heap {
    char *bytes, *saved;
    size_t used, saved_used;
};

struct scripting {
    lua_State *lua;
    struct heap heap;
    struct keyspace *keyspace;
    int functions[SCRIPT_COUNT];
    struct text_chunk texts[TEXTS_MAX];
    unsigned text_count;
    const struct replacement *given; /* breaks texts that are given with EVAL; NULL: none */
    int handler, globals;
    struct bytes args[KEYSPACE_ARGS]; /* arguments of the command */
    struct bytes call_args[CALL_ARGS];
    char digits[NUMBERS_MAX][DIGITS];
    char *reply;
    size_t reply_len, reply_room;
};

/* ---- memory ---- */

static void *allocate(void *arg, void *old, size_t old_size, size_t size)
{
    struct heap *heap = arg;
    if (size == 0 || size <= old_size)
        return size == 0 ? NULL : old;
    size_t rounded = (size + 15) & ~(size_t)15;
    if (heap->used + rounded > HEAP_BYTES)
        return NULL;
    void *new = heap->bytes + heap->used;
    heap->used += rounded;
    if (old_size > 0)
        memcpy(new, old, old_size);
    return new;
}

static void save(struct heap *heap)
{
    heap->saved_used = heap->used;
    heap->saved = realloc(heap->saved, heap->used);
    if (heap->saved == NULL)
        abort();
    memcpy(heap->saved, heap->bytes, heap->used);
}

static void rewind_heap(struct heap *heap)
{
    memcpy(heap->bytes, heap->saved, heap->saved_used);
    heap->used = heap->saved_used;
}

/* Lua reads numbers by strtod(), which takes its time over whole ones as well: those are exact
 * without it. */
// The linker's --wrap gives the names. NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl*)
double __real_strtod(const char *text, char **ret_end);
double __wrap_strtod(const char *text, char **ret_end);
// NOLINTEND(bugprone-reserved-identifier,cert-dcl*)
double __wrap_strtod(const char *text, char **ret_end)
{
    uint64_t number = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++)
        number = 10 * number + (uint64_t)(*at - '0');
    if (at == text || at - text > 18 || number > UINT64_C(1) << 53 || *at != '\0')
        return __real_strtod(text, ret_end);
    if (ret_end != NULL)
        *ret_end = (char *)(uintptr_t)at;
    return (double)number;
}

/* ---- the reply's bytes ---- */

static void put(struct scripting *s, const void *bytes, size_t len)
{
    if (s->reply_len + len > s->reply_room) {
        s->reply_room = 2 * (s->reply_len + len) + 256;
        s->reply = realloc(s->reply, s->reply_room);
        if (s->reply == NULL)
            abort();
    }
    memcpy(s->reply + s->reply_len, bytes, len);
    s->reply_len += len;
}

static void put_number(struct scripting *s, char kind, long long number)
{
    char text[32], *at = text + sizeof text;
    unsigned long long left =
        number < 0 ? 0 - (unsigned long long)number : (unsigned long long)number;
    *--at = '\n';
    *--at = '\r';
    do {
        *--at = (char)('0' + left % 10);
        left /= 10;
    } while (left > 0);
    if (number < 0)
        *--at = '-';
    *--at = kind;
    put(s, at, (size_t)(text + sizeof text - at));
}

static void put_bulk(struct scripting *s, struct bytes bytes)
{
    put_number(s, '$', (long long)bytes.len);
    put(s, bytes.at, bytes.len);
    put(s, "\r\n", 2);
}

/* One line: what would end it becomes a blank, and at an error's end it goes. */
static void put_line(struct scripting *s, char kind, const char *text, size_t len)
{
    while (kind == '-' && len > 0 && (text[len - 1] == '\r' || text[len - 1] == '\n'))
        len--;
    put(s, &kind, 1);
    size_t from = s->reply_len;
    put(s, text, len);
    for (size_t i = from; i < s->reply_len; i++)
        if (s->reply[i] == '\r' || s->reply[i] == '\n')
            s->reply[i] = ' ';
    put(s, "\r\n", 2);
}

static void put_result(struct scripting *s, const struct result *result)
{
    switch (result->kind) {
    case RESULT_NIL:
        put(s, "$-1\r\n", 5);
        break;
    case RESULT_INTEGER:
        put_number(s, ':', result->integer);
        break;
    case RESULT_BULK:
        put_bulk(s, result->text);
        break;
    case RESULT_STATUS:
        put_line(s, '+', result->text.at, result->text.len);
        break;
    case RESULT_ERROR:
        put_line(s, '-', result->text.at, result->text.len);
        break;
    case RESULT_ARRAY:
        put_number(s, '*', result->count);
        for (uint32_t i = 0; i < result->count; i++) {
            if (result->items[i].kind == ITEM_BULK)
                put_bulk(s, result->items[i].text);
            else if (result->items[i].kind == ITEM_INTEGER)
                put_number(s, ':', result->items[i].integer);
            else
                put(s, "$-1\r\n", 5);
        }
        break;
    }
}

/* ---- the server's values in Lua ---- */

static struct scripting *self(lua_State *lua)
{
    return lua_touserdata(lua, lua_upvalueindex(1));
}

static void push_field(lua_State *lua, const char *name, const char *text, size_t len)
{
    lua_createtable(lua, 0, 1);
    lua_pushlstring(lua, text, len);
    lua_setfield(lua, -2, name);
}

static void push_result(lua_State *lua, const struct result *result)
{
    switch (result->kind) {
    case RESULT_NIL:
        lua_pushboolean(lua, 0);
        break;
    case RESULT_INTEGER:
        lua_pushnumber(lua, (lua_Number)result->integer);
        break;
    case RESULT_BULK:
        lua_pushlstring(lua, result->text.at, result->text.len);
        break;
    case RESULT_STATUS:
        push_field(lua, "ok", result->text.at, result->text.len);
        break;
    case RESULT_ERROR:
        push_field(lua, "err", result->text.at, result->text.len);
        break;
    case RESULT_ARRAY:
        lua_createtable(lua, (int)result->count, 0);
        for (uint32_t i = 0; i < result->count; i++) {
            const struct item *item = &result->items[i];
            if (item->kind == ITEM_BULK)
                lua_pushlstring(lua, item->text.at, item->text.len);
            else if (item->kind == ITEM_INTEGER)
                lua_pushnumber(lua, (lua_Number)item->integer);
            else
                lua_pushboolean(lua, 0);
            lua_rawseti(lua, -2, (int)i + 1);
        }
        break;
    }
}

/* ---- redis.call and its kin ---- */

/* Prints a number with 17 digits. tostring() of Lua keeps 14 (R12). */
static struct bytes print_number(lua_Number number, char text[DIGITS])
{
    if (number >= 0 && number < 1e17 && number == (lua_Number)(int64_t)number) {
        char *at = text + DIGITS;
        uint64_t left = (uint64_t)number;
        do {
            *--at = (char)('0' + left % 10);
            left /= 10;
        } while (left > 0);
        if (number != 0)
            return (struct bytes){at, (size_t)(text + DIGITS - at)};
    }
    return (struct bytes){text, (size_t)snprintf(text, DIGITS, "%.17g", number)};
}

/* Runs the command in the arguments of redis.call. Without arguments it is an error. */
static struct result run_arguments(lua_State *lua, struct scripting *s)
{
    static const char none[] = "ERR Please specify at least one argument for this redis lib call";
    static const char other[] = "ERR Lua redis lib command arguments must be strings or integers";
    struct bytes *args = s->call_args;
    int count = lua_gettop(lua), numbers = 0;
    if (count == 0)
        return (struct result){.kind = RESULT_ERROR, .text = {none, sizeof none - 1}};
    if (count > CALL_ARGS)
        abort(); /* a limit of this model, not of the server */
    for (int i = 0; i < count; i++) {
        int type = lua_type(lua, i + 1);
        if (type == LUA_TNUMBER && numbers < NUMBERS_MAX)
            args[i] = print_number(lua_tonumber(lua, i + 1), s->digits[numbers++]);
        else if (type == LUA_TSTRING)
            args[i].at = lua_tolstring(lua, i + 1, &args[i].len);
        else
            return (struct result){.kind = RESULT_ERROR, .text = {other, sizeof other - 1}};
    }
    return keyspace_command(s->keyspace, args, (uint32_t)count);
}

static int redis_call(lua_State *lua)
{
    struct result result = run_arguments(lua, self(lua));
    push_result(lua, &result);
    return result.kind == RESULT_ERROR ? lua_error(lua) : 1;
}

static int redis_pcall(lua_State *lua)
{
    struct result result = run_arguments(lua, self(lua));
    push_result(lua, &result);
    return 1;
}

static int single_field(lua_State *lua, const char *name)
{
    size_t len;
    if (lua_gettop(lua) != 1 || lua_type(lua, 1) != LUA_TSTRING) {
        static const char wrong[] = "ERR wrong number or type of arguments";
        push_field(lua, "err", wrong, sizeof wrong - 1);
        return 1;
    }
    const char *text = lua_tolstring(lua, 1, &len);
    push_field(lua, name, text, len);
    return 1;
}

/* A message without a blank gets a code. */
static int redis_error_reply(lua_State *lua)
{
    if (lua_gettop(lua) == 1 && lua_type(lua, 1) == LUA_TSTRING) {
        const char *text = lua_tostring(lua, 1);
        lua_pushfstring(lua, strchr(text, ' ') == NULL ? "ERR %s" : "%s",
                        *text == '-' ? text + 1 : text);
        lua_replace(lua, 1);
    }
    return single_field(lua, "err");
}

static int redis_status_reply(lua_State *lua)
{
    return single_field(lua, "ok");
}

/* The server's pcall: of an error that is a table it gives the text. */
static int protected_call(lua_State *lua)
{
    int count = lua_gettop(lua);
    luaL_checkany(lua, 1);
    if (lua_pcall(lua, count - 1, LUA_MULTRET, 0) == 0) {
        lua_pushboolean(lua, 1);
        lua_insert(lua, 1);
        return lua_gettop(lua);
    }
    if (lua_istable(lua, -1)) {
        lua_getfield(lua, -1, "err");
        if (lua_isstring(lua, -1))
            lua_replace(lua, -2);
        else
            lua_pop(lua, 1);
    }
    lua_pushboolean(lua, 0);
    lua_insert(lua, -2);
    return 2;
}

/* Adds its place to an uncaught error. */
static int handle_error(lua_State *lua)
{
    lua_Debug place;
    if (!lua_istable(lua, 1)) {
        const char *text = lua_tostring(lua, 1);
        lua_createtable(lua, 0, 3);
        lua_pushfstring(lua, "ERR %s", text == NULL ? "(null)" : text);
        lua_setfield(lua, -2, "err");
        lua_replace(lua, 1);
    }
    lua_settop(lua, 1);
    bool found = lua_getstack(lua, 1, &place) && lua_getinfo(lua, "nSl", &place);
    if (found && strcmp(place.what, "C") == 0)
        found = lua_getstack(lua, 2, &place) && lua_getinfo(lua, "nSl", &place);
    if (found) {
        lua_pushstring(lua, place.source);
        lua_setfield(lua, 1, "source");
        lua_pushinteger(lua, place.currentline);
        lua_setfield(lua, 1, "line");
    }
    return 1;
}

static int unknown_global(lua_State *lua)
{
    return luaL_error(lua, "Script attempted to access nonexistent global variable '%s'",
                      lua_tostring(lua, 2));
}

static int new_global(lua_State *lua)
{
    return luaL_error(lua, "Attempt to modify a readonly table");
}

/* ---- results of a script ---- */

static bool put_text_field(struct scripting *s, const char *name, char kind)
{
    lua_State *lua = s->lua;
    size_t len;
    lua_pushstring(lua, name);
    lua_rawget(lua, -2);
    bool is_text = lua_type(lua, -1) == LUA_TSTRING;
    if (is_text) {
        const char *text = lua_tolstring(lua, -1, &len);
        put_line(s, kind, text, len);
    }
    lua_pop(lua, 1);
    return is_text;
}

/* Takes the value on top off the stack and stores it as a result. Numbers lose their decimals. A
 * table ends at its first nil. */
static void put_value(struct scripting *s)
{
    lua_State *lua = s->lua;
    size_t len;
    const char *text;
    switch (lua_type(lua, -1)) {
    case LUA_TSTRING:
        text = lua_tolstring(lua, -1, &len);
        put_bulk(s, (struct bytes){text, len});
        break;
    case LUA_TNUMBER:
        put_number(s, ':', (long long)lua_tonumber(lua, -1));
        break;
    case LUA_TBOOLEAN:
        put(s, lua_toboolean(lua, -1) ? ":1\r\n" : "$-1\r\n", lua_toboolean(lua, -1) ? 4 : 5);
        break;
    case LUA_TTABLE: {
        if (put_text_field(s, "err", '-') || put_text_field(s, "ok", '+'))
            break;
        int count = 0;
        while (lua_rawgeti(lua, -1, count + 1), !lua_isnil(lua, -1)) {
            lua_pop(lua, 1);
            count++;
        }
        lua_pop(lua, 1);
        put_number(s, '*', count);
        luaL_checkstack(lua, 4, "reply");
        for (int i = 1; i <= count; i++) {
            lua_rawgeti(lua, -1, i);
            put_value(s);
        }
        break;
    }
    default:
        put(s, "$-1\r\n", 5);
        break;
    }
    lua_pop(lua, 1);
}

static void put_error(struct scripting *s, struct bytes sha)
{
    lua_State *lua = s->lua;
    char text[1024];
    lua_getfield(lua, -1, "err");
    lua_getfield(lua, -2, "source");
    lua_getfield(lua, -3, "line");
    const char *says = lua_tostring(lua, -3), *source = lua_tostring(lua, -2),
               *line = lua_tostring(lua, -1);
    snprintf(text, sizeof text,
             source != NULL && line != NULL ? "%s script: %.*s, on %s:%s." : "%s",
             says == NULL ? "ERR unknown error" : says, (int)sha.len, sha.at, source, line);
    put_line(s, '-', text, strlen(text));
}

/* ---- running ---- */

static void set_list(struct scripting *s, const char *name, const struct bytes *list,
                     uint32_t count)
{
    lua_State *lua = s->lua;
    lua_pushstring(lua, name);
    lua_createtable(lua, (int)count, 0);
    for (uint32_t i = 0; i < count; i++) {
        lua_pushlstring(lua, list[i].at, list[i].len);
        lua_rawseti(lua, -2, (int)i + 1);
    }
    lua_rawset(lua, LUA_GLOBALSINDEX);
}

static void run_function(struct scripting *s, int function, struct bytes sha,
                         const struct bytes *rest, uint32_t count, uint32_t keys)
{
    lua_State *lua = s->lua;
    s->keyspace->in_script = true;
    s->keyspace->script_wrote = false;
    lua_rawgeti(lua, LUA_REGISTRYINDEX, s->handler);
    lua_rawgeti(lua, LUA_REGISTRYINDEX, function);
    set_list(s, "KEYS", rest, keys);
    set_list(s, "ARGV", rest + keys, count - keys);
    if (lua_pcall(lua, 0, 1, -2) == 0)
        put_value(s);
    else
        put_error(s, sha);
    lua_settop(lua, 0);
    s->keyspace->in_script = false;
    if (s->heap.used > s->heap.saved_used + REWIND_BYTES)
        rewind_heap(&s->heap);
}

/* Leaves the text's function on the stack. A compiler makes three times as much garbage as code. So
 * it works in another state, and the heap, which is never collected, is short to rewind. */
static bool compile(struct scripting *s, const char *text, size_t len)
{
    lua_State *compiler = luaL_newstate();
    if (compiler == NULL)
        abort();
    luaL_openlibs(compiler);
    lua_getglobal(compiler, "string");
    lua_getfield(compiler, -1, "dump");
    bool well = luaL_loadbuffer(compiler, text, len, "@user_script") == 0;
    if (well) {
        lua_call(compiler, 1, 1);
        const char *code = lua_tolstring(compiler, -1, &len);
        if (luaL_loadbuffer(s->lua, code, len, "@user_script") != 0)
            abort();
    }
    lua_close(compiler);
    return well;
}

/* Returns a copy of the text, broken if the replaced text is there; NULL if it is there twice. The
 * caller frees it. */
static char *broken_text(const char *text, const struct replacement *replacement,
                         bool *ret_replaced)
{
    const char *found = replacement == NULL ? NULL : strstr(text, replacement->from);
    if (found != NULL && strstr(found + 1, replacement->from) != NULL)
        return NULL;
    *ret_replaced = *ret_replaced || found != NULL;
    size_t size = strlen(text) + (found == NULL ? 0 : strlen(replacement->to)) + 1;
    char *copy = malloc(size);
    if (copy == NULL)
        abort();
    if (found == NULL)
        snprintf(copy, size, "%s", text);
    else
        snprintf(copy, size, "%.*s%s%s", (int)(found - text), text, replacement->to,
                 found + strlen(replacement->from));
    return copy;
}

/* Compiles a text that was given with EVAL, and breaks it first if the replaced text is there. */
static bool compile_given(struct scripting *s, const struct text_chunk *given)
{
    bool replaced = false;
    char *text = broken_text(given->text, s->given, &replaced);
    if (text == NULL)
        abort(); /* The replaced text is there twice. */
    bool well = compile(s, text, strlen(text));
    free(text);
    return well;
}

static bool find_function(struct scripting *s, bool by_sha, struct bytes what, int *ret_function)
{
    for (unsigned i = 0; by_sha && i < SCRIPT_COUNT; i++) {
        if (what.len == 40 && memcmp(what.at, redis_scripts[i].sha, 40) == 0) {
            *ret_function = s->functions[i];
            return true;
        }
    }
    for (unsigned i = 0; !by_sha && i < s->text_count; i++) {
        if (s->texts[i].len == what.len && memcmp(s->texts[i].text, what.at, what.len) == 0) {
            *ret_function = s->texts[i].function;
            return true;
        }
    }
    if (by_sha || s->text_count == TEXTS_MAX)
        return false;
    struct text_chunk *chunk = &s->texts[s->text_count];
    *chunk = (struct text_chunk){.text = strndup(what.at, what.len), .len = what.len};
    if (chunk->text == NULL)
        abort();
    rewind_heap(&s->heap);
    if (!compile_given(s, chunk)) {
        free(chunk->text);
        return false;
    }
    chunk->function = *ret_function = luaL_ref(s->lua, LUA_REGISTRYINDEX);
    s->text_count++;
    save(&s->heap);
    return true;
}

/* EVALSHA or EVAL, script, number of keys, keys and arguments. */
static void evaluate(struct scripting *s, bool by_sha, uint32_t count)
{
    int function;
    /* the next bytes on the wire end the number */
    unsigned long keys = strtoul(s->args[2].at, NULL, 10);
    if (count < 3 || keys > count - 3) {
        static const char more[] = "ERR Number of keys can't be greater than number of args";
        put_line(s, '-', more, sizeof more - 1);
        return;
    }
    if (!find_function(s, by_sha, s->args[1], &function)) {
        static const char none[] = "NOSCRIPT No matching script. Please use EVAL.";
        put_line(s, '-', none, sizeof none - 1);
        return;
    }
    run_function(s, function, s->args[1], s->args + 3, count - 3, (uint32_t)keys);
}

static size_t read_digits(const char **at)
{
    size_t number = 0;
    for (; **at >= '0' && **at <= '9'; ++*at)
        number = 10 * number + (size_t)(**at - '0');
    return number;
}

/* Reads the first command of the bytes, and removes it from them. */
static uint32_t parse(struct scripting *s, struct bytes *bytes)
{
    const char *at = bytes->at + 1;
    size_t count = read_digits(&at);
    if (bytes->at[0] != '*' || count == 0 || count > KEYSPACE_ARGS)
        abort();
    for (size_t i = 0; i < count; i++) {
        if (at[2] != '$')
            abort();
        at += 3;
        size_t len = read_digits(&at);
        s->args[i] = (struct bytes){at + 2, len};
        at += 2 + len;
    }
    if (at + 2 > bytes->at + bytes->len)
        abort();
    bytes->len -= (size_t)(at + 2 - bytes->at);
    bytes->at = at + 2;
    return (uint32_t)count;
}

static bool is_named(const struct scripting *s, const char *name)
{
    return s->args[0].len == strlen(name) && memcmp(s->args[0].at, name, s->args[0].len) == 0;
}

/* Runs the commands up to EXEC, or none of them if one is refused as it is queued. The reply is
 * EXEC's. */
static void execute(struct scripting *s, struct keyspace *keyspace, struct bytes bytes)
{
    struct bytes first = bytes;
    uint32_t queued = 0;
    bool is_refused = false;
    for (;; queued++) {
        parse(s, &bytes);
        if (is_named(s, "EXEC"))
            break;
        is_refused = is_refused || keyspace_refuses(keyspace, s->args[0]);
    }
    if (bytes.len > 0)
        abort();
    if (is_refused) {
        static const char text[] = "EXECABORT Transaction discarded because of previous errors.";
        put_line(s, '-', text, sizeof text - 1);
        return;
    }
    put_number(s, '*', queued);
    for (uint32_t i = 0; i < queued; i++) {
        uint32_t count = parse(s, &first);
        struct result result = keyspace_command(keyspace, s->args, count);
        put_result(s, &result);
    }
}

struct bytes scripting_run(struct scripting *s, struct keyspace *keyspace, struct bytes command)
{
    struct bytes rest = command;
    uint32_t count = parse(s, &rest);
    bool by_sha = is_named(s, "EVALSHA");
    s->keyspace = keyspace;
    s->reply_len = 0;
    if (is_named(s, "MULTI")) {
        execute(s, keyspace, rest);
    } else if (rest.len > 0) {
        abort();
    } else if (by_sha || is_named(s, "EVAL")) {
        evaluate(s, by_sha, count);
    } else {
        struct result result = keyspace_command(keyspace, s->args, count);
        put_result(s, &result);
    }
    return (struct bytes){s->reply, s->reply_len};
}

/* ---- start ---- */

static bool is_its_own(const char *file, const char *script)
{
    size_t len = strlen(file);
    return strncmp(file, script, len) == 0 && (script[len] == '\0' || script[len] == '_');
}

/* Returns true if the file may be in the script: it is the script's own, or a part that belongs to
 * no script. A script has only those pieces of a part that it uses (embed.py), so the text need not
 * be there. */
static bool may_go_into(const char *file, const char *script)
{
    bool is_part = true;
    for (unsigned i = 0; i < SCRIPT_COUNT; i++)
        is_part = is_part && !is_its_own(file, redis_scripts[i].name);
    return is_part || is_its_own(file, script);
}

/* The script's text, broken if the replaced text is there; NULL if it is there twice. */
static char *text_of(const struct script *script, const struct replacement *replacement,
                     bool *ret_replaced)
{
    if (replacement != NULL && !may_go_into(replacement->file, script->name))
        replacement = NULL;
    return broken_text(script->text, replacement, ret_replaced);
}

static const char *compile_all(struct scripting *s, const struct replacement *replacement)
{
    char *texts[SCRIPT_COUNT];
    bool is_given = replacement != NULL && strcmp(replacement->file, "unlock") == 0,
         replaced = replacement == NULL || is_given;
    const char *why = NULL;
    s->given = is_given ? replacement : NULL;
    for (unsigned i = 0; i < SCRIPT_COUNT; i++) {
        texts[i] = text_of(&redis_scripts[i], replacement, &replaced);
        if (texts[i] == NULL)
            why = "the text to be replaced is there twice";
    }
    if (why == NULL && !replaced)
        why = "no script has that text of that file";
    for (unsigned i = 0; why == NULL && i < SCRIPT_COUNT; i++) {
        if (compile(s, texts[i], strlen(texts[i])))
            s->functions[i] = luaL_ref(s->lua, LUA_REGISTRYINDEX);
        else
            why = "the replaced text does not compile";
    }
    for (unsigned i = 0; i < SCRIPT_COUNT; i++)
        free(texts[i]);
    return why;
}

static void set_function(struct scripting *s, const char *name, lua_CFunction function)
{
    lua_pushlightuserdata(s->lua, s);
    lua_pushcclosure(s->lua, function, 1);
    lua_setfield(s->lua, -2, name);
}

static void open_libraries(struct scripting *s)
{
    static const luaL_Reg libraries[] = {{"", luaopen_base},
                                         {"table", luaopen_table},
                                         {"string", luaopen_string},
                                         {"math", luaopen_math}};
    lua_State *lua = s->lua;
    for (size_t i = 0; i < sizeof libraries / sizeof libraries[0]; i++) {
        lua_pushcfunction(lua, libraries[i].func);
        lua_pushstring(lua, libraries[i].name);
        lua_call(lua, 1, 0);
    }
    lua_pushcfunction(lua, protected_call);
    lua_setglobal(lua, "pcall");
    lua_createtable(lua, 0, 4);
    set_function(s, "call", redis_call);
    set_function(s, "pcall", redis_pcall);
    set_function(s, "error_reply", redis_error_reply);
    set_function(s, "status_reply", redis_status_reply);
    lua_setglobal(lua, "redis");
    lua_createtable(lua, 0, 2);
    lua_pushcfunction(lua, unknown_global);
    lua_setfield(lua, -2, "__index");
    lua_pushcfunction(lua, new_global);
    lua_setfield(lua, -2, "__newindex");
    lua_setmetatable(lua, LUA_GLOBALSINDEX);
    lua_pushcfunction(lua, handle_error);
    s->handler = luaL_ref(lua, LUA_REGISTRYINDEX);
}

struct scripting *scripting_new(const struct replacement *replacement, const char **ret_why)
{
    struct scripting *s = calloc(1, sizeof *s);
    if (s == NULL || (s->heap.bytes = malloc(HEAP_BYTES)) == NULL ||
        (s->lua = lua_newstate(allocate, &s->heap)) == NULL)
        abort();
    lua_gc(s->lua, LUA_GCSTOP, 0);
    open_libraries(s);
    const char *why = compile_all(s, replacement);
    if (why != NULL) {
        scripting_free(s);
        *ret_why = why;
        return NULL;
    }
    save(&s->heap);
    return s;
}

void scripting_free(struct scripting *s)
{
    for (unsigned i = 0; i < s->text_count; i++)
        free(s->texts[i].text);
    free(s->heap.bytes);
    free(s->heap.saved);
    free(s->reply);
    free(s);
}
