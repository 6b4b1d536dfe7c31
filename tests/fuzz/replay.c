/* The kept inputs once more, through the same code and without a fuzzer: replay FILE... */
#include <stdio.h>
#include <stdlib.h>

#include "scene.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int main(int count, char **paths) {
  for (int i = 1; i < count; i++) {
    FILE *file = fopen(paths[i], "re");
    must(file != NULL && fseek(file, 0, SEEK_END) == 0, paths[i], NULL);
    long bytes = ftell(file);
    unsigned char *data = malloc(bytes > 0 ? (size_t)bytes : 1); /* exactly: nothing behind it */
    rewind(file);
    must(data != NULL && fread(data, 1, (size_t)bytes, file) == (size_t)bytes, paths[i], NULL);
    (void)fclose(file);
    fprintf(stderr, "%s\n", paths[i]); /* whoever falls has said before over what */
    (void)LLVMFuzzerTestOneInput(data, (size_t)bytes);
    free(data);
  }
  return 0;
}
