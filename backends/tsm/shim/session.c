#include "session.h"

#include <stdlib.h>
#include <string.h>

#define SESSIONS_MAX 4096u
#define HANDLE_MAX 0x7fffffffu

/* The session with handle h is in slot h % SESSIONS_MAX. Handles are assigned in ascending order, so the handle of a
 * closed session stays unknown until two thousand million others have been used. */
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static struct session *table[SESSIONS_MAX];
static dsUint32_t last_handle;
static unsigned open_count;

struct session *session_create(void)
{
    struct session *session = calloc(1, sizeof *session);
    if (session && pthread_mutex_init(&session->mutex, NULL)) {
        free(session);
        return NULL;
    }
    if (session) {
        atomic_init(&session->references, 1);
        session->wire.socket = -1;
        session->state = IN_SESSION;
    }
    return session;
}

void session_release(struct session *session)
{
    if (atomic_fetch_sub(&session->references, 1) != 1) {
        return;
    }
    wire_close(&session->wire);
    options_wipe(&session->options);
    rules_free(&session->options.rules);
    policy_free(&session->policy);
    session_forget_spaces(session);
    free(session->spaces);
    free(session->get.ids);
    free(session->access_rules);
    buffers_end(&session->buffers);
    pthread_mutex_destroy(&session->mutex);
    explicit_bzero(&session->credentials, sizeof session->credentials);
    free(session);
}

dsInt16_t session_publish(struct session *session, dsUint32_t *handle)
{
    pthread_mutex_lock(&guard);
    bool has_room = open_count < SESSIONS_MAX;
    if (has_room) {
        do {
            last_handle = last_handle % HANDLE_MAX + 1;
        } while (table[last_handle % SESSIONS_MAX]);
        table[last_handle % SESSIONS_MAX] = session;
        open_count++;
        atomic_fetch_add(&session->references, 1);
        *handle = session->handle = last_handle;
    }
    pthread_mutex_unlock(&guard);
    return has_room ? DSM_RC_OK : DSM_RC_NO_MEMORY;
}

/* Locks the session and counts a reference, or returns NULL. */
static struct session *lock(dsUint32_t handle, bool withdraw)
{
    pthread_mutex_lock(&guard);
    struct session **slot = &table[handle % SESSIONS_MAX];
    struct session *session = *slot && (*slot)->handle == handle ? *slot : NULL;
    if (session && withdraw) { /* the table's reference becomes the caller's */
        *slot = NULL;
        open_count--;
    } else if (session) {
        atomic_fetch_add(&session->references, 1);
    }
    pthread_mutex_unlock(&guard);
    if (session) {
        pthread_mutex_lock(&session->mutex);
    }
    return session;
}

dsInt16_t session_enter(dsUint32_t handle, unsigned states, struct session **entered)
{
    struct session *session = lock(handle, false);
    if (!session) {
        return DSM_RC_INVALID_DS_HANDLE;
    }
    if (session->is_closed) {
        return session_leave(session, DSM_RC_INVALID_DS_HANDLE);
    }
    if (session->wire.lost) {
        return session_leave(session, DSM_RC_INVALID_DS_HANDLE);
    }
    if (!(session->state & states)) {
        return session_leave(session, DSM_RC_BAD_CALL_SEQUENCE);
    }
    *entered = session;
    return DSM_RC_OK;
}

dsInt16_t session_leave(struct session *session, dsInt16_t code)
{
    pthread_mutex_unlock(&session->mutex);
    session_release(session);
    return code;
}

dsInt16_t session_withdraw(dsUint32_t handle, struct session **entered)
{
    *entered = lock(handle, true);
    if (!*entered) {
        return DSM_RC_INVALID_DS_HANDLE;
    }
    (*entered)->is_closed = true;
    return DSM_RC_OK;
}

bool sessions_open(void)
{
    pthread_mutex_lock(&guard);
    bool any = open_count > 0;
    pthread_mutex_unlock(&guard);
    return any;
}

dsInt16_t session_ask(struct session *session, uint64_t *value)
{
    struct reader body;
    struct wire *wire = &session->wire;
    if (wire_flush(wire) || wire_expect(wire, FRAME_ANSWER) || wire_body(wire, &body)) {
        return wire->lost;
    }
    int16_t code = read_i16(&body);
    read_u16(&body);
    *value = read_u64(&body);
    return read_all(&body) ? code : wire_fail(wire, DSM_RC_COMM_PROTOCOL_ERROR);
}

dsInt16_t session_space(struct session *session, const char *name, size_t length, uint32_t *number)
{
    for (size_t i = 0; i < session->space_count; i++) {
        size_t at = (session->space_last + i) % session->space_count;
        if (strcmp(session->spaces[at].name, name) == 0) {
            session->space_last = at;
            *number = session->spaces[at].number;
            return DSM_RC_OK;
        }
    }
    if (session->state == IN_TRANSACTION && session->transaction.is_on_wire) {
        return DSM_RC_NEEDTO_ENDTXN;
    }
    uint64_t value;
    if (wire_begin(&session->wire, FRAME_FIND_SPACE, 2 + length)) {
        return session->wire.lost;
    }
    wire_put_text(&session->wire, name, length);
    dsInt16_t code = session_ask(session, &value);
    if (code) {
        return code;
    }
    *number = (uint32_t)value;
    return session_remember_space(session, name, *number);
}

dsInt16_t session_remember_space(struct session *session, const char *name, uint32_t number)
{
    session_forget_space(session, name);
    struct space *more = realloc(session->spaces, (session->space_count + 1) * sizeof *more);
    char *copy = strdup(name);
    if (more) {
        session->spaces = more;
    }
    if (!more || !copy) {
        free(copy);
        return DSM_RC_NO_MEMORY;
    }
    more[session->space_count++] = (struct space){number, copy};
    return DSM_RC_OK;
}

void session_forget_space(struct session *session, const char *name)
{
    for (size_t i = 0; i < session->space_count; i++) {
        if (strcmp(session->spaces[i].name, name) == 0) {
            free(session->spaces[i].name);
            session->spaces[i] = session->spaces[--session->space_count];
            session->space_last = 0;
            return;
        }
    }
}

void session_forget_spaces(struct session *session)
{
    while (session->space_count > 0) {
        free(session->spaces[--session->space_count].name);
    }
    session->space_last = 0;
}

bool session_may_use_owner(const struct session *session, const char *owner)
{
    return !owner || !*owner || !*session->owner || strcmp(owner, session->owner) == 0;
}
