/* Return codes in words. */
#ifndef MESSAGES_H
#define MESSAGES_H

#include <stdbool.h>
#include <stddef.h>

/* Enough for every text with its newline and NUL. Existing programs have no more space for dsmRCMsg. */
#define MESSAGE_SIZE 128

/* Writes "ANSnnnnX (RCn)    text\n" to text, which has `size` bytes. A code without a known message id gets eight
 * dashes instead. Returns false and writes nothing for a code without a text. */
bool message_for(int code, char text[], size_t size);

#endif
