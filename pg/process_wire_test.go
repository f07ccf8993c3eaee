package pg_test

import (
	"crypto/tls"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/internal/freeport"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/store/tcpstore"
)

// TestWire runs groups over every kind of wire that Config offers.
func TestWire(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]config{
		"plain":                   {},
		"s2":                      {Compression: "s2"},
		"zstd":                    {Compression: "zstd"},
		"checksum":                {Checksum: true},
		"zstd and checksum":       {Compression: "zstd", Checksum: true},
		"tls":                     {Certificates: "make"},
		"tls, s2 and checksum":    {Certificates: "make", Compression: "s2", Checksum: true},
		"shared memory, checksum": {Transport: "shm", Checksum: true},
		"an interface":            {Interface: "lo"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.Transport == "" {
				c.Transport = "tcp"
			}
			needs(t, c.Transport)
			if c.Interface != "" {
				needs(t, "shm") // the loopback interface of Linux
			}
			if c.Certificates != "" {
				c.Certificates = pg.Certificates(t)
			}
			for _, p := range launch(t, 4, order{Role: "check", Config: c}, nil).procs {
				p.succeeds()
			}
		})
	}
}

// TestTLSIsTLS looks at what goes over the store's port, and keeps out who does not speak TLS or has no certificate.
func TestTLSIsTLS(t *testing.T) {
	t.Parallel()
	c := config{Transport: "tcp", Certificates: pg.Certificates(t)}
	j := launch(t, 2, order{Role: "late", Config: c}, nil)
	j.all("init")
	conn, err := tls.Dial("tcp", j.meets, &tls.Config{InsecureSkipVerify: true})
	if err == nil { // with TLS 1.3 the server's refusal comes with the first read
		_, err = conn.Read(make([]byte, 1))
		conn.Close()
	}
	require.Error(t, err, "without a certificate")
	_, err = tcpstore.Dial(t.Context(), j.meets, tcpstore.ClientOptions{ConnectTimeout: 300 * time.Millisecond})
	require.Error(t, err, "without TLS")
	for _, p := range j.procs {
		p.say("go")
	}
	for _, p := range j.procs {
		require.Empty(t, p.next("done").Err)
	}
	for _, p := range j.procs {
		p.ends()
	}
}

// TestWiresDiffer has ranks configured differently: all are told what is different.
func TestWiresDiffer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		odd  config
		says [2]string // by rank
	}{
		"compression": {config{Transport: "tcp", Compression: "zstd"},
			[2]string{"rank 1: has compression zstd, here it is off", "rank 0: has compression off, here it is zstd"}},
		"checksum": {config{Transport: "tcp", Checksum: true},
			[2]string{"rank 1: has checksums on, here they are off", "rank 0: has checksums off, here they are on"}},
		"transport": {config{Transport: "auto"}, [2]string{"wants transport auto, this rank tcp", "wants transport tcp, this rank auto"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			meets := "tcp://" + freeport.Address(t, "127.0.0.1")
			j := launch(t, 2, order{Role: "check", Config: config{Transport: "tcp", Init: meets}}, func(rank int, o *order) {
				if rank == 1 {
					o.Config = c.odd
					o.Config.Init, o.Config.Rank, o.Config.Size = meets, 1, 2
				}
			})
			for rank, p := range j.procs { // the first to find it leaves; the other may hear of that before it finds it, too
				said := p.refused()
				other := fmt.Sprintf("rank %d (process ", 1-rank)
				if strings.Contains(said, other) && strings.Contains(said, "has given up: ") {
					require.Contains(t, said, c.says[1-rank])
				} else {
					require.Contains(t, said, c.says[rank])
				}
			}
		})
	}
}
