#include "trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "journal.h"
#include "names.h"

#define VERSION 1
#define NO_MEMORY "there is no memory for what it is to hold"
#define UNKNOWN (-1)
#define NO_LIMIT_DAYS 65535
#define DAY_SECONDS 86400
#define KEY_SIZE (DSM_MAX_FSNAME_LENGTH + DSM_MAX_HL_LENGTH + DSM_MAX_LL_LENGTH + 1)

/* Status numbers of archiver/values/record.py. */
#define CONNECTION_LOST 5
#define TSM_ERROR 10000
#define STATUS_MAX INT16_MAX

struct row {
    const char *operation;
    int64_t sent_ns;
    int64_t first_byte_ns; /* this field and the following ones: UNKNOWN if not known */
    int64_t done_ns;
    int64_t size_bytes;
    int64_t offset;
    int64_t length;
    int64_t retain_seconds;
    bool has_class;
    int hold; /* 1 set, 0 lifted */
    int status;
};

/* An operation of a transaction, before its vote. */
struct asked {
    struct row row;
    size_t key; /* where it begins in `keys` */
};

struct extent {
    uint64_t offset;
    uint64_t length;
};

struct trace {
    pid_t process; /* the process that opened the session */
    uint64_t number;
    int64_t called_ns; /* when the current call began */

    int64_t transaction_ns; /* when it began; UNKNOWN outside a transaction */
    struct asked *asked;
    size_t asked_count;
    size_t asked_room;
    char *keys;
    size_t keys_used;
    size_t keys_room;
    bool has_open_object; /* its size is not known yet */
    size_t open_object;   /* where it is in `asked` */

    bool has_row; /* the row of a query, or of an object that is being received */
    struct row row;
    char key[KEY_SIZE];
    int64_t get_ns; /* when the list was requested, for its first object; then UNKNOWN */
    struct extent *extents; /* NULL: whole objects */
    uint64_t whole_bytes;
    uint64_t come_bytes;

    struct lines lines;
};

static struct row row_of(const char *operation, int64_t sent_ns)
{
    return (struct row){
        .operation = operation,
        .sent_ns = sent_ns,
        .first_byte_ns = UNKNOWN,
        .done_ns = UNKNOWN,
        .size_bytes = UNKNOWN,
        .offset = UNKNOWN,
        .length = UNKNOWN,
        .retain_seconds = UNKNOWN,
        .hold = UNKNOWN,
    };
}

/* The status of a return code or of the reason of a vote. */
static int status_of(int code)
{
    if (code <= 0) {
        return code < 0 ? CONNECTION_LOST : 0;
    }
    return code < STATUS_MAX - TSM_ERROR ? TSM_ERROR + code : STATUS_MAX; /* no honest server sends such a code */
}

struct trace *trace_create(const struct options *options)
{
    if (!journal_is_wanted()) {
        return NULL;
    }
    struct trace *trace = calloc(1, sizeof *trace);
    if (!trace) {
        journal_stop(NO_MEMORY, options);
        return NULL;
    }
    trace->lines.options = options;
    trace->process = getpid();
    trace->transaction_ns = trace->get_ns = UNKNOWN;
    trace_call(trace);
    if (getrandom(&trace->number, sizeof trace->number, GRND_NONBLOCK) != sizeof trace->number) {
        trace->number = (uint64_t)trace->called_ns ^ (uint64_t)(uintptr_t)trace;
    }
    trace->number >>= 1; /* the column has signed numbers */
    return trace;
}

void trace_free(struct trace *trace)
{
    if (trace) {
        free(trace->asked);
        free(trace->keys);
        free(trace->extents);
        free(trace);
    }
}

void trace_call(struct trace *trace)
{
    if (trace) {
        trace->called_ns = journal_now_ns();
    }
}

/* Returns the trace to write to, or NULL. */
static struct trace *trace_of(const struct session *session)
{
    return session->trace && journal_is_on(&session->options) ? session->trace : NULL;
}

static void put_number(struct lines *lines, int64_t number)
{
    if (number < 0) {
        lines_put(lines, "null");
    } else {
        lines_put_number(lines, (uint64_t)number);
    }
    lines_put(lines, ",");
}

static void put_row(struct trace *trace, const struct row *row, const char *key)
{
    struct lines *lines = &trace->lines;
    lines_begin(lines);
    lines_put(lines, "[");
    put_number(lines, row->sent_ns);
    put_number(lines, row->sent_ns);
    put_number(lines, row->first_byte_ns);
    put_number(lines, row->done_ns);
    lines_put(lines, "\"");
    lines_put(lines, row->operation);
    lines_put(lines, "\",");
    if (*key) {
        lines_put_string(lines, key);
        lines_put(lines, ",null,");
    } else {
        lines_put(lines, "null,null,");
    }
    put_number(lines, row->size_bytes);
    put_number(lines, row->offset);
    put_number(lines, row->length);
    lines_put(lines, row->has_class ? "\"CLASS\"," : "null,");
    put_number(lines, row->retain_seconds);
    lines_put(lines, row->hold > 0 ? "true," : row->hold == 0 ? "false," : "null,");
    put_number(lines, trace->process);
    put_number(lines, (int64_t)trace->number);
    lines_put(lines, "0,");
    put_number(lines, row->status);
    lines_put(lines, "1]\n");
}

static void put_only_row(struct trace *trace, const struct row *row, const char *key)
{
    put_row(trace, row, key);
    journal_write(&trace->lines);
}

/* Sessions */

static void put_session(struct trace *trace, const struct session *session)
{
    struct lines *lines = &trace->lines;
    char server[sizeof session->options.address + 16];
    snprintf(server, sizeof server, "%s:%ld", session->options.address, session->options.port);
    lines_begin(lines);
    lines_put(lines, "{\"archiver_tsm_trace\":");
    put_number(lines, VERSION);
    lines_put(lines, "\"session\":");
    put_number(lines, (int64_t)trace->number);
    lines_put(lines, "\"process\":");
    put_number(lines, trace->process);
    lines_put(lines, "\"node\":");
    lines_put_string(lines, session->node);
    lines_put(lines, ",\"owner\":");
    lines_put_string(lines, session->owner);
    lines_put(lines, ",\"server\":");
    lines_put_string(lines, server);
    lines_put(lines, "}\n");
}

void trace_open(const struct session *session, dsInt16_t code)
{
    struct trace *trace = trace_of(session);
    if (!trace) {
        return;
    }
    put_session(trace, session);
    struct row row = row_of("open", trace->called_ns);
    row.done_ns = journal_now_ns();
    row.first_byte_ns = code ? UNKNOWN : row.done_ns;
    row.status = status_of(code);
    put_only_row(trace, &row, "");
}

/* Transactions */

void trace_transaction(const struct session *session)
{
    struct trace *trace = trace_of(session);
    if (trace) {
        trace->transaction_ns = trace->called_ns;
    }
}

/* Adds a row to those of the transaction. The caller writes its key to keys + keys_used, which has space for one.
 * Returns false if there is no memory, which ends the recording. */
static bool add_asked(struct trace *trace, const struct row *row)
{
    if (trace->asked_count == trace->asked_room) {
        size_t room = trace->asked_room ? 2 * trace->asked_room : 64;
        struct asked *more = realloc(trace->asked, room * sizeof *more);
        if (!more) {
            journal_stop(NO_MEMORY, trace->lines.options);
            return false;
        }
        trace->asked = more;
        trace->asked_room = room;
    }
    if (trace->keys_room - trace->keys_used < KEY_SIZE) {
        size_t room = 2 * trace->keys_room + KEY_SIZE;
        char *more = realloc(trace->keys, room);
        if (!more) {
            journal_stop(NO_MEMORY, trace->lines.options);
            return false;
        }
        trace->keys = more;
        trace->keys_room = room;
    }
    trace->asked[trace->asked_count++] = (struct asked){*row, trace->keys_used};
    return true;
}

static size_t write_name(char key[KEY_SIZE], const char *fs, const char *hl, const char *ll)
{
    size_t lengths[3] = {strlen(fs), strlen(hl), strlen(ll)};
    memcpy(key, fs, lengths[0]);
    memcpy(key + lengths[0], hl, lengths[1]);
    memcpy(key + lengths[0] + lengths[1], ll, lengths[2] + 1);
    return lengths[0] + lengths[1] + lengths[2] + 1;
}

static size_t write_id(char key[KEY_SIZE], uint64_t id)
{
    return (size_t)snprintf(key, KEY_SIZE, "#%llu", (unsigned long long)id) + 1;
}

/* Ends the previous object if its size is still unknown: no later call belongs to it. */
static void settle(const struct session *session, struct trace *trace)
{
    if (trace->has_open_object) {
        trace->asked[trace->open_object].row.size_bytes = (int64_t)session->transaction.object_bytes;
        trace->has_open_object = false;
    }
}

void trace_archive(const struct session *session, const dsmObjName *name, const struct management_class *class)
{
    struct trace *trace = trace_of(session);
    if (!trace) {
        return;
    }
    settle(session, trace);
    struct row row = row_of("archive", trace->called_ns);
    row.has_class = true;
    if (class->retinit == ARCH_RETINIT_CREATE && class->retver_days != NO_LIMIT_DAYS) {
        row.retain_seconds = (int64_t)class->retver_days * DAY_SECONDS;
    }
    if (add_asked(trace, &row)) {
        trace->keys_used += write_name(trace->keys + trace->keys_used, name->fs, name->hl, name->ll);
        trace->has_open_object = true;
        trace->open_object = trace->asked_count - 1;
    }
}

static void add_by_id(struct trace *trace, const struct row *row, uint64_t id)
{
    if (add_asked(trace, row)) {
        trace->keys_used += write_id(trace->keys + trace->keys_used, id);
    }
}

void trace_delete(const struct session *session, uint64_t id)
{
    struct trace *trace = trace_of(session);
    if (trace) {
        struct row row = row_of("delete", trace->called_ns);
        add_by_id(trace, &row, id);
    }
}

void trace_event(const struct session *session, dsmEventType_t type, uint64_t id)
{
    struct trace *trace = trace_of(session);
    if (!trace) {
        return;
    }
    bool is_hold = type == eventHoldObj, is_release = type == eventReleaseObj;
    struct row row = row_of(is_hold ? "hold" : is_release ? "release" : "other", trace->called_ns);
    row.hold = is_hold ? 1 : is_release ? 0 : UNKNOWN;
    add_by_id(trace, &row, id);
}

/* Writes the rows of the transaction: its operations are done when the vote is answered. */
static void end_transaction(const struct session *session, struct trace *trace, int64_t voted_ns, int status)
{
    struct row whole = row_of("transaction", trace->transaction_ns);
    settle(session, trace);
    whole.first_byte_ns = voted_ns;
    whole.done_ns = journal_now_ns();
    whole.status = status;
    whole.size_bytes = 0;
    for (size_t i = 0; i < trace->asked_count; i++) {
        struct asked *asked = &trace->asked[i];
        asked->row.done_ns = whole.done_ns;
        asked->row.status = status;
        if (!status && asked->row.size_bytes > 0) {
            whole.size_bytes += asked->row.size_bytes;
        }
        put_row(trace, &asked->row, trace->keys + asked->key);
    }
    put_only_row(trace, &whole, "");
    trace->asked_count = trace->keys_used = 0;
    trace->transaction_ns = UNKNOWN;
}

void trace_vote(const struct session *session, dsInt16_t code, dsUint16_t reason)
{
    struct trace *trace = trace_of(session);
    if (trace && trace->transaction_ns != UNKNOWN) {
        end_transaction(session, trace, trace->called_ns, status_of(reason ? reason : code));
    }
}

/* Retrieving */

void trace_get(const struct session *session, const dsmGetList *list, dsInt16_t code)
{
    struct trace *trace = trace_of(session);
    if (!trace || (code && !session->wire.lost)) {
        return;
    }
    trace->get_ns = trace->called_ns;
    free(trace->extents);
    trace->extents = NULL;
    if (list->stVersion == dsmGetListPORVersion) {
        trace->extents = malloc(list->numObjId * sizeof *trace->extents);
        if (!trace->extents) {
            journal_stop(NO_MEMORY, trace->lines.options);
            return;
        }
        for (dsUint32_t i = 0; i < list->numObjId; i++) {
            const PartialObjData *part = &list->partialObjData[i];
            trace->extents[i] = (struct extent){number_of(part->partialObjOffset), number_of(part->partialObjLength)};
        }
    }
    if (code) {
        trace_head(session, 0, code);
    }
}

static void end_object(struct trace *trace, int status)
{
    struct row *row = &trace->row;
    row->done_ns = journal_now_ns();
    row->status = status;
    put_only_row(trace, row, trace->key);
    trace->has_row = false;
}

void trace_head(const struct session *session, uint32_t index, dsInt16_t code)
{
    struct trace *trace = trace_of(session);
    if (!trace) {
        return;
    }
    const struct extent *extent = trace->extents ? &trace->extents[index] : NULL;
    trace->has_row = true;
    trace->row = row_of(extent ? "range-retrieve" : "retrieve",
                        trace->get_ns == UNKNOWN ? trace->called_ns : trace->get_ns);
    trace->get_ns = UNKNOWN;
    trace->whole_bytes = session->get.object_left;
    trace->come_bytes = 0;
    write_id(trace->key, session->get.ids[index]);
    if (extent) {
        trace->row.offset = (int64_t)extent->offset;
        trace->row.length = extent->length ? (int64_t)extent->length : UNKNOWN;
    }
    if (code) {
        end_object(trace, status_of(code));
    }
}

void trace_piece(const struct session *session, const DataBlk *block, dsInt16_t code)
{
    struct trace *trace = trace_of(session);
    if (!trace || !trace->has_row) {
        return;
    }
    if (trace->row.first_byte_ns == UNKNOWN) {
        trace->row.first_byte_ns = journal_now_ns();
    }
    trace->come_bytes += block->numBytes;
    if (code != DSM_RC_MORE_DATA && code != DSM_RC_FINISHED) {
        trace->row.size_bytes = (int64_t)trace->come_bytes;
        end_object(trace, status_of(code));
    }
}

/* A caller that stops before the end has retrieved a part. */
void trace_object_end(const struct session *session)
{
    struct trace *trace = trace_of(session);
    if (!trace || !trace->has_row) {
        return;
    }
    struct row *row = &trace->row;
    if (trace->extents) {
        row->size_bytes = row->length = (int64_t)trace->come_bytes;
    } else if (trace->come_bytes < trace->whole_bytes) {
        row->operation = "range-retrieve";
        row->size_bytes = (int64_t)trace->whole_bytes;
        row->offset = 0;
        row->length = (int64_t)trace->come_bytes;
    } else {
        row->size_bytes = (int64_t)trace->whole_bytes;
    }
    end_object(trace, 0);
}

/* Queries */

void trace_query(const struct session *session, const void *asked, dsInt16_t code)
{
    struct trace *trace = trace_of(session);
    enum query_kind kind = session->query.kind;
    /* The server has looked the name up if it answers that the file space does not exist or may not be read. */
    bool is_told = code == DSM_RC_FILE_SPACE_NOT_FOUND || code == DSM_RC_NO_AUTHORIZATION;
    bool has_asked = !code || is_told || session->wire.lost;
    if (!trace || !has_asked) {
        return;
    }
    if (is_told || kind == QUERY_ARCHIVES) {
        const dsmObjName *name = ((const qryArchiveData *)asked)->objName;
        trace->row = row_of("list", trace->called_ns);
        write_name(trace->key, name->fs, name->hl, name->ll);
    } else if (kind == QUERY_SPACES) {
        trace->row = row_of("other", trace->called_ns);
        write_name(trace->key, ((const qryFSData *)asked)->fsName, "", "");
    } else {
        return;
    }
    trace->has_row = true;
    if (code) {
        end_object(trace, status_of(code));
    }
}

void trace_answer(const struct session *session, dsInt16_t code)
{
    struct trace *trace = trace_of(session);
    if (!trace || !trace->has_row) {
        return;
    }
    if (trace->row.first_byte_ns == UNKNOWN) {
        trace->row.first_byte_ns = journal_now_ns();
    }
    bool is_answer = code == DSM_RC_MORE_DATA || code == DSM_RC_FINISHED || code == DSM_RC_ABORT_NO_MATCH;
    trace->row.status = is_answer ? trace->row.status : status_of(code);
}

void trace_name(const struct session *session, uint64_t id, uint64_t size_bytes, const dsmObjName *name)
{
    struct trace *trace = trace_of(session);
    if (!trace) {
        return;
    }
    char key[KEY_SIZE];
    struct lines *lines = &trace->lines;
    write_name(key, name->fs, name->hl, name->ll);
    lines_begin(lines);
    lines_put(lines, "{\"id\":");
    lines_put_number(lines, id);
    lines_put(lines, ",\"session\":");
    put_number(lines, (int64_t)trace->number);
    lines_put(lines, "\"size_bytes\":");
    lines_put_number(lines, size_bytes);
    lines_put(lines, ",\"key\":");
    lines_put_string(lines, key);
    lines_put(lines, "}\n");
}

void trace_query_end(const struct session *session, dsInt16_t code)
{
    struct trace *trace = trace_of(session);
    if (trace && trace->has_row) {
        end_object(trace, code ? status_of(code) : trace->row.status);
    }
}

/* The rest */

void trace_other(const struct session *session, const char *fs, const char *hl, const char *ll, dsInt16_t code)
{
    struct trace *trace = trace_of(session);
    if (!trace) {
        return;
    }
    char key[KEY_SIZE];
    struct row row = row_of("other", trace->called_ns);
    write_name(key, fs, hl, ll);
    row.done_ns = journal_now_ns();
    row.status = status_of(code);
    put_only_row(trace, &row, key);
}

void trace_close(const struct session *session)
{
    struct trace *trace = trace_of(session);
    if (!trace) {
        return;
    }
    int status = status_of(session->wire.lost ? session->wire.lost : DSM_RS_ABORT_BY_CLIENT);
    if (trace->transaction_ns != UNKNOWN) {
        end_transaction(session, trace, UNKNOWN, status);
    }
    if (trace->has_row) {
        end_object(trace, status);
    }
    struct row row = row_of("close", trace->called_ns);
    row.done_ns = journal_now_ns();
    put_only_row(trace, &row, "");
}
