/* Queries for archived objects. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"

static void test_archive_queries(void)
{
    dsUint32_t handle = open_session();
    EXPECT(DSM_RC_OK, dsmBeginTxn(handle));
    for (unsigned i = 0; i < 300; i++) {
        char ll[32];
        snprintf(ll, sizeof ll, "/%03u", i);
        dsmObjName name = name_of("/queries/a", ll);
        name.objType = i < 10 ? DSM_OBJ_DIRECTORY : DSM_OBJ_FILE;
        ObjAttr attributes = {.stVersion = ObjAttrVersion, .objInfo = "info", .objInfoLength = 4};
        sndArchiveData data = {.stVersion = 1, .descr = i % 2 ? "odd one" : "even"};
        EXPECT(DSM_RC_OK, bind_name(handle, &name));
        EXPECT(DSM_RC_OK, dsmSendObj(handle, stArchive, &data, &name, &attributes, NULL));
        EXPECT(DSM_RC_OK, dsmEndSendObj(handle));
    }
    commit(handle);
    qryRespArchiveData *rows = calloc(300, sizeof *rows);
    EXPECT(300, find(handle, "/queries/a", "*", rows, 300));
    EXPECT(300, find(handle, "/queries*", "/*", NULL, 0));
    EXPECT(10, find(handle, "/queries/?", "/00?", NULL, 0));
    EXPECT(1, find(handle, "/queries/a", "/123", NULL, 0));
    EXPECT(0, find(handle, "/queries/b", "*", NULL, 0));

    /* Versions of the answer */
    const size_t sizes[] = {0, 0, 0, 0, 0, 2992, 2996, 4532, 0};
    qryRespArchiveData row;
    DataBlk block = block_of(&row, sizeof row);
    EXPECT(DSM_RC_OK, begin_query(handle, "/queries/a", "*"));
    for (dsUint16_t version = 0; version < 9; version++) {
        memset(&row, CANARY, sizeof row);
        row.stVersion = version;
        block.bufferLen = sizeof row;
        if (sizes[version] == 0) {
            EXPECT(DSM_RC_WRONG_VERSION_PARM, dsmGetNextQObj(handle, &block));
            EXPECT(0, block.numBytes);
            CHECK(is_untouched(&row, 2, sizeof row));
            continue;
        }
        block.bufferLen = (dsUint32_t)sizes[version] - 1;
        EXPECT(DSM_RC_BUFF_TOO_SMALL, dsmGetNextQObj(handle, &block));
        EXPECT(0, block.numBytes);
        block.bufferLen++;
        EXPECT(DSM_RC_MORE_DATA, dsmGetNextQObj(handle, &block));
        EXPECT(sizes[version], block.numBytes);
        CHECK(is_untouched(&row, sizes[version], sizeof row));
        EXPECT(version, row.stVersion);
        EXPECT(4, row.objInfolen);
        EXPECT(0, memcmp(row.reservedObjInfo, "info", 4));
    }
    EXPECT(0, memcmp(row.objInfo, "info", 0));
    block.bufferLen = 1;
    EXPECT(DSM_RC_BUFF_TOO_SMALL, dsmGetNextQObj(handle, &block));
    EXPECT(DSM_RC_NULL_DATABLKPTR, dsmGetNextQObj(handle, NULL));
    block = block_of(NULL, sizeof row);
    EXPECT(DSM_RC_NULL_BUFPTR, dsmGetNextQObj(handle, &block));
    block.stVersion = 0;
    EXPECT(DSM_RC_WRONG_VERSION_PARM, dsmGetNextQObj(handle, &block));
    EXPECT(DSM_RC_OK, dsmEndQuery(handle)); /* long before its end */

    /* Types, descriptions, dates, owners */
    dsmObjName name = name_of("/queries/a", "*");
    qryArchiveData asked = {.stVersion = qryArchiveDataVersion, .objName = &name};
    asked.insDateUpperBound.year = asked.expDateUpperBound.year = DATE_PLUS_INFINITE;
    const struct {
        dsUint8_t type;
        char *description;
        size_t count;
    } cases[] = {
        {DSM_OBJ_FILE, NULL, 290},      {DSM_OBJ_DIRECTORY, "", 10},  {DSM_OBJ_WILDCARD, "*", 300},
        {DSM_OBJ_ANY_TYPE, "odd*", 150}, {DSM_OBJ_FILE, "e?en", 145}, {DSM_OBJ_ANY_TYPE, "neither", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        name.objType = cases[i].type;
        asked.descr = cases[i].description;
        size_t count = 0;
        row.stVersion = 7;
        block = block_of(&row, sizeof row);
        EXPECT(DSM_RC_OK, dsmBeginQuery(handle, qtArchive, &asked));
        while (dsmGetNextQObj(handle, &block) == DSM_RC_MORE_DATA) {
            count++;
        }
        EXPECT(cases[i].count, count);
        EXPECT(DSM_RC_OK, dsmEndQuery(handle));
    }
    name.objType = DSM_OBJ_ANY_TYPE;
    asked.descr = NULL;
    asked.insDateUpperBound = asked.insDateLowerBound = rows[0].insDate; /* the bounds themselves belong to it */
    EXPECT(DSM_RC_OK, dsmBeginQuery(handle, qtArchive, &asked));
    EXPECT(DSM_RC_MORE_DATA, dsmGetNextQObj(handle, &block));
    EXPECT(DSM_RC_OK, dsmEndQuery(handle));
    asked.insDateLowerBound.year++;
    asked.insDateUpperBound.year = DATE_PLUS_INFINITE;
    EXPECT(DSM_RC_OK, dsmBeginQuery(handle, qtArchive, &asked));
    EXPECT(DSM_RC_ABORT_NO_MATCH, dsmGetNextQObj(handle, &block));
    EXPECT(DSM_RC_OK, dsmEndQuery(handle));
    asked.insDateLowerBound.month = 13;
    EXPECT(DSM_RC_INVALID_PARM, dsmBeginQuery(handle, qtArchive, &asked));
    asked.insDateLowerBound.year = 0;
    char owner[DSM_MAX_OWNER_LENGTH + 2];
    memset(owner, 'o', sizeof owner);
    owner[sizeof owner - 1] = '\0';
    asked.owner = owner;
    EXPECT(DSM_RC_INVALID_OBJOWNER, dsmBeginQuery(handle, qtArchive, &asked));
    asked.owner = "somebody";
    EXPECT(DSM_RC_OK, dsmBeginQuery(handle, qtArchive, &asked));
    EXPECT(DSM_RC_ABORT_NO_MATCH, dsmGetNextQObj(handle, &block));
    EXPECT(DSM_RC_OK, dsmEndQuery(handle));

    name.objType = 9;
    EXPECT(DSM_RC_INVALID_OBJTYPE, dsmBeginQuery(handle, qtArchive, &asked));
    name.objType = DSM_OBJ_FILE;
    strcpy(name.fs, "/unknown");
    EXPECT(DSM_RC_FILE_SPACE_NOT_FOUND, dsmBeginQuery(handle, qtArchive, &asked));
    asked.stVersion = 2;
    EXPECT(DSM_RC_WRONG_VERSION_PARM, dsmBeginQuery(handle, qtArchive, &asked));
    asked.stVersion = 1;
    asked.objName = NULL;
    EXPECT(DSM_RC_NULL_OBJNAME, dsmBeginQuery(handle, qtArchive, &asked));
    EXPECT(DSM_RC_INVALID_PARM, dsmBeginQuery(handle, qtArchive, NULL));
    EXPECT(DSM_RC_INVALID_PARM, dsmBeginQuery(handle, 17, &asked));
    /* Backups: there are none */
    EXPECT(DSM_RC_OK, dsmBeginQuery(handle, qtBackup, &asked));
    qryRespBackupData backup = {.stVersion = qryRespBackupDataVersion};
    block = block_of(&backup, sizeof backup);
    EXPECT(DSM_RC_ABORT_NO_MATCH, dsmGetNextQObj(handle, &block));
    EXPECT(DSM_RC_OK, dsmEndQuery(handle));
    free(rows);
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
}

static void test_owners(void)
{
    dsUint32_t everybody = open_session(), one;
    EXPECT(DSM_RC_OK, sign_on_with(&one, "alice", NULL));
    archive(one, "/owners", "/hers", NULL, "x", 1, 1);
    archive(everybody, "/owners", "/nobodys", NULL, "x", 1, 1);
    EXPECT(2, find(everybody, "/owners", "*", NULL, 0));
    qryRespArchiveData row = find_one(one, "/owners", "*");
    EXPECT(0, strcmp(row.owner, "alice"));
    dsmObjName name = name_of("/owners", "*");
    qryArchiveData asked = {.stVersion = 1, .objName = &name, .owner = "bob"};
    EXPECT(DSM_RC_INVALID_OBJOWNER, dsmBeginQuery(one, qtArchive, &asked));
    EXPECT(DSM_RC_OK, dsmTerminate(one));
    EXPECT(DSM_RC_OK, dsmTerminate(everybody));
}

void test_queries(void)
{
    test_archive_queries();
    test_owners();
}
