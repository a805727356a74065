/* Small text files, read whole. */
#ifndef TEXT_FILE_H
#define TEXT_FILE_H

#include <stdbool.h>
#include <stddef.h>

struct text_file {
    char *text; /* with a NUL behind it */
    size_t size;
    char *next;
};

/* False when the file cannot be read, has a NUL or is longer than a mebibyte; errno says why. */
bool text_file_open(struct text_file *file, const char *path);

/* The next line without blanks around it and without its newline, NULL at the end. Empty lines and comments, which
 * begin with `*`, are left out. */
char *text_file_line(struct text_file *file);

/* Frees the text after wiping it: option files hold passwords. */
void text_file_close(struct text_file *file);

#endif
