#include "sha256.h"

#include <string.h>

static const uint32_t ROUND[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t word, unsigned bits)
{
    return word >> bits | word << (32 - bits);
}

static void compress(uint32_t state[8], const unsigned char block[64])
{
    uint32_t word[64];
    for (unsigned i = 0; i < 16; i++) {
        word[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
                  block[4 * i + 3];
    }
    for (unsigned i = 16; i < 64; i++) {
        uint32_t small0 = rotate(word[i - 15], 7) ^ rotate(word[i - 15], 18) ^ word[i - 15] >> 3;
        uint32_t small1 = rotate(word[i - 2], 17) ^ rotate(word[i - 2], 19) ^ word[i - 2] >> 10;
        word[i] = word[i - 16] + small0 + word[i - 7] + small1;
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (unsigned i = 0; i < 64; i++) {
        uint32_t big1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
        uint32_t first = h + big1 + ((e & f) ^ (~e & g)) + ROUND[i] + word[i];
        uint32_t big0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
        uint32_t second = big0 + ((a & b) ^ (a & c) ^ (b & c));
        h = g;
        g = f;
        f = e;
        e = d + first;
        d = c;
        c = b;
        b = a;
        a = first + second;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
    state[5] += f;
    state[6] += g;
    state[7] += h;
}

static void put_be32(unsigned char *at, uint32_t value)
{
    at[0] = (unsigned char)(value >> 24);
    at[1] = (unsigned char)(value >> 16);
    at[2] = (unsigned char)(value >> 8);
    at[3] = (unsigned char)value;
}

void sha256_start(struct sha256 *hash)
{
    *hash = (struct sha256){
        .state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void sha256_add(struct sha256 *hash, const void *data, size_t length)
{
    const unsigned char *at = data;
    while (length > 0) {
        size_t used = hash->length % 64;
        size_t piece = 64 - used < length ? 64 - used : length;
        memcpy(hash->block + used, at, piece);
        hash->length += piece;
        at += piece;
        length -= piece;
        if (hash->length % 64 == 0) {
            compress(hash->state, hash->block);
        }
    }
}

void sha256_finish(struct sha256 *hash, unsigned char digest[SHA256_SIZE])
{
    uint64_t bits = hash->length * 8;
    unsigned char length[8];
    put_be32(length, (uint32_t)(bits >> 32));
    put_be32(length + 4, (uint32_t)bits);
    static const unsigned char PADDING[64] = {0x80};
    size_t used = hash->length % 64;
    sha256_add(hash, PADDING, used < 56 ? 56 - used : 120 - used);
    sha256_add(hash, length, sizeof length);
    for (unsigned i = 0; i < 8; i++) {
        put_be32(digest + 4 * i, hash->state[i]);
    }
    explicit_bzero(hash, sizeof *hash);
}

void hmac_start(struct hmac *mac, const void *key, size_t key_length)
{
    unsigned char block[64] = {0};
    if (key_length > sizeof block) {
        struct sha256 hash;
        sha256_start(&hash);
        sha256_add(&hash, key, key_length);
        sha256_finish(&hash, block);
    } else if (key_length > 0) {
        memcpy(block, key, key_length);
    }
    for (unsigned i = 0; i < sizeof block; i++) {
        block[i] ^= 0x36;
    }
    sha256_start(&mac->inner);
    sha256_add(&mac->inner, block, sizeof block);
    for (unsigned i = 0; i < sizeof block; i++) {
        block[i] ^= 0x36 ^ 0x5c;
    }
    sha256_start(&mac->outer);
    sha256_add(&mac->outer, block, sizeof block);
    explicit_bzero(block, sizeof block);
}

void hmac_add(struct hmac *mac, const void *data, size_t length)
{
    sha256_add(&mac->inner, data, length);
}

void hmac_finish(struct hmac *mac, unsigned char digest[SHA256_SIZE])
{
    sha256_finish(&mac->inner, digest);
    sha256_add(&mac->outer, digest, SHA256_SIZE);
    sha256_finish(&mac->outer, digest);
}

void pbkdf2(const void *password, size_t password_length, const void *salt, size_t salt_length, uint32_t iterations,
            unsigned char key[SHA256_SIZE])
{
    static const unsigned char FIRST_BLOCK[4] = {0, 0, 0, 1};
    struct hmac keyed, mac;
    unsigned char last[SHA256_SIZE];
    hmac_start(&keyed, password, password_length);
    mac = keyed;
    hmac_add(&mac, salt, salt_length);
    hmac_add(&mac, FIRST_BLOCK, sizeof FIRST_BLOCK);
    hmac_finish(&mac, last);
    memcpy(key, last, SHA256_SIZE);
    for (uint32_t round = 1; round < iterations; round++) {
        mac = keyed;
        hmac_add(&mac, last, SHA256_SIZE);
        hmac_finish(&mac, last);
        for (unsigned i = 0; i < SHA256_SIZE; i++) {
            key[i] ^= last[i];
        }
    }
    explicit_bzero(&keyed, sizeof keyed);
    explicit_bzero(&mac, sizeof mac);
    explicit_bzero(last, sizeof last);
}
