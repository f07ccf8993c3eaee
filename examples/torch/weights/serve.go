package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/colligo-go/colligo/examples/torch/weights/safetensors"
)

// table is what is known of the weights of a round, all of which have come right.
type table struct {
	round  int
	took   time.Duration
	header *safetensors.Header
	sums   [][sha256.Size]byte
	path   string // of the file, if there is one
}

// print writes a line for each tensor.
func (t *table) print(w *bytes.Buffer) {
	tab := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for i, x := range t.header.Tensors {
		fmt.Fprintf(tab, "%s\t%s\t%v\t%d bytes\tsha256 %x\n", x.Name, x.DType, x.Shape, x.Size(), t.sums[i][:8])
	}
	_ = tab.Flush() // a buffer takes all
}

// service keeps the table of the last round.
type service struct {
	dir  string // for a file, or empty
	log  io.Writer
	last atomic.Pointer[table]
}

// run receives rounds until the sender ends.
func (s *service) run(ctx context.Context, m mover, rank int) error {
	in := &stream{mover: m}
	for round := 0; ; round++ {
		t, err := s.round(ctx, in, fmt.Sprintf("rank%d.safetensors", rank))
		if errors.Is(err, errOver) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("rank %d: round %d: %w", rank, round, err)
		}
		t.round = round
		s.last.Store(t)
		var text bytes.Buffer // written at once, for other ranks write, too
		if round == 0 {
			t.print(&text)
		}
		var held runtime.MemStats
		runtime.ReadMemStats(&held)
		fmt.Fprintf(&text, "rank %d is in Go: round %d, %d tensors of %d bytes in %v, all right; Go holds %d MiB\n", rank, round,
			len(t.sums), t.header.Size(), t.took.Round(time.Millisecond), held.Sys>>20)
		if _, err := text.WriteTo(s.log); err != nil {
			return err
		}
	}
}

// round receives the weights once. A file gets its name only when all that is in it is right, so readers see whole rounds alone.
func (s *service) round(ctx context.Context, in *stream, name string) (*table, error) {
	h, err := in.header(ctx)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	w := &sink{w: io.Discard}
	if s.dir == "" {
		t, err := in.tensors(ctx, h, w)
		if err == nil {
			t.took = time.Since(began)
		}
		return t, err
	}
	f, err := os.CreateTemp(s.dir, name+".")
	if err != nil {
		w.err = err
		return in.tensors(ctx, h, w)
	}
	w.w, w.err = f, safetensors.WriteHeader(f, h)
	t, err := in.tensors(ctx, h, w)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, errors.Join(err, os.Remove(f.Name()))
	}
	t.took, t.path = time.Since(began), filepath.Join(s.dir, name)
	return t, os.Rename(f.Name(), t.path)
}

// serve answers with the table at /, and with the file at /model.safetensors, until ctx ends.
func (s *service) serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (s *service) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		t := s.last.Load()
		if t == nil {
			http.Error(w, "no weights have come", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		var text bytes.Buffer
		fmt.Fprintf(&text, "round %d\n", t.round)
		t.print(&text)
		_, _ = text.WriteTo(w) // a client that has gone does not care
	})
	mux.HandleFunc("GET /model.safetensors", func(w http.ResponseWriter, r *http.Request) {
		t := s.last.Load()
		if t == nil || t.path == "" {
			http.Error(w, "no file has been written", http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		http.ServeFile(w, r, t.path)
	})
	return mux
}
