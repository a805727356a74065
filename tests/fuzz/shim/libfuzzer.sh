# The client library under libFuzzer, with clang's sanitizers: sh tests/fuzz/shim/libfuzzer.sh SECONDS
#
# What was tried stays in build/fuzz/*.corpus, where the next call begins; an input that did harm is left in build/fuzz.
set -eu
shim=backends/tsm/shim
for source in tests/backends/tsm/fuzz.c tests/fuzz/shim/texts.c; do
    made=build/fuzz/$(basename "$source" .c)
    mkdir -p "$made.corpus" "$made.files"
    clang -std=gnu11 -pthread -I$shim -I$shim/include -g -O1 -fno-omit-frame-pointer -DWITH_LIBFUZZER \
        -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all "$source" $shim/*.c -o "$made"
    FUZZ_FOLDER=$made.files "$made" -max_len=4096 -max_total_time="$1" -timeout=60 -print_final_stats=1 \
        -verbosity=0 -artifact_prefix=build/fuzz/ "$made.corpus"
done
