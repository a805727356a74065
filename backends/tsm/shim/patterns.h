/* The include-exclude list: the management class of a name, or that the name must not be sent.
 *
 * One idea: the list is read from the bottom, and the first matching rule decides. One rule of archives that the
 * library cannot apply exactly makes the whole list unusable: a name bound to the wrong class may be locked for years.
 */
#ifndef PATTERNS_H
#define PATTERNS_H

#include <stdbool.h>

#include "include/archiver_tsm.h"

struct rule;

struct rules {
    struct rule *last; /* the last of the list, which is tried first */
};

enum verdict { VERDICT_DEFAULT, VERDICT_INCLUDED, VERDICT_EXCLUDED };

/* Returns whether an option line is a rule: one of the INCLUDE and EXCLUDE options of IBM's client. */
bool is_rule(const char *line);

/* Adds a rule to the end of the list. Rules that do not concern archives change nothing. Changes `line`. Codes: OK,
 * else *why is set: INVALID_OPT, UNMATCHED_QUOTE, PATTERN_TOO_COMPLEX, NO_STARTING_DELIMITER, NEEDED_DIR_DELIMITER,
 * NO_MEMORY. */
dsInt16_t rules_add(struct rules *rules, char *line, const char **why);
void rules_free(struct rules *rules);

/* With VERDICT_INCLUDED, *class_name is the class of the rule; "" if it names none. */
enum verdict rules_decide(const struct rules *rules, const dsmObjName *name, const char **class_name);

/* `*` matches any characters except the delimiter, `?` one of them, `[...]` one of a set, `...` between delimiters any
 * folders. */
bool pattern_matches(const char *pattern, const char *name);

#endif
