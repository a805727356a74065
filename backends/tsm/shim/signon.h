/* Proof of a password without sending it. */
#ifndef SIGNON_H
#define SIGNON_H

#include "session.h"

/* Connects and signs on with the session's options, names and `password`. Afterwards the policy is known. Codes: OK,
 * the codes of the connection, AUTH_FAILURE, and the server's refusals. */
dsInt16_t sign_on(struct session *session, const char *password);

/* Codes: OK, ABORT_BAD_VERIFIER, those of the connection. */
dsInt16_t change_password(struct session *session, const char *old_password, const char *new_password);

#endif
