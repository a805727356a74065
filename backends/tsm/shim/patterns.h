/* The include-exclude list: which management class a name is bound to, or that it is not to be sent.
 *
 * One idea: the list is read from the bottom, and the first rule that fits decides. A rule that cannot be followed to
 * the letter makes the whole list unusable: a name bound to the wrong class may be locked for years.
 */
#ifndef PATTERNS_H
#define PATTERNS_H

#include <stdbool.h>

#include "include/archiver_tsm.h"

struct rule;

struct rules {
    struct rule *last; /* of the list, hence the first to be tried */
};

enum verdict { VERDICT_DEFAULT, VERDICT_INCLUDED, VERDICT_EXCLUDED };

/* Reads a file of lines `include PATTERN [CLASS]` and `exclude PATTERN` (with or without `.archive`), `*` starting a
 * comment. Codes: OK, NO_INCLEXCL_FILE, INVALID_OPT for any other line, PATTERN_TOO_COMPLEX for one with `[`,
 * NO_STARTING_DELIMITER, NEEDED_DIR_DELIMITER, NO_MEMORY. */
dsInt16_t rules_load(struct rules *rules, const char *path);
void rules_free(struct rules *rules);

/* With VERDICT_INCLUDED, *class_name is the rule's class, "" when it names none. */
enum verdict rules_decide(const struct rules *rules, const dsmObjName *name, const char **class_name);

/* `*` stands for any characters but the delimiter, `?` for one of them, `...` between delimiters for any folders. */
bool pattern_matches(const char *pattern, const char *name);

#endif
