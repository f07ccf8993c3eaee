// A library with the symbols of NCCL of one version, given as VERSION in the numbers of ncclGetVersion, and SUFFIX. It does nothing but
// write each call, with its arguments as C has them, behind the calls before. The function seen returns the text and begins a new one.
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#if VERSION < 10000
#define AT (VERSION / 1000 * 10000 + VERSION % 1000)
#else
#define AT VERSION
#endif
#define STR2(x) #x
#define STR(x) STR2(x)

typedef struct ncclComm *ncclComm_t;
typedef struct stream *cudaStream_t;
typedef struct window *ncclWindow_t;
typedef enum { ncclSuccess = 0, ncclInvalidArgument = 4, ncclInProgress = 7 } ncclResult_t;
typedef enum { ncclSum = 0, ncclMaxOp = 0x7fffffff } ncclRedOp_t;
typedef enum { ncclInt8 = 0, ncclMaxType = 12 } ncclDataType_t;
typedef enum { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 } ncclScalarResidence_t;
typedef struct { char internal[128]; } ncclUniqueId;

typedef struct {
  size_t size;
  unsigned int magic, version;
  int blocking;
#if AT >= 21700
  int cgaClusterSize, minCTAs, maxCTAs;
  const char *netName;
#endif
#if AT >= 21800
  int splitShare;
#endif
#if AT >= 22600
  int trafficClass;
#endif
#if AT >= 22700
  const char *commName;
  int collnetEnable, CTAPolicy, shrinkShare, nvlsCTAs;
#endif
#if AT >= 22800
  int nChannelsPerNetPeer, nvlinkCentricSched;
#endif
#if AT >= 22900
  int graphUsageMode, numRmaCtx;
#endif
#if AT >= 23000
  int maxP2pPeers, graphStreamOrdering;
#endif
} ncclConfig_t;

static char text[1 << 16], old[1 << 16];
static const char banner[] __attribute__((used)) = "NCCL version " NUMBERS SUFFIX "+cuda12.9";

#define SAY(...) snprintf(text + strlen(text), sizeof text - strlen(text), __VA_ARGS__)
#define COMM(n) ((ncclComm_t)(size_t)(n))

const char *seen(void) {
  strcpy(old, text);
  text[0] = 0;
  return old;
}

static const char *or_none(const char *s) { return s ? s : "none"; }

static void config(const ncclConfig_t *c) {
  ncclConfig_t x;
  if (!c) {
    SAY("config none\n");
    return;
  }
  memset(&x, 0, sizeof x);
  memcpy(&x, c, c->size < sizeof x ? c->size : sizeof x);
  SAY("config fits %d magic %x version %u blocking %d", c->size <= sizeof x && c->size + sizeof(int) >= sizeof x, x.magic, x.version, x.blocking);
#if AT >= 21700
  SAY(" cga %d min %d max %d net %s", x.cgaClusterSize, x.minCTAs, x.maxCTAs, or_none(x.netName));
#endif
#if AT >= 21800
  SAY(" split %d", x.splitShare);
#endif
#if AT >= 22600
  SAY(" class %d", x.trafficClass);
#endif
#if AT >= 22700
  SAY(" name %s collnet %d policy %d shrink %d nvls %d", or_none(x.commName), x.collnetEnable, x.CTAPolicy, x.shrinkShare, x.nvlsCTAs);
#endif
#if AT >= 22800
  SAY(" channels %d nvlink %d", x.nChannelsPerNetPeer, x.nvlinkCentricSched);
#endif
#if AT >= 22900
  SAY(" graphs %d rma %d", x.graphUsageMode, x.numRmaCtx);
#endif
#if AT >= 23000
  SAY(" peers %d ordering %d", x.maxP2pPeers, x.graphStreamOrdering);
#endif
  SAY("\n");
}

ncclResult_t ncclGetVersion(int *v) { *v = VERSION; return ncclSuccess; }
ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  for (int i = 0; i < 128; i++) id->internal[i] = (char)(i * 7 + 1);
  return ncclSuccess;
}
static unsigned sum(const ncclUniqueId *id) {
  unsigned s = 0;
  for (int i = 0; i < 128; i++) s = s * 31 + (unsigned char)id->internal[i];
  return s;
}
const char *ncclGetErrorString(ncclResult_t r) { return r == ncclInvalidArgument ? "invalid argument" : "some error"; }
ncclResult_t ncclCommInitRank(ncclComm_t *c, int n, ncclUniqueId id, int r) {
  SAY("init size %d rank %d id %u\n", n, r, sum(&id));
  *c = COMM(0x1234567890);
  return ncclSuccess;
}
ncclResult_t ncclCommInitAll(ncclComm_t *c, int n, const int *devices) {
  for (int i = 0; i < n; i++) {
    SAY("all %d of %d device %d\n", i, n, devices[i]);
    c[i] = COMM(100 + i);
  }
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t c) { SAY("destroy %zx\n", (size_t)c); return ncclSuccess; }
ncclResult_t ncclCommAbort(ncclComm_t c) { SAY("abort %zx\n", (size_t)c); return ncclSuccess; }
ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *r) { *r = ncclSuccess; return ncclSuccess; }
ncclResult_t ncclCommCount(ncclComm_t c, int *n) { *n = 8; return ncclSuccess; }
ncclResult_t ncclCommCuDevice(ncclComm_t c, int *n) { *n = 3; return ncclSuccess; }
ncclResult_t ncclCommUserRank(ncclComm_t c, int *n) { *n = 5; return ncclSuccess; }
ncclResult_t ncclGroupStart(void) { SAY("start\n"); return ncclSuccess; }
ncclResult_t ncclGroupEnd(void) { SAY("end\n"); return ncclSuccess; }
ncclResult_t ncclAllReduce(const void *in, void *out, size_t n, ncclDataType_t d, ncclRedOp_t op, ncclComm_t c, cudaStream_t s) {
  SAY("all_reduce %zx %zx %zu type %d op %d comm %zx stream %zx\n", (size_t)in, (size_t)out, n, d, op, (size_t)c, (size_t)s);
  return n == 13 ? ncclInvalidArgument : ncclSuccess;
}
ncclResult_t ncclReduce(const void *in, void *out, size_t n, ncclDataType_t d, ncclRedOp_t op, int root, ncclComm_t c, cudaStream_t s) {
  SAY("reduce %zx %zx %zu type %d op %d root %d comm %zx stream %zx\n", (size_t)in, (size_t)out, n, d, op, root, (size_t)c, (size_t)s);
  return ncclSuccess;
}
ncclResult_t ncclReduceScatter(const void *in, void *out, size_t n, ncclDataType_t d, ncclRedOp_t op, ncclComm_t c, cudaStream_t s) {
  SAY("reduce_scatter %zx %zx %zu type %d op %d comm %zx stream %zx\n", (size_t)in, (size_t)out, n, d, op, (size_t)c, (size_t)s);
  return ncclSuccess;
}
ncclResult_t ncclAllGather(const void *in, void *out, size_t n, ncclDataType_t d, ncclComm_t c, cudaStream_t s) {
  SAY("all_gather %zx %zx %zu type %d comm %zx stream %zx\n", (size_t)in, (size_t)out, n, d, (size_t)c, (size_t)s);
  return ncclSuccess;
}
ncclResult_t ncclBroadcast(const void *in, void *out, size_t n, ncclDataType_t d, int root, ncclComm_t c, cudaStream_t s) {
  SAY("broadcast %zx %zx %zu type %d root %d comm %zx stream %zx\n", (size_t)in, (size_t)out, n, d, root, (size_t)c, (size_t)s);
  return ncclSuccess;
}
ncclResult_t ncclBcast(void *at, size_t n, ncclDataType_t d, int root, ncclComm_t c, cudaStream_t s) {
  SAY("bcast %zx %zu type %d root %d comm %zx stream %zx\n", (size_t)at, n, d, root, (size_t)c, (size_t)s);
  return ncclSuccess;
}
#if AT >= 20700
ncclResult_t ncclSend(const void *in, size_t n, ncclDataType_t d, int peer, ncclComm_t c, cudaStream_t s) {
  SAY("send %zx %zu type %d peer %d comm %zx stream %zx\n", (size_t)in, n, d, peer, (size_t)c, (size_t)s);
  return ncclSuccess;
}
ncclResult_t ncclRecv(void *out, size_t n, ncclDataType_t d, int peer, ncclComm_t c, cudaStream_t s) {
  SAY("recv %zx %zu type %d peer %d comm %zx stream %zx\n", (size_t)out, n, d, peer, (size_t)c, (size_t)s);
  return ncclSuccess;
}
#endif
#if AT >= 21100
ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *f, ncclDataType_t d, ncclScalarResidence_t where, ncclComm_t c) {
  if (where == ncclScalarHostImmediate)
    SAY("premul %g type %d comm %zx\n", *(float *)f, d, (size_t)c);
  else
    SAY("premul at %zx type %d comm %zx\n", (size_t)f, d, (size_t)c);
  *op = (ncclRedOp_t)17;
  return ncclSuccess;
}
ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t c) { SAY("undo %d comm %zx\n", op, (size_t)c); return ncclSuccess; }
#endif
#if AT >= 21300
const char *ncclGetLastError(ncclComm_t c) { return "thirteen is not allowed\n"; }
#endif
#if AT >= 21400
ncclResult_t ncclCommInitRankConfig(ncclComm_t *c, int n, ncclUniqueId id, int r, ncclConfig_t *x) {
  SAY("init size %d rank %d id %u ", n, r, sum(&id));
  config(x);
  *c = COMM(7);
  return x && !x->blocking ? ncclInProgress : ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t c) { SAY("finalize %zx\n", (size_t)c); return ncclSuccess; }
#endif
#if AT >= 21800
ncclResult_t ncclCommSplit(ncclComm_t c, int color, int key, ncclComm_t *part, ncclConfig_t *x) {
  SAY("split %zx color %d key %d ", (size_t)c, color, key);
  config(x);
  *part = color < 0 ? 0 : COMM(8);
  return ncclSuccess;
}
#endif
#if AT >= 21900
ncclResult_t ncclCommRegister(const ncclComm_t c, void *at, size_t n, void **h) {
  SAY("register %zx %zx %zu\n", (size_t)c, (size_t)at, n);
  *h = (void *)0x5678;
  return ncclSuccess;
}
ncclResult_t ncclCommDeregister(const ncclComm_t c, void *h) { SAY("deregister %zx %zx\n", (size_t)c, (size_t)h); return ncclSuccess; }
ncclResult_t ncclMemAlloc(void **at, size_t n) { SAY("alloc %zu\n", n); *at = (void *)0x900000; return ncclSuccess; }
ncclResult_t ncclMemFree(void *at) { SAY("free %zx\n", (size_t)at); return ncclSuccess; }
#endif
#if AT >= 22300
ncclResult_t ncclCommInitRankScalable(ncclComm_t *c, int n, int r, int ids, ncclUniqueId *id, ncclConfig_t *x) {
  SAY("scalable size %d rank %d ids %d last %u ", n, r, ids, sum(&id[ids - 1]));
  config(x);
  *c = COMM(9);
  return ncclSuccess;
}
#endif
#if AT >= 22700
ncclResult_t ncclCommWindowRegister(ncclComm_t c, void *at, size_t n, ncclWindow_t *w, int flags) {
  SAY("window %zx %zx %zu flags %d\n", (size_t)c, (size_t)at, n, flags);
  *w = (ncclWindow_t)0xabcd;
  return ncclSuccess;
}
ncclResult_t ncclCommWindowDeregister(ncclComm_t c, ncclWindow_t w) { SAY("no window %zx %zx\n", (size_t)c, (size_t)w); return ncclSuccess; }
ncclResult_t ncclCommShrink(ncclComm_t c, int *gone, int n, ncclComm_t *part, ncclConfig_t *x, int flags) {
  SAY("shrink %zx without %d, last %d flags %d ", (size_t)c, n, gone[n - 1], flags);
  config(x);
  *part = COMM(10);
  return ncclSuccess;
}
#endif
