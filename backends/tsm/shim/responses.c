#include "responses.h"

#include <string.h>

#include "dates.h"
#include "names.h"

/* Up to version 3 the copy groups of a class ended before bDeduplicate. */
#define ARCHIVE_GROUP_V3_SIZE offsetof(archDetailCG, bDeduplicate)
#define BACKUP_GROUP_V3_SIZE offsetof(backupDetailCG, bDeduplicate)
#define CLASS_DETAIL_V3_SIZE                                                                                          \
    (offsetof(qryRespMCDetailData, archDet) + ARCHIVE_GROUP_V3_SIZE + BACKUP_GROUP_V3_SIZE)

#define SPACE_TYPE_PREFIX "API:" /* distinguishes the file spaces of API programs from those of other clients */

static size_t archive_size(dsUint16_t version)
{
    switch (version) {
    case 5:
        return offsetof(qryRespArchiveData, clientDeduplicated);
    case 6:
        return offsetof(qryRespArchiveData, objInfo);
    case qryRespArchiveDataVersion:
        return sizeof(qryRespArchiveData);
    default:
        return 0;
    }
}

static size_t space_size(dsUint16_t version)
{
    switch (version) {
    case 3:
        return offsetof(qryRespFSData, lastReplStartDate);
    case qryRespFSDataVersion:
        return sizeof(qryRespFSData);
    default:
        return 0;
    }
}

static size_t class_detail_size(dsUint16_t version)
{
    switch (version) {
    case 3:
        return CLASS_DETAIL_V3_SIZE;
    case qryRespMCDetailDataVersion:
        return sizeof(qryRespMCDetailData);
    default:
        return 0;
    }
}

size_t response_size(enum query_kind kind, dsUint16_t version)
{
    switch (kind) {
    case QUERY_ARCHIVES:
        return archive_size(version);
    case QUERY_SPACES:
        return space_size(version);
    case QUERY_CLASSES:
        return version == qryRespMCDataVersion ? sizeof(qryRespMCData) : 0;
    case QUERY_CLASS_DETAILS:
        return class_detail_size(version);
    case QUERY_NOTHING:
        break;
    }
    return sizeof version; /* never used: such a query has no answers */
}

static void split(uint64_t number, dsUint32_t *high, dsUint32_t *low)
{
    *high = (dsUint32_t)(number >> 32);
    *low = (dsUint32_t)number;
}

bool tell_archive(const struct session *session, struct reader *row, dsUint16_t version, void *out)
{
    const struct policy *policy = &session->policy;
    int32_t offset = policy->offset_seconds;
    qryRespArchiveData told = {.stVersion = version, .mediaClass = MEDIA_FIXED, .encryptionType = DSM_ENCRYPT_NO};
    told.objId = halves_of(read_u64(row));
    told.insDate = date_of(read_u64(row), offset);
    told.expDate = date_of(read_u64(row), offset);
    told.sizeEstimate = halves_of(read_u64(row));
    read_u64(row); /* the size: the structure has no field for it */
    told.restoreOrderExt.top = read_u32(row);
    split(read_u64(row), &told.restoreOrderExt.hi_hi, &told.restoreOrderExt.hi_lo);
    split(read_u64(row), &told.restoreOrderExt.lo_hi, &told.restoreOrderExt.lo_lo);
    uint16_t class = read_u16(row);
    told.objName.objType = read_u8(row);
    told.retentionInitiated = read_u8(row);
    told.objHeld = read_u8(row);
    told.compressType = read_u8(row);
    read_field(row, told.objName.hl, sizeof told.objName.hl);
    read_field(row, told.objName.ll, sizeof told.objName.ll);
    read_field(row, told.owner, sizeof told.owner);
    read_field(row, told.descr, sizeof told.descr);
    struct text info = read_text(row, sizeof told.objInfo);
    if (row->failed || class >= policy->class_count) {
        return false;
    }
    strcpy(told.objName.fs, session->query.fs);
    strcpy(told.mcName, policy->classes[class].name);
    told.objInfolen = (dsUint16_t)info.length;
    memcpy(told.objInfo, info.bytes, info.length);
    /* A caller of an older version has space for 255 bytes only. All callers get that field; newer ones also get the
     * new one. */
    size_t room = sizeof told.reservedObjInfo;
    memcpy(told.reservedObjInfo, info.bytes, info.length < room ? info.length : room);
    if (version < 7 && info.length > room) {
        told.objInfolen = (dsUint16_t)room;
    }
    memcpy(out, &told, archive_size(version));
    return true;
}

bool tell_space(const struct session *session, struct reader *row, dsUint16_t version, void *out)
{
    qryRespFSData told = {.stVersion = version};
    read_field(row, told.fsName, sizeof told.fsName);
    memcpy(told.fsType, SPACE_TYPE_PREFIX, sizeof SPACE_TYPE_PREFIX);
    struct text type = read_text(row, sizeof told.fsType - 1);
    size_t type_room = sizeof told.fsType - sizeof SPACE_TYPE_PREFIX;
    memcpy(told.fsType + strlen(SPACE_TYPE_PREFIX), type.bytes, type.length < type_room ? type.length : type_room);
    told.occupancy = halves_of(read_u64(row));
    told.capacity = halves_of(read_u64(row));
    struct text info = read_text(row, sizeof told.fsAttr.unixFSAttr.fsInfo);
    told.lastArchOpDateFromServer = date_of(read_u64(row), session->policy.offset_seconds);
    if (row->failed) {
        return false;
    }
    told.fsAttr.unixFSAttr.fsInfoLength = (dsUint16_t)info.length;
    memcpy(told.fsAttr.unixFSAttr.fsInfo, info.bytes, info.length);
    memcpy(out, &told, space_size(version));
    return true;
}

bool tell_access_rule(struct reader *row, qryRespAccessData *told)
{
    *told = (qryRespAccessData){.stVersion = qryRespAccessDataVersion, .accessType = atArchive};
    told->ruleNumber = read_u32(row);
    read_field(row, told->objName.fs, sizeof told->objName.fs);
    read_field(row, told->objName.hl, sizeof told->objName.hl);
    read_field(row, told->objName.ll, sizeof told->objName.ll);
    read_field(row, told->node, sizeof told->node);
    read_field(row, told->owner, sizeof told->owner);
    told->objName.objType = DSM_OBJ_ANY_TYPE;
    return !row->failed;
}

void tell_class_name(const struct management_class *class, dsUint16_t version, void *out)
{
    qryRespMCData told = {.stVersion = version};
    strcpy(told.mcName, class->name);
    strcpy(told.mcDesc, class->description);
    memcpy(out, &told, sizeof told);
}

void tell_class_detail(const struct management_class *class, dsUint16_t version, void *out)
{
    qryRespMCDetailData told = {.stVersion = version};
    strcpy(told.mcName, class->name);
    strcpy(told.mcDesc, class->description);
    if (class->has_archive_group) {
        archDetailCG *group = &told.archDet;
        strcpy(group->cgName, "STANDARD");
        strcpy(group->destName, class->destination);
        group->retainVers = class->retver_days;
        group->retainInit = class->retinit;
        group->retainMin = class->retmin_days;
        group->copySer = Copy_Serial_Shared_Static;
        group->copyMode = Copy_Mode_Absolute;
    }
    if (version >= 4) {
        memcpy(out, &told, sizeof told);
        return;
    }
    char *bytes = out;
    size_t before = offsetof(qryRespMCDetailData, archDet) + ARCHIVE_GROUP_V3_SIZE;
    memcpy(bytes, &told, before);
    memcpy(bytes + before, &told.backupDet, BACKUP_GROUP_V3_SIZE);
}
