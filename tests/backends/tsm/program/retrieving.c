/* Retrieving objects, whole and in parts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"

static void test_get_lists(void)
{
    enum { COUNT = 60 };
    dsUint32_t handle = open_session();
    char *bytes = noise(40000);
    ObjID ids[COUNT];
    size_t lengths[COUNT];
    EXPECT(DSM_RC_OK, dsmBeginTxn(handle));
    for (unsigned i = 0; i < COUNT; i++) {
        char ll[32];
        snprintf(ll, sizeof ll, "/%02u", i);
        lengths[i] = i * 601 % 40000;
        dsmObjName name = name_of("/lists", ll);
        send_object(handle, &name, NULL, bytes, lengths[i], 10000);
    }
    commit(handle);
    qryRespArchiveData *rows = calloc(COUNT, sizeof *rows);
    EXPECT(COUNT, find(handle, "/lists", "*", rows, COUNT));
    for (unsigned i = 0; i < COUNT; i++) {
        unsigned at = (unsigned)atoi(rows[i].objName.ll + 1);
        CHECK(at < COUNT);
        ids[at % COUNT] = rows[i].objId;
    }
    free(rows);

    char *got = malloc(40000 + 10001);
    EXPECT(DSM_RC_OK, begin_get(handle, ids, COUNT));
    for (unsigned i = 0; i < COUNT; i++) {
        EXPECT(lengths[i], receive_object(handle, &ids[i], got, lengths[i], 10000));
        CHECK(memcmp(got, bytes, lengths[i]) == 0);
    }
    DataBlk block = block_of(got, 100);
    EXPECT(DSM_RC_OBJID_NOTFOUND, dsmGetObj(handle, &ids[0], &block));
    EXPECT(DSM_RC_OK, dsmEndGetData(handle));

    /* Skipping, leaving objects early, and asking for what is not there */
    EXPECT(DSM_RC_OK, begin_get(handle, ids, COUNT));
    EXPECT(DSM_RC_MORE_DATA, dsmGetObj(handle, &ids[5], &block));
    EXPECT(100, block.numBytes);
    CHECK(memcmp(got, bytes, 100) == 0);
    EXPECT(DSM_RC_OK, dsmEndGetObj(handle));
    EXPECT(DSM_RC_OBJID_NOTFOUND, dsmGetObj(handle, &ids[4], &block));
    EXPECT(0, block.numBytes);
    ObjID unknown = {9, 9};
    EXPECT(DSM_RC_OBJID_NOTFOUND, dsmGetObj(handle, &unknown, &block));
    EXPECT(DSM_RC_BAD_CALL_SEQUENCE, dsmEndGetObj(handle));
    EXPECT(DSM_RC_INVALID_PARM, dsmGetObj(handle, NULL, &block));
    EXPECT(DSM_RC_NULL_DATABLKPTR, dsmGetObj(handle, &ids[6], NULL));
    block.bufferLen = 0;
    EXPECT(DSM_RC_ZERO_BUFLEN, dsmGetObj(handle, &ids[6], &block));
    block = block_of(NULL, 5);
    EXPECT(DSM_RC_NULL_BUFPTR, dsmGetObj(handle, &ids[6], &block));
    block = block_of(got, 100);
    block.stVersion = 4;
    EXPECT(DSM_RC_WRONG_VERSION_PARM, dsmGetObj(handle, &ids[6], &block));
    EXPECT(lengths[30], receive_object(handle, &ids[30], got, lengths[30], 10000));
    CHECK(memcmp(got, bytes, lengths[30]) == 0);
    block = block_of(got, 100);
    EXPECT(DSM_RC_MORE_DATA, dsmGetObj(handle, &ids[59], &block));
    EXPECT(DSM_RC_OK, dsmEndGetData(handle)); /* with an object open */
    EXPECT(DSM_RC_OK, begin_get(handle, ids, COUNT));
    dsmEndGetDataExIn_t in = {.stVersion = 1, .dsmHandle = handle};
    dsmEndGetDataExOut_t out = {.stVersion = 2, .reason = 9};
    EXPECT(DSM_RC_WRONG_VERSION_PARM, dsmEndGetDataEx(&in, &out));
    out.stVersion = 1;
    EXPECT(DSM_RC_OK, dsmEndGetDataEx(&in, &out)); /* without having asked for any */
    EXPECT(0, out.reason);
    CHECK(find(handle, "/lists", "/00", NULL, 0) == 1); /* the session is as good as new */

    /* An id of which there is no object */
    ObjID mixed[3] = {ids[1], unknown, ids[2]};
    EXPECT(DSM_RC_OK, begin_get(handle, mixed, 3));
    EXPECT(lengths[1], receive_object(handle, &mixed[0], got, lengths[1], 10000));
    EXPECT(DSM_RC_ABORT_NO_MATCH, dsmGetObj(handle, &mixed[1], &block));
    EXPECT(lengths[2], receive_object(handle, &mixed[2], got, lengths[2], 10000));
    EXPECT(DSM_RC_OK, dsmEndGetData(handle));

    dsmGetList list = {.stVersion = 1, .numObjId = 1, .objId = ids};
    EXPECT(DSM_RC_WRONG_VERSION_PARM, dsmBeginGetData(handle, bTrue, gtArchive, &list));
    list.stVersion = 4;
    EXPECT(DSM_RC_WRONG_VERSION_PARM, dsmBeginGetData(handle, bTrue, gtArchive, &list));
    list.stVersion = dsmGetListVersion;
    list.numObjId = 0;
    EXPECT(DSM_RC_OBJID_NOTFOUND, dsmBeginGetData(handle, bTrue, gtArchive, &list));
    list.numObjId = 1;
    EXPECT(DSM_RC_ABORT_NO_MATCH, dsmBeginGetData(handle, bTrue, gtBackup, &list));
    EXPECT(DSM_RC_INVALID_PARM, dsmBeginGetData(handle, bTrue, 7, &list));
    list.objId = NULL;
    EXPECT(DSM_RC_OBJID_NOTFOUND, dsmBeginGetData(handle, bTrue, gtArchive, &list));
    EXPECT(DSM_RC_OBJID_NOTFOUND, dsmBeginGetData(handle, bTrue, gtArchive, NULL));
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
    free(bytes);
    free(got);
}

static void test_partial_gets(void)
{
    const struct {
        unsigned long long offset, length;
        size_t from, count;
        dsInt16_t code;
    } cases[] = {
        {0, 0, 0, 200000, DSM_RC_OK},
        {0, 1, 0, 1, DSM_RC_OK},
        {100000, 5000, 100000, 5000, DSM_RC_OK},
        {199999, 0, 199999, 1, DSM_RC_OK},
        {150000, 50000, 150000, 50000, DSM_RC_OK},
        {200001, 0, 0, 0, DSM_RC_ABORT_INVALID_OFFSET},
        {1ull << 40, 1, 0, 0, DSM_RC_ABORT_INVALID_OFFSET},
        {0, 200001, 0, 0, DSM_RC_ABORT_INVALID_LENGTH},
        {199999, 2, 0, 0, DSM_RC_ABORT_INVALID_LENGTH},
        {1, ~0ull, 0, 0, DSM_RC_ABORT_INVALID_LENGTH},
    };
    enum { COUNT = sizeof cases / sizeof *cases };
    dsUint32_t handle = open_session();
    char *bytes = noise(200000), *got = malloc(300000);
    archive(handle, "/partial", "/x", NULL, bytes, 200000, 200000);
    ObjID id = find_one(handle, "/partial", "/x").objId, ids[COUNT];
    PartialObjData parts[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        ids[i] = id;
        parts[i] = (PartialObjData){.stVersion = 1, .partialObjOffset = halves(cases[i].offset),
                                    .partialObjLength = halves(cases[i].length)};
    }
    dsmGetList list = {.stVersion = dsmGetListPORVersion, .numObjId = COUNT, .objId = ids, .partialObjData = parts};
    EXPECT(DSM_RC_OK, dsmBeginGetData(handle, bTrue, gtArchive, &list));
    for (size_t i = 0; i < COUNT; i++) {
        if (cases[i].code) {
            DataBlk block = block_of(got, 10);
            EXPECT(cases[i].code, dsmGetObj(handle, &ids[i], &block));
            continue;
        }
        EXPECT(cases[i].count, receive_object(handle, &ids[i], got, cases[i].count, 60000));
        CHECK(memcmp(got, bytes + cases[i].from, cases[i].count) == 0);
    }
    EXPECT(DSM_RC_OK, dsmEndGetData(handle));
    parts[3].stVersion = 0;
    EXPECT(DSM_RC_WRONG_VERSION_PARM, dsmBeginGetData(handle, bTrue, gtArchive, &list));
    list.partialObjData = NULL;
    EXPECT(DSM_RC_INVALID_PARM, dsmBeginGetData(handle, bTrue, gtArchive, &list));
    list.stVersion = dsmGetListVersion; /* then it is not looked at */
    EXPECT(DSM_RC_OK, dsmBeginGetData(handle, bTrue, gtArchive, &list));
    EXPECT(DSM_RC_OK, dsmEndGetData(handle));
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
    free(bytes);
    free(got);
}

void test_retrieving(void)
{
    test_get_lists();
    test_partial_gets();
}
