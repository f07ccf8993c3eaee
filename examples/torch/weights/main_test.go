package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/cuda/nccl"
	"github.com/colligo-go/colligo/cuda/nccl/ncclsim"
	"github.com/colligo-go/colligo/examples/torch/weights/safetensors"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/store"
)

// TestMain runs the tests, or, as a rank that they start, the program itself.
func TestMain(m *testing.M) {
	_, launch := os.LookupEnv("WEIGHTS_TEST_LAUNCH")
	if _, child := os.LookupEnv("RANK"); child || launch {
		main()
		return
	}
	os.Exit(m.Run())
}

// sender is rank 0 in Go: the calls of send.py.
type sender struct {
	mover
	piece int
	spoil int // number of the checksum that is sent wrong, from 1
	sums  int
}

// flat sends bytes and their checksum.
func (s *sender) flat(ctx context.Context, b []byte) error {
	for rest := b; len(rest) > 0; rest = rest[min(s.piece, len(rest)):] {
		if err := s.broadcast(ctx, rest[:min(s.piece, len(rest))]); err != nil {
			return err
		}
	}
	sum := sha256.Sum256(b)
	if s.sums++; s.sums == s.spoil {
		sum[5] ^= 1
	}
	return s.broadcast(ctx, sum[:])
}

func (s *sender) begin(ctx context.Context, header, piece uint64) error {
	return s.broadcast(ctx, binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, header), piece))
}

// end tells the receivers that no model follows, and leaves with them.
func (s *sender) end(ctx context.Context) error {
	if err := s.begin(ctx, 0, 0); err != nil {
		return err
	}
	_, err := s.sum(ctx, 0)
	return err
}

// model sends a model and returns how many tensors came wrong.
func (s *sender) model(ctx context.Context, h *safetensors.Header, data []byte) (int64, error) {
	b, err := h.Encode()
	if err != nil {
		return 0, err
	}
	if err := errors.Join(s.begin(ctx, uint64(len(b)), uint64(s.piece)), s.flat(ctx, b)); err != nil {
		return 0, err
	}
	for _, t := range h.Tensors {
		if err := s.flat(ctx, data[t.Begin:t.End]); err != nil {
			return 0, err
		}
	}
	return s.sum(ctx, 0)
}

// example is a model with a tensor of each type.
func example(seed uint64) (*safetensors.Header, []byte) {
	rng := rand.New(rand.NewPCG(seed, 1))
	h := &safetensors.Header{Metadata: map[string]string{"format": "pt"}}
	var data []byte
	for i, dtype := range strings.Fields("F64 I64 U64 C64 F32 I32 U32 F16 BF16 I16 U16 F8_E4M3 F8_E5M2 F8_E8M0 I8 U8 BOOL F4") {
		shape := [][]int64{{int64(2 + i), 8}, nil, {0, 3}, {4, 1, 2 * int64(i)}}[i%4]
		if dtype == "F4" {
			shape = []int64{6}
		}
		n := int64(safetensors.Bits(dtype))
		for _, d := range shape {
			n *= d
		}
		at := int64(len(data))
		for range n / 8 {
			data = append(data, byte(rng.Uint32()))
		}
		h.Tensors = append(h.Tensors, safetensors.Tensor{Name: "layer." + dtype, DType: dtype, Shape: shape, Begin: at, End: int64(len(data))})
	}
	return h, data
}

// job runs a sender and services as ranks of one group, and returns what the services have ended with.
func job(t *testing.T, size int, send func(context.Context, mover) error, serve func(rank int) *service) []error {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	groups, err := pg.InProcess(ctx, size, pg.Config{})
	require.NoError(t, err)
	errs := make([]error, size)
	var ranks sync.WaitGroup
	for rank, g := range groups {
		ranks.Go(func() {
			if rank == 0 {
				errs[0] = send(ctx, onCPU{g})
			} else {
				errs[rank] = serve(rank).run(ctx, onCPU{g}, rank)
			}
			_ = g.CloseAll() // a rank that has failed closes a group in which others wait
		})
	}
	ranks.Wait()
	return errs
}

// TestServices sends two rounds to two services, in pieces that divide no tensor, and looks at files, tables and pages.
func TestServices(t *testing.T) {
	dir := t.TempDir()
	services := []*service{nil, {dir: dir, log: new(bytes.Buffer)}, {log: new(bytes.Buffer)}}
	page := func(s *service, path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		s.handler().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		return w
	}
	require.Equal(t, 503, page(services[1], "/").Code)
	require.Equal(t, 404, page(services[1], "/model.safetensors").Code)
	h, last := example(2)
	errs := job(t, 3, func(ctx context.Context, m mover) error {
		s := &sender{mover: m, piece: 77}
		for seed := range uint64(3) {
			h, data := example(seed)
			if wrong, err := s.model(ctx, h, data); err != nil || wrong > 0 {
				return fmt.Errorf("%d wrong: %w", wrong, err)
			}
		}
		return s.end(ctx)
	}, func(rank int) *service { return services[rank] })
	require.NoError(t, errors.Join(errs...))

	f, err := os.Open(filepath.Join(dir, "rank1.safetensors"))
	require.NoError(t, err)
	defer f.Close()
	info, err := f.Stat()
	require.NoError(t, err)
	file, err := safetensors.Read(f, info.Size())
	require.NoError(t, err)
	require.Equal(t, *h, file.Header)
	for i := range file.Tensors {
		x := &file.Tensors[i]
		b, err := io.ReadAll(file.Open(x))
		require.NoError(t, err)
		require.True(t, bytes.Equal(last[x.Begin:x.End], b), x.Name)
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1, "files of a round have gone")

	sum := sha256.Sum256(last[:128])
	text := page(services[2], "/").Body.String()
	require.Contains(t, text, "round 2\n")
	require.Contains(t, text, fmt.Sprintf("layer.F64      F64      [2 8]     128 bytes  sha256 %x\n", sum[:8]))
	require.Equal(t, 404, page(services[2], "/model.safetensors").Code, "no file")
	served := page(services[1], "/model.safetensors")
	require.Equal(t, int(info.Size()), served.Body.Len())
	require.Equal(t, 404, page(services[1], "/other").Code)
	require.Contains(t, services[2].log.(*bytes.Buffer).String(), "rank 2 is in Go: round 2, 18 tensors of")
}

// TestWrongChecksum sends one tensor with another checksum. All ranks learn it, the service names the tensor, and no file is left.
func TestWrongChecksum(t *testing.T) {
	dir := t.TempDir()
	h, data := example(1)
	var wrong int64
	errs := job(t, 3, func(ctx context.Context, m mover) (err error) {
		s := &sender{mover: m, piece: 1000, spoil: 2 + 4} // the first is the header's
		wrong, err = s.model(ctx, h, data)
		return err
	}, func(int) *service { return &service{dir: dir, log: io.Discard} })
	require.NoError(t, errs[0])
	require.EqualValues(t, 2, wrong, "two ranks found one tensor each")
	for _, err := range errs[1:] {
		require.ErrorContains(t, err, `round 0: tensor "layer.F32" came with another checksum than it was sent with`)
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestHostileSender refuses what a sender must not ask for, before memory is taken for it.
func TestHostileSender(t *testing.T) {
	for _, c := range []struct {
		header, piece uint64
		text          string
		spoil         int
		want          string
	}{
		{header: 1 << 63, piece: 1, want: "a header of 9223372036854775808 bytes"},
		{header: mostHeader + 1, piece: 1, want: "a header of 16777217 bytes"},
		{header: 2, piece: 0, want: "pieces of 0"},
		{header: 2, piece: mostPiece + 1, want: "pieces of 67108865"},
		{header: 2, piece: 9, text: "{}", spoil: 1, want: "the header came with another checksum"},
		{header: 2, piece: 9, text: "{]", want: "safetensors: header: "},
		{header: 64, piece: 9, text: `{"w":{"dtype":"U8","shape":[1099511627776],"data_offsets":[0,1]}}`[:64], want: "unexpected EOF"},
	} {
		errs := job(t, 2, func(ctx context.Context, m mover) error {
			s := &sender{mover: m, piece: int(min(c.piece, 9)), spoil: c.spoil}
			err := s.begin(ctx, c.header, c.piece)
			if c.text == "" {
				return err
			}
			return errors.Join(err, s.flat(ctx, []byte(c.text)))
		}, func(int) *service { return &service{log: io.Discard} })
		require.ErrorContains(t, errs[1], c.want)
	}
}

// TestFullDisk has a service fail alone when its file cannot be written: the sender's round ends as if all were well.
func TestFullDisk(t *testing.T) {
	h, data := example(1)
	var wrong int64
	errs := job(t, 3, func(ctx context.Context, m mover) (err error) {
		s := &sender{mover: m, piece: 100}
		if wrong, err = s.model(ctx, h, data); err != nil {
			return err
		}
		return s.end(ctx)
	}, func(rank int) *service {
		if rank == 1 {
			return &service{dir: filepath.Join(t.TempDir(), "none"), log: io.Discard}
		}
		return &service{log: io.Discard}
	})
	require.Zero(t, wrong)
	require.ErrorIs(t, errs[1], os.ErrNotExist)
}

// endless sends zeros from one small piece of memory, and receives them into what it is given: a model larger than a test may hold.
type endless struct{ tensors, bytes int64 }

func (e endless) send(ctx context.Context, m mover, piece int) error {
	h := &safetensors.Header{}
	for i := range e.tensors {
		h.Tensors = append(h.Tensors, safetensors.Tensor{Name: fmt.Sprint(i), DType: "U8", Shape: []int64{e.bytes}, Begin: i * e.bytes, End: (i + 1) * e.bytes})
	}
	b, err := h.Encode()
	if err != nil {
		return err
	}
	s := &sender{mover: m, piece: piece}
	if err := errors.Join(s.begin(ctx, uint64(len(b)), uint64(piece)), s.flat(ctx, b)); err != nil {
		return err
	}
	zeros, sum := make([]byte, piece), sha256.New()
	for range e.bytes / int64(piece) {
		sum.Write(zeros)
	}
	own := sum.Sum(nil)
	for range e.tensors {
		for range e.bytes / int64(piece) {
			if err := s.broadcast(ctx, zeros); err != nil {
				return err
			}
		}
		if err := s.broadcast(ctx, own); err != nil {
			return err
		}
	}
	if wrong, err := s.sum(ctx, 0); err != nil || wrong > 0 {
		return fmt.Errorf("%d wrong: %w", wrong, err)
	}
	return s.end(ctx)
}

// TestMemory receives 256 MiB in pieces of 1 MiB and allocates less than a tenth of that, garbage included.
func TestMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	errs := job(t, 2, func(ctx context.Context, m mover) error { return endless{4, 64 << 20}.send(ctx, m, 1<<20) },
		func(int) *service { return &service{log: io.Discard} })
	runtime.ReadMemStats(&after)
	require.NoError(t, errors.Join(errs...))
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(25<<20))
}

// TestOverNCCL moves a model over the simulator of NCCL, from GPU to GPU.
func TestOverNCCL(t *testing.T) {
	const size = 3
	devices := cudasim.New(cudasim.Config{Devices: size, Seed: 1})
	defer devices.Close()
	cudasim.Limit(t, devices)
	library := ncclsim.New(devices.Driver(), ncclsim.Version)
	s := store.NewHash()
	h, data := example(9)
	dir := t.TempDir()
	services := []*service{nil, {dir: dir, log: io.Discard}, {log: io.Discard}}
	errs := make([]error, size)
	var ranks sync.WaitGroup
	for rank := range size {
		ranks.Go(func() {
			l, err := library.Library()
			if err != nil {
				errs[rank] = err
				return
			}
			c := pg.Config{Backends: "cuda:nccl", Torch: "2.11", Store: s, Rank: rank, Size: size, Timeout: 20 * time.Second}
			ctx := nccl.With(t.Context(), nccl.Options{Driver: devices.Driver(), Library: l})
			errs[rank] = onDevice(ctx, devices.Driver(), rank, c, func(ctx context.Context, m mover, rank int) error {
				if rank > 0 {
					return services[rank].run(ctx, m, rank)
				}
				s := &sender{mover: m, piece: 300}
				for range 2 {
					if wrong, err := s.model(ctx, h, data); err != nil || wrong > 0 {
						return fmt.Errorf("%d wrong: %w", wrong, err)
					}
					s.piece = 500 // the receivers make room again
				}
				return s.end(ctx)
			})
		})
	}
	ranks.Wait()
	require.NoError(t, errors.Join(errs...))
	require.NoError(t, library.Close())
	devices.Drain()
	require.Empty(t, devices.Races())
	b, err := os.ReadFile(filepath.Join(dir, "rank1.safetensors"))
	require.NoError(t, err)
	require.True(t, bytes.HasSuffix(b, data))
	require.Equal(t, 1, services[2].last.Load().round)
}
