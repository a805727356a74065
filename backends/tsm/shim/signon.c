#include "signon.h"

#include <string.h>
#include <sys/random.h>

#include "logging.h"
#include "sha256.h"

#define NEW_PASSWORD_ITERATIONS 20000u /* slows down guessing if the server's list of keys is stolen */

static const char CLIENT_LABEL[] = "archiver-tsm client";
static const char SERVER_LABEL[] = "archiver-tsm server";
static const char MASK_LABEL[] = "archiver-tsm mask";
static const char CHANGE_LABEL[] = "archiver-tsm change";

static void key_of(const char *password, const unsigned char salt[NONCE_SIZE], uint32_t iterations,
                   unsigned char key[SHA256_SIZE])
{
    char upper[DSM_MAX_VERIFIER_LENGTH + 1];
    size_t length = 0;
    for (; password[length] && length < DSM_MAX_VERIFIER_LENGTH; length++) {
        char character = password[length];
        upper[length] = character >= 'a' && character <= 'z' ? (char)(character - 'a' + 'A') : character;
    }
    pbkdf2(upper, length, salt, NONCE_SIZE, iterations, key);
    explicit_bzero(upper, sizeof upper);
}

/* Starts a MAC over the label and the values that make it valid for this session only. */
static void start_mac(struct hmac *mac, const struct session *session, const unsigned char key[SHA256_SIZE],
                      const char *label)
{
    hmac_start(mac, key, SHA256_SIZE);
    hmac_add(mac, label, strlen(label));
    hmac_add(mac, session->credentials.nonces, sizeof session->credentials.nonces);
    hmac_add(mac, session->node, strlen(session->node));
}

static bool fill_random(unsigned char *bytes, size_t length)
{
    return getrandom(bytes, length, 0) == (ssize_t)length;
}

/* Compares in a time that does not depend on where the values differ. */
static bool is_equal(const unsigned char *one, const unsigned char *other)
{
    unsigned char difference = 0;
    for (unsigned i = 0; i < SHA256_SIZE; i++) {
        difference |= one[i] ^ other[i];
    }
    return difference == 0;
}

static dsInt16_t say_hello(struct session *session)
{
    struct wire *wire = &session->wire;
    unsigned char *nonce = session->credentials.nonces;
    if (!fill_random(nonce, NONCE_SIZE)) {
        return wire_fail(wire, DSM_RC_SYSTEM_ERROR);
    }
    if (wire_begin(wire, FRAME_HELLO, 512)) {
        return wire->lost;
    }
    wire_put_bytes(wire, "ATSM", 4);
    wire_put_u16(wire, PROTOCOL_VERSION);
    wire_put_u16(wire, session->options.has_retention_protection ? 1 : 0);
    wire_put_bytes(wire, nonce, NONCE_SIZE);
    wire_put_text(wire, session->node, strlen(session->node));
    wire_put_text(wire, session->owner, strlen(session->owner));
    wire_put_text(wire, session->application_type, strlen(session->application_type));
    return wire_flush(wire);
}

static dsInt16_t hear_challenge(struct session *session)
{
    struct wire *wire = &session->wire;
    struct credentials *credentials = &session->credentials;
    struct reader body;
    if (wire_expect(wire, FRAME_CHALLENGE) || wire_body(wire, &body)) {
        return wire->lost;
    }
    const unsigned char *nonce = read_bytes(&body, NONCE_SIZE);
    const unsigned char *salt = read_bytes(&body, NONCE_SIZE);
    credentials->iterations = read_u32(&body);
    if (!read_all(&body) || credentials->iterations < 1 || credentials->iterations > ITERATIONS_MAX) {
        return wire_fail(wire, DSM_RC_COMM_PROTOCOL_ERROR);
    }
    memcpy(credentials->nonces + NONCE_SIZE, nonce, NONCE_SIZE);
    memcpy(credentials->salt, salt, NONCE_SIZE);
    return DSM_RC_OK;
}

static dsInt16_t prove(struct session *session, const unsigned char key[SHA256_SIZE])
{
    struct wire *wire = &session->wire;
    struct hmac mac;
    unsigned char proof[SHA256_SIZE];
    start_mac(&mac, session, key, CLIENT_LABEL);
    hmac_finish(&mac, proof);
    if (wire_begin(wire, FRAME_PROOF, sizeof proof)) {
        return wire->lost;
    }
    wire_put_bytes(wire, proof, sizeof proof);
    if (wire_flush(wire)) {
        return wire->lost;
    }
    start_mac(&mac, session, key, SERVER_LABEL);
    hmac_finish(&mac, proof);
    struct reader body;
    if (wire_expect(wire, FRAME_WELCOME) || wire_body(wire, &body)) {
        return wire->lost;
    }
    const unsigned char *servers_proof = read_bytes(&body, SHA256_SIZE);
    if (!servers_proof || !is_equal(servers_proof, proof)) { /* another program uses the server's address */
        return wire_fail(wire, DSM_RC_AUTH_FAILURE);
    }
    dsInt16_t code = policy_read(&session->policy, &body);
    return code ? wire_fail(wire, code) : DSM_RC_OK;
}

dsInt16_t sign_on(struct session *session, const char *password)
{
    struct wire_setting setting = {
        .host = session->options.address,
        .port = (unsigned)session->options.port,
        .timeout_seconds = (unsigned)session->options.timeout_seconds,
        .window_kib = (unsigned)session->options.window_kib,
        .no_delay = session->options.has_no_delay,
        .has_tls = session->options.has_tls,
        .authorities = session->options.authorities,
    };
    if (wire_open(&session->wire, &setting)) {
        return session->wire.lost;
    }
    if (say_hello(session) || hear_challenge(session)) {
        if (session->wire.lost == DSM_RC_TCPIP_FAILURE && !setting.has_tls) {
            report(&session->options,
                   "%s port %u ended the connection without an answer; if it expects TLS, the stanza needs SSL Yes",
                   setting.host, setting.port);
        }
        return session->wire.lost;
    }
    unsigned char key[SHA256_SIZE];
    key_of(password, session->credentials.salt, session->credentials.iterations, key);
    dsInt16_t code = prove(session, key);
    explicit_bzero(key, sizeof key);
    return code;
}

/* Sends the new key masked with a value that only a client with the old key can compute. */
static dsInt16_t send_change(struct session *session, const unsigned char old_key[SHA256_SIZE],
                             unsigned char new_key[SHA256_SIZE], const unsigned char salt[NONCE_SIZE])
{
    struct hmac mac;
    unsigned char digest[SHA256_SIZE];
    start_mac(&mac, session, old_key, MASK_LABEL);
    hmac_add(&mac, salt, NONCE_SIZE);
    hmac_finish(&mac, digest);
    for (unsigned i = 0; i < SHA256_SIZE; i++) {
        new_key[i] ^= digest[i];
    }
    uint32_t iterations = htole32(NEW_PASSWORD_ITERATIONS);
    start_mac(&mac, session, old_key, CHANGE_LABEL);
    hmac_add(&mac, salt, NONCE_SIZE);
    hmac_add(&mac, &iterations, sizeof iterations);
    hmac_add(&mac, new_key, SHA256_SIZE);
    hmac_finish(&mac, digest);
    struct wire *wire = &session->wire;
    if (wire_begin(wire, FRAME_CHANGE_PASSWORD, 2 * SHA256_SIZE + NONCE_SIZE + sizeof iterations)) {
        return wire->lost;
    }
    wire_put_bytes(wire, digest, SHA256_SIZE);
    wire_put_bytes(wire, salt, NONCE_SIZE);
    wire_put_u32(wire, NEW_PASSWORD_ITERATIONS);
    wire_put_bytes(wire, new_key, SHA256_SIZE);
    uint64_t nothing;
    return session_ask(session, &nothing);
}

dsInt16_t change_password(struct session *session, const char *old_password, const char *new_password)
{
    struct credentials *credentials = &session->credentials;
    unsigned char old_key[SHA256_SIZE], new_key[SHA256_SIZE], salt[NONCE_SIZE];
    if (!fill_random(salt, sizeof salt)) {
        return DSM_RC_SYSTEM_ERROR;
    }
    key_of(old_password, credentials->salt, credentials->iterations, old_key);
    key_of(new_password, salt, NEW_PASSWORD_ITERATIONS, new_key);
    dsInt16_t code = send_change(session, old_key, new_key, salt);
    if (!code) {
        memcpy(credentials->salt, salt, sizeof salt);
        credentials->iterations = NEW_PASSWORD_ITERATIONS;
    }
    explicit_bzero(old_key, sizeof old_key);
    explicit_bzero(new_key, sizeof new_key);
    return code;
}
