/* TLS on a socket that is connected already, by the system's OpenSSL.
 *
 * One idea: OpenSSL is looked for when the first session wants it, never before. So the library builds and loads on
 * machines that have none, and a session without TLS costs nothing. Nothing else of OpenSSL is known outside tls.c.
 */
#ifndef TLS_H
#define TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct tls;

struct tls_setting {
    const char *host;        /* whom the server's certificate has to name */
    const char *authorities; /* a PEM file of whose certificates are believed; "": those of this system */
};

/* Begins TLS on the socket, which stays the caller's; tls_handshake goes on from here. Codes: OK, NO_MEMORY,
 * SSL_NOT_SUPPORTED where this system has no OpenSSL 3, SSL_KEYFILE_OPEN_FAILED, SSL_INIT_FAILED. */
int16_t tls_begin(struct tls **begun, int socket, const struct tls_setting *setting);

/* Codes: OK, SSL_BAD_CERTIFICATE, SSL_INIT_FAILED; TCPIP_FAILURE with an errno: EINTR asks for another call. */
int16_t tls_handshake(struct tls *tls);

/* As send and recv: how many bytes, 0 at the end, -1 with an errno. */
ssize_t tls_send(struct tls *tls, const void *bytes, size_t length);
ssize_t tls_receive(struct tls *tls, void *bytes, size_t length);

/* Whether there is something to receive, without waiting for it: 1, 0, or -1 where the connection has ended. */
int tls_has_come(struct tls *tls);

/* Says good-bye where that is still possible, and frees it. NULL is nothing. */
void tls_end(struct tls *tls);

#endif
