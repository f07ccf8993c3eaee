package main

import (
	"flag"
	"fmt"
	"log/slog"

	"github.com/colligo-go/colligo/store/tcpstore"
)

// serveStore serves a TCP store until a signal.
func (s system) serveStore(args []string) int {
	f := flag.NewFlagSet("store", flag.ContinueOnError)
	addr := f.String("listen", ":29500", "`host:port` to listen at; without a host on all interfaces, with port 0 on a free port")
	if code, ok := s.parse(f, args); !ok {
		return code
	}
	if f.NArg() > 0 {
		return s.misuse(f, fmt.Errorf("unexpected argument %q", f.Arg(0)))
	}
	signals := s.signals()
	srv, err := tcpstore.Listen(*addr, tcpstore.ServerOptions{Logger: slog.New(slog.NewTextHandler(s.stderr, nil))})
	if err != nil {
		fmt.Fprintf(s.stderr, "colligo store: %v\n", err)
		return 1
	}
	fmt.Fprintf(s.stdout, "listening at %v\n", srv.Addr())
	<-signals
	if err := srv.Close(); err != nil {
		fmt.Fprintf(s.stderr, "colligo store: %v\n", err)
		return 1
	}
	return 0
}
