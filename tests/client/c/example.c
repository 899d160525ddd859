/* An example of libdafs in C: prints a file of an export, eight reads of 256 KiB at a time, by RDMA.
 *   example SERVER[:PORT] EXPORT FILE
 *   cc -o example example.c $(pkg-config --cflags --libs libdafs) */
#include <dafs.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCK = 256 << 10, BLOCKS = 8 };
static char memory[BLOCKS][BLOCK];

static void check(int64_t result) {
  if (result >= 0) return;
  fprintf(stderr, "%s\n", dafs_error());
  exit(1);
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  struct dafs_options options = DAFS_INIT(struct dafs_options);
  options.server = argv[1];
  options.export_path = argv[2];
  dafs_session *session;
  dafs_file *file;
  dafs_group *group;
  uint32_t handle;
  check(dafs_session_open(&options, &session));
  check(dafs_open(session, argv[3], NULL, &file));
  check(dafs_group_open(session, &group));
  check(dafs_register(session, memory, sizeof memory, DAFS_FOR_READS, &handle));

  int eof = 0;
  for (uint64_t at = 0; !eof; at += sizeof memory) {
    struct dafs_completion done[BLOCKS] = {{0}}, one;
    for (uint64_t i = 0; i < BLOCKS; i++) { /* sent together by the first wait */
      struct dafs_segment into = {memory[i], BLOCK, handle};
      struct dafs_range from = {at + i * BLOCK, BLOCK, 0};
      check(dafs_read_async(file, group, &into, 1, &from, 1, i, NULL));
    }
    while (dafs_group_wait(group, &one, 1, -1) > 0) {
      if (one.count < 0) fprintf(stderr, "%s\n", one.message);
      if (one.count < 0) return 1;
      done[one.cookie] = one;
    }
    for (int i = 0; i < BLOCKS; i++) {
      fwrite(memory[i], 1, (size_t)done[i].count, stdout);
      eof |= (int)done[i].eof;
    }
  }
  check(dafs_close(file));
  check(dafs_session_close(session)); /* with its group and memory */
  return 0;
}
