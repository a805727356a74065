/* Opening and ending sessions, and the password. */
#include <pwd.h>
#include <string.h>
#include <unistd.h>

#include "access.h"
#include "logging.h"
#include "names.h"
#include "password_file.h"
#include "session.h"
#include "signon.h"

#define INIT_OUT_V2_SIZE 80

/* The common input of dsmInit and dsmInitEx. */
struct request {
    const char *node;
    const char *owner;
    const char *password;
    const char *application_type;
    const char *config_file;
    const char *options;
    unsigned buffers; /* number of buffers to lend; 0: none */
};

static bool is_given(const char *text)
{
    return text && *text;
}

/* Copies a text to a field of `size` bytes. NULL counts as "". */
static bool copy_text(char *field, size_t size, const char *text)
{
    size_t length;
    if (is_too_long(text, size - 1, &length)) {
        return false;
    }
    memcpy(field, text ? text : "", length);
    field[length] = '\0';
    return true;
}

static void to_upper(char *text)
{
    for (; *text; text++) {
        *text = *text >= 'a' && *text <= 'z' ? (char)(*text - 'a' + 'A') : *text;
    }
}

/* With PASSWORDACCESS GENERATE the owner is the user who runs the program; root acts for all owners. */
static bool take_login_name(char *owner, size_t size)
{
    char memory[4096];
    struct passwd entry, *found;
    if (geteuid() == 0) {
        return true;
    }
    return getpwuid_r(geteuid(), &entry, memory, sizeof memory, &found) == 0 && found &&
           copy_text(owner, size, found->pw_name);
}

static dsInt16_t choose_identity(struct session *session, const struct request *request)
{
    struct options *options = &session->options;
    if (options->generates_password && is_given(request->node)) {
        return DSM_RC_NO_NODE_REQD;
    }
    if (options->generates_password && is_given(request->owner)) {
        return DSM_RC_NO_OWNER_REQD;
    }
    if (is_given(request->node) && !copy_text(options->node, sizeof options->node, request->node)) {
        return DSM_RC_OPT_INV_NODENAME;
    }
    strcpy(session->node, options->node);
    to_upper(session->node);
    bool has_owner = options->generates_password ? take_login_name(session->owner, sizeof session->owner)
                                                 : copy_text(session->owner, sizeof session->owner, request->owner);
    if (!has_owner) {
        return DSM_RC_INVALID_OBJOWNER;
    }
    return copy_text(session->application_type, sizeof session->application_type, request->application_type)
               ? DSM_RC_OK
               : DSM_RC_INVALID_PARM;
}

static dsInt16_t choose_password(struct options *options, const char *given)
{
    if (is_given(given)) {
        return copy_text(options->password, sizeof options->password, given) ? DSM_RC_OK : DSM_RC_PASSWD_TOOLONG;
    }
    if (options->generates_password && *options->password_directory &&
        !password_file_read(options->password_directory, options->password)) {
        return DSM_RC_NO_PASS_FILE;
    }
    if (!*options->password) {
        return options->generates_password ? DSM_RC_NO_PASS_FILE : DSM_RC_AUTH_FAILURE;
    }
    return DSM_RC_OK;
}

static dsInt16_t prepare(struct session *session, const struct request *request)
{
    struct options *options = &session->options;
    dsInt16_t code = options_read(options, request->config_file, request->options);
    if (!code) {
        code = choose_identity(session, request);
    }
    if (!code) {
        code = choose_password(options, request->password);
    }
    const char *config = is_given(request->config_file) ? request->config_file : options->environment.config;
    copy_text(session->config_file, sizeof session->config_file, config);
    return code;
}

/* If *opened is set, the caller releases it: another thread may end the session as soon as it has a handle. The code is
 * then OK, or REJECT_VERIFIER_EXPIRED if the session can only change the password. */
static dsInt16_t open_session(const struct request *request, struct session **opened, dsUint32_t *handle)
{
    struct session *session = session_create();
    *opened = NULL;
    if (!session) {
        return DSM_RC_NO_MEMORY;
    }
    dsInt16_t code = prepare(session, request);
    if (!code) {
        code = sign_on(session, session->options.password);
    }
    bool is_expired = !code && session->policy.is_expired;
    if (is_expired) {
        session->state = IN_EXPIRED;
    } else if (!code) {
        code = access_read_from(session);
    }
    if (!code && request->buffers > 0 && !buffers_begin(&session->buffers, request->buffers)) {
        code = DSM_RC_NO_MEMORY;
    }
    options_wipe(&session->options);
    if (!code) {
        code = session_publish(session, handle);
    }
    if (code) {
        session_release(session);
        return code;
    }
    *opened = session;
    return is_expired ? DSM_RC_REJECT_VERIFIER_EXPIRED : DSM_RC_OK;
}

dsInt16_t dsmInit(dsUint32_t *dsmHandleP, dsmApiVersion *apiVersionP, char *clientNodeNameP, char *clientOwnerNameP,
                  char *clientPasswordP, char *applicationType, char *configfile, char *options)
{
    if (!dsmHandleP || !apiVersionP) {
        return DSM_RC_INVALID_PARM;
    }
    *dsmHandleP = 0;
    unsigned asked = apiVersionP->version * 10000u + apiVersionP->release * 100u + apiVersionP->level;
    if (asked > DSM_API_VERSION * 10000u + DSM_API_RELEASE * 100u + DSM_API_LEVEL) {
        return DSM_RC_WRONG_VERSION;
    }
    struct request request = {.node = clientNodeNameP,
                              .owner = clientOwnerNameP,
                              .password = clientPasswordP,
                              .application_type = applicationType,
                              .config_file = configfile,
                              .options = options};
    struct session *session;
    dsInt16_t code = open_session(&request, &session, dsmHandleP);
    if (session) {
        session_release(session);
    }
    return code;
}

/* Returns whether the caller was built for a newer API than this library knows. */
static bool is_newer(const dsmApiVersionEx *caller)
{
    const unsigned own[4] = {DSM_API_VERSION, DSM_API_RELEASE, DSM_API_LEVEL, DSM_API_SUBLEVEL};
    const unsigned its[4] = {caller->version, caller->release, caller->level, caller->subLevel};
    for (unsigned i = 0; i < 4; i++) {
        if (its[i] != own[i]) {
            return its[i] > own[i];
        }
    }
    return false;
}

static dsInt16_t check_init(const dsmInitExIn_t *in, const dsmInitExOut_t *out)
{
    if (!in || !out) {
        return DSM_RC_INVALID_PARM;
    }
    if ((in->stVersion != 4 && in->stVersion != 5) || out->stVersion == 1 || out->stVersion > dsmInitExOutVersion) {
        return DSM_RC_WRONG_VERSION_PARM;
    }
    if (!in->apiVersionExP) {
        return DSM_RC_INVALID_PARM;
    }
    if (in->apiVersionExP->stVersion > apiVersionExVer) {
        return DSM_RC_WRONG_VERSION_PARM;
    }
    if (is_newer(in->apiVersionExP)) {
        return DSM_RC_WRONG_VERSION;
    }
    if (in->stVersion >= 5 && in->appVersionP && in->appVersionP->stVersion > appVersionVer) {
        return DSM_RC_WRONG_VERSION_PARM;
    }
    /* Refuse, so that no caller believes that data is encrypted, or that buffers are lent, if they are not. */
    bool asks_too_much = in->bEncryptKeyEnabled || (in->useTsmBuffers && in->numTsmBuffers == 0);
    bool has_delimiter = in->dirDelimiter == '\0' || in->dirDelimiter == '/';
    return asks_too_much || !has_delimiter ? DSM_RC_INVALID_PARM : DSM_RC_OK;
}

static void tell_server(const struct policy *policy, dsmInitExOut_t *out)
{
    dsmInitExOut_t told = {
        .stVersion = out->stVersion,
        .userNameAuthorities = DSM_USERAUTH_NONE,
        .serverVer = policy->version[0],
        .serverRel = policy->version[1],
        .serverLev = policy->version[2],
        .serverSubLev = policy->version[3],
    };
    strcpy(told.adsmServerName, policy->server_name);
    memcpy(out, &told, out->stVersion >= 3 ? sizeof told : INIT_OUT_V2_SIZE);
}

dsInt16_t dsmInitEx(dsUint32_t *dsmHandleP, dsmInitExIn_t *initInP, dsmInitExOut_t *initOutP)
{
    if (!dsmHandleP) {
        return DSM_RC_INVALID_PARM;
    }
    *dsmHandleP = 0;
    dsInt16_t code = check_init(initInP, initOutP);
    if (code) {
        return code;
    }
    struct request request = {.node = initInP->clientNodeNameP,
                              .owner = initInP->clientOwnerNameP,
                              .password = initInP->clientPasswordP,
                              .application_type = initInP->applicationTypeP,
                              .config_file = initInP->configfile,
                              .options = initInP->options,
                              .buffers = initInP->useTsmBuffers ? initInP->numTsmBuffers : 0};
    struct session *session;
    code = open_session(&request, &session, dsmHandleP);
    if (session) {
        tell_server(&session->policy, initOutP);
        session_release(session);
    }
    return code;
}

dsInt16_t dsmTerminate(dsUint32_t dsmHandle)
{
    struct session *session;
    dsInt16_t code = session_enter(dsmHandle, IN_ANY, &session);
    if (!code) { /* a lost connection takes its lent buffers with it */
        bool has_lent = session->buffers.lent > 0;
        session_leave(session, DSM_RC_OK);
        if (has_lent) {
            return DSM_RC_MUST_RELEASE_BUFFER;
        }
    }
    code = session_withdraw(dsmHandle, &session);
    if (code) {
        return code;
    }
    if (session->buffers.count > 0) {
        pthread_cond_broadcast(&session->buffers.given_back);
    }
    struct wire *wire = &session->wire;
    /* In any other state the end of the connection is enough: the server then cancels the work in progress. */
    if (session->state == IN_SESSION && !wire->lost && !wire_begin(wire, FRAME_BYE, 0)) {
        wire_flush(wire);
    }
    wire_fail(wire, DSM_RC_TCPIP_FAILURE);
    return session_leave(session, DSM_RC_OK);
}

static dsInt16_t change(struct session *session, const char *old_password, const char *new_password)
{
    size_t old_length, new_length;
    bool is_long = is_too_long(old_password, DSM_MAX_VERIFIER_LENGTH, &old_length);
    is_long |= is_too_long(new_password, DSM_MAX_VERIFIER_LENGTH, &new_length);
    if (old_length == 0) {
        return DSM_RC_OLDPW_REQD;
    }
    if (new_length == 0) {
        return DSM_RC_NEWPW_REQD;
    }
    if (is_long) {
        return DSM_RC_PASSWD_TOOLONG;
    }
    if (new_length < PASSWORD_LENGTH_MIN) {
        report(&session->options, "the new password has fewer than %u characters", PASSWORD_LENGTH_MIN);
        return DSM_RC_ABORT_BAD_VERIFIER;
    }
    /* The file is written before the request to the server and moved into place after it, so that a full disk
     * changes nothing. */
    const struct options *options = &session->options;
    const char *directory = options->generates_password ? options->password_directory : "";
    if (*directory && !password_file_prepare(directory, new_password)) {
        return DSM_RC_NO_PASS_FILE;
    }
    dsInt16_t code = change_password(session, old_password, new_password);
    if (!code) {
        session->state = IN_SESSION;
    }
    if (*directory && code) {
        password_file_discard(directory);
    } else if (*directory && !password_file_replace(directory)) {
        code = DSM_RC_NO_PASS_FILE;
    }
    return code;
}

dsInt16_t dsmChangePW(dsUint32_t dsmHandle, char *oldPW, char *newPW)
{
    struct session *session;
    dsInt16_t code = session_enter(dsmHandle, IN_SESSION | IN_EXPIRED, &session);
    return code ? code : session_leave(session, change(session, oldPW, newPW));
}
