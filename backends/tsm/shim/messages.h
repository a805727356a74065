/* Return codes in words. */
#ifndef MESSAGES_H
#define MESSAGES_H

#include <stdbool.h>
#include <stddef.h>

/* Enough for every text with its newline and NUL. Real programs have no more room for dsmRCMsg than this. */
#define MESSAGE_SIZE 128

/* Writes "ANSnnnnX (RCn)    text\n" to text, which has room for size bytes. Codes to which no message id is known have
 * eight dashes instead. False, and nothing written, for a code without a text. */
bool message_for(int code, char text[], size_t size);

#endif
