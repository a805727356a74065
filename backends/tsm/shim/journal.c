#define _GNU_SOURCE /* secure_getenv */
#include "journal.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "logging.h"

#define VARIABLE "ARCHIVER_TSM_TRACE"
#define MESSAGE_SIZE 1024

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool is_wanted;
static atomic_bool is_on;
static atomic_flag is_said = ATOMIC_FLAG_INIT;
static char problem[256]; /* why the recording never started */
static int descriptor = -1;
static int64_t offset_ns; /* wall clock minus the monotonic clock */

static int64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t journal_now_ns(void)
{
    return offset_ns + clock_ns(CLOCK_MONOTONIC);
}

/* Opens the file. Returns "", or the reason why it cannot be opened. */
static const char *open_file(const char *path)
{
    struct rlimit limit;
    struct stat status;
    if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur != RLIM_INFINITY) {
        return "the size of files is limited (ulimit -f), and a program that goes beyond is killed";
    }
    descriptor = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    if (descriptor < 0 || fstat(descriptor, &status)) {
        return strerror(errno);
    }
    return S_ISREG(status.st_mode) ? "" : "it is no file";
}

static void begin(void)
{
    const char *path = secure_getenv(VARIABLE);
    is_wanted = path && *path;
    if (!is_wanted) {
        return;
    }
    offset_ns = clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC);
    snprintf(problem, sizeof problem, "%s", open_file(path));
    atomic_store(&is_on, !*problem);
}

bool journal_is_wanted(void)
{
    pthread_once(&once, begin);
    return is_wanted;
}

/* Writes the message to the error log, or to stderr if there is none. */
static void say(const char *why, const struct options *options)
{
    char message[MESSAGE_SIZE];
    const char *path = getenv(VARIABLE);
    snprintf(message, sizeof message, "%s: %.512s cannot be written: %.256s; nothing more is recorded", VARIABLE,
             path ? path : "", why);
    if (!atomic_flag_test_and_set(&is_said) && log_line(options, message)) {
        fprintf(stderr, "%s\n", message);
    }
}

bool journal_is_on(const struct options *options)
{
    bool is_good = atomic_load(&is_on);
    if (!is_good && *problem) {
        say(problem, options);
    }
    return is_good;
}

void journal_stop(const char *why, const struct options *options)
{
    if (atomic_exchange(&is_on, false)) {
        say(why, options);
    }
}

void journal_write(struct lines *lines)
{
    size_t written = 0;
    while (written < lines->used && atomic_load(&is_on)) {
        ssize_t more = write(descriptor, lines->bytes + written, lines->used - written);
        if (more > 0) {
            written += (size_t)more;
        } else if (more == 0 || errno != EINTR) {
            journal_stop(strerror(errno), lines->options);
        }
    }
    lines->used = 0;
}

void lines_begin(struct lines *lines)
{
    if (lines->used > LINES_SIZE - LINE_MAX_SIZE) {
        journal_write(lines);
    }
}

static void put_bytes(struct lines *lines, const char *bytes, size_t length)
{
    memcpy(lines->bytes + lines->used, bytes, length);
    lines->used += length;
}

void lines_put(struct lines *lines, const char *text)
{
    put_bytes(lines, text, strlen(text));
}

void lines_put_number(struct lines *lines, uint64_t number)
{
    char digits[20];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    put_bytes(lines, digits + at, sizeof digits - at);
}

void lines_put_string(struct lines *lines, const char *text)
{
    static const char HEX[] = "0123456789abcdef";
    lines_put(lines, "\"");
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte < ' ') {
            lines_put(lines, "\\u00");
            lines->bytes[lines->used++] = HEX[byte >> 4];
            lines->bytes[lines->used++] = HEX[byte & 15];
            continue;
        }
        if (byte == '"' || byte == '\\') {
            lines->bytes[lines->used++] = '\\';
        }
        lines->bytes[lines->used++] = *text;
    }
    lines_put(lines, "\"");
}
