/* TLS on a connected socket, with the system's OpenSSL.
 *
 * One idea: OpenSSL is loaded when the first session needs it, never before. So the library builds and loads on
 * machines without OpenSSL, and a session without TLS costs nothing. Only tls.c uses anything of OpenSSL.
 */
#ifndef TLS_H
#define TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct tls;

struct tls_setting {
    const char *host;        /* the name that the server's certificate must have */
    const char *authorities; /* a PEM file of trusted authorities; "": those of this system */
};

/* Begins TLS on the socket, which the caller still owns; tls_handshake continues. Codes: OK, NO_MEMORY,
 * SSL_NOT_SUPPORTED if this system has no OpenSSL 3, SSL_KEYFILE_OPEN_FAILED, SSL_INIT_FAILED. */
int16_t tls_begin(struct tls **begun, int socket, const struct tls_setting *setting);

/* Codes: OK, SSL_BAD_CERTIFICATE, SSL_INIT_FAILED, TCPIP_FAILURE with an errno. With EINTR the caller calls again. */
int16_t tls_handshake(struct tls *tls);

/* Like send and recv: the number of bytes, 0 at the end, -1 with an errno. */
ssize_t tls_send(struct tls *tls, const void *bytes, size_t length);
ssize_t tls_receive(struct tls *tls, void *bytes, size_t length);

/* Returns without waiting: 1 if there are bytes to receive, 0 if not, -1 if the connection has ended. */
int tls_has_come(struct tls *tls);

/* Sends the end of TLS if that is still possible, and frees it. NULL is allowed. */
void tls_end(struct tls *tls);

#endif
