/*
 * Files: positioned reads, read-only maps, and outputs that appear whole or not at all.
 *
 * Offsets are uint64_t. Reads are whole and patient (short reads and EINTR are gone on with). Everything
 * Linux-only (holes, copy_file_range) stays behind these functions, with a plain road elsewhere.
 */
#ifndef WN_SYS_FILE_H
#define WN_SYS_FILE_H

#include <winnow/error.h>

/* An input file. Read-only, so any number of threads may share it. */
struct wn_file {
    char *path; /* owned */
    int fd;
    uint64_t bytes;
    const uint8_t *map; /* owned; NULL until wn_file_map */
};

/* A regular file (a folder or device is refused, by name). */
WN_CHECKED bool wn_file_open(struct wn_file *f, const char *path, struct wn_err *err);
void wn_file_close(struct wn_file *f);

/* Bytes at .. at + n - 1 into dst. A range past the end is WN_ERR_FORMAT, with the figures. */
WN_CHECKED bool wn_file_read(const struct wn_file *f, uint64_t at, void *dst, size_t n, struct wn_err *err);

/*
 * The first offset >= at (and <= f->bytes) that may hold data: what lies before it is a hole and reads as zeros. `at`
 * itself where the system does not tell.
 */
uint64_t wn_file_next_data(const struct wn_file *f, uint64_t at);

/* Maps the whole file read-only (once; a second call does nothing). An empty file maps to a non-NULL nothing. */
WN_CHECKED bool wn_file_map(struct wn_file *f, struct wn_err *err);

/* Tells the system that a range of the map will be needed soon / will not be needed again. Hints; never fail. */
void wn_file_will_need(const struct wn_file *f, uint64_t at, uint64_t n);
void wn_file_dont_need(const struct wn_file *f, uint64_t at, uint64_t n);

/* The whole of a small file as a NUL-terminated string of *n bytes (free). More than limit bytes is refused. */
WN_CHECKED char *wn_file_slurp(const char *path, uint64_t limit, size_t *n, struct wn_err *err);

/*
 * An output: written as PATH.part, which must not be taken by a running winnow, and renamed to PATH by commit after
 * fsync. Until then nothing stands under PATH (or what stood there stays). The struct is the caller's.
 */
struct wn_outfile {
    char *path, *part;           /* owned */
    struct wn_unfinished *noted; /* the .part, for a sudden end */
    int fd;
    uint64_t at;      /* next byte of wn_outfile_write */
    uint64_t flushed; /* the disk was told to begin with those before */
    bool overwrite;
    bool finished; /* durable and closed: only its name is to be changed */
};

/*
 * What open asks first: whether PATH is free, or may be overwritten and is a regular file. A link is none: what it
 * points to would stay as it is, and to write there is for the user to say.
 */
WN_CHECKED bool wn_outfile_may_open(const char *path, bool overwrite, struct wn_err *err);
/*
 * Fails when PATH exists and overwrite is false; so does the commit, when something took the name meanwhile. A
 * left-over PATH.part is replaced when it is a regular file.
 */
WN_CHECKED bool wn_outfile_open(struct wn_outfile *o, const char *path, bool overwrite, struct wn_err *err);
/*
 * Takes up PATH.part, which an earlier run left complete with that many bytes: nothing of it is written again. finish
 * or commit follow as after the last write. keep_open: for its lock; otherwise it is as after finish.
 */
WN_CHECKED bool wn_outfile_adopt(struct wn_outfile *o, const char *path, bool overwrite, uint64_t bytes, bool keep_open,
                                 struct wn_err *err);
WN_CHECKED bool wn_outfile_write(struct wn_outfile *o, const void *bytes, size_t n, struct wn_err *err);
/* Overwrites bytes at an offset before o->at, which stays. */
WN_CHECKED bool wn_outfile_write_at(struct wn_outfile *o, uint64_t at, const void *bytes, size_t n, struct wn_err *err);
/* n zero bytes; a hole where the file system has them. */
WN_CHECKED bool wn_outfile_skip(struct wn_outfile *o, uint64_t n, struct wn_err *err);
/* Appends n bytes of `from` at `at`: holes stay holes, the kernel moves the bytes where it can. */
WN_CHECKED bool wn_outfile_copy(struct wn_outfile *o, const struct wn_file *from, uint64_t at, uint64_t n,
                                struct wn_err *err);
/* All that was written is on the disk now. */
WN_CHECKED bool wn_outfile_sync(struct wn_outfile *o, struct wn_err *err);
/*
 * sync, and gives the descriptor back; only commit and abandon may follow. The lock on the .part goes too, so of
 * several outputs that belong together one should stay open.
 */
WN_CHECKED bool wn_outfile_finish(struct wn_outfile *o, struct wn_err *err);
/*
 * fsync, rename, fsync of the folder, close. The struct is released either way. When it fails, what stands under the
 * name is not this output, but for one that was to overwrite and failed in the last step.
 */
WN_CHECKED bool wn_outfile_commit(struct wn_outfile *o, struct wn_err *err);
/* Removes the .part and releases; does nothing to a struct that is committed or all zero. */
void wn_outfile_abandon(struct wn_outfile *o);

/* A sudden end (wn_remove_unfinished) leaves the .part from now on. */
void wn_outfile_keep(struct wn_outfile *o);
/* Releases and leaves the .part, for a later run to adopt. */
void wn_outfile_leave(struct wn_outfile *o);

/*
 * Lines that are added to a file and are on the disk when add returns; the first make it. Released ones and all zero
 * ones are the same.
 */
struct wn_appended {
    char *path; /* owned; NULL: closed */
    int fd;
};
/* Goes on behind the first `bytes` of what is there; what follows them is cut off. */
WN_CHECKED bool wn_appended_open(struct wn_appended *a, const char *path, uint64_t bytes, struct wn_err *err);
WN_CHECKED bool wn_appended_add(struct wn_appended *a, const void *bytes, size_t n, struct wn_err *err);
void wn_appended_close(struct wn_appended *a);

/*
 * Gives the space of bytes at .. at + n - 1 of a file back to the file system; they read as zeros afterwards, and the
 * file's length stays. WN_ERR_IO where the system or the file system cannot.
 */
WN_CHECKED bool wn_file_punch(const char *path, uint64_t at, uint64_t n, struct wn_err *err);
/* A file with a single name, which is no link; otherwise somebody else reads the same bytes. */
bool wn_path_is_sole(const char *path);
/* Both exist, on one file system. */
bool wn_path_same_disk(const char *a, const char *b);
/* Length and time of last change (nanoseconds) of a regular file; false when it is none. */
bool wn_path_stamp(const char *path, uint64_t *bytes, int64_t *changed);

/* Whole small output in one call. */
WN_CHECKED bool wn_file_put(const char *path, const void *bytes, size_t n, bool overwrite, struct wn_err *err);

bool wn_path_exists(const char *path);
bool wn_path_is_folder(const char *path);
/* A regular file, or a link to one: what wn_file_open opens. */
bool wn_path_is_file(const char *path);
/* Makes a folder (its parent must exist); an existing folder is fine. */
WN_CHECKED bool wn_path_make_folder(const char *path, struct wn_err *err);
/* What was renamed, made or removed in a folder is so on the disk. */
WN_CHECKED bool wn_path_sync(const char *folder, struct wn_err *err);
/* Removes a file; true when there is none now. */
bool wn_path_remove(const char *path);
/* Removes a folder when nothing is in it; true when it has gone. */
bool wn_path_remove_folder(const char *path);
/* "folder/name", free it. */
WN_CHECKED char *wn_path_join(const char *folder, const char *name, struct wn_err *err);
/* Names in a folder, sorted bytewise, without . and ..; free with wn_names_free. */
WN_CHECKED bool wn_path_list(const char *folder, char ***names, size_t *n, struct wn_err *err);
void wn_names_free(char **names, size_t n);
/* The folder that path lies in, "." without a slash; free it. */
WN_CHECKED char *wn_path_parent(const char *path, struct wn_err *err);
/* What stands behind the last slash; points into path. */
const char *wn_path_name(const char *path);
/* Both exist and are one and the same file or folder. */
bool wn_path_same(const char *a, const char *b);
/* path (which need not exist) is `folder` or lies somewhere below it. */
bool wn_path_inside(const char *path, const char *folder);
/* Share of a file's bytes that the file system really stores, 0..1. */
double wn_path_filled(const char *path);
/* Bytes that a write to this folder's file system may use now. */
WN_CHECKED bool wn_path_space(const char *folder, uint64_t *free_bytes, struct wn_err *err);

/*
 * A file that is made and held as long as one process works at something; it frees itself when the process dies. Also
 * keeps two runs of one process apart. WN_ERR_BUSY: somebody else has it.
 */
struct wn_lock {
    char *path; /* owned; NULL: not held */
    int fd;
};
WN_CHECKED bool wn_lock_take(struct wn_lock *l, const char *path, struct wn_err *err);
/* Lets go and leaves the file; does nothing to a struct that is all zero. */
void wn_lock_release(struct wn_lock *l);
/* Removes the file, then lets go. */
void wn_lock_remove(struct wn_lock *l);

/* For tests: what wn_path_space answers from now on; UINT64_MAX: the truth again. */
void wn_path_pretend_space(uint64_t free_bytes);
/* For tests: renames without replacing as on a file system that has no hard links. */
void wn_file_pretend_no_links(bool none);
/*
 * For tests: the n-th write-like system call from now (0: the next) and all after it fail with ENOSPC; negative: none.
 */
void wn_file_fail_writes_after(long n);
/* For tests: they fail with another error than ENOSPC; 0: with that again. */
void wn_file_fail_writes_with(int error);
/* For tests: no write takes more than so many bytes, as the system may; 0: it takes all. */
void wn_file_write_at_most(size_t bytes);
/* For tests: instead of failing, such a call ends the process, as kill -9 would right before it. */
void wn_file_die_of_writes(bool die);
/* For tests that write hundreds of times: nothing waits for the disk. */
void wn_file_pretend_sync(bool pretend);
/* fsync, unless a test pretends; false: errno is set. */
bool wn_file_sync(int fd);
/* What sys asks before a write of n bytes: how many it may hand over. */
size_t wn_file_may_write(size_t n);
/* What sys asks before each write-like call; true: it is to fail, errno is set. */
bool wn_file_refuses(void);

#endif
