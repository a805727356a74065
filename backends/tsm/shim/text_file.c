#include "text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE_LIMIT (1u << 20)

/* Returns the number of bytes read, or -1. */
static ssize_t read_up_to(int descriptor, char *bytes, size_t size)
{
    size_t used = 0;
    while (used < size) {
        ssize_t got = read(descriptor, bytes + used, size - used);
        if (got < 0 && errno != EINTR) {
            return -1;
        }
        if (got == 0) {
            break;
        }
        used += got > 0 ? (size_t)got : 0;
    }
    return (ssize_t)used;
}

static bool begins_with(const struct text_file *file, const char *mark)
{
    return file->size >= strlen(mark) && memcmp(file->text, mark, strlen(mark)) == 0;
}

bool text_file_open(struct text_file *file, const char *path)
{
    *file = (struct text_file){.path = path};
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* do not wait if it is a pipe */
    if (descriptor < 0) {
        return false;
    }
    file->text = malloc(SIZE_LIMIT + 1);
    ssize_t size = file->text ? read_up_to(descriptor, file->text, SIZE_LIMIT + 1) : -1;
    int error = errno;
    close(descriptor);
    file->size = size > 0 ? (size_t)size : 0;
    if (size >= 0 && size <= (ssize_t)SIZE_LIMIT) {
        file->text[size] = '\0';
        bool is_utf16 = begins_with(file, "\xFF\xFE") || begins_with(file, "\xFE\xFF");
        if (!is_utf16 && strlen(file->text) == file->size) {
            file->next = file->text + (begins_with(file, "\xEF\xBB\xBF") ? 3 : 0);
            return true;
        }
        error = is_utf16 ? EILSEQ : EINVAL;
    }
    text_file_close(file);
    errno = size > (ssize_t)SIZE_LIMIT ? EINVAL : error;
    return false;
}

static bool is_blank(char character)
{
    return character == ' ' || character == '\t' || character == '\r';
}

char *text_file_line(struct text_file *file)
{
    while (*file->next) {
        char *line = file->next;
        size_t length = strcspn(line, "\n");
        file->next = line + length + (line[length] == '\n');
        file->line++;
        while (length > 0 && is_blank(line[length - 1])) {
            length--;
        }
        line[length] = '\0';
        while (is_blank(*line)) {
            line++;
        }
        if (*line && *line != '*') {
            return line;
        }
    }
    return NULL;
}

void text_file_close(struct text_file *file)
{
    if (file->text) {
        explicit_bzero(file->text, file->size);
        free(file->text);
    }
    *file = (struct text_file){0};
}
