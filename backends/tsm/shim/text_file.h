/* Small text files, read completely. */
#ifndef TEXT_FILE_H
#define TEXT_FILE_H

#include <stdbool.h>
#include <stddef.h>

struct text_file {
    char *text; /* ends with a NUL */
    size_t size;
    char *next;
    const char *path; /* the caller's */
    unsigned line;    /* number of the line that text_file_line returned last, from 1 */
};

/* Skips the byte-order mark of UTF-8. Returns false if the file cannot be read; errno has the reason: EILSEQ for
 * UTF-16, EINVAL for another file with a NUL, or one longer than a mebibyte. */
bool text_file_open(struct text_file *file, const char *path);

/* Returns the next line without its newline and surrounding blanks; NULL at the end. Skips empty lines and comments,
 * which begin with `*`. */
char *text_file_line(struct text_file *file);

/* Wipes and frees the text: option files contain passwords. */
void text_file_close(struct text_file *file);

#endif
