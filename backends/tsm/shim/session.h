/* A session behind its handle, and the state machine that decides which calls are legal.
 *
 * One idea: a call enters a session with the states in which it is legal, and leaves it with its code. Between the two
 * only that call uses the session, in any thread. The table of handles is locked only for a lookup, so no session waits
 * for another.
 */
#ifndef SESSION_H
#define SESSION_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "buffers.h"
#include "include/archiver_tsm.h"
#include "options.h"
#include "policy.h"
#include "protocol.h"
#include "wire.h"

enum state {
    IN_SESSION = 1,
    IN_TRANSACTION = 2,
    IN_SEND = 4,
    IN_QUERY = 8,
    IN_GET = 16,
    IN_OBJECT = 32,
    IN_EXPIRED = 64, /* the password must be changed first */
    IN_ANY = 63,
};

/* The values that prove a password; the password itself is not kept. */
struct credentials {
    unsigned char nonces[2 * NONCE_SIZE]; /* the client's, the server's */
    unsigned char salt[NONCE_SIZE];
    uint32_t iterations;
};

/* File spaces with known numbers. */
struct space {
    uint32_t number;
    char *name;
};

struct binding {
    bool is_made;
    bool is_excluded;
    const struct management_class *class;
    dsmObjName name;
};

struct transaction {
    bool is_on_wire;         /* the server knows of it */
    bool has_event;
    bool is_doomed;          /* the server has sent that it will not commit */
    uint32_t operations;
    const char *destination; /* of the objects with data; NULL before the first */
    bool takes_data;         /* the open object was not announced as empty */
    uint64_t object_bytes;   /* sent of the open object */
};

enum query_kind { QUERY_NOTHING, QUERY_ARCHIVES, QUERY_SPACES, QUERY_CLASSES, QUERY_CLASS_DETAILS };

struct query {
    enum query_kind kind;
    bool is_over;
    dsInt16_t end_code; /* code of all further calls of GetNextQObj */
    dsUint16_t rows;    /* left in `body` */
    struct reader body;
    char fs[DSM_MAX_FSNAME_LENGTH + 1];
    char class_name[DSM_MAX_MC_NAME_LENGTH + 1]; /* "": all */
    uint16_t next_class;
};

struct get {
    uint64_t *ids;
    uint32_t count;
    uint32_t next;         /* the first object of the list that can still be requested */
    bool is_over;          /* the server has nothing more to send */
    dsInt16_t end_code;    /* with which it ended */
    uint64_t object_left;  /* bytes of the open object that have not arrived */
    dsInt16_t object_code; /* why it broke off */
};

struct session {
    dsUint32_t handle;
    atomic_uint references; /* of the table and of current calls */
    pthread_mutex_t mutex;
    bool is_closed;
    enum state state;
    struct wire wire;
    struct options options;
    struct policy policy;
    struct credentials credentials;
    char node[DSM_MAX_NODE_LENGTH + 1];
    char owner[DSM_MAX_OWNER_LENGTH + 1];
    char application_type[DSM_MAX_PLATFORM_LENGTH + 1];
    char config_file[PATH_SIZE];
    struct space *spaces;
    size_t space_count;
    size_t space_last; /* the one found last */
    struct binding binding;
    struct transaction transaction;
    struct query query;
    struct get get;
    struct buffers buffers;
    bool only_reads; /* from another node or owner */
    qryRespAccessData *access_rules; /* the last result of dsmQueryAccess */
};

/* Returns a new session without a handle, or NULL. */
struct session *session_create(void);

/* Drops a reference. The last one frees the session and ends its connection. */
void session_release(struct session *session);

/* Adds the session to the table, which takes its own reference, and gives it a handle. Codes: OK, NO_MEMORY: too
 * many. */
dsInt16_t session_publish(struct session *session, dsUint32_t *handle);

/* Locks the session of a handle for a call that is legal in `states`. Codes: OK, INVALID_DS_HANDLE also if the
 * connection is lost, which the call that met it has returned, BAD_CALL_SEQUENCE. Sets *entered only if OK. */
dsInt16_t session_enter(dsUint32_t handle, unsigned states, struct session **entered);

/* Unlocks it. Returns `code`. */
dsInt16_t session_leave(struct session *session, dsInt16_t code);

/* Removes the session from the table in any state, and locks it like session_enter. */
dsInt16_t session_withdraw(dsUint32_t handle, struct session **entered);

/* Returns whether any session is open. */
bool sessions_open(void);

/* Returns the number of a file space, which the session requests from the server once. Codes: OK, FS_NOT_REGISTERED,
 * NEEDTO_ENDTXN if it cannot be requested within a transaction, NO_MEMORY, the codes of the connection. */
dsInt16_t session_space(struct session *session, const char *name, size_t length, uint32_t *number);
dsInt16_t session_remember_space(struct session *session, const char *name, uint32_t number);
void session_forget_space(struct session *session, const char *name);
void session_forget_spaces(struct session *session);

/* Sends the waiting frames and waits for the ANSWER. Returns its code, or that of the connection. */
dsInt16_t session_ask(struct session *session, uint64_t *value);

/* Returns whether the session may use that owner. NULL and "" mean the owner of the session. */
bool session_may_use_owner(const struct session *session, const char *owner);

#endif
