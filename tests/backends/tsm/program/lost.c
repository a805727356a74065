/* A store that dies, and what is there when it runs again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"

void test_lost_store(void)
{
    enum { SENDING, IDLE, ASKING, GETTING, COUNT };
    dsUint32_t handles[COUNT];
    char *bytes = noise(MEBIBYTE), line[16], got[10];
    for (unsigned i = 0; i < COUNT; i++) {
        handles[i] = open_session();
    }
    archive(handles[IDLE], "/lost", "/durable", NULL, bytes, 100, 100);
    ObjID id = find_one(handles[IDLE], "/lost", "/durable").objId;
    dsmObjName name = name_of("/lost", "/never");
    ObjAttr attributes = {.stVersion = ObjAttrVersion, .sizeEstimate = {0, MEBIBYTE}};
    DataBlk block = block_of(bytes, MEBIBYTE), room = block_of(got, sizeof got);
    EXPECT(DSM_RC_OK, dsmBeginTxn(handles[SENDING]));
    send_object(handles[SENDING], &name, NULL, bytes, MEBIBYTE, MEBIBYTE);
    EXPECT(DSM_RC_OK, dsmSendObj(handles[SENDING], stArchive, NULL, &name, &attributes, &block));
    EXPECT(DSM_RC_OK, begin_get(handles[GETTING], &id, 1));
    EXPECT(DSM_RC_MORE_DATA, dsmGetObj(handles[GETTING], &id, &room));
    puts("ready");
    fflush(stdout);
    CHECK(fgets(line, sizeof line, stdin));

    dsInt16_t code = DSM_RC_OK;
    for (unsigned i = 0; i < 100 && code == DSM_RC_OK; i++) {
        code = dsmSendData(handles[SENDING], &block);
    }
    EXPECT(DSM_RC_TCPIP_FAILURE, code);
    dsUint16_t reason = 99;
    /* The loss is told once. Programs sign on again when their handle is unknown. */
    EXPECT(DSM_RC_INVALID_DS_HANDLE, dsmEndSendObj(handles[SENDING]));
    EXPECT(DSM_RC_INVALID_DS_HANDLE, dsmEndTxn(handles[SENDING], DSM_VOTE_COMMIT, &reason));
    EXPECT(0, reason);
    EXPECT(DSM_RC_OK, begin_query(handles[ASKING], "/lost", "*")); /* nothing is answered yet */
    qryRespArchiveData row = {.stVersion = qryRespArchiveDataVersion};
    DataBlk answer = block_of(&row, sizeof row);
    EXPECT(DSM_RC_TCPIP_FAILURE, dsmGetNextQObj(handles[ASKING], &answer));
    EXPECT(DSM_RC_INVALID_DS_HANDLE, dsmEndQuery(handles[ASKING]));
    ApiSessInfo info = {.stVersion = ApiSessInfoVersion};
    EXPECT(DSM_RC_TCPIP_FAILURE, dsmQuerySessInfo(handles[IDLE], &info));
    EXPECT(DSM_RC_INVALID_DS_HANDLE, dsmBeginTxn(handles[IDLE]));
    room = block_of(got, sizeof got);
    while ((code = dsmGetData(handles[GETTING], &room)) == DSM_RC_MORE_DATA) { /* what had come before */
    }
    CHECK(code == DSM_RC_TCPIP_FAILURE || code == DSM_RC_FINISHED);
    for (unsigned i = 0; i < COUNT; i++) {
        EXPECT(DSM_RC_OK, dsmTerminate(handles[i]));
        EXPECT(DSM_RC_INVALID_DS_HANDLE, dsmTerminate(handles[i]));
    }
    dsUint32_t handle;
    EXPECT(DSM_RC_TCPIP_FAILURE, sign_on_with(&handle, NULL, NULL));
    free(bytes);
}

/* After the store has come back */
void test_found_store(void)
{
    dsUint32_t handle = open_session();
    qryRespArchiveData row = find_one(handle, "/lost", "*");
    EXPECT(0, strcmp(row.objName.ll, "/durable"));
    char *bytes = noise(MEBIBYTE);
    expect_content(handle, row.objId, bytes, 100, 100);
    free(bytes);
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
}
