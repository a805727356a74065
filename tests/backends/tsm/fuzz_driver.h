/* What drives a target of fuzzing: `TARGET FOLDER COUNT SEED` tries COUNT inputs of its own; with a compiler that has
 * libFuzzer, -fsanitize=fuzzer -DWITH_LIBFUZZER, that one does, and files go to $FUZZ_FOLDER.
 *
 * A target includes it once and defines the three functions that are declared first.
 */
#ifndef FUZZ_DRIVER_H
#define FUZZ_DRIVER_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_MAX 4096

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* Before the first input. Files go to `folder`. */
static void begin(const char *folder);

/* One of the target's own inputs, of which chance is in roll(); its size. */
static size_t make_input(uint8_t bytes[INPUT_MAX]);

static uint64_t random_state;

static void seed_with(uint64_t seed)
{
    random_state = 0x9E3779B97F4A7C15u ^ seed;
}

static uint32_t roll(uint32_t sides)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 33) % sides;
}

#ifndef WITH_LIBFUZZER
int main(int count, char **arguments)
{
    if (count != 4) {
        return 2;
    }
    begin(arguments[1]);
    seed_with(strtoull(arguments[3], NULL, 10));
    for (long left = strtol(arguments[2], NULL, 10); left > 0; left--) {
        uint8_t bytes[INPUT_MAX];
        size_t size = make_input(bytes);
        uint8_t *exact = malloc(size); /* so that one byte too many is seen here as well */
        memcpy(exact, bytes, size);
        LLVMFuzzerTestOneInput(exact, size);
        free(exact);
    }
    return 0;
}
#else
size_t LLVMFuzzerMutate(uint8_t *bytes, size_t size, size_t room);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t room, unsigned seed);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t room, unsigned seed)
{
    seed_with(seed);
    if (size > 2 && roll(8)) {
        return LLVMFuzzerMutate(bytes, size, room);
    }
    uint8_t made[INPUT_MAX];
    size = make_input(made);
    size = size < room ? size : room;
    memcpy(bytes, made, size);
    return size;
}

int LLVMFuzzerInitialize(int *count, char ***arguments);
int LLVMFuzzerInitialize(int *count, char ***arguments)
{
    (void)count;
    (void)arguments;
    const char *folder = getenv("FUZZ_FOLDER");
    begin(folder ? folder : "/tmp");
    return 0;
}
#endif

#endif
