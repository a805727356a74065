/* Handles, and what a session tells about itself. */
#include <stdlib.h>
#include <string.h>

#include <archiver_tsm_more.h>

#include "calls.h"

static void test_handles(void)
{
    dsUint32_t handles[4];
    for (unsigned i = 0; i < 4; i++) {
        EXPECT(DSM_RC_OK, sign_on_with(&handles[i], NULL, NULL));
        for (unsigned k = 0; k < i; k++) {
            CHECK(handles[k] != handles[i]);
        }
    }
    for (unsigned i = 0; i < 4; i++) {
        EXPECT(DSM_RC_OK, dsmTerminate(handles[i]));
        EXPECT(DSM_RC_INVALID_DS_HANDLE, dsmBeginTxn(handles[i]));
        EXPECT(DSM_RC_INVALID_DS_HANDLE, dsmTerminate(handles[i]));
    }
    dsUint32_t next;
    EXPECT(DSM_RC_OK, sign_on_with(&next, NULL, NULL));
    for (unsigned i = 0; i < 4; i++) {
        EXPECT(DSM_RC_INVALID_DS_HANDLE, dsmBeginTxn(handles[i]));
    }
    EXPECT(DSM_RC_OK, dsmTerminate(next));
}

static void test_session_info(void)
{
    dsUint32_t handle = open_session();
    const size_t sizes[] = {1740, 0, 0, 1740, 1740, 1824, 2028, 0};
    ApiSessInfo info;
    for (dsUint16_t version = 0; version < 8; version++) {
        memset(&info, CANARY, sizeof info);
        info.stVersion = version;
        dsInt16_t code = dsmQuerySessInfo(handle, &info);
        EXPECT(sizes[version] ? DSM_RC_OK : DSM_RC_WRONG_VERSION_PARM, code);
        EXPECT(version, info.stVersion);
        CHECK(is_untouched(&info, sizes[version] ? sizes[version] : 2, sizeof info));
    }
    info.stVersion = ApiSessInfoVersion;
    EXPECT(DSM_RC_OK, dsmQuerySessInfo(handle, &info));
    EXPECT(0, strcmp(info.id, node));
    EXPECT(0, strcmp(info.nodeType, "Program"));
    EXPECT(0, strcmp(info.dfltMCName, "STANDARD"));
    EXPECT(0, strcmp(info.adsmServerName, "ARCHIVER"));
    EXPECT(0, strcmp(info.confFile, getenv("DSMI_CONFIG")));
    EXPECT('/', info.fsdelim);
    EXPECT('/', info.hldelim);
    EXPECT(4096, info.maxObjPerTxn);
    EXPECT(info.maxBytesPerTxn, whole(info.maxBytesPerTxn_64));
    EXPECT(bTrue, info.archiveRetentionProtection);
    EXPECT(ARCHDEL_YES, info.archDel);
    EXPECT(BACKDEL_NO, info.backDel);
    CHECK(info.serverDate.year >= 2024 && info.serverDate.month >= 1 && info.serverDate.month <= 12);
    CHECK(info.serverPort > 0);
    EXPECT(DSM_RC_NO_SESS_BLK, dsmQuerySessInfo(handle, NULL));
    optStruct options;
    EXPECT(DSM_RC_OK, dsmQuerySessOptions(handle, &options));
    EXPECT(0, strcmp(options.nodeName, node));
    EXPECT(0, strcmp(options.serverName, "MAIN"));
    EXPECT(0, strcmp(options.serverAddress, "127.0.0.1"));
    EXPECT(DSM_RC_INVALID_PARM, dsmQuerySessOptions(handle, NULL));
    dsBool_t is_encrypted;
    EXPECT(DSM_RC_INVALID_PARM, archiverQueryEncryption(handle, NULL));
    EXPECT(DSM_RC_OK, archiverQueryEncryption(handle, &is_encrypted));
    CHECK(is_encrypted == bTrue || is_encrypted == bFalse);
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
    EXPECT(DSM_RC_INVALID_DS_HANDLE, archiverQueryEncryption(handle, &is_encrypted));
}

void test_sessions(void)
{
    test_handles();
    test_session_info();
}
