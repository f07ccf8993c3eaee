// Measures what a call of ncclAllReduce costs the host in C: two threads, each with a GPU of its own, in bursts of 64 calls.
#include <cuda_runtime.h>
#include <nccl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { burst = 64 };
static int count, bursts;
static ncclComm_t comms[8];
static double total[8];

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

static void *rank(void *arg) {
  int r = (int)(long)arg;
  float *x;
  cudaStream_t s;
  cudaSetDevice(r);
  cudaMalloc((void **)&x, 8);
  cudaStreamCreate(&s);
  for (int i = -2; i < bursts; i++) {
    double began = now();
    for (int k = 0; k < burst; k++)
      if (ncclAllReduce(x, x, 2, ncclFloat32, ncclSum, comms[r], s) != ncclSuccess) exit(1);
    if (i >= 0) total[r] += now() - began;
    cudaStreamSynchronize(s);
  }
  return NULL;
}

int main(int argc, char **argv) {
  pthread_t t[8];
  double sum = 0;
  bursts = argc > 1 ? atoi(argv[1]) : 400;
  if (cudaGetDeviceCount(&count) != cudaSuccess || ncclCommInitAll(comms, count, NULL) != ncclSuccess) return 1;
  for (long r = 0; r < count; r++) pthread_create(&t[r], NULL, rank, (void *)r);
  for (int r = 0; r < count; r++) pthread_join(t[r], NULL);
  for (int r = 0; r < count; r++) sum += total[r];
  printf("C: %.3f us/call on %d GPUs\n", sum / count / bursts / burst * 1e6, count);
  return 0;
}
