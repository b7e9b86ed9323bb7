/* Hold back the connections that other code of this process accepts, until they have been judged.
 *
 * TensorFlow's gRPC server accepts connections by accept4() of the C library, which its library calls through
 * an entry of its global offset table (GOT). tfmuster_gate_install() replaces that entry. A connection to a
 * guarded port is then kept here, and the caller is told that there is none (EAGAIN). tfmuster_gate_next() hands it
 * to a thread that judges it, and tfmuster_gate_admit() makes it the next one that the caller accepts. gRPC waits
 * for events of the listener, so the judge connects to the port itself to make it look again.
 *
 * A gate that is shut leaves connections with the kernel, whose queue for them is then full (net/gated_door.py).
 *
 * Nothing has read from a connection that is held back: what its client has sent stays in the kernel.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MOST_PORTS 16
#define MOST_HELD 256

#if defined(__x86_64__)
#define IS_FUNCTION(type) ((type) == R_X86_64_JUMP_SLOT || (type) == R_X86_64_GLOB_DAT)
#elif defined(__aarch64__)
#define IS_FUNCTION(type) ((type) == R_AARCH64_JUMP_SLOT || (type) == R_AARCH64_GLOB_DAT)
#else
#define IS_FUNCTION(type) 0
#endif

typedef struct {
    int of[MOST_HELD];
    int count;
} List;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t came;
static pthread_once_t ready = PTHREAD_ONCE_INIT;
static int ports[MOST_PORTS], port_count, is_shut;
static List held, admitted;

static void prepare(void) {
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&came, &clock);
}

static void put(List *list, int connection) {
    list->of[list->count++] = connection;
}

static int take(List *list) {
    int first = list->of[0];
    memmove(list->of, list->of + 1, (size_t)--list->count * sizeof first);
    return first;
}

static int is_guarded(int connection) {
    struct sockaddr_storage own;
    socklen_t size = sizeof own;
    if (getsockname(connection, (struct sockaddr *)&own, &size)) return 0;
    int port = own.ss_family == AF_INET    ? ntohs(((struct sockaddr_in *)&own)->sin_port)
               : own.ss_family == AF_INET6 ? ntohs(((struct sockaddr_in6 *)&own)->sin6_port)
                                           : 0;
    int found = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < port_count; i++) found |= ports[i] == port;
    pthread_mutex_unlock(&lock);
    return found;
}

/* The next one that was admitted, or -1. Tells also whether others may be taken from the kernel. */
static int take_admitted(int *may_take) {
    pthread_mutex_lock(&lock);
    int connection = admitted.count ? take(&admitted) : -1;
    *may_take = !is_shut;
    pthread_mutex_unlock(&lock);
    return connection;
}

static void hold(int connection) {
    pthread_mutex_lock(&lock);
    int room = held.count < MOST_HELD;
    if (room) put(&held, connection);
    pthread_cond_signal(&came);
    pthread_mutex_unlock(&lock);
    if (!room) close(connection);
}

static int gate_accept4(int listener, struct sockaddr *from, socklen_t *size, int flags) {
    if (!is_guarded(listener)) return accept4(listener, from, size, flags);
    for (;;) {
        int may_take, connection = take_admitted(&may_take);
        if (connection >= 0) {
            if (from && getpeername(connection, from, size)) memset(from, 0, *size); /* it has ended */
            return connection;
        }
        if (!may_take) {
            errno = EAGAIN;
            return -1;
        }
        connection = accept4(listener, from, size, flags);
        if (connection < 0) return connection;
        hold(connection);
    }
}

static int gate_accept(int listener, struct sockaddr *from, socklen_t *size) {
    return gate_accept4(listener, from, size, 0);
}

static int replace(void **entry, void *function) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)entry & ~(page - 1);
    if (mprotect((void *)start, page, PROT_READ | PROT_WRITE)) return 0;
    __atomic_store_n(entry, function, __ATOMIC_RELEASE);
    return 1;
}

static int replace_in(const ElfW(Rela) *entries, size_t bytes, ElfW(Addr) base, const ElfW(Sym) *symbols,
                      const char *names) {
    int count = 0;
    for (size_t i = 0; entries && i < bytes / sizeof *entries; i++) {
        if (!IS_FUNCTION(ELF64_R_TYPE(entries[i].r_info))) continue;
        const char *name = names + symbols[ELF64_R_SYM(entries[i].r_info)].st_name;
        void **entry = (void **)(base + entries[i].r_offset);
        if (!strcmp(name, "accept4")) count += replace(entry, (void *)gate_accept4);
        if (!strcmp(name, "accept")) count += replace(entry, (void *)gate_accept);
    }
    return count;
}

typedef struct {
    const char *part;
    int count;
} Search;

static int look_at(struct dl_phdr_info *object, size_t size, void *data) {
    (void)size;
    Search *search = data;
    if (!strstr(object->dlpi_name, search->part)) return 0;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        if (object->dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
        const ElfW(Rela) *plt = NULL, *others = NULL;
        size_t plt_bytes = 0, other_bytes = 0;
        const ElfW(Sym) *symbols = NULL;
        const char *names = NULL;
        const ElfW(Dyn) *each = (const ElfW(Dyn) *)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr);
        for (; each->d_tag != DT_NULL; each++) {
            if (each->d_tag == DT_JMPREL) plt = (const void *)each->d_un.d_ptr;
            if (each->d_tag == DT_PLTRELSZ) plt_bytes = each->d_un.d_val;
            if (each->d_tag == DT_RELA) others = (const void *)each->d_un.d_ptr;
            if (each->d_tag == DT_RELASZ) other_bytes = each->d_un.d_val;
            if (each->d_tag == DT_SYMTAB) symbols = (const void *)each->d_un.d_ptr;
            if (each->d_tag == DT_STRTAB) names = (const char *)each->d_un.d_ptr;
        }
        if (!symbols || !names) continue;
        int count = replace_in(plt, plt_bytes, object->dlpi_addr, symbols, names);
        /* TensorFlow has millions of the others. Only libraries that are linked in another way need them. */
        if (!count) count = replace_in(others, other_bytes, object->dlpi_addr, symbols, names);
        search->count += count;
    }
    return 0;
}

/* Let the libraries whose path contains a text accept through the gate. Returns how many entries were replaced. */
int tfmuster_gate_install(const char *part) {
    pthread_once(&ready, prepare);
    Search search = {part, 0};
    dl_iterate_phdr(look_at, &search);
    return search.count;
}

/* Hold back connections to one more port. Returns 0, or -1 if there are too many. */
int tfmuster_gate_guard(int port) {
    pthread_mutex_lock(&lock);
    int room = port_count < MOST_PORTS;
    if (room) ports[port_count++] = port;
    pthread_mutex_unlock(&lock);
    return room ? 0 : -1;
}

/* Take no connection from the kernel any more, or again. */
void tfmuster_gate_shut(int shut) {
    pthread_mutex_lock(&lock);
    is_shut = shut;
    pthread_mutex_unlock(&lock);
}

/* Wait for a connection that is held back, and hand over its descriptor, or -1 after so many milliseconds. */
int tfmuster_gate_next(int milliseconds) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += milliseconds / 1000;
    until.tv_nsec += (long)(milliseconds % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    pthread_mutex_lock(&lock);
    while (!held.count && !pthread_cond_timedwait(&came, &lock, &until)) continue;
    int connection = held.count ? take(&held) : -1;
    pthread_mutex_unlock(&lock);
    return connection;
}

/* Let the caller accept a connection. Returns 0, or -1 if too many wait for that. */
int tfmuster_gate_admit(int connection) {
    pthread_mutex_lock(&lock);
    int room = admitted.count < MOST_HELD;
    if (room) put(&admitted, connection);
    pthread_mutex_unlock(&lock);
    return room ? 0 : -1;
}
