#include "tls.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "include/archiver_tsm_rc.h"

#define LIBRARY "libssl.so.3"

/* Numbers and types of the ABI of OpenSSL 3. Its headers are not needed to build. */
enum {
    ERROR_SSL = 1,
    ERROR_WANT_READ = 2,
    ERROR_WANT_WRITE = 3,
    ERROR_ZERO_RETURN = 6,
    VERIFY_PEER = 1,
    SET_MODE = 33,
    PARTIAL_AND_MOVING_WRITES = 1 | 2,
    SET_SERVER_NAME = 55,
    SET_LEAST_VERSION = 123,
    TLS_1_2 = 0x0303,
    NO_PARTIAL_WILDCARDS = 4,
    BIO_SOURCE_SINK = 0x0400,
    BIO_FLUSH = 11,
    BIO_RETRY_READ = 0x08 | 0x01,
    BIO_RETRY_WRITE = 0x08 | 0x02,
    BIO_RETRY_ANY = 0x08 | 0x07,
};

typedef struct openssl_ctx openssl_ctx;
typedef struct openssl_ssl openssl_ssl;
typedef struct openssl_bio openssl_bio;
typedef struct openssl_bio_method openssl_bio_method;

/* The OpenSSL functions that the library uses, by OpenSSL's names. */
#define FUNCTIONS(each)                                                                                                \
    each(const void *, TLS_client_method, (void))                                                                      \
    each(openssl_ctx *, SSL_CTX_new, (const void *))                                                                   \
    each(void, SSL_CTX_free, (openssl_ctx *))                                                                          \
    each(long, SSL_CTX_ctrl, (openssl_ctx *, int, long, void *))                                                       \
    each(int, SSL_CTX_load_verify_locations, (openssl_ctx *, const char *, const char *))                              \
    each(int, SSL_CTX_set_default_verify_paths, (openssl_ctx *))                                                       \
    each(void, SSL_CTX_set_verify, (openssl_ctx *, int, void *))                                                       \
    each(openssl_ssl *, SSL_new, (openssl_ctx *))                                                                      \
    each(void, SSL_free, (openssl_ssl *))                                                                              \
    each(long, SSL_ctrl, (openssl_ssl *, int, long, void *))                                                           \
    each(int, SSL_set1_host, (openssl_ssl *, const char *))                                                            \
    each(void, SSL_set_hostflags, (openssl_ssl *, unsigned))                                                           \
    each(void *, SSL_get0_param, (openssl_ssl *))                                                                      \
    each(int, X509_VERIFY_PARAM_set1_ip_asc, (void *, const char *))                                                   \
    each(void, SSL_set_bio, (openssl_ssl *, openssl_bio *, openssl_bio *))                                             \
    each(int, SSL_connect, (openssl_ssl *))                                                                            \
    each(long, SSL_get_verify_result, (const openssl_ssl *))                                                           \
    each(int, SSL_write, (openssl_ssl *, const void *, int))                                                           \
    each(int, SSL_read, (openssl_ssl *, void *, int))                                                                  \
    each(int, SSL_peek, (openssl_ssl *, void *, int))                                                                  \
    each(int, SSL_get_error, (const openssl_ssl *, int))                                                               \
    each(int, SSL_shutdown, (openssl_ssl *))                                                                           \
    each(void, ERR_clear_error, (void))                                                                                \
    each(openssl_bio_method *, BIO_meth_new, (int, const char *))                                                      \
    each(int, BIO_meth_set_write, (openssl_bio_method *, int (*)(openssl_bio *, const char *, int)))                   \
    each(int, BIO_meth_set_read, (openssl_bio_method *, int (*)(openssl_bio *, char *, int)))                          \
    each(int, BIO_meth_set_ctrl, (openssl_bio_method *, long (*)(openssl_bio *, int, long, void *)))                   \
    each(openssl_bio *, BIO_new, (const openssl_bio_method *))                                                         \
    each(void, BIO_set_data, (openssl_bio *, void *))                                                                  \
    each(void *, BIO_get_data, (openssl_bio *))                                                                        \
    each(void, BIO_set_init, (openssl_bio *, int))                                                                     \
    each(void, BIO_set_flags, (openssl_bio *, int))                                                                    \
    each(void, BIO_clear_flags, (openssl_bio *, int))

#define DECLARE(result, name, arguments) static result(*name) arguments;
FUNCTIONS(DECLARE)

struct tls {
    openssl_ctx *context;
    openssl_ssl *ssl;
    int socket;
    int flags;      /* of sends and receives */
    bool is_broken; /* nothing more may be sent */
};

static pthread_once_t looked_for = PTHREAD_ONCE_INIT;
static openssl_bio_method *method; /* NULL: this system has no usable OpenSSL */

/* The BIO through which OpenSSL uses the socket. OpenSSL's own BIO would end the program with SIGPIPE. */

static int tell_if_interrupted(const struct tls *tls, openssl_bio *bio, ssize_t count, int retry)
{
    BIO_clear_flags(bio, BIO_RETRY_ANY);
    if (count < 0 && (errno == EINTR || (tls->flags & MSG_DONTWAIT && (errno == EAGAIN || errno == EWOULDBLOCK)))) {
        BIO_set_flags(bio, retry);
    }
    return (int)count;
}

static int bio_write(openssl_bio *bio, const char *bytes, int length)
{
    const struct tls *tls = BIO_get_data(bio);
    return tell_if_interrupted(tls, bio, send(tls->socket, bytes, (size_t)length, tls->flags), BIO_RETRY_WRITE);
}

static int bio_read(openssl_bio *bio, char *bytes, int length)
{
    const struct tls *tls = BIO_get_data(bio);
    return tell_if_interrupted(tls, bio, recv(tls->socket, bytes, (size_t)length, tls->flags), BIO_RETRY_READ);
}

static long bio_control(openssl_bio *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_FLUSH;
}

static void look_for(void)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        return;
    }
    void *found;
    /* In ISO C a pointer to a function is not a pointer to an object; POSIX requires that it is copied like one. */
#define FIND(result, name, arguments)                                                                                  \
    if (!(found = dlsym(library, #name))) {                                                                            \
        return;                                                                                                        \
    }                                                                                                                  \
    memcpy(&(name), &found, sizeof found);
    FUNCTIONS(FIND)
    openssl_bio_method *made = BIO_meth_new(BIO_SOURCE_SINK, "socket of a TSM session");
    if (made && BIO_meth_set_write(made, bio_write) && BIO_meth_set_read(made, bio_read) &&
        BIO_meth_set_ctrl(made, bio_control)) {
        method = made;
    }
}

/* Sets the trusted authorities, and requires the server to have a certificate of one of them. */
static int16_t trust(openssl_ctx *context, const char *authorities)
{
    bool is_given = *authorities != '\0';
    if (is_given ? !SSL_CTX_load_verify_locations(context, authorities, NULL)
                 : !SSL_CTX_set_default_verify_paths(context)) {
        return DSM_RC_SSL_KEYFILE_OPEN_FAILED;
    }
    SSL_CTX_set_verify(context, VERIFY_PEER, NULL);
    return SSL_CTX_ctrl(context, SET_LEAST_VERSION, TLS_1_2, NULL) ? DSM_RC_OK : DSM_RC_SSL_INIT_FAILED;
}

/* Sets the name that the certificate must have: a host name or a numeric address. */
static bool expect_host(openssl_ssl *ssl, const char *host)
{
    unsigned char number[sizeof(struct in6_addr)];
    if (inet_pton(AF_INET, host, number) == 1 || inet_pton(AF_INET6, host, number) == 1) {
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host);
    }
    SSL_set_hostflags(ssl, NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(ssl, host) && SSL_ctrl(ssl, SET_SERVER_NAME, 0, (void *)(uintptr_t)host);
}

static bool attach(struct tls *tls)
{
    openssl_bio *bio = BIO_new(method);
    if (!bio) {
        return false;
    }
    BIO_set_data(bio, tls);
    BIO_set_init(bio, 1);
    SSL_set_bio(tls->ssl, bio, bio); /* which frees it */
    return true;
}

int16_t tls_begin(struct tls **begun, int socket, const struct tls_setting *setting)
{
    pthread_once(&looked_for, look_for);
    if (!method) {
        return DSM_RC_SSL_NOT_SUPPORTED;
    }
    struct tls *tls = calloc(1, sizeof *tls);
    if (!tls) {
        return DSM_RC_NO_MEMORY;
    }
    *tls = (struct tls){.socket = socket, .flags = MSG_NOSIGNAL, .is_broken = true};
    *begun = tls;
    ERR_clear_error();
    tls->context = SSL_CTX_new(TLS_client_method());
    if (!tls->context) {
        return DSM_RC_SSL_INIT_FAILED;
    }
    int16_t code = trust(tls->context, setting->authorities);
    if (code) {
        return code;
    }
    tls->ssl = SSL_new(tls->context);
    if (!tls->ssl || !expect_host(tls->ssl, setting->host) || !attach(tls)) {
        return DSM_RC_SSL_INIT_FAILED;
    }
    SSL_ctrl(tls->ssl, SET_MODE, PARTIAL_AND_MOVING_WRITES, NULL);
    return DSM_RC_OK;
}

/* Returns the result of a call that failed: 0 at the end of the connection, -1 with an errno. */
static ssize_t outcome(struct tls *tls, int result)
{
    int error = errno;
    switch (SSL_get_error(tls->ssl, result)) {
    case ERROR_WANT_READ:
    case ERROR_WANT_WRITE:
        errno = tls->flags & MSG_DONTWAIT ? EAGAIN : EINTR;
        return -1;
    case ERROR_ZERO_RETURN:
        return 0;
    case ERROR_SSL: /* the data is not what the server sent, or the connection ended without notice */
        errno = EPROTO;
        break;
    default:
        errno = error ? error : ECONNRESET;
    }
    tls->is_broken = true;
    return -1;
}

int16_t tls_handshake(struct tls *tls)
{
    ERR_clear_error();
    errno = 0;
    int result = SSL_connect(tls->ssl);
    if (result == 1) {
        tls->is_broken = false;
        return DSM_RC_OK;
    }
    if (SSL_get_verify_result(tls->ssl) != 0) {
        return DSM_RC_SSL_BAD_CERTIFICATE;
    }
    return outcome(tls, result) == 0 || errno == EPROTO ? DSM_RC_SSL_INIT_FAILED : DSM_RC_TCPIP_FAILURE;
}

static int at_most(size_t length)
{
    return length < INT_MAX ? (int)length : INT_MAX;
}

ssize_t tls_send(struct tls *tls, const void *bytes, size_t length)
{
    ERR_clear_error();
    errno = 0;
    int sent = SSL_write(tls->ssl, bytes, at_most(length));
    if (sent > 0) {
        return sent;
    }
    if (outcome(tls, sent) == 0) {
        errno = EPIPE;
    }
    return -1;
}

ssize_t tls_receive(struct tls *tls, void *bytes, size_t length)
{
    ERR_clear_error();
    errno = 0;
    int got = SSL_read(tls->ssl, bytes, at_most(length));
    return got > 0 ? got : outcome(tls, got);
}

int tls_has_come(struct tls *tls)
{
    char byte;
    ERR_clear_error();
    errno = 0;
    tls->flags |= MSG_DONTWAIT;
    int got = SSL_peek(tls->ssl, &byte, 1);
    ssize_t ended = got > 0 ? 1 : outcome(tls, got);
    bool is_not_there_yet = ended < 0 && errno == EAGAIN && !tls->is_broken;
    tls->flags &= ~MSG_DONTWAIT;
    if (is_not_there_yet) {
        return 0;
    }
    return ended > 0 ? 1 : -1;
}

void tls_end(struct tls *tls)
{
    if (!tls) {
        return;
    }
    if (!tls->is_broken) {
        ERR_clear_error();
        tls->flags |= MSG_DONTWAIT; /* do not wait for a server that no longer reads */
        SSL_shutdown(tls->ssl);
    }
    if (tls->ssl) {
        SSL_free(tls->ssl);
    }
    if (tls->context) {
        SSL_CTX_free(tls->context);
    }
    free(tls);
}
