/* What every test needs: expectations, and the calls that they make again and again. */
#ifndef CALLS_H
#define CALLS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include <archiver_tsm.h>

#define MEBIBYTE (1u << 20)
#define CANARY 0xA5
#define SPACE "/program"

extern atomic_int failures;
extern const char *node;
extern const char *password;

void expect(int line, const char *file, const char *what, long wanted, long got);

#define EXPECT(wanted, what) expect(__LINE__, __FILE__, #what, (long)(wanted), (long)(what))
#define CHECK(what) expect(__LINE__, __FILE__, #what, 1, (what) ? 1 : 0)

dsInt16_t sign_on_with(dsUint32_t *handle, const char *owner, const char *options);
dsInt16_t sign_on_as(dsUint32_t *handle, const char *as_node, const char *as_password, const char *owner,
                     const char *options);
dsUint32_t open_session(void); /* and register SPACE */

dsmObjName name_of(const char *hl, const char *ll);
dsStruct64_t halves(unsigned long long number);
unsigned long long whole(dsStruct64_t number);
DataBlk block_of(void *bytes, size_t length);
char *noise(size_t length); /* always the same; to be freed */
bool is_untouched(const void *structure, size_t from, size_t size);

dsInt16_t bind_name(dsUint32_t handle, dsmObjName *name);

/* In a transaction: one object whose bytes come in pieces of so many. */
void send_object(dsUint32_t handle, dsmObjName *name, char *class, const char *bytes, size_t length, size_t piece);
dsInt16_t ask_delete(dsUint32_t handle, ObjID id);
dsInt16_t ask_event(dsUint32_t handle, dsmEventType_t type, ObjID *ids, dsUint32_t count);
void commit(dsUint32_t handle);
void expect_refused(dsUint32_t handle, dsUint16_t wanted);

/* A transaction of one object. */
void archive(dsUint32_t handle, const char *hl, const char *ll, char *class, const char *bytes, size_t length,
             size_t piece);

dsInt16_t begin_query(dsUint32_t handle, const char *hl, const char *ll);

/* Returns how many there are; the first `room` of them are in `found`. */
size_t find(dsUint32_t handle, const char *hl, const char *ll, qryRespArchiveData *found, size_t room);
qryRespArchiveData find_one(dsUint32_t handle, const char *hl, const char *ll);

dsInt16_t begin_get(dsUint32_t handle, ObjID *ids, dsUint32_t count);

/* The bytes of an open get's object, which are not more than `room`; `bytes` has room for a piece more. */
size_t receive_object(dsUint32_t handle, ObjID *id, char *bytes, size_t room, size_t piece);

/* A get of one object. */
void expect_content(dsUint32_t handle, ObjID id, const char *wanted, size_t length, size_t piece);

/* The tests, by what they are about. */
void test_signing_on(void);
void test_sessions(void);
void test_file_spaces(void);
void test_classes(void);
void test_archiving(void);
void test_transactions(void);
void test_retrieving(void);
void test_queries(void);
void test_retention(void);
void test_states(void);
void test_buffers(void);
void test_access(void);
void test_services(void);
void test_threads(void);
void test_lost_store(void);
void test_found_store(void);

#endif
