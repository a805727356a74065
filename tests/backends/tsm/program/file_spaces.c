/* File spaces. */
#include <string.h>

#include "calls.h"

static size_t query_space(dsUint32_t handle, char *pattern, qryRespFSData *last)
{
    qryFSData asked = {.stVersion = qryFSDataVersion, .fsName = pattern};
    DataBlk block = block_of(last, sizeof *last);
    size_t count = 0;
    EXPECT(DSM_RC_OK, dsmBeginQuery(handle, qtFilespace, &asked));
    last->stVersion = qryRespFSDataVersion;
    while (dsmGetNextQObj(handle, &block) == DSM_RC_MORE_DATA) {
        count++;
    }
    EXPECT(DSM_RC_OK, dsmEndQuery(handle));
    return count;
}

void test_file_spaces(void)
{
    dsUint32_t handle = open_session();
    char long_name[DSM_MAX_FSNAME_LENGTH + 2];
    memset(long_name, 'f', sizeof long_name);
    long_name[0] = '/';
    long_name[sizeof long_name - 1] = '\0';
    regFSData space = {
        .stVersion = 0, .fsName = "/spaces-a", .fsType = "kind", .occupancy = {1, 2}, .capacity = {3, 4}};
    space.fsAttr.unixFSAttr.fsInfoLength = 5;
    memcpy(space.fsAttr.unixFSAttr.fsInfo, "a\0b\0c", 5);
    EXPECT(DSM_RC_OK, dsmRegisterFS(handle, &space));
    EXPECT(DSM_RC_FS_ALREADY_REGED, dsmRegisterFS(handle, &space));
    space.stVersion = regFSDataVersion + 1;
    EXPECT(DSM_RC_WRONG_VERSION_PARM, dsmRegisterFS(handle, &space));
    space.stVersion = regFSDataVersion;
    space.fsAttr.unixFSAttr.fsInfoLength = DSM_MAX_USER_FSINFO_LENGTH + 1;
    EXPECT(DSM_RC_FSINFO_TOOLONG, dsmRegisterFS(handle, &space));
    space.fsAttr.unixFSAttr.fsInfoLength = DSM_MAX_USER_FSINFO_LENGTH;
    space.fsName = NULL;
    EXPECT(DSM_RC_NULL_FSNAME, dsmRegisterFS(handle, &space));
    space.fsName = "relative";
    EXPECT(DSM_RC_INVALID_FSNAME, dsmRegisterFS(handle, &space));
    space.fsName = long_name;
    EXPECT(DSM_RC_FILESPACE_TOOLONG, dsmRegisterFS(handle, &space));
    EXPECT(DSM_RC_INVALID_PARM, dsmRegisterFS(handle, NULL));
    long_name[sizeof long_name - 2] = '\0'; /* as long as it may be */
    EXPECT(DSM_RC_OK, dsmRegisterFS(handle, &space));

    qryRespFSData found;
    EXPECT(1, query_space(handle, "/spaces-?", &found));
    EXPECT(0, strcmp(found.fsName, "/spaces-a"));
    EXPECT(0, strcmp(found.fsType, "API:kind"));
    EXPECT(0x100000002, whole(found.occupancy));
    EXPECT(0x300000004, whole(found.capacity));
    EXPECT(5, found.fsAttr.unixFSAttr.fsInfoLength);
    EXPECT(0, memcmp(found.fsAttr.unixFSAttr.fsInfo, "a\0b\0c", 5));
    EXPECT(0, query_space(handle, "/nothing*", &found));
    CHECK(query_space(handle, "*", &found) >= 3);

    dsmFSUpd update = {.stVersion = dsmFSUpdVersion, .occupancy = {0, 7}, .capacity = {0, 9}};
    EXPECT(DSM_RC_OK, dsmUpdateFS(handle, "/spaces-a", &update, DSM_FSUPD_OCCUPANCY));
    EXPECT(1, query_space(handle, "/spaces-a", &found));
    EXPECT(7, whole(found.occupancy));
    EXPECT(0x300000004, whole(found.capacity));
    EXPECT(0, strcmp(found.fsType, "API:kind"));
    EXPECT(DSM_RC_INVALID_ACTION, dsmUpdateFS(handle, "/spaces-a", &update, 0));
    EXPECT(DSM_RC_INVALID_ACTION, dsmUpdateFS(handle, "/spaces-a", &update, 0x80));
    EXPECT(DSM_RC_FS_NOT_REGISTERED, dsmUpdateFS(handle, "/spaces-z", &update, DSM_FSUPD_CAPACITY));
    update.stVersion = 0;
    EXPECT(DSM_RC_WRONG_VERSION_PARM, dsmUpdateFS(handle, "/spaces-a", &update, DSM_FSUPD_CAPACITY));
    EXPECT(DSM_RC_INVALID_PARM, dsmUpdateFS(handle, "/spaces-a", NULL, DSM_FSUPD_CAPACITY));

    /* Older and other structures for the answer */
    qryFSData asked = {.stVersion = qryFSDataVersion, .fsName = "/spaces-a"};
    EXPECT(DSM_RC_OK, dsmBeginQuery(handle, qtFilespace, &asked));
    memset(&found, CANARY, sizeof found);
    found.stVersion = 5;
    DataBlk block = block_of(&found, sizeof found);
    EXPECT(DSM_RC_WRONG_VERSION_PARM, dsmGetNextQObj(handle, &block));
    found.stVersion = 3;
    block.bufferLen = 1603;
    EXPECT(DSM_RC_BUFF_TOO_SMALL, dsmGetNextQObj(handle, &block));
    block.bufferLen = sizeof found;
    EXPECT(DSM_RC_MORE_DATA, dsmGetNextQObj(handle, &block)); /* the refusals have not used it up */
    EXPECT(1604, block.numBytes);
    CHECK(is_untouched(&found, 1604, sizeof found));
    EXPECT(DSM_RC_OK, dsmEndQuery(handle));
    asked.fsName = NULL;
    EXPECT(DSM_RC_NULL_FSNAME, dsmBeginQuery(handle, qtFilespace, &asked));
    asked.stVersion = 2;
    EXPECT(DSM_RC_WRONG_VERSION_PARM, dsmBeginQuery(handle, qtFilespace, &asked));

    EXPECT(DSM_RC_INVALID_REPOS, dsmDeleteFS(handle, "/spaces-a", 5));
    EXPECT(DSM_RC_OK, dsmDeleteFS(handle, "/spaces-a", DSM_BACKUP_REP));
    EXPECT(1, query_space(handle, "/spaces-a", &found));
    EXPECT(DSM_RC_OK, dsmDeleteFS(handle, "/spaces-a", DSM_ARCHIVE_REP));
    EXPECT(DSM_RC_FSNAME_NOTFOUND, dsmDeleteFS(handle, "/spaces-a", DSM_ARCHIVE_REP));
    EXPECT(DSM_RC_FSNAME_NOTFOUND, dsmDeleteFS(handle, "/spaces-a", DSM_BACKUP_REP));
    EXPECT(0, query_space(handle, "/spaces-a", &found));
    EXPECT(DSM_RC_OK, dsmDeleteFS(handle, long_name, DSM_REPOS_ALL));
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
}
