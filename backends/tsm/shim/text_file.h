/* Small text files, read completely. */
#ifndef TEXT_FILE_H
#define TEXT_FILE_H

#include <stdbool.h>
#include <stddef.h>

struct text_file {
    char *text; /* ends with a NUL */
    size_t size;
    char *next;
};

/* Returns false if the file cannot be read, has a NUL or is longer than a mebibyte; errno has the reason. */
bool text_file_open(struct text_file *file, const char *path);

/* Returns the next line without its newline and surrounding blanks; NULL at the end. Skips empty lines and comments,
 * which begin with `*`. */
char *text_file_line(struct text_file *file);

/* Wipes and frees the text: option files contain passwords. */
void text_file_close(struct text_file *file);

#endif
