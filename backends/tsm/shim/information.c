/* Information for a session about itself. */
#include <stddef.h>
#include <string.h>

#include "dates.h"
#include "include/archiver_tsm_more.h"
#include "names.h"
#include "session.h"

#define SESSINFO_V3_SIZE offsetof(ApiSessInfo, maxBytesPerTxn_64)
#define SESSINFO_V5_SIZE offsetof(ApiSessInfo, failOverCfgType)

/* The size of the structure in this version. If the size of a version is not known, that of the latest known version
 * before it; 0 for a version that is not accepted. */
static size_t size_of_version(dsUint16_t version)
{
    switch (version) {
    case 0:
    case 3:
    case 4:
        return SESSINFO_V3_SIZE;
    case 5:
        return SESSINFO_V5_SIZE;
    case ApiSessInfoVersion:
        return sizeof(ApiSessInfo);
    default:
        return 0;
    }
}

/* Requests the server's clock, which also shows that the server is reachable. While the server is busy with another
 * request of the session, the library's own clock is used. */
static dsInt16_t ask_date(struct session *session, uint64_t *now_ms)
{
    struct wire *wire = &session->wire;
    struct reader body;
    *now_ms = policy_now_ms(&session->policy);
    if (session->state != IN_SESSION) {
        return DSM_RC_OK;
    }
    if (wire_begin(wire, FRAME_PING, 0) || wire_flush(wire) || wire_expect(wire, FRAME_DATE) ||
        wire_body(wire, &body)) {
        return wire->lost;
    }
    *now_ms = read_u64(&body);
    return read_all(&body) ? DSM_RC_OK : wire_fail(wire, DSM_RC_COMM_PROTOCOL_ERROR);
}

static void copy_start(char *field, size_t size, const char *text)
{
    size_t length = strnlen(text, size - 1);
    memcpy(field, text, length);
    field[length] = '\0';
}

static dsInt16_t tell(struct session *session, ApiSessInfo *info)
{
    if (!info) {
        return DSM_RC_NO_SESS_BLK;
    }
    size_t size = size_of_version(info->stVersion);
    if (size == 0) {
        return DSM_RC_WRONG_VERSION_PARM;
    }
    uint64_t now_ms;
    dsInt16_t code = ask_date(session, &now_ms);
    if (code) {
        return code;
    }
    const struct policy *policy = &session->policy;
    ApiSessInfo told = {
        .stVersion = info->stVersion,
        .serverPort = (dsUint16_t)session->options.port,
        .serverDate = date_of(now_ms, policy->offset_seconds),
        .serverVer = policy->version[0],
        .serverRel = policy->version[1],
        .serverLev = policy->version[2],
        .serverSubLev = policy->version[3],
        .fsdelim = '/',
        .hldelim = '/',
        .compression = COMPRESS_CD,
        .archDel = ARCHDEL_YES,
        .backDel = BACKDEL_NO,
        .maxBytesPerTxn = policy->bytes_max > UINT32_MAX ? UINT32_MAX : (dsUint32_t)policy->bytes_max,
        .maxObjPerTxn = policy->objects_max,
        .polActDate = date_of(policy->activated_ms, policy->offset_seconds),
        .gpBackRetn = policy->backup_grace_days,
        .gpArchRetn = policy->archive_grace_days,
        .archiveRetentionProtection = policy->is_protected ? bTrue : bFalse,
        .maxBytesPerTxn_64 = halves_of(policy->bytes_max),
        .dedupType = dedupServerOnly,
        .failOverCfgType = failOvrNotConfigured,
    };
    copy_start(told.serverHost, sizeof told.serverHost, session->options.address);
    strcpy(told.serverType, policy->server_type);
    strcpy(told.nodeType, session->application_type);
    strcpy(told.id, session->node);
    strcpy(told.owner, session->owner);
    strcpy(told.confFile, session->config_file);
    strcpy(told.domainName, policy->domain);
    strcpy(told.policySetName, policy->policy_set);
    strcpy(told.dfltMCName, policy->classes[policy->default_class].name);
    strcpy(told.adsmServerName, policy->server_name);
    memcpy(info, &told, size);
    return DSM_RC_OK;
}

dsInt16_t dsmQuerySessInfo(dsUint32_t dsmHandle, ApiSessInfo *sessInfoP)
{
    struct session *session;
    dsInt16_t code = session_enter(dsmHandle, IN_ANY, &session);
    return code ? code : session_leave(session, tell(session, sessInfoP));
}

dsInt16_t dsmQuerySessOptions(dsUint32_t dsmHandle, optStruct *optstructP)
{
    struct session *session;
    dsInt16_t code = session_enter(dsmHandle, IN_SESSION, &session);
    if (code) {
        return code;
    }
    if (!optstructP) {
        return session_leave(session, DSM_RC_INVALID_PARM);
    }
    options_tell(&session->options, optstructP);
    strcpy(optstructP->nodeName, session->node);
    return session_leave(session, DSM_RC_OK);
}

dsInt16_t archiverQueryEncryption(dsUint32_t dsmHandle, dsBool_t *isEncryptedP)
{
    struct session *session;
    dsInt16_t code = session_enter(dsmHandle, IN_ANY, &session);
    if (code) {
        return code;
    }
    if (!isEncryptedP) {
        return session_leave(session, DSM_RC_INVALID_PARM);
    }
    *isEncryptedP = session->wire.tls ? bTrue : bFalse;
    return session_leave(session, DSM_RC_OK);
}
