/* Sum tensors over workers, by direct exchange over one TCP connection for each pair of workers.
 *
 * All values of an operation count as one vector. Worker r owns the r-th slice of it. Each worker sends every
 * other one its part of that one's slice (first stretch), adds what it receives for its own slice in the order
 * of the workers, and sends the sums to all (second stretch). This is the pairwise reduce-scatter and
 * all-gather of MPI implementations (Thakur, Rabenseifner, Gropp, 2005): each worker sends 2 (n - 1) / n of the
 * vector, as in a ring, but waits for others twice and not 2 (n - 1) times, and all values are added in one
 * order, whatever their place is. Everything goes in pieces, so that sending, receiving and adding overlap.
 *
 * Small vectors, and all vectors of two workers, are sent whole to everybody; the second stretch is then empty.
 * The sums have the same bits. Two workers send the same bytes this way, and wait for each other once.
 *
 * Workers of one machine that the kernel lets read each other's memory do not send large vectors to each other:
 * each worker reads the others' parts of its slice, adds, and then reads the others' sums (process_vm_readv, as
 * MPI implementations do). That is one copy in place of TCP's two, and the connections carry only who is ready.
 * With several such machines, the workers of each machine first add up theirs in this way. Then those with the same
 * slice, one on each machine, sum over their connections, so that a machine sends as much as one worker would.
 * Where one machine has fewer workers than another, only so many workers of each machine have a slice.
 *
 * Each operation begins, on every connection and in both directions, with a header. A worker whose header
 * differs is at another operation: that is an error, and not a wrong sum. After an error nothing more is sent.
 * Before the first operation the workers tell each other, in two headers, whose memory they can read.
 *
 * The file is plain C. It finds TensorFlow's C API, which is stable across releases, at run time, so that one
 * compiled file serves all releases of TensorFlow, and compiling needs neither TensorFlow nor Python.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#define MOST_WORKERS 64
#define MOST_PARTS 64            /* of one system call */
#define PIECES (1 << 20)         /* what comes from all others takes so many bytes before it is added */
#define LEAST_PIECE (32 * 1024)  /* but from each of them at least so many */
#define LARGE (32 << 20)         /* vectors of so many bytes are larger than caches: two workers send */
#define LARGE_PIECE (8 << 20)    /* their 32 or 64 bits in such pieces */
#define SMALL (192 * 1024)       /* a vector is sent whole to all if a worker sends at most so many bytes */
#define READ_PIECE (256 * 1024)  /* bytes that are read from another worker's memory before they are added */
#define READ_LEAST (1 << 20)     /* smaller vectors are sent, because then the workers wait less often */
#define LOOK_MS 200              /* how often to look whether the job has failed */
#define MAGIC 0x31584d54u        /* "TMX1" */

enum { FLOAT32 = 1, FLOAT64 = 2, INT32 = 3, INT64 = 9, BFLOAT16 = 14, FLOAT16 = 19 }; /* TensorFlow's codes */

typedef struct {
    uint32_t magic;
    uint16_t type, wire;
    uint64_t number, key, values;
    /* Whose memory this is: whoever finds the mark at this address of this process can read it. */
    uint64_t address, mark;
    uint64_t reads;              /* a bit for each worker whose memory the sender can read, itself included */
    uint32_t process, unused;
} Header;

/* Some of the workers, in their order, this one among them. */
typedef struct {
    int count, me, ranks[MOST_WORKERS];
} Team;

typedef struct {
    char name[64];
    int socket;
    size_t sent, received;       /* bytes of both streams, headers included */
    Header theirs;
    char *staged, *piece, *read; /* values as they are sent: to send, to add, and sums to unpack */
    size_t staged_from, staged_to;
    char *table;                 /* addresses of their tensors: all inputs, then all outputs */
    size_t table_size;
    int near;                    /* on this machine, and may read this memory */
    double late;                 /* seconds from the beginning of an operation here to their header */
} Peer;

typedef struct {
    int rank, workers;
    Peer peers[MOST_WORKERS];
    uint64_t operations;
    double seconds, waited, late[MOST_WORKERS], bytes;
    size_t piece;                /* values of a piece take so many bytes, as they are sent */
    float *sums;                 /* scratch of one piece */
    pthread_mutex_t lock;
    uint64_t mark;               /* a random number that others look for in this memory */
    uint64_t reads;              /* whose memory can be read */
    int introduced;              /* the workers have told each other whose memory they can read */
    Team all, machine, column;   /* a column has the same slice on each machine; empty without a slice */
    int slices;                  /* of the workers of each machine; 0 if memory is not read */
    atomic_int aborted;
    char failure[512], reason[256];
} Group;

typedef struct {
    int count, type, wire;
    int whole, rounds;           /* everybody sends the whole vector; 32-bit sums become what 16 bits can hold */
    char **in, **out;
    size_t *starts;              /* first value of each tensor, and the number of all values */
    size_t size, unit;           /* bytes of a value in memory, and as it is sent */
    const Team *team;            /* who sums values [base, base + values) now */
    size_t base, values, stretch, step; /* values in a slice, in a piece */
    size_t added;                /* values of the own slice that are sums */
    Header header;
} Operation;

static Group group = {.lock = PTHREAD_MUTEX_INITIALIZER};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int fail(const char *format, ...) {
    if (!group.failure[0]) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(group.failure, sizeof group.failure, format, arguments);
        va_end(arguments);
    }
    return -1;
}

/* ---- 16-bit floats ------------------------------------------------------------------------------------- */

static uint16_t to_bfloat16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((bits >> 16) | 0x40); /* stays a NaN */
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);                  /* nearest, ties to even */
}

static float from_bfloat16(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

static uint16_t to_float16(float value) {
    uint32_t bits, sign;
    memcpy(&bits, &value, 4);
    sign = (bits >> 16) & 0x8000;
    bits &= 0x7fffffff;
    if (bits > 0x7f800000u) return (uint16_t)(sign | 0x7e00 | (bits >> 13 & 0x3ff)); /* stays a NaN */
    if (bits >= 0x477ff000u) return (uint16_t)(sign | 0x7c00); /* rounds to infinity */
    if (bits < 0x38800000u) {                                  /* subnormal: let the unit of 0.5 round */
        float magnitude;
        memcpy(&magnitude, &bits, 4);
        magnitude += 0.5f;
        memcpy(&bits, &magnitude, 4);
        return (uint16_t)(sign | (bits - 0x3f000000u));
    }
    return (uint16_t)(sign | ((bits - 0x38000000u + 0xfff + ((bits >> 13) & 1)) >> 13));
}

static float from_float16(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = half & 0x7fff, bits;
    float value;
    if (rest > 0x7c00)
        bits = 0x7fc00000u | (rest & 0x3ff) << 13;
    else if (rest == 0x7c00)
        bits = 0x7f800000u;
    else if (rest >= 0x400)
        bits = (rest << 13) + 0x38000000u;
    else {
        value = (float)rest * 0x1p-24f;
        memcpy(&bits, &value, 4);
    }
    bits |= sign;
    memcpy(&value, &bits, 4);
    return value;
}

/* The loops are compiled twice on x86-64: for every processor, and for those with AVX2 and F16C (2013). */
#define ALWAYS static inline __attribute__((always_inline))

ALWAYS void narrow_loop(uint16_t *to, const float *from, size_t count, int wire) {
    if (wire == BFLOAT16)
        for (size_t i = 0; i < count; i++) to[i] = to_bfloat16(from[i]);
    else
        for (size_t i = 0; i < count; i++) to[i] = to_float16(from[i]);
}

/* Widen, and add to `more` unless that is NULL. */
ALWAYS void widen_loop(float *to, const float *more, const uint16_t *from, size_t count, int wire) {
    if (wire == BFLOAT16 && more)
        for (size_t i = 0; i < count; i++) to[i] = more[i] + from_bfloat16(from[i]);
    else if (wire == BFLOAT16)
        for (size_t i = 0; i < count; i++) to[i] = from_bfloat16(from[i]);
    else if (more)
        for (size_t i = 0; i < count; i++) to[i] = more[i] + from_float16(from[i]);
    else
        for (size_t i = 0; i < count; i++) to[i] = from_float16(from[i]);
}

#define ADD(TYPE)                                                                                             \
    do {                                                                                                      \
        TYPE *to = target;                                                                                    \
        const TYPE *x = a, *y = b;                                                                            \
        for (size_t i = 0; i < count; i++) to[i] = x[i] + y[i];                                               \
    } while (0)

ALWAYS void add_loop(void *target, const void *a, const void *b, size_t count, int type) {
    if (type == FLOAT32) ADD(float);
    else if (type == FLOAT64) ADD(double);
    else if (type == INT32) ADD(uint32_t); /* as unsigned numbers overflow without undefined behaviour */
    else ADD(uint64_t);
}

#ifdef __x86_64__
#define AVX2 __attribute__((target("avx2,f16c")))
#define HAS_AVX2 (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c"))

AVX2 static void narrow_avx2(uint16_t *to, const float *from, size_t count, int wire) {
    size_t i = 0;
    if (wire == FLOAT16)
        for (; i + 8 <= count; i += 8)
            _mm_storeu_si128((__m128i *)(to + i), _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
    narrow_loop(to + i, from + i, count - i, wire);
}

AVX2 static void widen_avx2(float *to, const float *more, const uint16_t *from, size_t count, int wire) {
    size_t i = 0;
    if (wire == FLOAT16)
        for (; i + 8 <= count; i += 8) {
            __m256 wide = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from + i)));
            _mm256_storeu_ps(to + i, more ? _mm256_add_ps(_mm256_loadu_ps(more + i), wide) : wide);
        }
    widen_loop(to + i, more ? more + i : NULL, from + i, count - i, wire);
}

AVX2 static void add_avx2(void *target, const void *a, const void *b, size_t count, int type) {
    add_loop(target, a, b, count, type);
}
#else
#define HAS_AVX2 0
#define narrow_avx2 narrow_loop
#define widen_avx2 widen_loop
#define add_avx2 add_loop
#endif

static void narrow(uint16_t *to, const float *from, size_t count, int wire) {
    if (HAS_AVX2) narrow_avx2(to, from, count, wire);
    else narrow_loop(to, from, count, wire);
}

static void widen(float *to, const float *more, const uint16_t *from, size_t count, int wire) {
    if (HAS_AVX2) widen_avx2(to, more, from, count, wire);
    else widen_loop(to, more, from, count, wire);
}

static void add(void *target, const void *a, const void *b, size_t count, int type) {
    if (HAS_AVX2) add_avx2(target, a, b, count, type);
    else add_loop(target, a, b, count, type);
}

/* ---- the vector ---------------------------------------------------------------------------------------- */

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Let a team sum some of the values, cut into slices, of which the first workers of the team have one each. */
static void assign(Operation *o, const Team *team, int slices, size_t base, size_t values) {
    size_t each = (values + (size_t)slices - 1) / (size_t)slices;
    o->team = team;
    o->base = base;
    o->values = values;
    o->stretch = (each + 15) / 16 * 16; /* slices begin at whole cache lines of the vector */
    o->added = 0;
}

/* Slices, and workers of a team, are counted by their place in it. */
static size_t slice_start(const Operation *o, int place) {
    return o->base + (o->whole ? 0 : least((size_t)place * o->stretch, o->values));
}

static size_t slice_length(const Operation *o, int place) {
    return o->whole ? o->values : slice_start(o, place + 1) - slice_start(o, place);
}

static Peer *peer_at(const Operation *o, int place) { return &group.peers[o->team->ranks[place]]; }

/* Return the place that comes i places after this worker's, so that not all begin with the same one. */
static int after(const Team *team, int i) { return (team->me + i) % team->count; }

/* Return whether everybody sends the whole vector, as two workers and small vectors do. */
static int goes_whole(const Operation *o) {
    int workers = o->team->count;
    return workers == 2 || o->values * o->unit * (size_t)(workers - 1) <= SMALL;
}

/* Return the tensor that has a value. */
static int tensor_of(const Operation *o, size_t value) {
    int low = 0, high = o->count - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (o->starts[middle] <= value) low = middle;
        else high = middle - 1;
    }
    return low;
}

/* List the memory of bytes [from, to) of the vector. Return the number of parts, at most MOST_PARTS. */
static int parts(const Operation *o, char **tensors, size_t from, size_t to, struct iovec *found) {
    int n = 0;
    for (int t = tensor_of(o, from / o->size); from < to && n < MOST_PARTS; t++) {
        size_t start = o->starts[t] * o->size, end = least(o->starts[t + 1] * o->size, to);
        if (end <= from) continue; /* an empty tensor */
        found[n].iov_base = tensors[t] + (from - start);
        found[n++].iov_len = end - from;
        from = end;
    }
    return n;
}

/* Copy values [from, to) of 32-bit tensors to narrow ones. */
static void narrow_values(const Operation *o, char **tensors, size_t from, size_t to, char *narrowed) {
    for (int t = tensor_of(o, from); from < to; t++) {
        size_t end = least(o->starts[t + 1], to);
        if (end <= from) continue; /* an empty tensor */
        narrow((uint16_t *)narrowed, (float *)tensors[t] + (from - o->starts[t]), end - from, o->wire);
        narrowed += 2 * (end - from);
        from = end;
    }
}

static void widen_values(const Operation *o, char **tensors, size_t from, size_t to, const char *narrowed) {
    for (int t = tensor_of(o, from); from < to; t++) {
        size_t end = least(o->starts[t + 1], to);
        if (end <= from) continue;
        widen((float *)tensors[t] + (from - o->starts[t]), NULL, (const uint16_t *)narrowed, end - from, o->wire);
        narrowed += 2 * (end - from);
        from = end;
    }
}

/* Add the pieces of a team, in the order of the workers, for values [from, to) of the vector. */
static void add_piece(Operation *o, size_t from, size_t to) {
    size_t offset = 0;
    for (int t = tensor_of(o, from); from < to; t++) {
        size_t end = least(o->starts[t + 1], to), count, place = (from - o->starts[t]) * o->size;
        if (end <= from) continue;
        count = end - from;
        char *in = o->in[t] + place, *out = o->out[t] + place;
        uint16_t *own = (uint16_t *)(group.peers[group.rank].piece + offset);
        void *sum = NULL;
        if (o->wire) narrow(own, (float *)in, count, o->wire);
        for (int p = 0; p < o->team->count; p++) {
            void *x = p == o->team->me && !o->wire ? in : peer_at(o, p)->piece + offset;
            void *target = p == o->team->count - 1 ? out : (char *)group.sums;
            if (o->wire) widen(target, sum, x, count, o->wire);
            else if (sum) add(target, sum, x, count, o->type);
            else target = x;
            sum = target;
        }
        if (o->team->count == 1 && !o->wire && in != out) memcpy(out, in, count * o->size);
        if (o->rounds) { /* all workers get the sums as they are sent */
            narrow(own, (float *)out, count, o->wire);
            widen((float *)out, NULL, own, count, o->wire);
        }
        offset += count * o->unit;
        from = end;
    }
}

/* ---- the connections ----------------------------------------------------------------------------------- */

enum { DONE, BLOCKED }; /* there is nothing to do for now; wait for the socket */

/* Send what the kernel takes now. Return the bytes, 0 if it takes none, -1 on failure. */
static ssize_t put(Peer *peer, struct iovec *memory, size_t count) {
    struct msghdr message = {.msg_iov = memory, .msg_iovlen = count};
    ssize_t n;
    do n = sendmsg(peer->socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n >= 0) {
        group.bytes += (double)n;
        return n;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
    return fail("the connection to %s broke (%s)", peer->name, strerror(errno));
}

/* Receive what has come. Return the bytes, 0 if nothing has come, -1 on failure. */
static ssize_t take(Peer *peer, struct iovec *memory, size_t count) {
    struct msghdr message = {.msg_iov = memory, .msg_iovlen = count};
    ssize_t n;
    do n = recvmsg(peer->socket, &message, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n > 0) return n;
    if (n == 0) return fail("%s has closed its connection", peer->name);
    if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
    return fail("the connection to %s broke (%s)", peer->name, strerror(errno));
}

/* Send what can be sent to a worker now. Return -1 on failure. */
static int send_some(Operation *o, int to) {
    Peer *peer = peer_at(o, to);
    size_t first = slice_length(o, to), own = slice_length(o, o->team->me);
    for (;;) {
        struct iovec memory[MOST_PARTS + 1];
        size_t count = 1;
        if (peer->sent < sizeof o->header) {
            memory[0].iov_base = (char *)&o->header + peer->sent;
            memory[0].iov_len = sizeof o->header - peer->sent;
            if (first && !o->wire) { /* a small vector goes out in one packet */
                size_t start = slice_start(o, to), end = start + least(first, o->step);
                count += (size_t)parts(o, o->in, start * o->size, end * o->size, memory + 1);
            }
        } else {
            size_t place = peer->sent - sizeof o->header; /* bytes of both stretches */
            int second = place >= first * o->unit;
            size_t at = second ? place - first * o->unit : place, ready = (second ? o->added : first) * o->unit;
            if (second && (o->whole || at == own * o->unit)) return DONE; /* all is sent */
            if (at >= ready) return DONE;                                 /* the next piece is not added yet */
            char **tensors = second ? o->out : o->in;
            size_t start = slice_start(o, second ? o->team->me : to);
            if (o->wire) {
                size_t value = at / o->unit;
                if (place < peer->staged_from || place >= peer->staged_to) {
                    size_t end = least(value + o->step, ready / o->unit);
                    narrow_values(o, tensors, start + value, start + end, peer->staged);
                    peer->staged_from = place - at % o->unit;
                    peer->staged_to = peer->staged_from + (end - value) * o->unit;
                }
                memory[0].iov_base = peer->staged + (place - peer->staged_from);
                memory[0].iov_len = peer->staged_to - place;
            } else
                count = (size_t)parts(o, tensors, start * o->unit + at, start * o->unit + ready, memory);
        }
        ssize_t n = put(peer, memory, count);
        if (n <= 0) return n ? -1 : BLOCKED;
        peer->sent += (size_t)n;
    }
}

static int check_header(const Operation *o, const Peer *peer) {
    const Header *theirs = &peer->theirs;
    if (theirs->magic != MAGIC) return fail("%s has sent something else than values", peer->name);
    if (theirs->number != o->header.number || theirs->key != o->header.key)
        return fail("%s is at another operation: number %llu of its program, here number %llu", peer->name,
                    (unsigned long long)theirs->number, (unsigned long long)o->header.number);
    if (theirs->values != o->header.values || theirs->type != o->header.type || theirs->wire != o->header.wire)
        return fail("%s has %llu values of type %d, sent as type %d, where this worker has %llu of type %d, "
                    "sent as type %d", peer->name, (unsigned long long)theirs->values, theirs->type,
                    theirs->wire, (unsigned long long)o->header.values, o->type, o->wire);
    return 0;
}

/* Receive what has come from a worker. Return -1 on failure. */
static int receive_some(Operation *o, int from, double began) {
    Peer *peer = peer_at(o, from);
    size_t own = slice_length(o, o->team->me), theirs = o->whole ? 0 : slice_length(o, from);
    for (;;) {
        struct iovec memory[MOST_PARTS];
        int n = 1;
        size_t value = 0, end = 0;
        if (peer->received < sizeof(Header)) {
            memory[0].iov_base = (char *)&peer->theirs + peer->received;
            memory[0].iov_len = sizeof(Header) - peer->received;
        } else {
            size_t place = peer->received - sizeof(Header);
            if (place < own * o->unit) {
                size_t ready = least(o->added + o->step, own) * o->unit; /* the buffer holds one piece */
                if (place >= ready) return DONE;
                memory[0].iov_base = peer->piece + (place - o->added * o->unit);
                memory[0].iov_len = ready - place;
            } else {
                size_t at = place - own * o->unit, start = slice_start(o, from);
                if (at >= theirs * o->unit) return DONE;
                if (o->wire) { /* to a piece's buffer, and from there to its place */
                    value = at / o->unit / o->step * o->step;
                    end = least(value + o->step, theirs);
                    memory[0].iov_base = peer->read + (at - value * o->unit);
                    memory[0].iov_len = end * o->unit - at;
                } else
                    n = parts(o, o->out, start * o->unit + at, (start + theirs) * o->unit, memory);
            }
        }
        ssize_t got = take(peer, memory, (size_t)n);
        if (got <= 0) return got ? -1 : BLOCKED;
        if (peer->received < sizeof(Header)) {
            peer->received += (size_t)got;
            if (peer->received == sizeof(Header)) {
                peer->late = now() - began;
                if (check_header(o, peer)) return -1;
            }
            continue;
        }
        peer->received += (size_t)got;
        if (end && peer->received - sizeof(Header) - own * o->unit == end * o->unit) {
            size_t start = slice_start(o, from);
            widen_values(o, o->out, start + value, start + end, peer->read);
        }
    }
}

/* Add each piece of the own slice that has come from all, and that is sent if its memory is used again. */
static int add_some(Operation *o) {
    size_t own = slice_length(o, o->team->me), start = slice_start(o, o->team->me);
    int progress = 0;
    while (o->added < own) {
        size_t end = least(o->added + o->step, own);
        for (int i = 1; i < o->team->count; i++) {
            Peer *peer = peer_at(o, after(o->team, i));
            if (peer->received < sizeof(Header) + end * o->unit) return progress;
            if (o->whole && peer->sent < sizeof(Header) + end * o->unit) return progress;
        }
        add_piece(o, start + o->added, start + end);
        o->added = end;
        progress = 1;
        if (o->added < own) return progress; /* the buffers are free: receive first */
    }
    return progress;
}

/* Exchange with a team over the connections what is to be sent, from `skip` bytes on. */
static int run_sockets(Operation *o, size_t skip, double began) {
    for (int p = 0; p < o->team->count; p++) {
        Peer *peer = peer_at(o, p);
        peer->sent = peer->received = skip;
        peer->staged_from = peer->staged_to = 0;
    }
    for (;;) {
        struct pollfd waiting[MOST_WORKERS];
        int n = 0;
        if (atomic_load(&group.aborted)) return fail("%s", group.reason);
        for (int i = 1; i < o->team->count; i++) {
            int place = after(o->team, i), in, out;
            if ((out = send_some(o, place)) < 0 || (in = receive_some(o, place, began)) < 0) return -1;
            waiting[n].fd = peer_at(o, place)->socket;
            waiting[n].events = (short)((in == BLOCKED ? POLLIN : 0) | (out == BLOCKED ? POLLOUT : 0));
            if (waiting[n].events) n++;
        }
        if (add_some(o)) continue;
        if (!n) break;
        if (poll(waiting, (nfds_t)n, LOOK_MS) < 0 && errno != EINTR) return fail("poll: %s", strerror(errno));
    }
    return 0;
}

/* ---- the memory of workers on the same machine ---------------------------------------------------------- */

/* Send the same memory, in `count` places, to a team, and receive `size` bytes of each worker. With `began`, note
 * how late these have come. */
static int swap(const Team *team, const struct iovec *out, int count, char *const *in, size_t size, double began) {
    size_t sent[MOST_WORKERS] = {0}, received[MOST_WORKERS] = {0}, all = 0;
    for (int i = 0; i < count; i++) all += out[i].iov_len;
    for (;;) {
        struct pollfd waiting[MOST_WORKERS];
        int n = 0;
        if (atomic_load(&group.aborted)) return fail("%s", group.reason);
        for (int i = 1; i < team->count; i++) {
            int r = team->ranks[after(team, i)], events = 0;
            Peer *peer = &group.peers[r];
            while (sent[r] < all) {
                struct iovec rest[3];
                size_t skip = sent[r], left = 0;
                for (int k = 0; k < count; k++) {
                    size_t over = least(skip, out[k].iov_len);
                    skip -= over;
                    if (over == out[k].iov_len) continue;
                    rest[left++] = (struct iovec){(char *)out[k].iov_base + over, out[k].iov_len - over};
                }
                ssize_t n = put(peer, rest, left);
                if (n < 0) return -1;
                if (n == 0) {
                    events |= POLLOUT;
                    break;
                }
                sent[r] += (size_t)n;
            }
            while (received[r] < size) {
                struct iovec rest = {in[r] + received[r], size - received[r]};
                ssize_t n = take(peer, &rest, 1);
                if (n < 0) return -1;
                if (n == 0) {
                    events |= POLLIN;
                    break;
                }
                received[r] += (size_t)n;
                if (received[r] == size && began) peer->late = now() - began;
            }
            if (events) waiting[n++] = (struct pollfd){peer->socket, (short)events, 0};
        }
        if (!n) return 0;
        if (poll(waiting, (nfds_t)n, LOOK_MS) < 0 && errno != EINTR) return fail("poll: %s", strerror(errno));
    }
}

/* Send a header, alone or with what follows it, to all workers, and receive and check theirs. */
static int swap_headers(const Operation *o, const struct iovec *out, int count, double began) {
    char *headers[MOST_WORKERS];
    for (int r = 0; r < group.workers; r++) headers[r] = (char *)&group.peers[r].theirs;
    if (swap(&group.all, out, count, headers, sizeof(Header), began)) return -1;
    for (int r = 0; r < group.workers; r++)
        if (r != group.rank && check_header(o, &group.peers[r])) return -1;
    return 0;
}

/* Read values [from, to) of a worker's inputs or outputs: to one place, or to those of the own outputs. */
static int read_values(const Operation *o, Peer *peer, int outputs, size_t from, size_t to, char *place) {
    char **theirs = (char **)peer->table + (outputs ? o->count : 0);
    for (size_t at = from * o->size, end = to * o->size; at < end;) {
        struct iovec here[MOST_PARTS], there[MOST_PARTS];
        int n = parts(o, theirs, at, end, there), m = 1;
        size_t wanted = 0;
        for (int i = 0; i < n; i++) wanted += there[i].iov_len;
        if (place) here[0] = (struct iovec){place, wanted};
        else m = parts(o, o->out, at, at + wanted, here);
        ssize_t got = process_vm_readv((pid_t)peer->theirs.process, here, (unsigned long)m, there, (unsigned long)n, 0);
        if (got <= 0) return fail("the memory of %s can't be read (%s)", peer->name, strerror(errno));
        at += (size_t)got;
        if (place) place += got;
    }
    return 0;
}

/* Add the own slice of all workers of this machine. */
static int add_memory(Operation *o) {
    size_t start = slice_start(o, o->team->me), own = slice_length(o, o->team->me);
    size_t step = least(READ_PIECE, group.piece) / o->size;
    while (o->added < own) {
        size_t from = start + o->added, end = start + least(o->added + step, own);
        for (int i = 1; i < o->team->count; i++) {
            Peer *peer = peer_at(o, after(o->team, i));
            if (read_values(o, peer, 0, from, end, o->wire ? peer->read : peer->piece)) return -1;
            if (o->wire) narrow((uint16_t *)peer->piece, (float *)peer->read, end - from, o->wire);
        }
        add_piece(o, from, end);
        o->added = end - start;
    }
    return 0;
}

static int run_memory(Operation *o, double began) {
    size_t addresses = sizeof(char *) * (size_t)o->count;
    char *tables[MOST_WORKERS], signs[MOST_WORKERS], *places[MOST_WORKERS], ready = 1;
    struct iovec sign = {&ready, 1};
    const Team *machine = &group.machine;
    int one = machine->count == group.workers;
    for (int p = 0; p < machine->count; p++) {
        int r = machine->ranks[p];
        Peer *peer = &group.peers[r];
        places[r] = &signs[r];
        if (peer->table_size < 2 * addresses) {
            free(peer->table);
            peer->table = malloc(2 * addresses);
            peer->table_size = peer->table ? 2 * addresses : 0;
            if (!peer->table) return fail("out of memory");
        }
        tables[r] = peer->table;
    }
    /* The addresses go out with the header if all need them. The others' headers are checked before these are read. */
    struct iovec header[3] = {{&o->header, sizeof o->header}, {o->in, addresses}, {o->out, addresses}};
    if (swap_headers(o, header, one ? 3 : 1, began)) return -1;
    if (swap(machine, header + 1, one ? 0 : 2, tables, 2 * addresses, 0)) return -1;
    assign(o, machine, group.slices, 0, o->values);
    o->whole = 0;
    o->rounds = o->wire && one && group.workers > 2; /* the bits of a sum over connections */
    if (add_memory(o)) return -1;
    if (!one && group.column.count) {
        Operation rest = *o;
        rest.in = o->out;
        assign(&rest, &group.column, group.column.count, slice_start(o, machine->me), slice_length(o, machine->me));
        rest.whole = goes_whole(&rest);
        rest.rounds = rest.wire && !rest.whole;
        if (run_sockets(&rest, sizeof(Header), began)) return -1;
    }
    if (swap(machine, &sign, 1, places, 1, 0)) return -1;
    for (int i = 1; i < machine->count; i++) {
        int p = after(machine, i);
        size_t first = slice_start(o, p);
        if (read_values(o, peer_at(o, p), 1, first, first + slice_length(o, p), NULL)) return -1;
    }
    return swap(machine, &sign, 1, places, 1, 0); /* nobody may change what another one still reads */
}

/* Return whether the memory of a worker can be read, by what it says of it. */
static int can_read(const Peer *peer) {
    uint64_t found = 0;
    struct iovec here = {&found, 8}, there = {(void *)(uintptr_t)peer->theirs.address, 8};
    if (!peer->near || !peer->theirs.mark) return 0;
    return process_vm_readv((pid_t)peer->theirs.process, &here, 1, &there, 1, 0) == 8 && found == peer->theirs.mark;
}

/* Find the machines: all workers of one can read each other's memory. All workers know the same, and find the same.
 * Memory is not read if somebody can't take part, or if no machine has two workers. */
static void find_machines(void) {
    uint64_t reads[MOST_WORKERS];
    int machines = 0, fewest = group.workers;
    for (int r = 0; r < group.workers; r++) reads[r] = r == group.rank ? group.reads : group.peers[r].theirs.reads;
    group.slices = group.machine.count = group.column.count = 0;
    for (int r = 0; r < group.workers; r++) {
        int size = 0;
        if (!(reads[r] >> r & 1)) return;
        for (int s = 0; s < group.workers; s++) {
            if (!(reads[r] >> s & 1)) continue;
            if (reads[s] != reads[r]) return;
            size++;
        }
        machines += !(reads[r] & ((1ull << r) - 1)); /* the first worker of its machine */
        if (size < fewest) fewest = size;
    }
    if (machines == group.workers) return;
    for (int r = 0; r < group.workers; r++)
        if (group.reads >> r & 1) {
            if (r == group.rank) group.machine.me = group.machine.count;
            group.machine.ranks[group.machine.count++] = r;
        }
    group.slices = fewest;
    for (int r = 0; r < group.workers && group.machine.me < fewest; r++) {
        int place = __builtin_popcountll(reads[r] & ((1ull << r) - 1)); /* of this worker on its machine */
        if (place != group.machine.me) continue;
        if (r == group.rank) group.column.me = group.column.count;
        group.column.ranks[group.column.count++] = r;
    }
}

static Header header_of(const Operation *o, uint64_t number, uint64_t key) {
    return (Header){.magic = MAGIC, .type = (uint16_t)o->type, .wire = (uint16_t)o->wire, .number = number,
                    .key = key, .values = o->values, .address = (uint64_t)(uintptr_t)&group.mark,
                    .mark = group.mark, .reads = group.reads, .process = (uint32_t)getpid()};
}

static void note_late(void) {
    double waited = 0;
    for (int r = 0; r < group.workers; r++) {
        if (r == group.rank) continue;
        if (group.peers[r].late > waited) waited = group.peers[r].late;
        group.late[r] += group.peers[r].late;
    }
    group.waited += waited;
}

/* Learn whose memory can be read: an operation without values says where the mark is, the next one who reads whom. */
static int introduce(double began) {
    Operation o = {.type = FLOAT32};
    for (int round = 0; round < 2; round++) {
        o.header = header_of(&o, 0, (uint64_t)round);
        struct iovec header = {&o.header, sizeof o.header};
        if (swap_headers(&o, &header, 1, round ? 0 : began)) return -1;
        for (int r = 0; r < group.workers && !round; r++)
            if (r == group.rank || can_read(&group.peers[r])) group.reads |= 1ull << r;
    }
    note_late();
    find_machines();
    group.introduced = 1;
    return 0;
}

static int run(Operation *o) {
    double began = now();
    int introduced = group.introduced;
    if (!introduced && introduce(began)) return -1;
    double start = introduced ? began : now();
    o->header = header_of(o, group.operations, o->header.key);
    if (group.slices && o->values * o->size >= READ_LEAST) {
        if (run_memory(o, start)) return -1;
    } else {
        assign(o, &group.all, group.workers, 0, o->values);
        o->whole = goes_whole(o);
        o->rounds = o->wire && !o->whole;
        if (run_sockets(o, 0, start)) return -1;
    }
    note_late();
    group.seconds += now() - began;
    group.operations++;
    return 0;
}

/* ---- what Python calls --------------------------------------------------------------------------------- */

/* Take over connected sockets, one for each other worker. Those that are near, on this machine, may read the
 * memory of this one. Return 0, or -1 without memory. */
int tfmuster_open(int rank, int workers, const int *sockets, const char *const *names, const int *near) {
    if (workers < 2 || workers > MOST_WORKERS || rank < 0 || rank >= workers) return -1;
    pthread_mutex_lock(&group.lock);
    int bad = 0, share = 0;
    group.rank = rank;
    group.workers = workers;
    group.operations = 0;
    group.seconds = group.waited = group.bytes = 0;
    group.introduced = group.slices = 0;
    group.reads = 0;
    group.all = (Team){.count = workers, .me = rank};
    for (int r = 0; r < workers; r++) {
        group.all.ranks[r] = r;
        share |= near[r];
    }
    if (!share || getrandom(&group.mark, sizeof group.mark, 0) != sizeof group.mark) group.mark = 0;
    group.failure[0] = 0;
    atomic_store(&group.aborted, 0);
    group.piece = workers == 2 ? LARGE_PIECE : PIECES / (size_t)(workers - 1);
    if (group.piece < LEAST_PIECE) group.piece = LEAST_PIECE;
    group.piece -= group.piece % 64;
    free(group.sums);
    group.sums = malloc(2 * group.piece); /* 16-bit values take twice their bytes when they are added */
    bad = !group.sums;
    for (int r = 0; r < workers; r++) {
        Peer *peer = &group.peers[r];
        snprintf(peer->name, sizeof peer->name, "%s", names[r]);
        peer->socket = sockets[r];
        peer->near = near[r];
        group.late[r] = 0;
        free(peer->staged);
        free(peer->piece);
        free(peer->read);
        peer->staged = malloc(group.piece);
        peer->piece = malloc(group.piece);
        peer->read = malloc(group.piece);
        bad |= !peer->staged || !peer->piece || !peer->read;
    }
    pthread_mutex_unlock(&group.lock);
    return bad ? -1 : 0;
}

/* End the operation that is under way, and all later ones, with a reason. */
void tfmuster_abort(const char *reason) {
    if (atomic_load(&group.aborted)) return;
    snprintf(group.reason, sizeof group.reason, "%s", reason);
    atomic_store(&group.aborted, 1);
}

/* Sum tensors over the workers. `in` and `out` may be the same memory. Return 0, or -1: see the failure. */
int tfmuster_sum(int count, void **in, void **out, const int64_t *sizes, int type, int wire, int64_t key) {
    Operation o = {.count = count, .type = type, .wire = wire, .in = (char **)in, .out = (char **)out};
    if (type != FLOAT32 && type != FLOAT64 && type != INT32 && type != INT64) return fail("unknown type %d", type);
    if (wire && (type != FLOAT32 || (wire != BFLOAT16 && wire != FLOAT16))) return fail("unknown type %d", wire);
    o.starts = malloc(sizeof(size_t) * ((size_t)count + 1));
    if (!o.starts) return fail("out of memory");
    o.starts[0] = 0;
    o.header.key = (uint64_t)key;
    for (int i = 0; i < count; i++) {
        o.starts[i + 1] = o.starts[i] + (size_t)sizes[i];
        o.header.key = (o.header.key ^ (uint64_t)sizes[i]) * 0x100000001b3u; /* FNV: the sizes in their order */
    }
    o.size = type == FLOAT32 || type == INT32 ? 4 : 8;
    o.unit = wire ? 2 : o.size;
    o.values = o.starts[count];
    int large = !wire && o.starts[count] * o.size >= LARGE;
    o.step = (large ? group.piece : least(group.piece, PIECES)) / o.unit;
    pthread_mutex_lock(&group.lock);
    int failed = group.failure[0] ? -1 : 0;
    if (!failed && group.workers > 1) failed = run(&o);
    pthread_mutex_unlock(&group.lock);
    free(o.starts);
    return failed;
}

const char *tfmuster_failure(void) { return group.failure; }

/* Return operations, seconds in them, seconds until the last worker had begun, bytes, and for each worker the
 * seconds for which it was waited for. */
void tfmuster_times(double *found) {
    pthread_mutex_lock(&group.lock);
    found[0] = (double)group.operations;
    found[1] = group.seconds;
    found[2] = group.waited;
    found[3] = group.bytes;
    for (int r = 0; r < group.workers; r++) found[4 + r] = group.late[r];
    pthread_mutex_unlock(&group.lock);
}

/* ---- TensorFlow's operation ---------------------------------------------------------------------------- */

#define MOST_DIMENSIONS 254
typedef struct { int wire; int64_t key; } Kernel;

/* The functions of TensorFlow's C API that are used; handles are pointers to what only TensorFlow knows. */
#define API(F)                                                                                                \
    F(void *, NewStatus, (void))                                                                              \
    F(void, DeleteStatus, (void *))                                                                           \
    F(void, SetStatus, (void *, int, const char *))                                                           \
    F(int, GetCode, (const void *))                                                                           \
    F(void *, NewOpDefinitionBuilder, (const char *))                                                         \
    F(void, OpDefinitionBuilderAddAttr, (void *, const char *))                                               \
    F(void, OpDefinitionBuilderAddInput, (void *, const char *))                                              \
    F(void, OpDefinitionBuilderAddOutput, (void *, const char *))                                             \
    F(void, OpDefinitionBuilderSetIsStateful, (void *, unsigned char))                                        \
    F(void, OpDefinitionBuilderSetShapeInferenceFunction, (void *, void (*)(void *, void *)))                 \
    F(void, RegisterOpDefinition, (void *, void *))                                                           \
    F(void *, NewKernelBuilder,                                                                               \
      (const char *, const char *, void *(*)(void *), void (*)(void *, void *), void (*)(void *)))            \
    F(void, RegisterKernelBuilder, (const char *, void *, void *))                                            \
    F(void, OpKernelConstruction_GetAttrInt64, (void *, const char *, int64_t *, void *))                     \
    F(void, OpKernelConstruction_Failure, (void *, void *))                                                   \
    F(int, NumInputs, (void *))                                                                               \
    F(void, GetInput, (void *, int, void **, void *))                                                         \
    F(void *, ForwardInputOrAllocateOutput,                                                                   \
      (void *, const int *, int, int, const int64_t *, int, int *, void *))                                   \
    F(void, OpKernelContext_Failure, (void *, void *))                                                        \
    F(int, NumDims, (const void *))                                                                           \
    F(int64_t, Dim, (const void *, int))                                                                      \
    F(int, TensorType, (const void *))                                                                        \
    F(int64_t, TensorElementCount, (const void *))                                                            \
    F(void *, TensorData, (const void *))                                                                     \
    F(void, DeleteTensor, (void *))                                                                           \
    F(void *, NewShapeHandle, (void))                                                                         \
    F(void, DeleteShapeHandle, (void *))                                                                      \
    F(int64_t, ShapeInferenceContextNumInputs, (void *))                                                      \
    F(void, ShapeInferenceContextGetInput, (void *, int, void *, void *))                                     \
    F(void, ShapeInferenceContextSetOutput, (void *, int, void *, void *))

#define DECLARE(RESULT, NAME, ARGUMENTS) static RESULT(*NAME) ARGUMENTS;
API(DECLARE)

static int find_tensorflow(void) {
    const char *libraries[] = {"libtensorflow_cc.so.2", "libtensorflow_framework.so.2", NULL};
    void *loaded[2] = {NULL, NULL};
    for (int i = 0; libraries[i]; i++) loaded[i] = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
#define FIND(RESULT, NAME, ARGUMENTS)                                                                         \
    for (int i = 0; i < 2 && !NAME; i++)                                                                      \
        if (loaded[i]) *(void **)&NAME = dlsym(loaded[i], "TF_" #NAME);                                       \
    if (!NAME) return -1;
    API(FIND)
    return 0;
}

static void same_shapes(void *context, void *status) {
    void *shape = NewShapeHandle();
    for (int i = 0; i < ShapeInferenceContextNumInputs(context) && !GetCode(status); i++) {
        ShapeInferenceContextGetInput(context, i, shape, status);
        if (!GetCode(status)) ShapeInferenceContextSetOutput(context, i, shape, status);
    }
    DeleteShapeHandle(shape);
}

static void *create(void *construction) {
    Kernel *kernel = calloc(1, sizeof *kernel);
    void *status = NewStatus();
    int64_t wire = 0;
    OpKernelConstruction_GetAttrInt64(construction, "wire", &wire, status);
    if (!GetCode(status)) OpKernelConstruction_GetAttrInt64(construction, "key", &kernel->key, status);
    if (GetCode(status)) OpKernelConstruction_Failure(construction, status);
    DeleteStatus(status);
    kernel->wire = (int)wire;
    return kernel;
}

static void compute(void *made, void *context) {
    Kernel *kernel = made;
    int count = NumInputs(context), type = FLOAT32, ready = 0;
    void *status = NewStatus();
    void **in = calloc((size_t)count, sizeof(void *)), **out = calloc((size_t)count, sizeof(void *));
    void **from = calloc((size_t)count, sizeof(void *)), **to = calloc((size_t)count, sizeof(void *));
    int64_t *sizes = calloc((size_t)count, sizeof(int64_t));
    for (int i = 0; i < count && !GetCode(status); i++) {
        int64_t dimensions[MOST_DIMENSIONS];
        int forwarded = -1;
        GetInput(context, i, &in[i], status);
        if (GetCode(status)) break;
        int rank = NumDims(in[i]);
        for (int d = 0; d < rank; d++) dimensions[d] = Dim(in[i], d);
        type = TensorType(in[i]);
        sizes[i] = TensorElementCount(in[i]);
        from[i] = TensorData(in[i]);
        /* TensorFlow reuses the memory of an input only if nobody else holds it. */
        DeleteTensor(in[i]);
        in[i] = NULL;
        out[i] = ForwardInputOrAllocateOutput(context, &i, 1, i, dimensions, rank, &forwarded, status);
        if (GetCode(status)) break;
        to[i] = TensorData(out[i]);
        ready++;
    }
    if (ready == count && tfmuster_sum(count, from, to, sizes, type, kernel->wire, kernel->key)) {
        char text[640];
        snprintf(text, sizeof text, "A sum over the workers was aborted: %s.", group.failure);
        SetStatus(status, 13, text); /* INTERNAL: TensorFlow rewrites errors that it counts as the network's */
    }
    if (GetCode(status)) OpKernelContext_Failure(context, status);
    for (int i = 0; i < count; i++) {
        if (in[i]) DeleteTensor(in[i]);
        if (out[i]) DeleteTensor(out[i]);
    }
    free(in), free(out), free(from), free(to), free(sizes);
    DeleteStatus(status);
}

static void discard(void *kernel) { free(kernel); }

/* Runs when the library is loaded. TensorFlow notices which operations come with a library that it loads. */
__attribute__((constructor)) static void register_operation(void) {
    if (find_tensorflow()) return; /* a process without TensorFlow, or another one than the C API knows */
    void *status = NewStatus();
    void *operation = NewOpDefinitionBuilder("TfmusterSum");
    OpDefinitionBuilderAddAttr(operation, "T: {float, double, int32, int64}");
    OpDefinitionBuilderAddAttr(operation, "N: int >= 1");
    OpDefinitionBuilderAddAttr(operation, "wire: int = 0");
    OpDefinitionBuilderAddAttr(operation, "key: int = 0");
    OpDefinitionBuilderAddInput(operation, "values: N * T");
    OpDefinitionBuilderAddOutput(operation, "sums: N * T");
    OpDefinitionBuilderSetIsStateful(operation, 1);
    OpDefinitionBuilderSetShapeInferenceFunction(operation, same_shapes);
    RegisterOpDefinition(operation, status);
    if (!GetCode(status))
        RegisterKernelBuilder("TfmusterSum", NewKernelBuilder("TfmusterSum", "CPU", create, compute, discard), status);
    DeleteStatus(status);
}
