/* A server that says anything, and a client that must survive it.
 *
 * One idea: everything that comes from the network is a lie until it is checked. A thread plays the server: it signs
 * the client on, then sends what the input says and closes. The client goes through every kind of answer that it waits
 * for. The sanitizers that this is built with see what the checks have missed.
 *
 * Its own inputs are true answers that were changed.
 */
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <archiver_tsm.h>

#include "fuzz_driver.h"
#include "protocol.h"
#include "sha256.h"

#define NODE "FUZZ"
#define PASSWORD "SECRET"

enum phase { INSTEAD_OF_CHALLENGE, INSTEAD_OF_POLICY, AFTER_SIGN_ON, PHASES };
enum operation { INFORM, FIND, QUERY_ARCHIVED, QUERY_FILE_SPACES, RETRIEVE, RETRIEVE_PARTS, SEND, RETRIEVE_LENT,
                 QUERY_RULES, OPERATIONS };

static int listener;
static const uint8_t *input;
static size_t input_size;

static void put(uint8_t **at, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) {
        *(*at)++ = (uint8_t)(value >> 8 * i);
    }
}

static void put_text(uint8_t **at, const char *text)
{
    put(at, strlen(text), 2);
    memcpy(*at, text, strlen(text));
    *at += strlen(text);
}

static uint8_t *begin_frame(uint8_t **at, enum frame_type type)
{
    uint8_t *frame = *at;
    put(at, 0, 4);
    put(at, (uint64_t)type, 4);
    return frame;
}

static void end_frame(uint8_t *frame, const uint8_t *end)
{
    put(&frame, (uint64_t)(end - frame) - FRAME_HEADER, 4);
}

/* The server */

static bool read_whole(int peer, void *bytes, size_t length)
{
    return recv(peer, bytes, length, MSG_WAITALL) == (ssize_t)length;
}

static size_t read_frame(int peer, uint8_t *body, size_t room)
{
    uint8_t header[FRAME_HEADER];
    if (!read_whole(peer, header, sizeof header)) {
        return 0;
    }
    size_t length = header[0] | (size_t)header[1] << 8;
    return length <= room && read_whole(peer, body, length) ? length : 0;
}

static void say(int peer, const void *bytes, size_t length)
{
    while (length > 0) {
        ssize_t sent = send(peer, bytes, length, MSG_NOSIGNAL);
        if (sent <= 0) {
            return;
        }
        bytes = (const char *)bytes + sent;
        length -= (size_t)sent;
    }
}

static uint8_t *put_policy(uint8_t *at)
{
    put(&at, 1700000000000, 8);
    put(&at, 3600, 4);
    for (unsigned i = 0; i < 4; i++) {
        put(&at, i, 2);
    }
    put(&at, 8, 2);
    put(&at, 1 << 20, 8);
    put(&at, 1, 4);
    put(&at, 30, 2);
    put(&at, 365, 2);
    put_text(&at, "SERVER");
    put_text(&at, "type");
    put_text(&at, "DOMAIN");
    put_text(&at, "SET");
    put(&at, 1600000000000, 8);
    put(&at, 0, 2);
    put(&at, 2, 2);
    for (unsigned i = 0; i < 2; i++) {
        put_text(&at, i ? "SECOND" : "STANDARD");
        put_text(&at, "a description");
        put(&at, 1, 1);
        put(&at, i, 1);
        put(&at, 365, 2);
        put(&at, 1, 2);
        put_text(&at, "POOL");
    }
    return at;
}

static void serve(int peer)
{
    uint8_t hello[1024], bytes[2048], key[SHA256_SIZE], *at = bytes, *frame;
    static const uint8_t salt[NONCE_SIZE] = "salt", nonce[NONCE_SIZE] = "nonce";
    enum phase phase = input[0] % PHASES;
    if (read_frame(peer, hello, sizeof hello) == 0) {
        return;
    }
    if (phase == INSTEAD_OF_CHALLENGE) {
        say(peer, input + 2, input_size - 2);
        return;
    }
    frame = begin_frame(&at, FRAME_CHALLENGE);
    memcpy(at, nonce, NONCE_SIZE);
    memcpy(at + NONCE_SIZE, salt, NONCE_SIZE);
    at += 2 * NONCE_SIZE;
    put(&at, 1, 4);
    end_frame(frame, at);
    say(peer, bytes, (size_t)(at - bytes));
    uint8_t proof[SHA256_SIZE];
    if (read_frame(peer, proof, sizeof proof) == 0) {
        return;
    }
    struct hmac mac;
    pbkdf2(PASSWORD, strlen(PASSWORD), salt, NONCE_SIZE, 1, key);
    hmac_start(&mac, key, sizeof key);
    hmac_add(&mac, "archiver-tsm server", strlen("archiver-tsm server"));
    hmac_add(&mac, hello + 8, NONCE_SIZE);
    hmac_add(&mac, nonce, NONCE_SIZE);
    hmac_add(&mac, NODE, strlen(NODE));
    at = bytes;
    frame = begin_frame(&at, FRAME_WELCOME);
    hmac_finish(&mac, at);
    at += SHA256_SIZE;
    if (phase == INSTEAD_OF_POLICY) {
        size_t length = input_size - 2 < 1024 ? input_size - 2 : 1024;
        memcpy(at, input + 2, length);
        at += length;
    } else {
        at = put_policy(at);
    }
    end_frame(frame, at);
    say(peer, bytes, (size_t)(at - bytes));
    if (phase == AFTER_SIGN_ON) {
        say(peer, input + 2, input_size - 2);
    }
}

static void *server(void *argument)
{
    (void)argument;
    int peer = accept(listener, NULL, NULL);
    serve(peer);
    shutdown(peer, SHUT_WR);
    char rest[4096];
    while (recv(peer, rest, sizeof rest, 0) > 0) {
    }
    close(peer);
    return NULL;
}

/* The client */

static void query(dsUint32_t handle, enum operation operation)
{
    dsmObjName name = {.fs = "/f", .hl = "/h", .ll = "*", .objType = DSM_OBJ_ANY_TYPE};
    qryArchiveData archives = {.stVersion = 1, .objName = &name};
    qryFSData spaces = {.stVersion = 1, .fsName = "*"};
    union {
        dsUint16_t stVersion;
        qryRespArchiveData archive;
        qryRespFSData space;
    } row;
    DataBlk block = {.stVersion = 3, .bufferLen = sizeof row, .bufferPtr = (char *)&row};
    bool is_archives = operation == QUERY_ARCHIVED;
    row.stVersion = is_archives ? qryRespArchiveDataVersion : qryRespFSDataVersion;
    if (is_archives ? dsmBeginQuery(handle, qtArchive, &archives) : dsmBeginQuery(handle, qtFilespace, &spaces)) {
        return;
    }
    unsigned rows_max = input_size % 4 ? 10000 : 1; /* or leave early */
    for (unsigned i = 0; i < rows_max && dsmGetNextQObj(handle, &block) == DSM_RC_MORE_DATA; i++) {
        if (block.numBytes != (is_archives ? sizeof row.archive : sizeof row.space)) {
            abort();
        }
    }
    dsmEndQuery(handle);
}

static void retrieve(dsUint32_t handle, bool in_parts)
{
    ObjID ids[3] = {{0, 1}, {0, 2}, {0, 3}};
    PartialObjData parts[3] = {{1, {0, 0}, {0, 1}}, {1, {0, 1}, {0, 0}}, {1, {0, 0}, {0, 0}}};
    dsmGetList list = {.stVersion = in_parts ? 3 : 2, .numObjId = 3, .objId = ids, .partialObjData = parts};
    char *bytes = malloc(300); /* so that one byte too many is seen */
    if (dsmBeginGetData(handle, bTrue, gtArchive, &list)) {
        free(bytes);
        return;
    }
    for (unsigned i = in_parts ? 1 : 0; i < 3; i++) {
        DataBlk block = {.stVersion = 3, .bufferLen = 300, .bufferPtr = bytes};
        dsInt16_t code = dsmGetObj(handle, &ids[i], &block);
        for (unsigned k = 0; k < 10000 && code == DSM_RC_MORE_DATA; k++) {
            if (block.numBytes > 300) {
                abort();
            }
            code = dsmGetData(handle, &block);
        }
        dsmEndGetObj(handle);
    }
    dsmEndGetData(handle);
    free(bytes);
}

static void retrieve_lent(dsUint32_t handle)
{
    ObjID ids[3] = {{0, 1}, {0, 2}, {0, 3}};
    dsmGetList list = {.stVersion = dsmGetListVersion, .numObjId = 3, .objId = ids};
    if (dsmBeginGetData(handle, bTrue, gtArchive, &list)) {
        return;
    }
    for (unsigned i = 0; i < 3; i++) {
        dsInt16_t code = dsmGetObj(handle, &ids[i], NULL);
        for (unsigned k = 0; k < 10000 && code == DSM_RC_MORE_DATA; k++) {
            getBufferDataIn_t in = {.stVersion = getBufferDataInVersion, .dsmHandle = handle};
            getBufferDataOut_t lent = {.stVersion = getBufferDataOutVersion};
            code = dsmGetBufferData(&in, &lent);
            if (code == DSM_RC_MORE_DATA) {
                memset(lent.dataPtr, 0, lent.numBytes);
                releaseBufferIn_t back = {.stVersion = releaseBufferInVersion, .dsmHandle = handle,
                                          .tsmBufferHandle = lent.tsmBufferHandle, .dataPtr = lent.dataPtr};
                releaseBufferOut_t out = {.stVersion = releaseBufferOutVersion};
                if (dsmReleaseBuffer(&back, &out)) {
                    abort();
                }
            }
        }
        dsmEndGetObj(handle);
    }
    dsmEndGetData(handle);
}

static void query_rules(dsUint32_t handle)
{
    qryRespAccessData *rules;
    dsUint16_t count;
    bool is_told = dsmQueryAccess(handle, &rules, &count) == DSM_RC_OK;
    if (is_told != (count > 0) || is_told != (rules != NULL)) {
        abort();
    }
    for (unsigned i = 0; i < count; i++) {
        if (strlen(rules[i].objName.fs) > DSM_MAX_FSNAME_LENGTH || strlen(rules[i].owner) > DSM_MAX_OWNER_LENGTH) {
            abort();
        }
    }
}

static void send_some(dsUint32_t handle)
{
    static char bytes[300000];
    dsmObjName name = {.fs = "/f", .hl = "/h", .ll = "/l", .objType = DSM_OBJ_FILE};
    mcBindKey key = {.stVersion = 1};
    ObjAttr attributes = {.stVersion = 4, .sizeEstimate = {0, 1}};
    DataBlk block = {.stVersion = 3, .bufferLen = sizeof bytes, .bufferPtr = bytes};
    dsUint16_t reason;
    dsmBeginTxn(handle);
    dsmBindMC(handle, &name, stArchive, &key);
    if (dsmSendObj(handle, stArchive, NULL, &name, &attributes, &block) == DSM_RC_OK) {
        dsmSendData(handle, &block);
        dsmEndSendObj(handle);
    }
    dsmEndTxn(handle, DSM_VOTE_COMMIT, &reason);
}

static void use_session(dsUint32_t handle, enum operation operation)
{
    ApiSessInfo info = {.stVersion = ApiSessInfoVersion};
    regFSData space = {.stVersion = 1, .fsName = "/f"};
    switch (operation) {
    case INFORM:
        dsmQuerySessInfo(handle, &info);
        break;
    case FIND:
        dsmRegisterFS(handle, &space);
        break;
    case QUERY_ARCHIVED:
    case QUERY_FILE_SPACES:
        query(handle, operation);
        break;
    case RETRIEVE:
    case RETRIEVE_PARTS:
        retrieve(handle, operation == RETRIEVE_PARTS);
        break;
    case RETRIEVE_LENT:
        retrieve_lent(handle);
        break;
    case QUERY_RULES:
        query_rules(handle);
        break;
    case SEND:
    default:
        send_some(handle);
        break;
    }
    dsmQuerySessInfo(handle, &info); /* and on, as far as it goes */
    query(handle, QUERY_FILE_SPACES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return 0;
    }
    input = data;
    input_size = size;
    pthread_t thread;
    if (pthread_create(&thread, NULL, server, NULL)) {
        abort();
    }
    dsmApiVersionEx version = {.stVersion = apiVersionExVer};
    dsmQueryApiVersionEx(&version);
    dsmInitExIn_t in = {.stVersion = dsmInitExInVersion, .apiVersionExP = &version, .clientNodeNameP = NODE,
                        .clientPasswordP = PASSWORD, .useTsmBuffers = input[1] % OPERATIONS == RETRIEVE_LENT,
                        .numTsmBuffers = 1};
    dsmInitExOut_t out = {.stVersion = dsmInitExOutVersion};
    dsUint32_t handle;
    dsInt16_t code = dsmInitEx(&handle, &in, &out);
    if (code == DSM_RC_OK) {
        use_session(handle, input[1] % OPERATIONS);
        dsmTerminate(handle);
    } else if (handle != 0 || dsmTerminate(handle) != DSM_RC_INVALID_DS_HANDLE) {
        abort();
    }
    pthread_join(thread, NULL);
    return 0;
}

static void begin(const char *folder)
{
    char path[2048];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 16) ||
        getsockname(listener, (struct sockaddr *)&address, &size)) {
        abort();
    }
    snprintf(path, sizeof path, "%s/dsm.sys", folder);
    FILE *file = fopen(path, "w");
    fprintf(file, "SErvername FUZZ\n TCPServeraddress 127.0.0.1\n TCPPort %u\n", ntohs(address.sin_port));
    fclose(file);
    snprintf(path, sizeof path, "%s/dsm.opt", folder);
    fclose(fopen(path, "w"));
    setenv("DSMI_DIR", folder, 1);
    setenv("DSMI_CONFIG", path, 1);
}

/* Inputs of our own */

static void put_archive(uint8_t **at)
{
    for (unsigned i = 0; i < 5; i++) {
        put(at, i + 1, 8);
    }
    put(at, 0, 4);
    put(at, 1, 8);
    put(at, 2, 8);
    put(at, 1, 2);
    put(at, 1, 4);
    put_text(at, "/hl");
    put_text(at, "/ll");
    put_text(at, "owner");
    put_text(at, "description");
    put_text(at, "info");
}

static void put_answer(uint8_t **at, uint64_t value)
{
    uint8_t *frame = begin_frame(at, FRAME_ANSWER);
    put(at, 0, 4);
    put(at, value, 8);
    end_frame(frame, *at);
}

static void put_short_frame(uint8_t **at, enum frame_type type, uint64_t value, unsigned bytes)
{
    uint8_t *frame = begin_frame(at, type);
    put(at, value, bytes);
    end_frame(frame, *at);
}

static void put_object(uint8_t **at, uint32_t index, uint32_t first, uint32_t rest)
{
    uint8_t *frame = begin_frame(at, FRAME_OBJECT_HEAD);
    put(at, index, 4);
    put(at, 0, 4);
    put(at, first + rest, 8);
    *at += first;
    end_frame(frame, *at);
    if (rest) {
        frame = begin_frame(at, FRAME_OBJECT_DATA);
        *at += rest;
        end_frame(frame, *at);
    }
}

/* What a true server would say to the operation. */
static uint8_t *put_answers(uint8_t *at, enum phase phase, enum operation operation)
{
    uint8_t *frame;
    if (phase == INSTEAD_OF_CHALLENGE) {
        if (roll(2)) {
            put_short_frame(&at, FRAME_REFUSED, 53, 2);
            return at;
        }
        frame = begin_frame(&at, FRAME_CHALLENGE);
        at += 2 * NONCE_SIZE;
        put(&at, 1, 4);
        end_frame(frame, at);
        return at;
    }
    if (phase == INSTEAD_OF_POLICY) {
        return put_policy(at);
    }
    switch (operation) {
    case INFORM:
        put_short_frame(&at, FRAME_DATE, 1700000000000, 8);
        break;
    case FIND:
        put_answer(&at, 1);
        break;
    case QUERY_ARCHIVED:
        put_answer(&at, 1);
        frame = begin_frame(&at, FRAME_ARCHIVES);
        put(&at, 3, 2);
        for (unsigned i = 0; i < 3; i++) {
            put_archive(&at);
        }
        end_frame(frame, at);
        put_short_frame(&at, FRAME_STREAM_END, 0, 2);
        break;
    case QUERY_FILE_SPACES:
        frame = begin_frame(&at, FRAME_SPACES);
        put(&at, 1, 2);
        put_text(&at, "/f");
        put_text(&at, "type");
        put(&at, 1, 8);
        put(&at, 2, 8);
        put_text(&at, "info");
        put(&at, 1700000000000, 8);
        end_frame(frame, at);
        put_short_frame(&at, FRAME_STREAM_END, 0, 2);
        break;
    case QUERY_RULES:
        frame = begin_frame(&at, FRAME_RULES);
        put(&at, 2, 2);
        for (unsigned i = 0; i < 2; i++) {
            put(&at, i + 1, 4);
            put_text(&at, "/f");
            put_text(&at, "/hl");
            put_text(&at, "*");
            put_text(&at, "NODE");
            put_text(&at, "owner");
        }
        end_frame(frame, at);
        put_short_frame(&at, FRAME_STREAM_END, 0, 2);
        break;
    case RETRIEVE:
    case RETRIEVE_PARTS:
    case RETRIEVE_LENT:
        for (uint32_t i = 0; i < 3; i++) {
            if (roll(8)) { /* else one is left out, which no true server does */
                put_object(&at, i, i ? 0 : 100, roll(3) * 250);
            }
            if (roll(4) == 0) {
                put_short_frame(&at, FRAME_OBJECT_FAILED, 14, 2);
            }
        }
        put_short_frame(&at, FRAME_STREAM_END, 0, 2);
        break;
    default:
        put_answer(&at, 1);
        if (roll(2)) {
            put_short_frame(&at, FRAME_WILL_ABORT, 11, 2);
        }
        put_short_frame(&at, FRAME_VOTE, roll(2) ? 11 : 0, 2);
    }
    put_short_frame(&at, FRAME_DATE, 1700000000000, 8);
    return at;
}

static size_t make_input(uint8_t bytes[INPUT_MAX])
{
    memset(bytes, 0, INPUT_MAX);
    bytes[0] = roll(8) ? AFTER_SIGN_ON : (uint8_t)roll(PHASES);
    bytes[1] = (uint8_t)roll(OPERATIONS);
    size_t size = (size_t)(put_answers(bytes + 2, bytes[0], bytes[1]) - bytes);
    for (uint32_t changes = roll(5); changes > 0; changes--) {
        size_t at = 2 + roll((uint32_t)size - 1);
        switch (roll(6)) {
        case 0:
            size = at; /* it ends too soon */
            break;
        case 1:
            bytes[at] = (uint8_t)roll(256);
            break;
        case 2:
            bytes[at] ^= (uint8_t)(1u << roll(8));
            break;
        case 3:
            bytes[at] = roll(2) ? 0xFF : 0;
            break;
        case 4:
            memmove(bytes + at, bytes + at + 1, size - at > 0 ? size - at - 1 : 0);
            break;
        default:
            memmove(bytes + at + 1, bytes + at, size - at);
            size++;
        }
        if (size < 3) {
            return 2;
        }
    }
    return size;
}
