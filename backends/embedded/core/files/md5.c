/* MD5 (RFC 1321) of several messages at once, one in each lane of a vector.
 *
 * Within a message each step of MD5 needs the result of the previous step, so one message cannot use more than a scalar
 * unit. Several messages fill the lanes of a vector, and one instruction takes the same step of each of them. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the words of a block are read as little-endian"
#endif

#define EXPORT __attribute__((visibility("default")))
#define BLOCK_BYTES 64
#define LANES 8
#define LANES_MIN 3 /* fewer messages are faster one by one */

struct md5 {
    uint32_t state[4];
    uint64_t length; /* bytes of the message until now */
    uint8_t rest[BLOCK_BYTES]; /* its last length % BLOCK_BYTES bytes, which are not part of the state */
};

struct message {
    struct md5 *md5;
    const uint8_t *data;
    size_t size;
};

typedef uint32_t vector __attribute__((vector_size(4 * LANES)));

/* The functions of RFC 1321. The operands of + in G have no common bits; the sum shortens the chain of dependencies. */
#define F(x, y, z) ((z) ^ ((x) & ((y) ^ (z))))
#define G(x, y, z) (((x) & (z)) + ((y) & ~(z)))
#define H(x, y, z) ((x) ^ (y) ^ (z))
#define I(x, y, z) ((y) ^ ((x) | ~(z)))
#define STEP(f, a, b, c, d, k, s, t) \
    a += f(b, c, d) + w[k] + (uint32_t)(t); \
    a = (a << s | a >> (32 - s)) + b;
#define FOUR_STEPS(f, k0, k1, k2, k3, s0, s1, s2, s3, t0, t1, t2, t3) \
    STEP(f, a, b, c, d, k0, s0, t0) STEP(f, d, a, b, c, k1, s1, t1) \
    STEP(f, c, d, a, b, k2, s2, t2) STEP(f, b, c, d, a, k3, s3, t3)
#define ROUNDS \
    FOUR_STEPS(F, 0, 1, 2, 3, 7, 12, 17, 22, 0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee) \
    FOUR_STEPS(F, 4, 5, 6, 7, 7, 12, 17, 22, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501) \
    FOUR_STEPS(F, 8, 9, 10, 11, 7, 12, 17, 22, 0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be) \
    FOUR_STEPS(F, 12, 13, 14, 15, 7, 12, 17, 22, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821) \
    FOUR_STEPS(G, 1, 6, 11, 0, 5, 9, 14, 20, 0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa) \
    FOUR_STEPS(G, 5, 10, 15, 4, 5, 9, 14, 20, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8) \
    FOUR_STEPS(G, 9, 14, 3, 8, 5, 9, 14, 20, 0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed) \
    FOUR_STEPS(G, 13, 2, 7, 12, 5, 9, 14, 20, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a) \
    FOUR_STEPS(H, 5, 8, 11, 14, 4, 11, 16, 23, 0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c) \
    FOUR_STEPS(H, 1, 4, 7, 10, 4, 11, 16, 23, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70) \
    FOUR_STEPS(H, 13, 0, 3, 6, 4, 11, 16, 23, 0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05) \
    FOUR_STEPS(H, 9, 12, 15, 2, 4, 11, 16, 23, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665) \
    FOUR_STEPS(I, 0, 7, 14, 5, 6, 10, 15, 21, 0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039) \
    FOUR_STEPS(I, 12, 3, 10, 1, 6, 10, 15, 21, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1) \
    FOUR_STEPS(I, 8, 15, 6, 13, 6, 10, 15, 21, 0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1) \
    FOUR_STEPS(I, 4, 11, 2, 9, 6, 10, 15, 21, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391)

static void hash_one(uint32_t state[4], const uint8_t *data, size_t blocks)
{
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3], w[16];
    for (; blocks > 0; blocks--, data += BLOCK_BYTES) {
        uint32_t a0 = a, b0 = b, c0 = c, d0 = d;
        memcpy(w, data, BLOCK_BYTES);
        ROUNDS
        a += a0, b += b0, c += c0, d += d0;
    }
    state[0] = a, state[1] = b, state[2] = c, state[3] = d;
}

/* With AVX-512 a rotation is one instruction. The loader selects the variant for the processor. */
#if defined(__x86_64__) && defined(__GLIBC__) && __GNUC__ >= 12
__attribute__((target_clones("arch=x86-64-v4", "default")))
#endif
static void hash_together(struct message *const messages[], int count, size_t blocks)
{
    vector a, b, c, d, w[16];
    const uint8_t *data[LANES];
    for (int i = 0; i < LANES; i++) { /* an unused lane repeats the first message, and its result is dropped */
        const struct message *message = messages[i < count ? i : 0];
        a[i] = message->md5->state[0], b[i] = message->md5->state[1];
        c[i] = message->md5->state[2], d[i] = message->md5->state[3];
        data[i] = message->data;
    }
    for (size_t start = 0; start < blocks * BLOCK_BYTES; start += BLOCK_BYTES) {
        vector a0 = a, b0 = b, c0 = c, d0 = d;
        for (int i = 0; i < LANES; i++) {
            uint32_t words[16];
            memcpy(words, data[i] + start, BLOCK_BYTES);
            for (int k = 0; k < 16; k++)
                w[k][i] = words[k];
        }
        ROUNDS
        a += a0, b += b0, c += c0, d += d0;
    }
    for (int i = 0; i < count; i++) {
        uint32_t *state = messages[i]->md5->state;
        state[0] = a[i], state[1] = b[i], state[2] = c[i], state[3] = d[i];
    }
}

static void advance(struct message *message, size_t bytes)
{
    message->md5->length += bytes, message->data += bytes, message->size -= bytes;
}

/* Move bytes of the message to `rest` until it is a whole block, and hash that. */
static void fill_rest(struct message *message)
{
    struct md5 *md5 = message->md5;
    size_t used = md5->length % BLOCK_BYTES, room = BLOCK_BYTES - used;
    size_t moved = message->size < room ? message->size : room;
    memcpy(md5->rest + used, message->data, moved);
    advance(message, moved);
    if (moved == room)
        hash_one(md5->state, md5->rest, 1);
}

/* Continue `count` different messages with their data. Changes the array. */
EXPORT void md5_update(struct message messages[], size_t count)
{
    struct message *lanes[LANES];
    int used = 0;
    for (size_t i = 0; i < count; i++)
        if (messages[i].md5->length % BLOCK_BYTES)
            fill_rest(&messages[i]);
    for (size_t next = 0;;) {
        for (; used < LANES && next < count; next++)
            if (messages[next].size >= BLOCK_BYTES)
                lanes[used++] = &messages[next];
        if (used < LANES_MIN)
            break;
        size_t shortest = SIZE_MAX;
        for (int i = 0; i < used; i++)
            shortest = lanes[i]->size < shortest ? lanes[i]->size : shortest;
        hash_together(lanes, used, shortest / BLOCK_BYTES);
        int left = 0;
        for (int i = 0; i < used; i++) {
            advance(lanes[i], shortest / BLOCK_BYTES * BLOCK_BYTES);
            if (lanes[i]->size >= BLOCK_BYTES)
                lanes[left++] = lanes[i];
        }
        used = left;
    }
    for (int i = 0; i < used; i++) {
        hash_one(lanes[i]->md5->state, lanes[i]->data, lanes[i]->size / BLOCK_BYTES);
        advance(lanes[i], lanes[i]->size / BLOCK_BYTES * BLOCK_BYTES);
    }
    for (size_t i = 0; i < count; i++)
        if (messages[i].size > 0)
            fill_rest(&messages[i]);
}
