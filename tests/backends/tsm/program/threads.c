/* Sessions of several threads, none of which disturbs another. */
#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "calls.h"

struct work {
    dsUint32_t handles[2];
    unsigned number;
};

/* Two sessions in turn, both opened by another thread, one step of each at a time. */
static void *use_two_sessions(void *argument)
{
    struct work *work = argument;
    char *bytes = noise(300000);
    for (unsigned round = 0; round < 8; round++) {
        char ll[32];
        snprintf(ll, sizeof ll, "/%u-%u", work->number, round);
        dsmObjName name = name_of("/threads", ll);
        ObjAttr attributes = {.stVersion = ObjAttrVersion, .sizeEstimate = {0, 300000}};
        for (unsigned i = 0; i < 2; i++) {
            EXPECT(DSM_RC_OK, dsmBeginTxn(work->handles[i]));
            EXPECT(DSM_RC_OK, bind_name(work->handles[i], &name));
            EXPECT(DSM_RC_OK, dsmSendObj(work->handles[i], stArchive, NULL, &name, &attributes, NULL));
        }
        for (size_t at = 0; at < 300000; at += 50000) {
            for (unsigned i = 0; i < 2; i++) {
                DataBlk block = block_of(bytes + at, 50000);
                EXPECT(DSM_RC_OK, dsmSendData(work->handles[i], &block));
            }
        }
        dsUint16_t reason;
        EXPECT(DSM_RC_OK, dsmEndSendObj(work->handles[0]));
        EXPECT(DSM_RC_OK, dsmEndTxn(work->handles[0], DSM_VOTE_COMMIT, &reason));
        EXPECT(DSM_RC_CHECK_REASON_CODE, dsmEndTxn(work->handles[1], DSM_VOTE_ABORT, &reason));
        qryRespArchiveData row = find_one(work->handles[1], "/threads", ll);
        expect_content(work->handles[round % 2], row.objId, bytes, 300000, 100000);
    }
    free(bytes);
    return NULL;
}

static void *end_session(void *argument)
{
    EXPECT(DSM_RC_OK, dsmTerminate(*(dsUint32_t *)argument));
    return NULL;
}

static void test_two_threads(void)
{
    struct work works[2];
    pthread_t threads[2];
    for (unsigned i = 0; i < 2; i++) {
        works[i].number = i;
        works[i].handles[0] = open_session();
        works[i].handles[1] = open_session();
    }
    for (unsigned i = 0; i < 2; i++) {
        EXPECT(0, pthread_create(&threads[i], NULL, use_two_sessions, &works[i]));
    }
    for (unsigned i = 0; i < 2; i++) {
        EXPECT(0, pthread_join(threads[i], NULL));
    }
    EXPECT(16, find(works[0].handles[0], "/threads", "*", NULL, 0));
    for (unsigned i = 0; i < 2; i++) {
        EXPECT(0, pthread_create(&threads[i], NULL, end_session, &works[i].handles[0]));
        EXPECT(DSM_RC_OK, dsmTerminate(works[i].handles[1]));
        EXPECT(0, pthread_join(threads[i], NULL));
    }
}

struct attempt {
    char options[64];
    atomic_bool is_over;
    dsInt16_t code;
};

static void *try_to_sign_on(void *argument)
{
    struct attempt *attempt = argument;
    dsUint32_t handle;
    attempt->code = sign_on_with(&handle, NULL, attempt->options);
    attempt->is_over = true;
    return NULL;
}

static void ignore(int number)
{
    (void)number;
}

/* A hundred signals a second, each of which interrupts whatever waits. */
static void have_signals(bool wanted)
{
    struct sigaction action = {.sa_handler = ignore};
    struct itimerval timer = {{0, wanted ? 10000 : 0}, {0, wanted ? 10000 : 0}};
    EXPECT(0, sigaction(SIGALRM, &action, NULL));
    EXPECT(0, setitimer(ITIMER_REAL, &timer, NULL));
}

static void test_signals(void)
{
    dsUint32_t handle = open_session();
    char *bytes = noise(9 * MEBIBYTE);
    have_signals(true);
    archive(handle, "/signals", "/x", NULL, bytes, 9 * MEBIBYTE, 3 * MEBIBYTE);
    expect_content(handle, find_one(handle, "/signals", "/x").objId, bytes, 9 * MEBIBYTE, 2 * MEBIBYTE);
    have_signals(false);
    free(bytes);
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
}

static void test_silent_server(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT(0, bind(listener, (struct sockaddr *)&address, size));
    EXPECT(0, listen(listener, 4));
    EXPECT(0, getsockname(listener, (struct sockaddr *)&address, &size));
    /* While one session waits for it, others go on. */
    struct attempt attempt = {.is_over = false};
    pthread_t thread;
    snprintf(attempt.options, sizeof attempt.options, "-se=SILENT -tcpp=%u", ntohs(address.sin_port));
    dsUint32_t handle = open_session();
    EXPECT(0, pthread_create(&thread, NULL, try_to_sign_on, &attempt));
    int peer = accept(listener, NULL, NULL);
    archive(handle, "/silent", "/x", NULL, "x", 1, 1);
    EXPECT(1, find(handle, "/silent", "*", NULL, 0));
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
    handle = open_session();
    EXPECT(DSM_RC_OK, dsmTerminate(handle));
    CHECK(!attempt.is_over);
    close(peer);
    EXPECT(0, pthread_join(thread, NULL));
    EXPECT(DSM_RC_TCPIP_FAILURE, attempt.code);
    /* And it does not wait for ever. */
    strcat(attempt.options, " -commtimeout=1");
    EXPECT(DSM_RC_CONN_TIMEDOUT, sign_on_with(&handle, NULL, attempt.options));
    have_signals(true); /* nor does it begin to wait anew with each signal */
    EXPECT(DSM_RC_CONN_TIMEDOUT, sign_on_with(&handle, NULL, attempt.options));
    have_signals(false);
    close(listener);
}

void test_threads(void)
{
    test_two_threads();
    test_signals();
    test_silent_server();
}
