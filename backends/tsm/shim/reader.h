/* Reads the fields of a frame's body.
 *
 * One idea: received bytes are never trusted. A read beyond the end returns zeros and sets a flag. So a parser reads
 * all fields and checks once, at the end, whether they existed.
 */
#ifndef READER_H
#define READER_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct reader {
    const unsigned char *at;
    size_t left;
    bool failed;
};

struct text {
    const char *bytes; /* not terminated */
    size_t length;
};

static inline const unsigned char *read_bytes(struct reader *reader, size_t length)
{
    if (reader->left < length) {
        reader->failed = true;
        reader->left = 0;
        return NULL;
    }
    const unsigned char *bytes = reader->at;
    reader->at += length;
    reader->left -= length;
    return bytes;
}

static inline uint8_t read_u8(struct reader *reader)
{
    const unsigned char *bytes = read_bytes(reader, 1);
    return bytes ? *bytes : 0;
}

static inline uint16_t read_u16(struct reader *reader)
{
    uint16_t value = 0;
    const unsigned char *bytes = read_bytes(reader, sizeof value);
    if (bytes) {
        memcpy(&value, bytes, sizeof value);
    }
    return le16toh(value);
}

static inline int16_t read_i16(struct reader *reader)
{
    return (int16_t)read_u16(reader);
}

static inline uint32_t read_u32(struct reader *reader)
{
    uint32_t value = 0;
    const unsigned char *bytes = read_bytes(reader, sizeof value);
    if (bytes) {
        memcpy(&value, bytes, sizeof value);
    }
    return le32toh(value);
}

static inline uint64_t read_u64(struct reader *reader)
{
    uint64_t value = 0;
    const unsigned char *bytes = read_bytes(reader, sizeof value);
    if (bytes) {
        memcpy(&value, bytes, sizeof value);
    }
    return le64toh(value);
}

/* A string of at most `length_max` bytes. */
static inline struct text read_text(struct reader *reader, size_t length_max)
{
    size_t length = read_u16(reader);
    const unsigned char *bytes = read_bytes(reader, length);
    if (!bytes || length > length_max) {
        reader->failed = true;
        return (struct text){"", 0};
    }
    return (struct text){(const char *)bytes, length};
}

/* The same, copied with a NUL at its end to a field of `size` bytes. */
static inline void read_field(struct reader *reader, char *field, size_t size)
{
    struct text text = read_text(reader, size - 1);
    memcpy(field, text.bytes, text.length);
    field[text.length] = '\0';
}

/* Returns whether all fields existed and no byte is left. */
static inline bool read_all(const struct reader *reader)
{
    return !reader->failed && reader->left == 0;
}

#endif
