// Times collectives of an MPI library for bench, which starts one such process for each rank and tells it what to do.
//
// Each process connects to the Unix socket in its first argument and reads lines from it, so that it uses no processor while
// bench measures colligo:
//
//	time COLL DTYPE OP ROOT COUNT N     runs N operations after a barrier and answers "ok", the nanoseconds they took
//	check COLL DTYPE OP ROOT COUNT      answers "ok", the elements of one result that are wrong
//
// COUNT is of a rank's part, or of the whole tensor where there are no parts. An operation that MPI lacks is answered with
// "no". The end of the socket ends the process.

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

static int rank, ranks;
static char *in, *out; // the tensors; operations in place use the first
static size_t held;    // bytes of each

static void fail(const char *what) {
	perror(what);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

// need makes both tensors so large. Their memory is touched, as a program's would be.
static void need(size_t bytes) {
	if (bytes <= held)
		return;
	free(in);
	free(out);
	if (posix_memalign((void **)&in, 4096, bytes) || posix_memalign((void **)&out, 4096, bytes))
		fail("memory for the tensors");
	memset(in, 0, bytes);
	memset(out, 0, bytes);
	held = bytes;
}

struct type {
	const char *name;
	MPI_Datatype mpi;
	size_t size;
};

static const struct type *type_named(const char *name) {
	static struct type types[9];
	if (!types[0].name) {
		struct type all[] = {{"float32", MPI_FLOAT, 4}, {"float64", MPI_DOUBLE, 8}, {"int8", MPI_INT8_T, 1}, {"int16", MPI_INT16_T, 2},
			{"int32", MPI_INT32_T, 4}, {"int64", MPI_INT64_T, 8}, {"uint8", MPI_UINT8_T, 1}, {"uint32", MPI_UINT32_T, 4},
			{"uint64", MPI_UINT64_T, 8}};
		memcpy(types, all, sizeof all);
	}
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (!strcmp(types[i].name, name))
			return &types[i];
	return NULL;
}

static int op_named(const char *name, MPI_Op *op) {
	*op = !strcmp(name, "sum") ? MPI_SUM : !strcmp(name, "prod") ? MPI_PROD : !strcmp(name, "min") ? MPI_MIN
		: !strcmp(name, "max") ? MPI_MAX : MPI_OP_NULL;
	return *op != MPI_OP_NULL || !strcmp(name, "none");
}

struct work {
	char coll[32];
	const struct type *type;
	MPI_Op op;
	int root, count;
};

static int is(const struct work *w, const char *coll) { return !strcmp(w->coll, coll); }

static int in_place(const struct work *w) { return is(w, "all_reduce") || is(w, "reduce") || is(w, "broadcast"); }

// known reports whether MPI has the operation.
static int known(const struct work *w) {
	static const char *all[] = {"all_reduce", "broadcast", "reduce", "all_gather", "reduce_scatter", "all_to_all", "gather", "scatter",
		"sendrecv", "barrier"};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (is(w, all[i]))
			return 1;
	return 0;
}

// run carries out one operation.
static void run(const struct work *w) {
	MPI_Datatype t = w->type->mpi;
	int n = w->count, after = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
	if (is(w, "all_reduce"))
		MPI_Allreduce(MPI_IN_PLACE, in, n, t, w->op, MPI_COMM_WORLD);
	else if (is(w, "broadcast"))
		MPI_Bcast(in, n, t, w->root, MPI_COMM_WORLD);
	else if (is(w, "reduce"))
		MPI_Reduce(rank == w->root ? MPI_IN_PLACE : in, in, n, t, w->op, w->root, MPI_COMM_WORLD);
	else if (is(w, "all_gather"))
		MPI_Allgather(in, n, t, out, n, t, MPI_COMM_WORLD);
	else if (is(w, "reduce_scatter"))
		MPI_Reduce_scatter_block(in, out, n, t, w->op, MPI_COMM_WORLD);
	else if (is(w, "all_to_all"))
		MPI_Alltoall(in, n, t, out, n, t, MPI_COMM_WORLD);
	else if (is(w, "gather"))
		MPI_Gather(in, n, t, out, n, t, w->root, MPI_COMM_WORLD);
	else if (is(w, "scatter"))
		MPI_Scatter(in, n, t, out, n, t, w->root, MPI_COMM_WORLD);
	else if (is(w, "sendrecv"))
		MPI_Sendrecv(in, n, t, after, 0, out, n, t, before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	else
		MPI_Barrier(MPI_COMM_WORLD);
}

// value is element i of a rank's input.
static int64_t value(int of, int64_t i) { return 1 + (5 * of + i) % 3; }

static int64_t reduced(MPI_Op op, int64_t i) {
	int64_t r = value(0, i);
	for (int k = 1; k < ranks; k++) {
		int64_t v = value(k, i);
		if (op == MPI_SUM)
			r += v;
		else if (op == MPI_PROD)
			r *= v;
		else if (op == MPI_MIN ? v < r : v > r)
			r = v;
	}
	return r;
}

// Each line of types is one case of both functions below.
#define TYPES(X) X("float32", float) X("float64", double) X("int8", int8_t) X("int16", int16_t) X("int32", int32_t) \
	X("int64", int64_t) X("uint8", uint8_t) X("uint32", uint32_t) X("uint64", uint64_t)

static void set(const struct type *t, char *at, int64_t i, int64_t v) {
#define SET(name_, c) if (!strcmp(t->name, name_)) ((c *)at)[i] = (c)v;
	TYPES(SET)
}

static int equal(const struct type *t, const char *at, int64_t i, int64_t v) {
#define EQUAL(name_, c) if (!strcmp(t->name, name_)) return ((const c *)at)[i] == (c)v;
	TYPES(EQUAL)
	return 0;
}

// expected is element i of this rank's result.
static int64_t expected(const struct work *w, int64_t i) {
	int64_t n = w->count;
	if (is(w, "all_reduce") || is(w, "reduce"))
		return reduced(w->op, i);
	if (is(w, "broadcast"))
		return value(w->root, i);
	if (is(w, "reduce_scatter"))
		return reduced(w->op, rank * n + i);
	if (is(w, "all_to_all"))
		return value(i / n, rank * n + i % n);
	if (is(w, "scatter"))
		return value(w->root, rank * n + i);
	if (is(w, "sendrecv"))
		return value((rank + ranks - 1) % ranks, i);
	return value(i / n, i % n); // all_gather, gather
}

// results is the elements of this rank's result.
static int64_t results(const struct work *w) {
	if (is(w, "barrier") || ((is(w, "reduce") || is(w, "gather")) && rank != w->root))
		return 0;
	return is(w, "all_gather") || is(w, "all_to_all") || is(w, "gather") ? (int64_t)w->count * ranks : w->count;
}

static int64_t check(const struct work *w) {
	int64_t inputs = (int64_t)(is(w, "reduce_scatter") || is(w, "all_to_all") || is(w, "scatter") ? ranks : 1) * w->count, wrong = 0;
	memset(out, 0xa5, held);
	for (int64_t i = 0; i < inputs; i++)
		set(w->type, in, i, value(rank, i));
	run(w);
	for (int64_t i = 0; i < results(w); i++)
		wrong += !equal(w->type, in_place(w) ? in : out, i, expected(w, i));
	return wrong;
}

static int64_t now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * (int64_t)1000000000 + t.tv_nsec;
}

static int64_t measure(const struct work *w, int64_t n) {
	MPI_Barrier(MPI_COMM_WORLD);
	int64_t start = now();
	for (int64_t i = 0; i < n; i++)
		run(w);
	return now() - start;
}

static FILE *dial(const char *path) {
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int s = socket(AF_UNIX, SOCK_STREAM, 0);
	if (s < 0 || strlen(path) >= sizeof at.sun_path)
		fail("socket");
	strcpy(at.sun_path, path);
	if (connect(s, (struct sockaddr *)&at, sizeof at))
		fail(path);
	FILE *f = fdopen(s, "r+");
	if (!f)
		fail("fdopen");
	return f;
}

// answer carries out one line.
static void answer(FILE *bench, const char *line) {
	char verb[16], dtype[32], op[32];
	struct work w;
	long long n = 0;
	int fields = sscanf(line, "%15s %31s %31s %31s %d %d %lld", verb, w.coll, dtype, op, &w.root, &w.count, &n);
	int timed = fields == 7 && !strcmp(verb, "time");
	if (!timed && (fields != 6 || strcmp(verb, "check")))
		fail("a line that bench does not send");
	w.type = type_named(dtype);
	if (!w.type || !op_named(op, &w.op) || !known(&w)) {
		fprintf(bench, "no %s of %s, %s\n", w.coll, dtype, op);
	} else {
		need(w.type->size * (size_t)(w.count + 1) * ranks);
		fprintf(bench, "ok %lld\n", (long long)(timed ? measure(&w, n) : check(&w)));
	}
	if (fflush(bench))
		fail("answer");
	fseek(bench, 0, SEEK_CUR); // between writing and reading, as C wants it
}

int main(int argc, char **argv) {
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (argc != 2)
		fail("usage: a socket's path");
	char version[MPI_MAX_LIBRARY_VERSION_STRING], line[256];
	int length;
	MPI_Get_library_version(version, &length);
	version[strcspn(version, ",\n")] = 0; // "Open MPI v4.1.4, package: ..."
	FILE *bench = dial(argv[1]);
	setvbuf(bench, NULL, _IOLBF, 4096);
	fprintf(bench, "rank %d of %s\n", rank, version);
	fflush(bench);
	while (fgets(line, sizeof line, bench))
		answer(bench, line);
	fclose(bench);
	MPI_Finalize();
	return 0;
}
