/*
 * groupload - load generator for group coordinators that speak the Kafka
 * wire protocol (classic consumer group protocol; heartbeats of KIP-848 too),
 * and for the produce and fetch of large record batches.
 *
 *   cc -O2 -o groupload groupload.c -lm
 *   ./groupload SCENARIO --port P [options]        (./groupload --help)
 *
 * One thread, epoll, non-blocking sockets. Talks to loopback addresses only.
 * One JSON object per run on stdout, one human line on stderr.
 *
 * Everything is bounded: connections, members, seconds, frame sizes, and the
 * whole run by --deadline-s.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAX_CONNS 28000
#define MAX_MEMBERS 200000
#define MAX_FRAME (64u << 20)
#define MAX_SECONDS 3600
#define MAX_DEPTH 4096
#define MS 1000000ull
#define SEC 1000000000ull

enum { API_PRODUCE = 0, API_RECORDS = 1, API_COMMIT = 8, API_FETCH = 9, API_FINDCOORD = 10, API_JOIN = 11,
       API_HB = 12, API_LEAVE = 13, API_SYNC = 14, API_VERSIONS = 18, API_CONSUMER_HB = 68 };

/* ------------------------------------------------------------ small things */

static void die(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "groupload: ");
    vfprintf(stderr, fmt, ap);
    fprintf(stderr, "\n");
    va_end(ap);
    exit(2);
}
static void *xrealloc(void *p, size_t n) {
    p = realloc(p, n ? n : 1);
    if (!p) die("out of memory");
    return p;
}
static void *xcalloc(size_t n, size_t m) {
    void *p = calloc(n ? n : 1, m);
    if (!p) die("out of memory");
    return p;
}
static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * SEC + (uint64_t)t.tv_nsec;
}
static double client_cpu(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}
static uint64_t rng_state = 0x9E3779B97F4A7C15ull;
static uint64_t rnd(void) {
    uint64_t x = rng_state;
    x ^= x << 13; x ^= x >> 7; x ^= x << 17;
    return rng_state = x;
}
static uint64_t fnv(const char *s, int32_t gen) {
    uint64_t h = 1469598103934665603ull;
    for (; *s; s++) { h ^= (uint8_t)*s; h *= 1099511628211ull; }
    h ^= (uint32_t)gen;
    return h * 1099511628211ull;
}

/* ------------------------------------------------------------- histogram  */
/* log-linear, 64 steps per power of two: within 1.6 %. */
#define HSUB 64
#define HMAX (64 * HSUB)
typedef struct { uint64_t n, max, b[HMAX]; double sum; } Hist;
static void h_add(Hist *h, uint64_t v) {
    int i;
    if (v < HSUB) i = (int)v;
    else {
        int e = 63 - __builtin_clzll(v);
        i = (e - 5) * HSUB + (int)((v >> (e - 6)) & (HSUB - 1));
    }
    h->b[i]++; h->n++; h->sum += (double)v;
    if (v > h->max) h->max = v;
}
static double h_q(const Hist *h, double q) { /* in microseconds */
    if (!h->n) return 0;
    uint64_t want = (uint64_t)ceil(q * (double)h->n), c = 0;
    if (!want) want = 1;
    for (int i = 0; i < HMAX; i++) {
        c += h->b[i];
        if (c >= want) {
            if (i < HSUB) return i / 1e3;
            int e = i / HSUB + 5;
            double v = ldexp(1.0 + (i % HSUB + 0.5) / HSUB, e);
            return (v > (double)h->max ? (double)h->max : v) / 1e3;
        }
    }
    return (double)h->max / 1e3;
}

/* --------------------------------------------------------------- buffers  */
typedef struct { uint8_t *p; size_t len, cap, off; } Buf;
static void b_need(Buf *b, size_t n) {
    if (b->len + n <= b->cap) return;
    if (b->off && b->off == b->len) b->off = b->len = 0;
    if (b->len + n <= b->cap) return;
    size_t c = b->cap ? b->cap : 256;
    while (c < b->len + n) c *= 2;
    b->p = xrealloc(b->p, c);
    b->cap = c;
}
static void b_raw(Buf *b, const void *d, size_t n) { b_need(b, n); memcpy(b->p + b->len, d, n); b->len += n; }
static void b_i8(Buf *b, int v) { b_need(b, 1); b->p[b->len++] = (uint8_t)v; }
static void b_i16(Buf *b, int v) { uint16_t x = htons((uint16_t)v); b_raw(b, &x, 2); }
static void b_i32(Buf *b, int32_t v) { uint32_t x = htonl((uint32_t)v); b_raw(b, &x, 4); }
static void b_i64(Buf *b, int64_t v) { b_i32(b, (int32_t)((uint64_t)v >> 32)); b_i32(b, (int32_t)(uint64_t)v); }
static void b_strn(Buf *b, const char *s, size_t n) { b_i16(b, (int)n); b_raw(b, s, n); }
static void b_str(Buf *b, const char *s) { if (s) b_strn(b, s, strlen(s)); else b_i16(b, -1); }
static void b_cstr(Buf *b, const char *s) { size_t n = strlen(s); b_i8(b, (int)n + 1); b_raw(b, s, n); }
static void b_zero(Buf *b, size_t n) { b_need(b, n); memset(b->p + b->len, 0, n); b->len += n; }
static void b_uvar(Buf *b, uint32_t v) { while (v > 127) { b_i8(b, (int)(v & 127) | 128); v >>= 7; } b_i8(b, (int)v); }
static void b_zigzag(Buf *b, int32_t v) { b_uvar(b, (uint32_t)v << 1 ^ (uint32_t)(v >> 31)); }
static void put32(uint8_t *p, uint32_t v) { v = htonl(v); memcpy(p, &v, 4); }

static Buf batch; /* what produce sends and fetch must get back; empty in other scenarios */

typedef struct { const uint8_t *p, *e; int bad; } Rd;
static int r_ok(Rd *r, size_t n) { if (r->bad || (size_t)(r->e - r->p) < n) { r->bad = 1; return 0; } return 1; }
static int r_i8(Rd *r) { if (!r_ok(r, 1)) return 0; return (int8_t)*r->p++; }
static int r_i16(Rd *r) { if (!r_ok(r, 2)) return 0; int v = (int16_t)(r->p[0] << 8 | r->p[1]); r->p += 2; return v; }
static int32_t r_i32(Rd *r) { if (!r_ok(r, 4)) return 0; uint32_t x; memcpy(&x, r->p, 4); r->p += 4; return (int32_t)ntohl(x); }
static int64_t r_i64(Rd *r) { uint64_t hi = (uint32_t)r_i32(r); uint64_t lo = (uint32_t)r_i32(r); return (int64_t)(hi << 32 | lo); }
static const char *r_str(Rd *r, int *n) {
    int l = r_i16(r);
    *n = 0;
    if (l < 0) return NULL;
    if (!r_ok(r, (size_t)l)) return NULL;
    const char *s = (const char *)r->p;
    r->p += l; *n = l;
    return s;
}
static const uint8_t *r_bytes(Rd *r, int32_t *n) {
    int32_t l = r_i32(r);
    *n = 0;
    if (l < 0) return NULL;
    if (!r_ok(r, (size_t)l)) return NULL;
    const uint8_t *s = r->p;
    r->p += l; *n = l;
    return s;
}
static const uint8_t *r_take(Rd *r, size_t n) { if (!r_ok(r, n)) return NULL; const uint8_t *s = r->p; r->p += n; return s; }
static uint32_t r_uvar(Rd *r) { uint32_t v = 0; for (int s = 0; s < 35; s += 7) { int c = r_i8(r); v |= (uint32_t)(c & 127) << s; if (!(c & 128)) break; } return v; }

/* --------------------------------------------------------------- options  */
static struct {
    const char *scenario, *host, *client_id, *topic, *label, *group_prefix;
    int port, conns, mpc, groups, depth, members, partitions, topics;
    double seconds, warmup, deadline;
    int session_ms, rebalance_ms, hb_ms, known_delay_ms, leader_sync_delay_ms, backoff_ms, prompt_ms, gap_ms, init_window_ms;
    int raw, consumer, simple, shared, is_static, ignore_host, no_verify, no_handshake, skip_kill, conn_window;
    int meta_bytes, assign_bytes, parts_per_member, batch_bytes, record_bytes;
    int v_join, v_sync, v_hb, v_commit, v_fetch, v_leave, v_produce, v_records;
    int pids[16], npids;
} O = { .host = "127.0.0.1", .client_id = "groupload", .topic = "groupload-topic", .label = "", .group_prefix = "groupload",
        .conns = 1, .mpc = 1, .groups = 1, .depth = 1, .partitions = 1, .topics = 1,
        .seconds = 3, .warmup = 0.5, .deadline = 180, .session_ms = 10000, .rebalance_ms = 60000, .hb_ms = 3000,
        .backoff_ms = 100, .prompt_ms = 5, .gap_ms = 0, .conn_window = 64, .parts_per_member = 1,
        .batch_bytes = 1 << 20, .record_bytes = 1000,
        .v_join = 5, .v_sync = 3, .v_hb = 3, .v_commit = 7, .v_fetch = 5, .v_leave = 3, .v_produce = 9, .v_records = 12 };

static const char USAGE[] =
"groupload SCENARIO --port P [options]\n"
"scenarios: heartbeat consumer_heartbeat commit fetch_offsets produce fetch rebalance idle churn probe\n"
"  --host H             loopback only (127.0.0.1)\n"
"  --conns M            connections (1)          --members-per-conn K  members on each (1)\n"
"  --groups G           groups (1); member i of a connection joins a different group each;\n"
"                       consumer_heartbeat: as many as members, so that each owns all partitions at once\n"
"  --members N          rebalance/churn/idle: members per group (conns is set from it)\n"
"  --depth D            requests in flight per connection, closed loop (1)\n"
"  --seconds T          measured time (3)        --warmup S (0.5)      --deadline-s S whole run (180)\n"
"  --partitions P       partitions per commit/fetch per topic (1)      --topics N (1)  --topic NAME\n"
"  --batch-bytes B      produce/fetch: the most a batch may have (1048576), of uncompressed records with values of\n"
"  --record-bytes R     (1000); connection i works on partition i of --topic, which has --partitions P or more\n"
"  --shared             every member commits the same partitions (default: own range)\n"
"  --simple             commit/fetch without membership (generation -1)\n"
"  --raw                heartbeat/commit/idle frames with made-up ids, no join (for bare echo servers)\n"
"  --session-timeout-ms (10000)  --rebalance-timeout-ms (60000)  --hb-interval-ms (3000)\n"
"  --prompt-ms X        after a trigger the other members heartbeat once X ms later (5; -1 = never)\n"
"  --known-delay-ms X   configured server delay to subtract in form_minus_delay_ms (0)\n"
"  --leader-sync-delay-ms X (0)  --backoff-ms X (100)  --gap-ms X churn: leave to rejoin (0)\n"
"  --parts-per-member   partitions in each assignment (1)  --metadata-bytes --assignment-bytes padding\n"
"  --static             static membership (group.instance.id)\n"
"  --skip-kill          rebalance: leave out the killed-member phase\n"
"  --pid P[,P]          server processes: CPU seconds and RSS are measured\n"
"  --ignore-coordinator-host  connect to --host with the returned port\n"
"  --no-handshake       no ApiVersions on the member connections\n"
"  --no-verify          skip reading back committed offsets\n"
"  --{join,sync,hb,commit,fetch,leave}-version V   cap the version used\n"
"  --group-prefix S  --client-id S  --label S\n";

/* ----------------------------------------------------------------- state  */
enum { M_OUT, M_JOINING, M_WAIT_SYNC, M_SYNCING, M_STABLE, M_LEAVING, M_DEAD };
enum { T_NONE, T_HB, T_REJOIN, T_SYNC, T_JOIN };
enum { C_NEW, C_CONNECTING, C_HANDSHAKE, C_READY, C_CLOSED };

typedef struct { uint64_t t; int32_t m, gen, corr; int16_t api; int16_t phase; } Fly;
typedef struct {
    int fd, state, first, n, rr, out_armed, coord;
    int fly_head, fly_n, fly_cap, load_inflight;
    int32_t corr;
    Fly *fly;
    Buf in, out;
} Conn;
typedef struct {
    int conn, group, idx, state, is_leader, wanted;
    int32_t gen;
    char id[128], inst[48];
    int tkind, tpos;
    uint64_t tdue;
    Buf frame;              /* cached heartbeat frame */
    int32_t frame_gen; size_t frame_corr;
    int64_t next_off, acked_off, first_off;
    uint8_t *pending; size_t npending; /* delayed leader sync: copy of member list */
    uint64_t t_join_sent;
    int resync;
} Member;
typedef struct {
    char name[96];
    int coord, first, n, expected, stable, done, churner, churn_out;
    int32_t gen, min_gen, top_gen;
    int *members;
} Group;
typedef struct { struct sockaddr_in a; char s[64]; } Coord;

static Conn *C; static int nC;
static Member *Mb; static int nM;
static Group *G; static int nG;
static Coord *Co; static int nCo;
static int ep = -1;
static int groups_done;

static uint64_t deadline_ns, t_start;
static const char *fail_why = NULL;
static char fail_buf[256];

static uint64_t err_code[256];          /* kafka error code + 1 */
static uint64_t e_conn, e_proto, e_unexpected, e_assign, e_verify, e_offset;
static uint64_t sig_rebalance;          /* REBALANCE_IN_PROGRESS and friends that drive members */
static uint64_t n_join_sent, n_join_ok, n_sync_ok, n_leader_sync_ok, n_hb_ok, n_leave_ok, n_retry;

/* load loop */
static int load_api = -1, loading, measuring;
static uint64_t done_ops, meas_ops, meas_from;
static Hist H, HJ, HS;
static uint32_t slices[MAX_SECONDS + 2];
static int cur_phase;

/* phase timeline */
static struct { uint64_t t0, first_sig, first_rejoin, last_rejoin, first_joinresp, last_joinresp, last_sync; } P;

static void fail(const char *fmt, ...) {
    if (fail_why) return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(fail_buf, sizeof fail_buf, fmt, ap);
    va_end(ap);
    fail_why = fail_buf;
}
static void err_count(int code) { err_code[(code + 1) & 255]++; }

/* ------------------------------------------------------------ timer heap  */
static int *heap, heap_n;
static void h_swap(int i, int j) { int a = heap[i]; heap[i] = heap[j]; heap[j] = a; Mb[heap[i]].tpos = i; Mb[heap[j]].tpos = j; }
static void h_up(int i) { while (i > 0) { int p = (i - 1) / 2; if (Mb[heap[p]].tdue <= Mb[heap[i]].tdue) break; h_swap(i, p); i = p; } }
static void h_down(int i) {
    for (;;) {
        int l = 2 * i + 1, r = l + 1, s = i;
        if (l < heap_n && Mb[heap[l]].tdue < Mb[heap[s]].tdue) s = l;
        if (r < heap_n && Mb[heap[r]].tdue < Mb[heap[s]].tdue) s = r;
        if (s == i) return;
        h_swap(i, s); i = s;
    }
}
static void t_set(int m, int kind, uint64_t due) {
    Member *x = &Mb[m];
    x->tkind = kind; x->tdue = due;
    if (x->tpos < 0) { x->tpos = heap_n; heap[heap_n++] = m; h_up(x->tpos); }
    else { h_up(x->tpos); h_down(x->tpos); }
}
static void t_del(int m) {
    Member *x = &Mb[m];
    int i = x->tpos;
    x->tkind = T_NONE;
    if (i < 0) return;
    heap_n--;
    if (i != heap_n) { heap[i] = heap[heap_n]; Mb[heap[i]].tpos = i; h_up(i); h_down(Mb[heap[i]].tpos); }
    x->tpos = -1;
}

/* ------------------------------------------------------------- sending    */
static void conn_close(int ci, int expected);
static void conn_arm(int ci, int out) {
    Conn *c = &C[ci];
    if (c->out_armed == out) return;
    struct epoll_event ev = { .events = EPOLLIN | (out ? EPOLLOUT : 0), .data.u32 = (uint32_t)ci };
    epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &ev);
    c->out_armed = out;
}
static void conn_flush(int ci) {
    Conn *c = &C[ci];
    if (c->state == C_CLOSED || c->state == C_CONNECTING || c->state == C_NEW) return;
    while (c->out.off < c->out.len) {
        ssize_t n = send(c->fd, c->out.p + c->out.off, c->out.len - c->out.off, MSG_NOSIGNAL);
        if (n > 0) { c->out.off += (size_t)n; continue; }
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) { conn_arm(ci, 1); return; }
        if (n < 0 && errno == EINTR) continue;
        conn_close(ci, 0);
        return;
    }
    c->out.off = c->out.len = 0;
    if (c->out.cap > (1u << 20) && !batch.len) { free(c->out.p); memset(&c->out, 0, sizeof c->out); }
    conn_arm(ci, 0);
}
static void fly_push(Conn *c, int api, int m, int32_t gen, uint64_t t) {
    if (c->fly_n == c->fly_cap) {
        int cap = c->fly_cap ? c->fly_cap * 2 : 4;
        Fly *f = xcalloc((size_t)cap, sizeof *f);
        for (int i = 0; i < c->fly_n; i++) f[i] = c->fly[(c->fly_head + i) & (c->fly_cap - 1)];
        free(c->fly);
        c->fly = f; c->fly_cap = cap; c->fly_head = 0;
    }
    Fly *f = &c->fly[(c->fly_head + c->fly_n++) & (c->fly_cap - 1)];
    f->t = t; f->m = m; f->gen = gen; f->api = (int16_t)api; f->corr = c->corr; f->phase = (int16_t)cur_phase;
}
static size_t f_begin(Buf *b, int api, int ver, int32_t corr) {
    size_t at = b->len;
    b_i32(b, 0); b_i16(b, api); b_i16(b, ver); b_i32(b, corr); b_str(b, O.client_id);
    return at;
}
static void f_end(Buf *b, size_t at) { put32(b->p + at, (uint32_t)(b->len - at - 4)); }
/* beginning a frame may move the buffer's data: keep offsets relative */
static size_t q_begin(Conn *c, int api, int ver) { b_need(&c->out, 64); c->corr++; return f_begin(&c->out, api, ver, c->corr); }

static void send_apiversions(int ci, int ver, uint64_t t) {
    Conn *c = &C[ci];
    size_t a = q_begin(c, API_VERSIONS, ver);
    if (ver >= 3) { b_i8(&c->out, 0); b_cstr(&c->out, "groupload"); b_cstr(&c->out, "1"); b_i8(&c->out, 0); }
    f_end(&c->out, a);
    fly_push(c, API_VERSIONS, -1, ver, t);
}
static void member_reset_timer_hb(int m, uint64_t t) { t_set(m, T_HB, t + (uint64_t)O.hb_ms * MS); }

/* ConsumerGroupHeartbeat 1: the first says what the member is, those after it only that it lives */
static void consumer_hb(Buf *b, const Member *m, int is_first) {
    b_i8(b, 0);                                  /* the header's tags */
    b_cstr(b, G[m->group].name);
    b_cstr(b, m->id);
    b_i32(b, is_first ? 0 : m->gen);
    b_i8(b, 0); b_i8(b, 0);                      /* instance, rack */
    b_i32(b, is_first ? O.rebalance_ms : -1);
    if (is_first) { b_i8(b, 2); b_cstr(b, O.topic); } else b_i8(b, 0);
    b_i8(b, 0); b_i8(b, 0);                      /* pattern, assignor */
    b_i8(b, is_first ? 1 : 0);                   /* owns: nothing; as before */
    b_i8(b, 0);
}
static void send_join(int mi, uint64_t t) {
    Member *m = &Mb[mi];
    Conn *c = &C[m->conn];
    Group *g = &G[m->group];
    if (c->state != C_READY) return;
    Buf *b = &c->out;
    size_t a = q_begin(c, O.consumer ? API_CONSUMER_HB : API_JOIN, O.consumer ? 1 : O.v_join);
    if (O.consumer) {
        snprintf(m->id, sizeof m->id, "%s-member-%d", O.group_prefix, mi);
        consumer_hb(b, m, 1);
    } else {
        b_str(b, g->name);
        b_i32(b, O.session_ms);
        if (O.v_join >= 1) b_i32(b, O.rebalance_ms);
        b_str(b, m->id);
        if (O.v_join >= 5) b_str(b, O.is_static ? m->inst : NULL);
        b_str(b, "consumer");
        b_i32(b, 1);
        b_str(b, "range");
        size_t tl = strlen(O.topic);
        b_i32(b, (int32_t)(2 + 4 + 2 + tl + 4 + (size_t)O.meta_bytes));
        b_i16(b, 0); b_i32(b, 1); b_str(b, O.topic);
        b_i32(b, O.meta_bytes); b_zero(b, (size_t)O.meta_bytes);
    }
    f_end(b, a);
    fly_push(c, O.consumer ? API_CONSUMER_HB : API_JOIN, mi, m->gen, t);
    if (m->state == M_STABLE && m->gen == g->gen) {
        g->stable--;
        if (g->done) { g->done = 0; groups_done--; }
    }
    m->state = M_JOINING;
    m->t_join_sent = t;
    n_join_sent++;
    if (!P.first_rejoin) P.first_rejoin = t;
    P.last_rejoin = t;
    t_del(mi);
}
/* members: list of (len, id) pairs as taken from the join response */
static void send_sync(int mi, const uint8_t *list, size_t nlist, uint64_t t) {
    Member *m = &Mb[mi];
    Conn *c = &C[m->conn];
    Group *g = &G[m->group];
    if (c->state != C_READY) return;
    Buf *b = &c->out;
    size_t a = q_begin(c, API_SYNC, O.v_sync);
    b_str(b, g->name);
    b_i32(b, m->gen);
    b_str(b, m->id);
    if (O.v_sync >= 3) b_str(b, O.is_static ? m->inst : NULL);
    size_t cnt_at = b->len;
    b_i32(b, 0);
    int cnt = 0;
    size_t tl = strlen(O.topic);
    char id[256];
    for (size_t o = 0; o + 2 <= nlist;) {
        size_t l = (size_t)list[o] << 8 | list[o + 1];
        o += 2;
        b_strn(b, (const char *)list + o, l);
        memcpy(id, list + o, l); id[l] = 0;
        o += l;
        int np = O.parts_per_member;
        b_i32(b, (int32_t)(2 + 4 + 2 + tl + 4 + 4 * (size_t)np + 4 + 8 + (size_t)O.assign_bytes));
        b_i16(b, 0); b_i32(b, 1); b_str(b, O.topic); b_i32(b, np);
        for (int i = 0; i < np; i++) b_i32(b, cnt * np + i);
        b_i32(b, 8 + O.assign_bytes);
        b_i64(b, (int64_t)fnv(id, m->gen));
        b_zero(b, (size_t)O.assign_bytes);
        cnt++;
    }
    put32(b->p + cnt_at, (uint32_t)cnt);
    f_end(b, a);
    fly_push(c, API_SYNC, mi, m->gen, t);
    m->state = M_SYNCING;
}
static void hb_frame(int mi) {
    Member *m = &Mb[mi];
    Buf *b = &m->frame;
    b->len = b->off = 0;
    size_t a = f_begin(b, O.consumer ? API_CONSUMER_HB : API_HB, O.consumer ? 1 : O.v_hb, 0);
    m->frame_corr = 8;
    if (O.consumer) consumer_hb(b, m, 0);
    else {
        b_str(b, G[m->group].name);
        b_i32(b, m->gen);
        b_str(b, m->id);
        if (O.v_hb >= 3) b_str(b, O.is_static ? m->inst : NULL);
    }
    f_end(b, a);
    m->frame_gen = m->gen;
}
static void send_hb(int mi, uint64_t t) {
    Member *m = &Mb[mi];
    Conn *c = &C[m->conn];
    if (c->state != C_READY) return;
    if (m->frame_gen != m->gen || !m->frame.len) hb_frame(mi);
    b_need(&c->out, m->frame.len);
    size_t at = c->out.len;
    b_raw(&c->out, m->frame.p, m->frame.len);
    c->corr++;
    put32(c->out.p + at + m->frame_corr, (uint32_t)c->corr);
    fly_push(c, O.consumer ? API_CONSUMER_HB : API_HB, mi, m->gen, t);
}
static int part_base(const Member *m) { return O.shared ? 0 : m->idx * O.partitions; }
static void topic_name(char *o, size_t n, int i) { if (O.topics == 1) snprintf(o, n, "%s", O.topic); else snprintf(o, n, "%s-%d", O.topic, i); }
static void send_commit(int mi, uint64_t t) {
    Member *m = &Mb[mi];
    Conn *c = &C[m->conn];
    if (c->state != C_READY) return;
    Buf *b = &c->out;
    char tn[160];
    size_t a = q_begin(c, API_COMMIT, O.v_commit);
    b_str(b, G[m->group].name);
    b_i32(b, O.simple ? -1 : m->gen);
    b_str(b, O.simple ? "" : m->id);
    if (O.v_commit >= 7) b_str(b, O.is_static && !O.simple ? m->inst : NULL);
    if (O.v_commit >= 2 && O.v_commit <= 4) b_i64(b, -1);
    b_i32(b, O.topics);
    int64_t off = ++m->next_off;
    for (int k = 0; k < O.topics; k++) {
        topic_name(tn, sizeof tn, k);
        b_str(b, tn);
        b_i32(b, O.partitions);
        for (int i = 0; i < O.partitions; i++) {
            b_i32(b, part_base(m) + i);
            b_i64(b, off);
            if (O.v_commit >= 6) b_i32(b, -1);
            b_i16(b, 0);                           /* metadata "" */
        }
    }
    f_end(b, a);
    fly_push(c, API_COMMIT, mi, (int32_t)off, t);
}
static void send_fetch(int mi, uint64_t t) {
    Member *m = &Mb[mi];
    Conn *c = &C[m->conn];
    if (c->state != C_READY) return;
    Buf *b = &c->out;
    char tn[160];
    size_t a = q_begin(c, API_FETCH, O.v_fetch);
    b_str(b, G[m->group].name);
    b_i32(b, O.topics);
    for (int k = 0; k < O.topics; k++) {
        topic_name(tn, sizeof tn, k);
        b_str(b, tn);
        b_i32(b, O.partitions);
        for (int i = 0; i < O.partitions; i++) b_i32(b, part_base(m) + i);
    }
    f_end(b, a);
    fly_push(c, API_FETCH, mi, m->gen, t);
}
static void send_leave(int mi, uint64_t t) {
    Member *m = &Mb[mi];
    Conn *c = &C[m->conn];
    Group *g = &G[m->group];
    if (c->state != C_READY) return;
    Buf *b = &c->out;
    size_t a = q_begin(c, API_LEAVE, O.v_leave);
    b_str(b, g->name);
    if (O.v_leave >= 3) { b_i32(b, 1); b_str(b, m->id); b_str(b, O.is_static ? m->inst : NULL); }
    else b_str(b, m->id);
    f_end(b, a);
    fly_push(c, API_LEAVE, mi, m->gen, t);
    if (m->state == M_STABLE && m->gen == g->gen) {
        g->stable--;
        if (g->done) { g->done = 0; groups_done--; }
    }
    m->state = M_LEAVING;
    t_del(mi);
}

/* ------------------------------------------------------------- batches    */
/* One batch, made once, is what every produce sends and every fetch must give back. */
#define WRITTEN 16                              /* batches of each partition that are there to be fetched */
#define BATCH_HEAD 61
static int32_t batch_records;

static uint32_t crc32c(const uint8_t *p, size_t n) {
    static uint32_t table[256];
    if (!table[1]) for (uint32_t i = 0; i < 256; i++) { uint32_t c = i; for (int k = 0; k < 8; k++) c = c & 1 ? c >> 1 ^ 0x82F63B78u : c >> 1; table[i] = c; }
    uint32_t c = ~0u;
    for (size_t i = 0; i < n; i++) c = table[(c ^ p[i]) & 255] ^ c >> 8;
    return ~c;
}
static int uvar_len(uint32_t v) { int n = 1; while (v > 127) { v >>= 7; n++; } return n; }
static void make_batch(void) {
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    int64_t ms = (int64_t)wall.tv_sec * 1000 + wall.tv_nsec / 1000000;
    Buf *b = &batch;
    b_i64(b, 0); b_i32(b, 0); b_i32(b, -1); b_i8(b, 2); b_i32(b, 0); /* base offset, length, leader epoch, magic, crc */
    b_i16(b, 0); b_i32(b, 0); b_i64(b, ms); b_i64(b, ms);            /* attributes, last delta, first and newest time */
    b_i64(b, -1); b_i16(b, -1); b_i32(b, -1); b_i32(b, 0);           /* producer, epoch, sequence, records */
    size_t R = (size_t)O.record_bytes;
    for (int32_t i = 0;; i++) {
        size_t body = 1 + 1 + (size_t)uvar_len((uint32_t)i << 1) + 1 + (size_t)uvar_len((uint32_t)R << 1) + R + 1;
        if (b->len + (size_t)uvar_len((uint32_t)body << 1) + body > (size_t)O.batch_bytes) break;
        b_zigzag(b, (int32_t)body);
        b_i8(b, 0); b_zigzag(b, 0); b_zigzag(b, i); b_zigzag(b, -1); /* attributes, time, offset, no key */
        b_zigzag(b, (int32_t)R);
        b_need(b, R);
        for (size_t k = 0; k < R; k++) b->p[b->len++] = (uint8_t)rnd();
        b_zigzag(b, 0);                                              /* headers */
        batch_records = i + 1;
    }
    if (!batch_records) die("no record of %d bytes fits in a batch of %d", O.record_bytes, O.batch_bytes);
    put32(b->p + 8, (uint32_t)(b->len - 12));
    put32(b->p + 23, (uint32_t)batch_records - 1);
    put32(b->p + 57, (uint32_t)batch_records);
    put32(b->p + 17, crc32c(b->p + 21, b->len - 21));
}
static void send_produce(int mi, uint64_t t) {
    Conn *c = &C[Mb[mi].conn];
    if (c->state != C_READY) return;
    Buf *b = &c->out;
    size_t a = q_begin(c, API_PRODUCE, O.v_produce);
    b_i8(b, 0);                                                      /* the header's tags */
    b_i8(b, 0); b_i16(b, -1); b_i32(b, 30000);                       /* no transaction, acks=all, timeout */
    b_uvar(b, 2); b_cstr(b, O.topic); b_uvar(b, 2); b_i32(b, mi);
    b_uvar(b, (uint32_t)batch.len + 1); b_raw(b, batch.p, batch.len);
    b_i8(b, 0); b_i8(b, 0); b_i8(b, 0);
    f_end(b, a);
    fly_push(c, API_PRODUCE, mi, 0, t);
}
static void send_records_fetch(int mi, uint64_t t) {
    Member *m = &Mb[mi];
    Conn *c = &C[m->conn];
    if (c->state != C_READY) return;
    Buf *b = &c->out;
    int32_t turn = (int32_t)(m->next_off++ % WRITTEN);
    size_t a = q_begin(c, API_RECORDS, O.v_records);
    b_i8(b, 0);
    b_i32(b, -1); b_i32(b, 500); b_i32(b, 1); b_i32(b, (int32_t)batch.len); /* replica, wait, least, most bytes */
    b_i8(b, 0); b_i32(b, 0); b_i32(b, -1);                           /* uncommitted, no session */
    b_uvar(b, 2); b_cstr(b, O.topic); b_uvar(b, 2);
    b_i32(b, mi); b_i32(b, -1); b_i64(b, m->first_off + (int64_t)turn * batch_records);
    b_i32(b, -1); b_i64(b, -1); b_i32(b, (int32_t)batch.len);
    b_i8(b, 0); b_i8(b, 0); b_uvar(b, 1); b_uvar(b, 1); b_i8(b, 0);  /* nothing forgotten, no rack */
    f_end(b, a);
    fly_push(c, API_RECORDS, mi, turn, t);
}
static void count_op(const Fly *f, uint64_t t);
static void on_produced(Fly *f, Rd *r, uint64_t t) {
    Member *m = &Mb[f->m];
    r_i8(r); r_uvar(r); r_take(r, r_uvar(r) - 1); r_uvar(r); /* tags, topics, name, partitions */
    int32_t index = r_i32(r);
    int e = r_i16(r);
    int64_t base = r_i64(r);
    if (r->bad) { e_proto++; fail("short Produce response"); return; }
    if (e == 7 || e == 56) { /* out of time, or of prepared room on disk: a producer tries again, in order since depth is 1 */
        n_retry++;
        send_produce(f->m, t);
        return;
    }
    if (e) { err_count(e); fail("Produce was refused with error %d", e); return; }
    if (index != f->m || base < 0 || (m->acked_off >= 0 && base != m->acked_off + batch_records)) { e_offset++; fail("Produce to partition %d: base offset %" PRId64 " of %d", f->m, base, index); return; }
    m->acked_off = base;
    if (C[m->conn].load_inflight > 0) C[m->conn].load_inflight--;
    count_op(f, t);
}
static void on_records(Fly *f, Rd *r, uint64_t t) {
    Member *m = &Mb[f->m];
    r_i8(r); r_i32(r);
    int e = r_i16(r);
    r_i32(r); r_uvar(r); r_take(r, r_uvar(r) - 1); r_uvar(r); /* session, topics, name, partitions */
    int32_t index = r_i32(r);
    int pe = r_i16(r);
    r_i64(r); r_i64(r); r_i64(r);
    for (uint32_t n = r_uvar(r); n > 1 && !r->bad; n--) { r_i64(r); r_i64(r); r_uvar(r); }
    r_i32(r);
    size_t n = r_uvar(r);
    const uint8_t *d = r_take(r, n ? n - 1 : 0);
    if (r->bad) { e_proto++; fail("short Fetch response"); return; }
    if (e || pe) { err_count(e ? e : pe); fail("Fetch was refused with error %d", e ? e : pe); return; }
    Rd base = { d, d + 8, 0 };
    /* the offset and the leader's epoch are the server's to write, all else must be as it was sent */
    if (index != f->m || n - 1 != batch.len || r_i64(&base) != m->first_off + (int64_t)f->gen * batch_records || memcmp(d + 8, batch.p + 8, 4) || memcmp(d + 16, batch.p + 16, batch.len - 16)) { e_verify++; fail("Fetch from partition %d gave %zu bytes that are not those written", f->m, n - 1); return; }
    if (C[m->conn].load_inflight > 0) C[m->conn].load_inflight--;
    count_op(f, t);
}

/* closed loop: keep D of load_api in flight on this connection */
static void load_fill(int ci, uint64_t t) {
    Conn *c = &C[ci];
    if (!loading || c->state != C_READY) return;
    while (c->load_inflight < O.depth) {
        int pick = -1;
        for (int i = 0; i < c->n; i++) {
            int m = c->first + c->rr;
            if (++c->rr >= c->n) c->rr = 0;
            if (O.raw || O.simple || Mb[m].state == M_STABLE) { pick = m; break; }
        }
        if (pick < 0) return;
        if (load_api == API_HB) send_hb(pick, t);
        else if (load_api == API_COMMIT) send_commit(pick, t);
        else if (load_api == API_PRODUCE) send_produce(pick, t);
        else if (load_api == API_RECORDS) send_records_fetch(pick, t);
        else send_fetch(pick, t);
        c->load_inflight++;
    }
}

/* ------------------------------------------------------------ responses   */
static void group_settle(Group *g, uint64_t t) {
    int ok = g->stable == g->expected && g->gen >= g->min_gen;
    if (ok && !g->done) { g->done = 1; groups_done++; P.last_sync = t; }
    else if (!ok && g->done) { g->done = 0; groups_done--; }
}
static void member_stable(int mi, uint64_t t) {
    Member *m = &Mb[mi];
    Group *g = &G[m->group];
    m->state = M_STABLE;
    if (m->gen > g->gen) { g->gen = m->gen; g->stable = 1; }
    else if (m->gen == g->gen) g->stable++;
    group_settle(g, t);
    member_reset_timer_hb(mi, t);
    load_fill(m->conn, t);
}
static void backoff_join(int mi, uint64_t t, int ms) {
    Member *m = &Mb[mi];
    Group *g = &G[m->group];
    if (m->state == M_STABLE && m->gen == g->gen) { g->stable--; if (g->done) { g->done = 0; groups_done--; } }
    m->state = M_OUT;
    n_retry++;
    t_set(mi, T_REJOIN, t + (uint64_t)ms * MS);
}
/* an error from any member request: decide what a real client would do */
static void member_error(int mi, int code, uint64_t t, int is_signal) {
    Member *m = &Mb[mi];
    if (!is_signal) err_count(code);
    switch (code) {
    case 27: /* REBALANCE_IN_PROGRESS */
        send_join(mi, t); break;
    case 22: /* ILLEGAL_GENERATION */
        send_join(mi, t); break;
    case 25: /* UNKNOWN_MEMBER_ID */
        m->id[0] = 0; send_join(mi, t); break;
    case 14: case 15: case 16: case 7: case 42: case 81: /* loading, not available, mock's INVALID_REQUEST, group full */
        backoff_join(mi, t, O.backoff_ms); break;
    default:
        fail("fatal error code %d for a member", code);
    }
}

static void count_op(const Fly *f, uint64_t t) {
    done_ops++;
    if (!measuring || f->t < meas_from) return;
    h_add(&H, t - f->t); meas_ops++;
    uint64_t s = (t - meas_from) / SEC;
    if (s <= MAX_SECONDS) slices[s]++;
}
static void on_response(int ci, Fly *f, Rd *r, uint64_t t) {
    Conn *c = &C[ci];
    switch (f->api) {
    case API_PRODUCE: on_produced(f, r, t); return;
    case API_RECORDS: on_records(f, r, t); return;
    case API_VERSIONS: {
        int e = r_i16(r);
        if (e == 35 && f->gen >= 3) { send_apiversions(ci, 0, t); return; }
        if (e) err_count(e);
        c->state = C_READY;
        return;
    }
    case API_HB: {
        int mi = f->m;
        Member *m = &Mb[mi];
        if (O.v_hb >= 1) r_i32(r);
        int e = r_i16(r);
        if (r->bad) { e_proto++; fail("short heartbeat response"); return; }
        if (load_api == API_HB && f->phase == 1 && c->load_inflight > 0) c->load_inflight--;
        if (e == 0) {
            n_hb_ok++;
            if (load_api < 0) { h_add(&H, t - f->t); meas_ops++; }
            if (load_api == API_HB) {
                done_ops++;
                if (measuring && f->t >= meas_from) {
                    h_add(&H, t - f->t); meas_ops++;
                    uint64_t s = (t - meas_from) / SEC;
                    if (s <= MAX_SECONDS) slices[s]++;
                }
            }
        } else {
            int cur = !O.raw && m->state == M_STABLE && f->gen == m->gen;
            int sig = (e == 27) && load_api != API_HB;
            if (sig && cur) { sig_rebalance++; if (!P.first_sig) P.first_sig = t; }
            if (cur) member_error(mi, e, t, sig);
            else if (!sig && !(f->gen != m->gen || m->state != M_STABLE)) err_count(e);
            else if (O.raw) err_count(e);
        }
        return;
    }
    case API_CONSUMER_HB: {
        Member *m = &Mb[f->m];
        r_uvar(r);                               /* the header's tags */
        r_i32(r);
        int e = r_i16(r);
        for (int i = 0; i < 2; i++) { uint32_t n = r_uvar(r); if (n > 1) r_take(r, n - 1); } /* message, member id */
        int32_t epoch = r_i32(r);
        if (r->bad) { e_proto++; fail("short ConsumerGroupHeartbeat response"); return; }
        if (m->state == M_JOINING) {
            if (e == 14 || e == 15 || e == 16) { err_count(e); backoff_join(f->m, t, O.backoff_ms); return; }
            if (e) { err_count(e); fail("ConsumerGroupHeartbeat refused a member: %d", e); return; }
            m->gen = epoch;
            n_join_ok++;
            member_stable(f->m, t);
            return;
        }
        if (e || epoch != m->gen) { err_count(e); fail("ConsumerGroupHeartbeat gave error %d and epoch %d, expected %d", e, epoch, m->gen); return; }
        n_hb_ok++;
        if (load_api == API_HB && f->phase == 1) {
            if (C[m->conn].load_inflight > 0) C[m->conn].load_inflight--;
            count_op(f, t);
        }
        return;
    }
    case API_JOIN: {
        int mi = f->m;
        Member *m = &Mb[mi];
        if (O.v_join >= 2) r_i32(r);
        int e = r_i16(r);
        int32_t gen = r_i32(r);
        int n, ln, mn;
        (void)r_str(r, &n);
        const char *leader = r_str(r, &ln);
        const char *id = r_str(r, &mn);
        int32_t cnt = r_i32(r);
        if (r->bad) { e_proto++; fail("short JoinGroup response (error %d)", e); return; }
        if (m->state != M_JOINING) return;
        if (e == 79) { /* MEMBER_ID_REQUIRED */
            if (mn <= 0 || mn >= (int)sizeof m->id) { fail("bad member id length %d", mn); return; }
            memcpy(m->id, id, (size_t)mn); m->id[mn] = 0; m->frame.len = 0;
            send_join(mi, t);
            return;
        }
        if (e) { member_error(mi, e, t, e == 27 || e == 22); if (e == 27 || e == 22) sig_rebalance++; return; }
        if (mn <= 0 || mn >= (int)sizeof m->id) { fail("bad member id length %d", mn); return; }
        memcpy(m->id, id, (size_t)mn); m->id[mn] = 0; m->frame.len = 0;
        m->gen = gen;
        if (gen > G[m->group].top_gen) G[m->group].top_gen = gen;
        n_join_ok++;
        h_add(&HJ, t - f->t);
        if (!P.first_joinresp) P.first_joinresp = t;
        P.last_joinresp = t;
        m->is_leader = ln == mn && leader && id && !memcmp(leader, id, (size_t)mn);
        m->state = M_WAIT_SYNC;
        if (m->is_leader) {
            Buf l = {0};
            for (int i = 0; i < cnt; i++) {
                int sn; int32_t bn;
                const char *s = r_str(r, &sn);
                if (O.v_join >= 5) { int q; (void)r_str(r, &q); }
                (void)r_bytes(r, &bn);
                if (r->bad || sn > 250) { e_proto++; fail("bad member list in JoinGroup response"); free(l.p); return; }
                b_strn(&l, s ? s : "", (size_t)sn);
            }
            if (O.leader_sync_delay_ms > 0) {
                free(m->pending);
                m->pending = l.p; m->npending = l.len;
                t_set(mi, T_SYNC, t + (uint64_t)O.leader_sync_delay_ms * MS);
            } else { send_sync(mi, l.p, l.len, t); free(l.p); }
        } else send_sync(mi, NULL, 0, t);
        return;
    }
    case API_SYNC: {
        int mi = f->m;
        Member *m = &Mb[mi];
        if (O.v_sync >= 1) r_i32(r);
        int e = r_i16(r);
        int32_t n;
        const uint8_t *as = r_bytes(r, &n);
        if (r->bad) { e_proto++; fail("short SyncGroup response (error %d)", e); return; }
        if (m->state != M_SYNCING || f->gen != m->gen) return;
        if (e) { member_error(mi, e, t, e == 27 || e == 22); if (e == 27 || e == 22) sig_rebalance++; return; }
        h_add(&HS, t - f->t);
        n_sync_ok++;
        if (m->is_leader) n_leader_sync_ok++;
        /* the assignment must be the one written for this member at this generation */
        Rd a = { as, as + n, 0 };
        uint64_t h = 0;
        if (n > 0) {
            int q;
            r_i16(&a);
            int tc = r_i32(&a);
            for (int i = 0; i < tc && !a.bad; i++) { (void)r_str(&a, &q); int pc = r_i32(&a); if (r_ok(&a, 4 * (size_t)(pc < 0 ? 0 : pc))) a.p += 4 * (size_t)(pc < 0 ? 0 : pc); }
            int32_t ul = r_i32(&a);
            if (ul >= 8) h = (uint64_t)r_i64(&a);
        }
        if (n <= 0 || a.bad || h != fnv(m->id, m->gen)) e_assign++;
        member_stable(mi, t);
        return;
    }
    case API_COMMIT: {
        int mi = f->m;
        Member *m = &Mb[mi];
        if (O.v_commit >= 3) r_i32(r);
        int tc = r_i32(r), bad = 0, n, seen = 0;
        for (int i = 0; i < tc && !r->bad; i++) {
            (void)r_str(r, &n);
            int pc = r_i32(r);
            for (int j = 0; j < pc && !r->bad; j++) { r_i32(r); int e = r_i16(r); seen++; if (e) { bad = e; err_count(e); } }
        }
        if (r->bad) { e_proto++; fail("short OffsetCommit response"); return; }
        if (seen != O.topics * O.partitions) e_proto++;
        if (load_api == API_COMMIT && c->load_inflight > 0) c->load_inflight--;
        if (!bad) {
            m->acked_off = f->gen;
            done_ops++;
            if (measuring && f->t >= meas_from) { h_add(&H, t - f->t); meas_ops++; uint64_t s = (t - meas_from) / SEC; if (s <= MAX_SECONDS) slices[s]++; }
        } else if (!O.raw && !O.simple && m->state == M_STABLE && (bad == 27 || bad == 22 || bad == 25)) member_error(mi, bad, t, 1);
        return;
    }
    case API_FETCH: {
        int mi = f->m;
        Member *m = &Mb[mi];
        if (O.v_fetch >= 3) r_i32(r);
        int tc = r_i32(r), bad = 0, n, seen = 0;
        for (int i = 0; i < tc && !r->bad; i++) {
            (void)r_str(r, &n);
            int pc = r_i32(r);
            for (int j = 0; j < pc && !r->bad; j++) {
                r_i32(r);
                int64_t off = r_i64(r);
                if (O.v_fetch >= 5) r_i32(r);
                (void)r_str(r, &n);
                int e = r_i16(r);
                seen++;
                if (e) { bad = e; err_count(e); }
                else if (!O.raw && f->phase == cur_phase && off != m->acked_off && !O.no_verify && !(O.shared && G[m->group].n > 1)) e_offset++;
            }
        }
        if (O.v_fetch >= 2) { int e = r_i16(r); if (e) { bad = e; err_count(e); } }
        if (r->bad) { e_proto++; fail("short OffsetFetch response"); return; }
        if (seen != O.topics * O.partitions) e_proto++;
        if (load_api == API_FETCH && c->load_inflight > 0) c->load_inflight--;
        if (!bad) {
            done_ops++;
            if (measuring && f->t >= meas_from) { h_add(&H, t - f->t); meas_ops++; uint64_t s = (t - meas_from) / SEC; if (s <= MAX_SECONDS) slices[s]++; }
        }
        return;
    }
    case API_LEAVE: {
        Member *m = &Mb[f->m];
        if (O.v_leave >= 1) r_i32(r);
        int e = r_i16(r);
        if (O.v_leave >= 3 && !e) {
            int n, k = r_i32(r);
            for (int i = 0; i < k && !r->bad; i++) { int q; (void)r_str(r, &n); (void)r_str(r, &q); int me = r_i16(r); if (me) e = me; }
        }
        if (r->bad) { e_proto++; fail("short LeaveGroup response"); return; }
        if (e) err_count(e); else n_leave_ok++;
        if (m->state == M_LEAVING) { m->state = M_OUT; m->id[0] = 0; m->gen = -1; }
        return;
    }
    }
}

static void conn_close(int ci, int expected) {
    Conn *c = &C[ci];
    if (c->state == C_CLOSED) return;
    if (c->fd >= 0) { epoll_ctl(ep, EPOLL_CTL_DEL, c->fd, NULL); close(c->fd); }
    c->fd = -1;
    c->state = C_CLOSED;
    c->fly_n = 0; c->load_inflight = 0;
    for (int i = 0; i < c->n; i++) {
        Member *m = &Mb[c->first + i];
        Group *g = &G[m->group];
        if (m->state == M_STABLE && m->gen == g->gen) { g->stable--; if (g->done) { g->done = 0; groups_done--; } }
        m->state = M_DEAD;
        t_del(c->first + i);
    }
    if (!expected) { e_conn++; fail("connection closed by the server (or failed: %s)", strerror(errno)); }
}

static void conn_readable(int ci) {
    Conn *c = &C[ci];
    int rounds = 0;
    for (;;) {
        b_need(&c->in, 65536);
        size_t room = c->in.cap - c->in.len;
        ssize_t n = recv(c->fd, c->in.p + c->in.len, room, 0);
        if (n < 0) { if (errno == EAGAIN || errno == EWOULDBLOCK) break; if (errno == EINTR) continue; conn_close(ci, 0); return; }
        if (n == 0) { errno = 0; conn_close(ci, 0); return; }
        c->in.len += (size_t)n;
        if ((size_t)n < room || ++rounds >= 64) break;
    }
    uint64_t t = now_ns();
    while (c->state != C_CLOSED && c->in.len - c->in.off >= 4) {
        const uint8_t *p = c->in.p + c->in.off;
        uint32_t l; memcpy(&l, p, 4); l = ntohl(l);
        if (l > MAX_FRAME || l < 4) { e_proto++; fail("bad frame length %u", l); conn_close(ci, 1); return; }
        if (c->in.len - c->in.off < 4 + (size_t)l) break;
        Rd r = { p + 4, p + 4 + l, 0 };
        int32_t corr = r_i32(&r);
        if (!c->fly_n) { e_proto++; fail("response without request"); conn_close(ci, 1); return; }
        Fly f = c->fly[c->fly_head];
        c->fly_head = (c->fly_head + 1) & (c->fly_cap - 1);
        c->fly_n--;
        if (f.corr != corr) { e_proto++; fail("correlation id %d, expected %d", corr, f.corr); conn_close(ci, 1); return; }
        c->in.off += 4 + (size_t)l;
        on_response(ci, &f, &r, t);
    }
    if (c->in.off == c->in.len) {
        c->in.off = c->in.len = 0;
        if ((c->in.cap > (1u << 18) || nC > 64) && !batch.len) { free(c->in.p); memset(&c->in, 0, sizeof c->in); }
    } else if (c->in.off > (1u << 20)) { memmove(c->in.p, c->in.p + c->in.off, c->in.len - c->in.off); c->in.len -= c->in.off; c->in.off = 0; }
    if (c->state == C_READY) { load_fill(ci, now_ns()); }
    conn_flush(ci);
}

static int next_open;
static void conn_open(int ci) {
    Conn *c = &C[ci];
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd < 0) die("socket: %s", strerror(errno));
    int one = 1;
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    c->state = C_CONNECTING;
    struct sockaddr_in *a = &Co[c->coord].a;
    if (connect(c->fd, (struct sockaddr *)a, sizeof *a) < 0 && errno != EINPROGRESS) die("connect: %s", strerror(errno));
    struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT, .data.u32 = (uint32_t)ci };
    if (epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &ev) < 0) die("epoll_ctl: %s", strerror(errno));
    c->out_armed = 1;
}
static void conn_connected(int ci) {
    Conn *c = &C[ci];
    int e = 0; socklen_t l = sizeof e;
    getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &e, &l);
    if (e) { errno = e; conn_close(ci, 0); return; }
    if (O.raw || O.no_handshake) c->state = C_READY;
    else { c->state = C_HANDSHAKE; send_apiversions(ci, 3, now_ns()); }
    conn_flush(ci);
}

static void fire(int mi, uint64_t t) {
    Member *m = &Mb[mi];
    int k = m->tkind;
    t_del(mi);
    switch (k) {
    case T_HB:
        if (O.raw || m->state == M_STABLE) {
            if (!(loading && load_api == API_HB)) { send_hb(mi, t); conn_flush(m->conn); }
            t_set(mi, T_HB, t + (uint64_t)O.hb_ms * MS);
        }
        break;
    case T_REJOIN: case T_JOIN:
        if (m->wanted && (m->state == M_OUT)) { send_join(mi, t); conn_flush(m->conn); }
        else if (m->wanted && m->state == M_LEAVING) t_set(mi, T_JOIN, t + 1 * MS);
        break;
    case T_SYNC:
        if (m->state == M_WAIT_SYNC && m->pending) {
            send_sync(mi, m->pending, m->npending, t);
            free(m->pending); m->pending = NULL;
            conn_flush(m->conn);
        }
        break;
    }
}

static int (*tick)(uint64_t) = NULL;
/* runs until cond() or until ns; returns 1 when cond() held */
static int run(int (*cond)(void), uint64_t until) {
    static struct epoll_event ev[1024];
    while (!fail_why) {
        if (cond && cond()) return 1;
        uint64_t t = now_ns();
        if (t >= deadline_ns) { fail("deadline"); return 0; }
        if (until && t >= until) return 0;
        uint64_t next = until ? until : deadline_ns;
        if (heap_n && Mb[heap[0]].tdue < next) next = Mb[heap[0]].tdue;
        struct timespec to = {0, 0};
        if (next > t) { uint64_t d = next - t; if (d > 100 * MS) d = 100 * MS; to.tv_nsec = (long)d; }
        int n = epoll_pwait2(ep, ev, 1024, &to, NULL);
        if (n < 0 && errno != EINTR) die("epoll: %s", strerror(errno));
        for (int i = 0; i < n; i++) {
            int ci = (int)ev[i].data.u32;
            Conn *c = &C[ci];
            if (c->state == C_CLOSED) continue;
            if (c->state == C_CONNECTING) { if (ev[i].events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) conn_connected(ci); continue; }
            if (ev[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) conn_readable(ci);
            if (c->state != C_CLOSED && (ev[i].events & EPOLLOUT)) conn_flush(ci);
        }
        t = now_ns();
        int budget = 4096;
        while (heap_n && Mb[heap[0]].tdue <= t && budget--) fire(heap[0], t);
        if (tick) tick(t);
    }
    return 0;
}

/* -------------------------------------------------- bootstrap (blocking)  */
static int bs_fd = -1;
static int32_t bs_corr;
static void bs_connect(void) {
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)O.port) };
    inet_pton(AF_INET, O.host, &a.sin_addr);
    bs_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval tv = { 20, 0 };
    setsockopt(bs_fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
    setsockopt(bs_fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof tv);
    int one = 1;
    setsockopt(bs_fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(bs_fd, (struct sockaddr *)&a, sizeof a) < 0) die("cannot connect to %s:%d: %s", O.host, O.port, strerror(errno));
}
static uint8_t *bs_call(Buf *b, size_t *n) {
    size_t o = 0;
    while (o < b->len) { ssize_t w = send(bs_fd, b->p + o, b->len - o, MSG_NOSIGNAL); if (w <= 0) return NULL; o += (size_t)w; }
    uint8_t h[4];
    if (recv(bs_fd, h, 4, MSG_WAITALL) != 4) return NULL;
    uint32_t l = (uint32_t)h[0] << 24 | (uint32_t)h[1] << 16 | (uint32_t)h[2] << 8 | h[3];
    if (l < 4 || l > MAX_FRAME) return NULL;
    uint8_t *p = xrealloc(NULL, l);
    if (recv(bs_fd, p, l, MSG_WAITALL) != (ssize_t)l) { free(p); return NULL; }
    *n = l;
    return p;
}
static struct { int min, max, seen; } api_range[128];
static int cap_version(int api, int want, const char *name) {
    if (!api_range[api].seen) return want;
    int v = want > api_range[api].max ? api_range[api].max : want;
    if (v < api_range[api].min) die("server supports %s versions %d-%d, groupload at most %d", name, api_range[api].min, api_range[api].max, want);
    return v;
}
static int av_version = -1;
static void bootstrap(void) {
    bs_connect();
    for (int ver = 3; ver >= 0; ver -= 3) {
        Buf b = {0};
        size_t a = f_begin(&b, API_VERSIONS, ver, ++bs_corr);
        if (ver >= 3) { b_i8(&b, 0); b_cstr(&b, "groupload"); b_cstr(&b, "1"); b_i8(&b, 0); }
        f_end(&b, a);
        size_t n = 0;
        uint8_t *p = bs_call(&b, &n);
        free(b.p);
        if (!p) { if (ver == 3) { close(bs_fd); bs_connect(); continue; } die("no ApiVersions answer"); }
        Rd r = { p, p + n, 0 };
        r_i32(&r);
        int e = r_i16(&r);
        if (e) { free(p); if (ver == 3) continue; die("ApiVersions error %d", e); }
        int cnt = ver >= 3 ? (int)r_uvar(&r) - 1 : r_i32(&r);
        for (int i = 0; i < cnt && !r.bad; i++) {
            int k = r_i16(&r), lo = r_i16(&r), hi = r_i16(&r);
            if (ver >= 3) { uint32_t tags = r_uvar(&r); while (tags-- && !r.bad) { r_uvar(&r); uint32_t l = r_uvar(&r); if (r_ok(&r, l)) r.p += l; } }
            if (k >= 0 && k < 128) { api_range[k].min = lo; api_range[k].max = hi; api_range[k].seen = 1; }
        }
        free(p);
        av_version = ver;
        break;
    }
    O.v_join = cap_version(API_JOIN, O.v_join, "JoinGroup");
    O.v_sync = cap_version(API_SYNC, O.v_sync, "SyncGroup");
    O.v_hb = cap_version(API_HB, O.v_hb, "Heartbeat");
    O.v_commit = cap_version(API_COMMIT, O.v_commit, "OffsetCommit");
    O.v_fetch = cap_version(API_FETCH, O.v_fetch, "OffsetFetch");
    O.v_leave = cap_version(API_LEAVE, O.v_leave, "LeaveGroup");
    if (O.consumer && api_range[API_CONSUMER_HB].max < 1) die("server supports no ConsumerGroupHeartbeat version 1");
    if (!batch.len) return;
    if (cap_version(API_PRODUCE, O.v_produce, "Produce") != O.v_produce) die("server supports no Produce version %d", O.v_produce);
    if (cap_version(API_RECORDS, O.v_records, "Fetch") != O.v_records) die("server supports no Fetch version %d", O.v_records);
}
static int is_loopback(const struct in_addr *a) { return (ntohl(a->s_addr) >> 24) == 127; }
static int coord_of(const char *host, int port) {
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    if (O.ignore_host || !strcmp(host, "localhost")) inet_pton(AF_INET, strcmp(host, "localhost") ? O.host : "127.0.0.1", &a.sin_addr);
    else if (inet_pton(AF_INET, host, &a.sin_addr) != 1) die("coordinator host '%s' is a name, not a loopback address (--ignore-coordinator-host?)", host);
    if (!is_loopback(&a.sin_addr)) die("coordinator %s is not loopback: refused", host);
    for (int i = 0; i < nCo; i++) if (!memcmp(&Co[i].a, &a, sizeof a)) return i;
    Co = xrealloc(Co, sizeof *Co * (size_t)(nCo + 1));
    Co[nCo].a = a;
    snprintf(Co[nCo].s, sizeof Co[nCo].s, "%s:%d", host, port);
    return nCo++;
}
static uint64_t n_find_retry;
static int find_coordinator(const char *group) {
    for (int tries = 0;; tries++) {
        Buf b = {0};
        size_t a = f_begin(&b, API_FINDCOORD, 0, ++bs_corr), n = 0;
        b_str(&b, group);
        f_end(&b, a);
        uint8_t *p = bs_call(&b, &n);
        free(b.p);
        if (!p) die("no FindCoordinator answer for %s", group);
        Rd r = { p, p + n, 0 };
        r_i32(&r);
        int e = r_i16(&r), hn, port;
        r_i32(&r);
        const char *h = r_str(&r, &hn);
        port = r_i32(&r);
        char host[256] = "";
        if (h && hn < 255) { memcpy(host, h, (size_t)hn); host[hn] = 0; }
        int bad = r.bad;
        free(p);
        if ((e == 15 || e == 14) && tries < 150) { n_find_retry++; usleep(200000); continue; }
        if (e || bad) die("FindCoordinator error %d", e);
        return coord_of(host, port);
    }
}

/* ------------------------------------------------------------ accounting  */
typedef struct { double cpu, t, client, busy; long rss_kb, anon_kb; } Sample;
static double proc_cpu(int pid) {
    char path[64]; double s = 0;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *d = opendir(path);
    if (!d) return -1;
    struct dirent *e;
    while ((e = readdir(d))) {
        if (e->d_name[0] == '.') continue;
        char q[400];
        snprintf(q, sizeof q, "%s/%s/schedstat", path, e->d_name);
        FILE *f = fopen(q, "r");
        if (!f) continue;
        unsigned long long on = 0;
        if (fscanf(f, "%llu", &on) == 1) s += (double)on / 1e9;
        fclose(f);
    }
    closedir(d);
    return s;
}
static double cpu_stat(int pid) { /* ticks, survives finished threads */
    char path[64], buf[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *f = fopen(path, "r");
    if (!f) return 0;
    size_t n = fread(buf, 1, sizeof buf - 1, f);
    fclose(f);
    buf[n] = 0;
    char *p = strrchr(buf, ')');
    unsigned long ut = 0, st = 0;
    if (p && sscanf(p + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &ut, &st) == 2) return (double)(ut + st) / (double)sysconf(_SC_CLK_TCK);
    return 0;
}
static long proc_kb(int pid, const char *key) {
    char path[64], line[256]; long v = 0;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *f = fopen(path, "r");
    if (!f) return 0;
    size_t kl = strlen(key);
    while (fgets(line, sizeof line, f)) if (!strncmp(line, key, kl)) { v = atol(line + kl); break; }
    fclose(f);
    return v;
}
static Sample sample(void) {
    Sample s = { 0, (double)now_ns() / 1e9, client_cpu(), 0, 0, 0 };
    for (int i = 0; i < O.npids; i++) {
        double a = proc_cpu(O.pids[i]);
        s.cpu += a >= 0 ? a : cpu_stat(O.pids[i]);
        s.rss_kb += proc_kb(O.pids[i], "VmRSS:");
        s.anon_kb += proc_kb(O.pids[i], "RssAnon:");
    }
    FILE *f = fopen("/proc/stat", "r");
    if (f) {
        unsigned long long u, ni, sy, id, io, ir, so;
        if (fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu", &u, &ni, &sy, &id, &io, &ir, &so) == 7)
            s.busy = (double)(u + ni + sy + ir + so) / (double)sysconf(_SC_CLK_TCK);
        fclose(f);
    }
    return s;
}

/* ------------------------------------------------------------- set-up     */
static int cond_all_ready(void) {
    int r = 0, trying = 0;
    for (int i = 0; i < next_open; i++) { if (C[i].state == C_READY) r++; else if (C[i].state != C_CLOSED) trying++; }
    while (next_open < nC && trying < O.conn_window) { conn_open(next_open++); trying++; }
    return r == nC;
}
static int cond_all_done(void) { return groups_done == nG; }
static int cond_drained(void) { for (int i = 0; i < nC; i++) if (C[i].load_inflight) return 0; return 1; }

static void build(void) {
    /* connection c carries members of groups (c % classes)*mpc .. +mpc */
    int classes = (O.groups + O.mpc - 1) / O.mpc;
    if (classes < 1) classes = 1;
    O.groups = classes * O.mpc;
    nG = O.groups;
    nC = O.conns;
    if (nC < classes) { nC = O.conns = classes; }
    nM = nC * O.mpc;
    if (nC > MAX_CONNS || nM > MAX_MEMBERS) die("at most %d connections and %d members", MAX_CONNS, MAX_MEMBERS);
    C = xcalloc((size_t)nC, sizeof *C);
    Mb = xcalloc((size_t)nM, sizeof *Mb);
    G = xcalloc((size_t)nG, sizeof *G);
    heap = xcalloc((size_t)nM + 1, sizeof *heap);
    for (int g = 0; g < nG; g++) {
        snprintf(G[g].name, sizeof G[g].name, "%s-%d", O.group_prefix, g);
        G[g].gen = -1; G[g].min_gen = 0; G[g].top_gen = -1;
        G[g].members = xcalloc((size_t)(nC / classes + 1), sizeof(int));
        G[g].churner = -1;
    }
    for (int i = 0; i < nC; i++) {
        C[i].fd = -1; C[i].first = i * O.mpc; C[i].n = O.mpc;
        for (int k = 0; k < O.mpc; k++) {
            int mi = i * O.mpc + k, g = (i % classes) * O.mpc + k;
            Member *m = &Mb[mi];
            m->conn = i; m->group = g; m->idx = G[g].n; m->tpos = -1; m->gen = -1; m->wanted = 1; m->acked_off = -1;
            snprintf(m->inst, sizeof m->inst, "inst-%d", m->idx);
            if (O.raw) {
                snprintf(m->id, sizeof m->id, "%s-%08x-%04x-%04x-%04x-%012llx", O.client_id, mi, mi & 0xffff, 0x4abc, 0x8def, (unsigned long long)mi * 2654435761u & 0xffffffffffffull);
                m->gen = 1;
            }
            G[g].members[G[g].n++] = mi;
        }
    }
    for (int g = 0; g < nG; g++) G[g].expected = G[g].n;
}
static void setup_coords(void) {
    if (O.raw) {
        coord_of(O.host, O.port);
        return;
    }
    bootstrap();
    for (int g = 0; g < nG; g++) G[g].coord = find_coordinator(G[g].name);
    for (int i = 0; i < nC; i++) {
        C[i].coord = G[Mb[C[i].first].group].coord;
        for (int k = 1; k < C[i].n; k++) if (G[Mb[C[i].first + k].group].coord != C[i].coord) die("groups on one connection have different coordinators: use --members-per-conn 1");
    }
}
static void join_all(int limit_idx) {
    uint64_t t = now_ns();
    P.t0 = t;
    for (int i = 0; i < nM; i++) if (Mb[i].wanted && Mb[i].idx < limit_idx && Mb[i].state == M_OUT) send_join(i, t);
    for (int i = 0; i < nC; i++) conn_flush(i);
}
static void phase_begin(void) {
    memset(&P, 0, sizeof P);
    P.t0 = now_ns();
    for (int g = 0; g < nG; g++) {
        G[g].min_gen = G[g].top_gen + 1;
        if (G[g].done) { G[g].done = 0; groups_done--; }
    }
}
static void wave(int gi, uint64_t at) { /* members of a group heartbeat soon after a trigger */
    if (O.prompt_ms < 0) return;
    for (int i = 0; i < G[gi].n; i++) {
        int m = G[gi].members[i];
        if (Mb[m].state == M_STABLE) t_set(m, T_HB, at + (uint64_t)O.prompt_ms * MS + (uint64_t)i * 2000ull);
    }
}

/* ------------------------------------------------------------- output     */
static Buf js;
static void jf(const char *fmt, ...) {
    char tmp[1024];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(tmp, sizeof tmp, fmt, ap);
    va_end(ap);
    b_raw(&js, tmp, (size_t)n);
}
static uint64_t total_errors(void) {
    uint64_t s = e_conn + e_proto + e_unexpected + e_assign + e_verify + e_offset;
    for (int i = 0; i < 256; i++) s += err_code[i];
    return s;
}
static void jhead(void) {
    jf("{\"scenario\":\"%s\",\"label\":\"%s\",\"conns\":%d,\"members_per_conn\":%d,\"groups\":%d,\"members\":%d,\"depth\":%d", O.scenario, O.label, nC, O.mpc, nG, nM, O.depth);
}
static void jnoise(const Sample *a, const Sample *b) {
    double el = b->t - a->t, others = (b->busy - a->busy) - (b->client - a->client) - (O.npids ? b->cpu - a->cpu : 0);
    jf(",\"client_cpu_s\":%.4f", b->client - a->client);
    if (O.npids) jf(",\"server_cpu_s\":%.4f,\"server_rss_kb\":%ld,\"server_anon_kb\":%ld", b->cpu - a->cpu, b->rss_kb, b->anon_kb);
    jf(",\"other_busy_cores\":%.2f", el > 0 ? others / el : 0);
}
static void jerrors(void) {
    jf(",\"errors\":%" PRIu64, total_errors());
    int first = 1;
    jf(",\"error_codes\":{");
    for (int i = 0; i < 256; i++) if (err_code[i]) { jf("%s\"%d\":%" PRIu64, first ? "" : ",", i - 1, err_code[i]); first = 0; }
    jf("},\"conn_errors\":%" PRIu64 ",\"protocol_errors\":%" PRIu64 ",\"wrong_assignments\":%" PRIu64 ",\"wrong_offsets\":%" PRIu64, e_conn, e_proto, e_assign, e_offset);
}
static int jtail(void) {
    if (!O.raw) jf(",\"versions\":{\"join\":%d,\"sync\":%d,\"hb\":%d,\"commit\":%d,\"fetch\":%d,\"leave\":%d,\"apiversions\":%d}", O.v_join, O.v_sync, O.v_hb, O.v_commit, O.v_fetch, O.v_leave, av_version);
    jf(",\"ok\":%s", fail_why || total_errors() ? "false" : "true");
    if (fail_why) jf(",\"why\":\"%s\"", fail_why);
    jf("}\n");
    fwrite(js.p, 1, js.len, stdout);
    fflush(stdout);
    return fail_why || total_errors() ? 1 : 0;
}
static int cmp_u32(const void *a, const void *b) { uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b; return x < y ? -1 : x > y; }

/* ------------------------------------------------------------- scenarios  */
static int form_groups(void) {
    if (!run(cond_all_ready, 0)) return 0;
    if (O.raw || O.simple) return 1;
    join_all(1 << 30);
    return run(cond_all_done, 0);
}
static int sc_load(int api) {
    Sample base = sample();
    int ok = form_groups();
    double formed = (double)(now_ns() - t_start) / 1e9;
    if (ok && api == API_FETCH && !O.raw) { /* something to fetch: one commit each */
        load_api = API_COMMIT;
        for (int i = 0; i < nM; i++) { send_commit(i, now_ns()); C[Mb[i].conn].load_inflight++; }
        for (int i = 0; i < nC; i++) conn_flush(i);
        ok = run(cond_drained, 0);
        done_ops = 0;
    }
    for (int n = 0; ok && api == API_RECORDS && n < WRITTEN; n++) {
        load_api = API_PRODUCE;
        for (int i = 0; i < nM; i++) { send_produce(i, now_ns()); C[Mb[i].conn].load_inflight++; conn_flush(Mb[i].conn); }
        ok = run(cond_drained, 0);
        if (!n) for (int i = 0; i < nM; i++) Mb[i].first_off = Mb[i].acked_off;
        done_ops = 0;
    }
    Sample a = {0}, b = {0};
    double unanswered = 0;
    if (ok) {
        cur_phase = 1;
        load_api = api;
        loading = 1;
        uint64_t t = now_ns();
        for (int i = 0; i < nC; i++) { load_fill(i, now_ns()); conn_flush(i); }
        if (O.warmup > 0) run(NULL, t + (uint64_t)(O.warmup * 1e9));
        a = sample();
        meas_from = now_ns();
        measuring = 1;
        uint64_t d0 = done_ops;
        run(NULL, meas_from + (uint64_t)(O.seconds * 1e9));
        uint64_t end = now_ns();
        uint64_t d1 = done_ops;
        b = sample();
        measuring = 0; loading = 0;
        double el = (double)(end - meas_from) / 1e9;
        double rps = (double)(d1 - d0) / el, scpu = b.cpu - a.cpu;
        if (!fail_why) { run(cond_drained, now_ns() + 10 * SEC); }
        for (int i = 0; i < nC; i++) unanswered += C[i].load_inflight;
        if (unanswered > 0) { e_unexpected += (uint64_t)unanswered; }
        int verified = -1;
        if (api == API_COMMIT && !O.raw && !O.no_verify && !fail_why && !(O.shared && nM > nG)) {
            uint64_t before = e_offset;
            load_api = API_FETCH; cur_phase = 2;
            for (int i = 0; i < nM; i++) { send_fetch(i, now_ns()); C[Mb[i].conn].load_inflight++; }
            for (int i = 0; i < nC; i++) conn_flush(i);
            verified = run(cond_drained, now_ns() + 30 * SEC) && e_offset == before;
            if (!verified) e_verify++;
        }
        jhead();
        jf(",\"partitions\":%d,\"topics\":%d,\"seconds\":%.3f,\"requests\":%" PRIu64 ",\"rps\":%.1f", O.partitions, O.topics, el, d1 - d0, rps);
        jf(",\"retries\":%" PRIu64, n_retry);
        if (batch.len) jf(",\"batch_bytes\":%zu,\"batch_records\":%d,\"mib_per_s\":%.1f", batch.len, batch_records, rps * (double)batch.len / (1 << 20));
        if (api == API_COMMIT) jf(",\"offsets_per_s\":%.1f,\"read_back\":%s", rps * O.partitions * O.topics, verified < 0 ? "null" : verified ? "true" : "false");
        int ns = (int)el;
        if (ns > 0) { qsort(slices, (size_t)ns, sizeof slices[0], cmp_u32); jf(",\"rps_slice_min\":%u,\"rps_slice_med\":%u,\"rps_slice_max\":%u", slices[0], slices[ns / 2], slices[ns - 1]); }
        jf(",\"lat_us\":{\"p50\":%.1f,\"p90\":%.1f,\"p99\":%.1f,\"p999\":%.1f,\"max\":%.1f,\"mean\":%.1f}", h_q(&H, .5), h_q(&H, .9), h_q(&H, .99), h_q(&H, .999), (double)H.max / 1e3, H.n ? H.sum / (double)H.n / 1e3 : 0);
        if (O.npids && scpu > 0) jf(",\"req_per_server_cpu_s\":%.1f,\"server_us_per_req\":%.3f", (double)(d1 - d0) / scpu, scpu * 1e6 / (double)(d1 - d0 ? d1 - d0 : 1));
        jf(",\"client_us_per_req\":%.3f,\"unanswered\":%.0f,\"formed_s\":%.3f", (b.client - a.client) * 1e6 / (double)(d1 - d0 ? d1 - d0 : 1), unanswered, formed);
        if (O.npids) jf(",\"server_rss_before_kb\":%ld", base.rss_kb);
        jnoise(&a, &b);
        fprintf(stderr, "%s %s conns=%d members=%d groups=%d depth=%d: %.0f req/s%s, p50 %.0f us p99 %.0f us p99.9 %.0f us, server %.2f us CPU/req, errors %" PRIu64 "%s%s\n", O.scenario, O.label, nC, nM, nG, O.depth, rps, "", h_q(&H, .5), h_q(&H, .99), h_q(&H, .999), O.npids ? scpu * 1e6 / (double)(d1 - d0 ? d1 - d0 : 1) : 0, total_errors(), fail_why ? ", FAILED: " : "", fail_why ? fail_why : "");
    } else {
        jhead();
        fprintf(stderr, "%s: FAILED before the load began: %s\n", O.scenario, fail_why ? fail_why : "?");
    }
    jerrors();
    return jtail();
}
static double since(uint64_t t) { return t && t >= P.t0 ? (double)(t - P.t0) / 1e6 : -1; }
static void jphase(const char *name, int ok, int members, uint64_t joins0, const Sample *a, const Sample *b) {
    double total = ok ? since(P.last_sync) : -1;
    double coord = ok && P.last_rejoin ? (double)(P.last_sync - P.last_rejoin) / 1e6 : -1;
    jf(",\"%s\":{\"ok\":%s,\"members\":%d,\"total_ms\":%.3f,\"coordinator_ms\":%.3f,\"detected_ms\":%.3f,\"first_join_ms\":%.3f,\"last_join_ms\":%.3f,\"first_join_resp_ms\":%.3f,\"last_join_resp_ms\":%.3f,\"last_sync_ms\":%.3f,\"joins_sent\":%" PRIu64 ",\"generation\":%d",
       name, ok ? "true" : "false", members, total, coord, since(P.first_sig), since(P.first_rejoin), since(P.last_rejoin), since(P.first_joinresp), since(P.last_joinresp), since(P.last_sync), n_join_sent - joins0, G[0].gen);
    if (O.npids) jf(",\"server_cpu_s\":%.4f", b->cpu - a->cpu);
    jf("}");
    fprintf(stderr, "rebalance %s %s: %s members=%d total %.1f ms, coordinator %.1f ms (last join sent to last assignment)\n", O.label, name, ok ? "ok" : "NOT STABLE", members, total, coord);
}
static int any_follower(Group *g, int limit) {
    for (int i = limit - 1; i >= 0; i--) if (!Mb[g->members[i]].is_leader && Mb[g->members[i]].state == M_STABLE) return g->members[i];
    return -1;
}
static int sc_rebalance(void) {
    int N = O.members;
    int ok = run(cond_all_ready, 0);
    jhead();
    Sample s0 = sample();
    double form = -1;
    if (ok) {
        /* the extra (last) member of each group stays out at first */
        for (int g = 0; g < nG; g++) { G[g].expected = N; Mb[G[g].members[N]].wanted = 0; }
        phase_begin();
        Sample a = sample();
        uint64_t j0 = n_join_sent;
        P.t0 = now_ns();
        join_all(N);
        ok = run(cond_all_done, 0);
        Sample b = sample();
        form = since(P.last_sync);
        jphase("form", ok, N, j0, &a, &b);
        if (ok) jf(",\"form_minus_delay_ms\":%.3f", form - O.known_delay_ms);
    }
    if (ok) { run(NULL, now_ns() + 200 * MS); }
    if (ok) { /* one added */
        Sample a = sample();
        uint64_t j0 = n_join_sent;
        phase_begin();
        uint64_t t = now_ns();
        P.t0 = t;
        for (int g = 0; g < nG; g++) {
            int m = G[g].members[N];
            G[g].expected = N + 1;
            Mb[m].wanted = 1;
            send_join(m, t);
            conn_flush(Mb[m].conn);
            wave(g, now_ns());
        }
        ok = run(cond_all_done, 0);
        Sample b = sample();
        jphase("add", ok, N + 1, j0, &a, &b);
    }
    if (ok) run(NULL, now_ns() + 200 * MS);
    if (ok) { /* one leaves */
        Sample a = sample();
        uint64_t j0 = n_join_sent;
        phase_begin();
        uint64_t t = now_ns();
        P.t0 = t;
        for (int g = 0; g < nG; g++) {
            int m = any_follower(&G[g], N + 1);
            if (m < 0) continue;
            Mb[m].wanted = 0;
            send_leave(m, t);
            conn_flush(Mb[m].conn);
            G[g].expected = N;
            wave(g, now_ns());
        }
        ok = run(cond_all_done, 0);
        Sample b = sample();
        jphase("leave", ok, N, j0, &a, &b);
    }
    if (ok) run(NULL, now_ns() + 200 * MS);
    if (ok && N > 1 && !O.skip_kill) { /* one killed: socket closed without a word */
        Sample a = sample();
        uint64_t j0 = n_join_sent;
        phase_begin();
        uint64_t t = now_ns();
        P.t0 = t;
        for (int g = 0; g < nG; g++) {
            int m = any_follower(&G[g], G[g].n);
            if (m < 0) continue;
            G[g].expected = N - 1;
            Mb[m].wanted = 0;
            conn_close(Mb[m].conn, 1);
        }
        ok = run(cond_all_done, 0);
        Sample b = sample();
        jphase("kill", ok, N - 1, j0, &a, &b);
        if (ok) jf(",\"kill_minus_session_ms\":%.3f", since(P.last_sync) - O.session_ms);
    }
    Sample s1 = sample();
    jf(",\"session_timeout_ms\":%d,\"hb_interval_ms\":%d,\"prompt_ms\":%d,\"known_delay_ms\":%d,\"rebalance_signals\":%" PRIu64 ",\"retries\":%" PRIu64, O.session_ms, O.hb_ms, O.prompt_ms, O.known_delay_ms, sig_rebalance, n_retry);
    jnoise(&s0, &s1);
    jerrors();
    if (fail_why) fprintf(stderr, "rebalance: FAILED: %s\n", fail_why);
    return jtail();
}
static int sc_idle(void) {
    Sample s0 = sample();
    int ok = run(cond_all_ready, 0);
    Sample sc = sample();
    if (ok && !O.raw) { join_all(1 << 30); ok = run(cond_all_done, 0); }
    if (ok) {
        uint64_t t = now_ns();
        for (int i = 0; i < nM; i++) t_set(i, T_HB, t + rnd() % ((uint64_t)O.hb_ms * MS)); /* spread */
        run(NULL, t + (uint64_t)(O.warmup * 1e9));
    }
    memset(&H, 0, sizeof H);
    meas_ops = 0;
    uint64_t sig0 = sig_rebalance;
    Sample a = sample();
    if (ok) run(NULL, now_ns() + (uint64_t)(O.seconds * 1e9));
    Sample b = sample();
    double el = b.t - a.t;
    jhead();
    jf(",\"seconds\":%.3f,\"hb_interval_ms\":%d,\"heartbeats\":%" PRIu64 ",\"hb_per_s\":%.1f,\"unwanted_rebalances\":%" PRIu64, el, O.hb_ms, meas_ops, (double)meas_ops / el, sig_rebalance - sig0);
    jf(",\"lat_us\":{\"p50\":%.1f,\"p99\":%.1f,\"p999\":%.1f,\"max\":%.1f}", h_q(&H, .5), h_q(&H, .99), h_q(&H, .999), (double)H.max / 1e3);
    if (O.npids) jf(",\"server_cpu_pct\":%.3f,\"server_us_per_hb\":%.2f,\"rss_start_kb\":%ld,\"rss_connected_kb\":%ld,\"rss_end_kb\":%ld,\"bytes_per_conn\":%.0f,\"bytes_per_member_total\":%.0f", 100 * (b.cpu - a.cpu) / el, meas_ops ? (b.cpu - a.cpu) * 1e6 / (double)meas_ops : 0, s0.rss_kb, sc.rss_kb, b.rss_kb, (double)(sc.rss_kb - s0.rss_kb) * 1024 / nC, (double)(b.rss_kb - s0.rss_kb) * 1024 / nM);
    jnoise(&a, &b);
    jerrors();
    fprintf(stderr, "idle %s members=%d hb=%.0f/s: server CPU %.2f%%, RSS %ld -> %ld KiB (%.0f bytes/member), hb p99 %.0f us, errors %" PRIu64 "%s%s\n", O.label, nM, (double)meas_ops / el, O.npids ? 100 * (b.cpu - a.cpu) / el : 0, s0.rss_kb, b.rss_kb, (double)(b.rss_kb - s0.rss_kb) * 1024 / nM, h_q(&H, .99), total_errors(), fail_why ? ", FAILED: " : "", fail_why ? fail_why : "");
    return jtail();
}
static uint64_t churn_done, churn_joins, churn_leaves;
static uint64_t *churn_t;
static Hist HR;
static int churn_on;
static int churn_tick(uint64_t t) {
    if (!churn_on) return 0;
    for (int gi = 0; gi < nG; gi++) {
        Group *g = &G[gi];
        if (!g->done) continue;
        if (churn_t[gi]) { churn_done++; h_add(&HR, t - churn_t[gi]); churn_t[gi] = 0; }
        if (!churn_on || t < meas_from) continue;
        if (g->churner < 0) {
            int m = g->members[rnd() % (uint64_t)g->n];
            if (Mb[m].state != M_STABLE) continue;
            g->churner = m;
            g->min_gen = g->top_gen + 1;
            g->expected = g->n - 1;
            Mb[m].wanted = 0;
            send_leave(m, t);
            churn_leaves++;
        } else {
            int m = g->churner;
            if (Mb[m].state != M_OUT) continue;
            g->churner = -1;
            g->min_gen = g->top_gen + 1;
            g->expected = g->n;
            Mb[m].wanted = 1;
            churn_joins++;
            if (O.gap_ms) t_set(m, T_JOIN, t + (uint64_t)O.gap_ms * MS);
            else send_join(m, t);
            g->churn_out = m;
        }
        if (g->done) { g->done = 0; groups_done--; }
        churn_t[gi] = t;
        conn_flush(Mb[g->churner >= 0 ? g->churner : g->churn_out].conn);
        wave(gi, now_ns());
    }
    return 0;
}
static int sc_churn(void) {
    if (O.members < 2) die("churn needs --members >= 2");
    churn_t = xcalloc((size_t)nG, sizeof *churn_t);
    int ok = form_groups();
    memset(&HJ, 0, sizeof HJ); memset(&HS, 0, sizeof HS); memset(&H, 0, sizeof H);
    Sample a = sample();
    uint64_t j0 = n_join_ok, s0 = n_sync_ok, l0 = n_leader_sync_ok;
    if (ok) {
        meas_from = now_ns();
        churn_on = 1;
        tick = churn_tick;
        run(NULL, meas_from + (uint64_t)(O.seconds * 1e9));
        churn_on = 0; tick = NULL;
    }
    Sample b = sample();
    double el = b.t - a.t;
    jhead();
    jf(",\"members_per_group\":%d,\"seconds\":%.3f,\"rebalances\":%" PRIu64 ",\"rebalances_per_s\":%.2f,\"leaves\":%" PRIu64 ",\"rejoins\":%" PRIu64 ",\"generations\":%" PRIu64 ",\"joins_ok\":%" PRIu64 ",\"syncs_ok\":%" PRIu64, O.members, el, churn_done, (double)churn_done / el, churn_leaves, churn_joins, n_leader_sync_ok - l0, n_join_ok - j0, n_sync_ok - s0);
    jf(",\"rebalance_ms\":{\"p50\":%.3f,\"p99\":%.3f,\"max\":%.3f},\"prompt_ms\":%d,\"hb_interval_ms\":%d", h_q(&HR, .5) / 1e3, h_q(&HR, .99) / 1e3, (double)HR.max / 1e6, O.prompt_ms, O.hb_ms);
    if (O.npids && churn_done) jf(",\"server_ms_per_rebalance\":%.3f", (b.cpu - a.cpu) * 1e3 / (double)churn_done);
    jnoise(&a, &b);
    jerrors();
    fprintf(stderr, "churn %s groups=%d members/group=%d: %.1f rebalances/s, p50 %.1f ms p99 %.1f ms, errors %" PRIu64 "%s%s\n", O.label, nG, O.members, (double)churn_done / el, h_q(&HR, .5) / 1e3, h_q(&HR, .99) / 1e3, total_errors(), fail_why ? ", FAILED: " : "", fail_why ? fail_why : "");
    return jtail();
}
static int sc_probe(void) { /* what the server says it supports */
    jhead();
    jf(",\"coordinator\":\"%s\",\"find_retries\":%" PRIu64 ",\"ranges\":{", Co[0].s, n_find_retry);
    int first = 1;
    for (int i = 0; i < 128; i++) if (api_range[i].seen) { jf("%s\"%d\":[%d,%d]", first ? "" : ",", i, api_range[i].min, api_range[i].max); first = 0; }
    jf("}");
    jerrors();
    return jtail();
}

/* ----------------------------------------------------------------- main   */
static double num(const char *name, const char *v, double lo, double hi) {
    char *e;
    double d = v ? strtod(v, &e) : 0;
    if (!v || *e || d < lo || d > hi) die("%s takes a number from %g to %g", name, lo, hi);
    return d;
}
int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN);
    if (argc < 2 || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) { fputs(USAGE, stdout); return argc < 2 ? 2 : 0; }
    O.scenario = argv[1];
    for (int i = 2; i < argc; i++) {
        const char *a = argv[i], *v = i + 1 < argc ? argv[i + 1] : NULL;
#define IOPT(n, f, lo, hi) if (!strcmp(a, n)) { O.f = (int)num(n, v, lo, hi); i++; continue; }
#define DOPT(n, f, lo, hi) if (!strcmp(a, n)) { O.f = num(n, v, lo, hi); i++; continue; }
#define SOPT(n, f) if (!strcmp(a, n)) { if (!v || strlen(v) > 60 || strpbrk(v, "\"\\")) die("%s takes a short plain string", n); O.f = v; i++; continue; }
#define FLAG(n, f) if (!strcmp(a, n)) { O.f = 1; continue; }
        SOPT("--host", host) SOPT("--topic", topic) SOPT("--client-id", client_id) SOPT("--label", label) SOPT("--group-prefix", group_prefix)
        IOPT("--port", port, 1, 65535) IOPT("--conns", conns, 1, MAX_CONNS) IOPT("--members-per-conn", mpc, 1, 1000)
        IOPT("--groups", groups, 1, 50000) IOPT("--members", members, 1, 20000) IOPT("--depth", depth, 1, MAX_DEPTH)
        IOPT("--partitions", partitions, 1, 10000) IOPT("--topics", topics, 1, 1000)
        DOPT("--seconds", seconds, 0.05, MAX_SECONDS) DOPT("--warmup", warmup, 0, 600) DOPT("--deadline-s", deadline, 1, 2 * MAX_SECONDS)
        IOPT("--session-timeout-ms", session_ms, 100, 3600000) IOPT("--rebalance-timeout-ms", rebalance_ms, 100, 3600000)
        IOPT("--hb-interval-ms", hb_ms, 1, 600000) IOPT("--known-delay-ms", known_delay_ms, 0, 600000)
        IOPT("--leader-sync-delay-ms", leader_sync_delay_ms, 0, 60000) IOPT("--backoff-ms", backoff_ms, 1, 60000)
        IOPT("--prompt-ms", prompt_ms, -1, 60000) IOPT("--gap-ms", gap_ms, 0, 60000) IOPT("--connect-window", conn_window, 1, 4096)
        IOPT("--metadata-bytes", meta_bytes, 0, 65536) IOPT("--assignment-bytes", assign_bytes, 0, 65536) IOPT("--parts-per-member", parts_per_member, 0, 10000)
        IOPT("--batch-bytes", batch_bytes, 128, 1 << 25) IOPT("--record-bytes", record_bytes, 1, 1 << 24)
        IOPT("--join-version", v_join, 2, 5) IOPT("--sync-version", v_sync, 1, 3) IOPT("--hb-version", v_hb, 1, 3)
        IOPT("--commit-version", v_commit, 3, 7) IOPT("--fetch-version", v_fetch, 3, 5) IOPT("--leave-version", v_leave, 1, 3)
        FLAG("--raw", raw) FLAG("--simple", simple) FLAG("--shared", shared) FLAG("--static", is_static)
        FLAG("--ignore-coordinator-host", ignore_host) FLAG("--no-verify", no_verify) FLAG("--no-handshake", no_handshake) FLAG("--skip-kill", skip_kill)
        if (!strcmp(a, "--pid") && v) {
            char *d = strdup(v), *q = strtok(d, ",");
            for (; q && O.npids < 16; q = strtok(NULL, ",")) { O.pids[O.npids] = atoi(q); if (O.pids[O.npids] <= 0) die("--pid"); O.npids++; }
            i++;
            continue;
        }
        die("unknown option %s (see --help)", a);
    }
    if (!O.port) die("--port is needed");
    if (!strcmp(O.host, "localhost")) O.host = "127.0.0.1";
    struct in_addr la;
    if (inet_pton(AF_INET, O.host, &la) != 1 || !is_loopback(&la)) die("--host must be a loopback address");
    if (!strcmp(O.scenario, "consumer_heartbeat")) { O.consumer = 1; O.groups = O.conns * O.mpc; }
    int reb = !strcmp(O.scenario, "rebalance");
    int produce = !strcmp(O.scenario, "produce"), records = !strcmp(O.scenario, "fetch");
    if (produce || records) {
        O.simple = 1;
        if (O.members || O.mpc != 1 || O.depth != 1 || O.conns > O.partitions) die("%s needs a partition a connection, and depth 1", O.scenario);
        make_batch();
    }
    if (reb && !O.members) O.members = 3;
    if (O.members) { /* members per group; one connection carries mpc groups */
        int classes = (O.groups + O.mpc - 1) / O.mpc;
        O.conns = (O.members + (reb ? 1 : 0)) * classes;
        if (O.mpc > 1 && (reb || !strcmp(O.scenario, "churn"))) die("%s uses one member per connection: a held JoinGroup blocks what follows it", O.scenario);
    }
    struct rlimit rl;
    getrlimit(RLIMIT_NOFILE, &rl);
    rl.rlim_cur = rl.rlim_max;
    setrlimit(RLIMIT_NOFILE, &rl);
    t_start = now_ns();
    rng_state ^= t_start | 1;
    deadline_ns = t_start + (uint64_t)(O.deadline * 1e9);
    ep = epoll_create1(EPOLL_CLOEXEC);
    build();
    if ((rlim_t)(nC + 16) > rl.rlim_cur) die("needs %d file descriptors, limit is %ld", nC + 16, (long)rl.rlim_cur);
    for (int i = 0; i < O.npids; i++) if (proc_cpu(O.pids[i]) < 0) die("no process %d", O.pids[i]);
    setup_coords();
    if (!strcmp(O.scenario, "heartbeat") || O.consumer) return sc_load(API_HB);
    if (!strcmp(O.scenario, "commit")) return sc_load(API_COMMIT);
    if (!strcmp(O.scenario, "fetch_offsets")) return sc_load(API_FETCH);
    if (produce) return sc_load(API_PRODUCE);
    if (records) return sc_load(API_RECORDS);
    if (reb) return sc_rebalance();
    if (!strcmp(O.scenario, "idle")) return sc_idle();
    if (!strcmp(O.scenario, "churn")) return sc_churn();
    if (!strcmp(O.scenario, "probe")) return sc_probe();
    die("unknown scenario %s", O.scenario);
}
