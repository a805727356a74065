/* SHA-256 (FIPS 180-4), HMAC (RFC 2104) and PBKDF2 (RFC 8018), for a sign-on that does not send the password. */
#ifndef SHA256_H
#define SHA256_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_SIZE 32

struct sha256 {
    uint32_t state[8];
    uint64_t length; /* bytes so far */
    unsigned char block[64];
};

struct hmac {
    struct sha256 inner;
    struct sha256 outer;
};

void sha256_start(struct sha256 *hash);
void sha256_add(struct sha256 *hash, const void *data, size_t length);
void sha256_finish(struct sha256 *hash, unsigned char digest[SHA256_SIZE]);

void hmac_start(struct hmac *mac, const void *key, size_t key_length);
void hmac_add(struct hmac *mac, const void *data, size_t length);
void hmac_finish(struct hmac *mac, unsigned char digest[SHA256_SIZE]);

/* One block of PBKDF2-HMAC-SHA256: `iterations` is at least 1. */
void pbkdf2(const void *password, size_t password_length, const void *salt, size_t salt_length, uint32_t iterations,
            unsigned char key[SHA256_SIZE]);

#endif
