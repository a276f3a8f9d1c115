/* How a corpus is read: once, through a pipe too, window by window, and within the memory allowed. */
#include "vocab_fixture.h"
#include "wn_test.h"

#include "jobs/corpus/corpus.h"
#include "jobs/encode.h"
#include "jobs/calibrate/saliency.h"
#include "sys/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <winnow/model.h>

#define VOCAB_SIZE 4352 /* of k3-mini */

static const char *put(const char *name, const struct wn_buf *file)
{
    const char *path = wn_test_path(wn_test_folder(), name);
    struct wn_err err;

    CHECK_OK(wn_file_put(path, file->at, file->n, false, &err), &err);
    return path;
}

static struct wn_corpus_options reading(const char *path)
{
    return (struct wn_corpus_options){.path = path, .vocab = vocab, .vocab_size = VOCAB_SIZE, .sequence = 4};
}

/* Text of more than two windows, with characters of one to four bytes and bytes that are none. */
static struct wn_buf mixed_text(void)
{
    static const char *const words[] = {"the same ",        "caf\xc3\xa9, ", "\xe5\xa5\xbd\n",
                                        "\xf0\x9f\x98\x80", "\xff\xe5 ",     "int x;\n"};
    struct wn_buf file = {0};
    struct wn_err err;

    for (unsigned i = 0; i < 240000; i++)
        CHECK_OK(wn_buf_add(&file, words[(i * 31 + i / 7) % 6], strlen(words[(i * 31 + i / 7) % 6]), &err), &err);
    return file;
}

static void check_is_the_whole(const struct wn_corpus *c, const struct wn_buf *text)
{
    uint32_t *ids;
    size_t n;
    struct wn_err err;

    CHECK_OK(wn_vocab_encode(vocab, text->at, text->n, false, &ids, &n, &err), &err);
    assert_int_equal(c->source[0].read, n);
    assert_int_equal(c->tokens, n / 4 * 4);
    assert_memory_equal(c->ids[0], ids, (size_t)c->tokens * sizeof *ids);
    free(ids);
}

static void ids_read_window_by_window_are_those_of_the_whole_text(void **state)
{
    struct wn_buf text = mixed_text();
    struct wn_corpus_options o = reading(put("plain.txt", &text));
    struct wn_corpus c;
    struct wn_err err;

    (void)state;
    if (!vocab)
        skip();
    assert_true(text.n > 1000000);
    CHECK_OK(wn_corpus_read(&c, &o, &err), &err);
    check_is_the_whole(&c, &text);
    wn_corpus_release(&c);
    wn_buf_release(&text);
}

/* Writes the file into a named pipe, from another process. */
static pid_t feed(const char *pipe_path, const struct wn_buf *file)
{
    pid_t child;

    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int fd = open(pipe_path, O_WRONLY);
        size_t at = 0;

        while (at < file->n) {
            ssize_t put_now = write(fd, file->at + at, file->n - at < 1000 ? file->n - at : 1000);

            if (put_now < 0)
                _exit(1);
            at += (size_t)put_now;
        }
        _exit(0);
    }
    return child;
}

static void a_pipe_is_read_as_the_file_would_be(void **state)
{
    struct wn_buf text = mixed_text(), lines = {0};
    const struct wn_buf *files[] = {&text, &lines};
    char of_file[17];
    struct wn_err err;

    (void)state;
    if (!vocab)
        skip();
    for (int i = 0; i < 3000; i++)
        CHECK_OK(wn_buf_printf(&lines, &err, "\n{\"source\": \"s%d\", \"tokens\": [%d, 2, 3]}", i % 3, i), &err);
    for (int i = 0; i < 2; i++) {
        const char *file = put("file", files[i]), *pipe_path = wn_test_path(wn_test_folder(), "pipe");
        struct wn_corpus_options from_file = reading(file), from_pipe = reading(pipe_path);
        char print[2][17];
        struct wn_corpus a, b;
        int status;
        pid_t child = feed(pipe_path, files[i]);

        from_file.sequence = from_pipe.sequence = i == 0 ? from_file.sequence : 0; /* lines of tokens are sequences */
        CHECK_OK(wn_corpus_read(&a, &from_file, &err), &err);
        CHECK_OK(wn_corpus_read(&b, &from_pipe, &err), &err);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        wn_corpus_fingerprint(&a, print[0]);
        wn_corpus_fingerprint(&b, print[1]);
        assert_string_equal(print[0], print[1]);
        /* and the archive will name it by what `sha256sum` says of the file */
        CHECK_OK(wn_saliency_fingerprint(file, of_file, &err), &err);
        assert_string_equal(a.file_fingerprint, of_file);
        assert_string_equal(b.file_fingerprint, of_file);
        wn_corpus_release(&a);
        wn_corpus_release(&b);
    }
    wn_buf_release(&text);
    wn_buf_release(&lines);
}

static void a_folder_and_a_device_are_refused_by_name(void **state)
{
    struct wn_corpus_options o = reading(wn_test_folder());
    struct wn_corpus c;
    struct wn_err err;

    (void)state;
    CHECK_FAILS(wn_corpus_read(&c, &o, &err), &err, "is a folder, not a file or a pipe");
    o.path = "/dev/null";
    CHECK_FAILS(wn_corpus_read(&c, &o, &err), &err, "'/dev/null' is a device, not a file or a pipe");
}

/* n ones in a line of tokens */
static void add_ones(struct wn_buf *file, size_t n)
{
    struct wn_err err;

    CHECK_OK(wn_buf_printf(file, &err, "{\"source\": \"a\", \"tokens\": [1"), &err);
    for (size_t i = 1; i < n; i++)
        CHECK_OK(wn_buf_add(file, ",1", 2, &err), &err);
    CHECK_OK(wn_buf_printf(file, &err, "]}\n"), &err);
}

static void a_line_beyond_the_limit_is_one_clear_error(void **state)
{
    struct wn_buf file = {0};
    struct wn_corpus_options o;
    struct wn_corpus c;
    struct wn_err err;

    (void)state;
    add_ones(&file, 2);
    CHECK_OK(wn_buf_printf(&file, &err, "{\"source\": \"a\", \"text\": \""), &err);
    CHECK_OK(wn_buf_reserve(&file, WN_LINE_MOST, &err), &err);
    memset(file.at + file.n, 'x', WN_LINE_MOST);
    file.n += WN_LINE_MOST;
    o = reading(put("c.jsonl", &file));
    CHECK_FAILS(wn_corpus_read(&c, &o, &err), &err, "line 2 is longer than 16777216 bytes");
    /* without the name the first line decides; one too long to look at is not taken for text */
    memmove(file.at, strstr(file.at, "\n") + 1, file.n - (size_t)(strstr(file.at, "\n") + 1 - file.at));
    o = reading(put("c", &file));
    CHECK_FAILS(wn_corpus_read(&c, &o, &err), &err, "line 1 is longer than 16777216 bytes");
    wn_buf_release(&file);
}

static void tokens_beyond_the_allowed_memory_are_counted_and_not_kept(void **state)
{
    struct wn_buf file = {0};
    struct wn_corpus_options o;
    struct wn_corpus all, c;
    struct wn_err err;

    (void)state;
    for (int i = 0; i < 200; i++)
        add_ones(&file, 10000 + (size_t)i);
    o = reading(put("c.jsonl", &file));
    o.sequence = 0;
    o.before = 1000000;
    CHECK_OK(wn_corpus_read(&all, &o, &err), &err);
    assert_true(all.left_out == 0 && all.reading > o.before + 6 * all.tokens);
    o.memory = all.reading + 3145728; /* so much is kept free */
    CHECK_OK(wn_corpus_read(&c, &o, &err), &err);
    assert_true(c.left_out == 0 && c.tokens == all.tokens && c.reading == all.reading);
    wn_corpus_release(&c);
    o.memory--;
    CHECK_OK(wn_corpus_read(&c, &o, &err), &err);
    assert_true(c.left_out >= 6 * all.tokens && c.reading > o.memory);
    assert_int_equal(c.sequence_count, 0);
    assert_int_equal(c.longest, 10199);
    assert_int_equal(c.source_count, 1);
    wn_corpus_release(&c);
    /* of a few tokens only these are kept */
    o.max_tokens = 20001;
    o.memory = o.before + 9000000;
    CHECK_OK(wn_corpus_read(&c, &o, &err), &err);
    assert_true(c.left_out == 0);
    assert_int_equal(c.tokens, 20001);
    assert_memory_equal(c.sequence[1].ids, all.sequence[1].ids, c.sequence[1].n * sizeof(uint32_t));
    wn_corpus_release(&c);
    wn_corpus_release(&all);
    wn_buf_release(&file);
}

static void a_long_line_that_cannot_be_taken_apart_within_the_memory_is_refused(void **state)
{
    struct wn_buf file = {0};
    struct wn_corpus_options o;
    struct wn_corpus c;
    struct wn_err err;

    (void)state;
    add_ones(&file, 600000);
    o = reading(put("c.jsonl", &file));
    o.sequence = 0;
    o.memory = 20000000;
    CHECK_FAILS(wn_corpus_read(&c, &o, &err), &err, "line 1: to take its 12000");
    assert_true(
        wn_test_contains(err.msg, "and 20000000 bytes (20.0 MB) are allowed: allow more, or make several lines of it"));
    o.memory = strtoull(strstr(err.msg, "needs ") + strlen("needs "), NULL, 10);
    CHECK_OK(wn_corpus_read(&c, &o, &err), &err);
    wn_corpus_release(&c);
    wn_buf_release(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_read_window_by_window_are_those_of_the_whole_text),
        cmocka_unit_test(a_pipe_is_read_as_the_file_would_be),
        cmocka_unit_test(a_folder_and_a_device_are_refused_by_name),
        cmocka_unit_test(a_line_beyond_the_limit_is_one_clear_error),
        cmocka_unit_test(tokens_beyond_the_allowed_memory_are_counted_and_not_kept),
        cmocka_unit_test(a_long_line_that_cannot_be_taken_apart_within_the_memory_is_refused),
    };

    return cmocka_run_group_tests(tests, open_vocab, close_vocab);
}
