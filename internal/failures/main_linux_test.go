package failures

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/store"
	"github.com/colligo-go/colligo/store/tcpstore"
)

// roleVariable names what a process that the tests start does.
const roleVariable = "COLLIGO_TEST_FAILURE"

// filesVariable names the folder with certificates.
const filesVariable = "COLLIGO_TEST_FILES"

// limitVariable has ranks write no file where the tests may not mount a full disk.
const limitVariable = "COLLIGO_TEST_FILE_LIMIT"

// TestMain runs the tests, or is a rank that they start.
func TestMain(m *testing.M) {
	role, child := os.LookupEnv(roleVariable)
	if !child {
		// Ranks have no descriptors of whoever runs the tests: some may have few.
		if err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil && err != unix.ENOSYS && err != unix.EINVAL {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	if err := rank(context.Background(), role); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// rank is the program of all processes: form a group, call something, close.
func rank(ctx context.Context, role string) error {
	c, err := configured(ctx, role)
	if err != nil {
		return err
	}
	g, err := pg.Init(ctx, c)
	if err != nil {
		return err
	}
	err = call(ctx, g, role)
	if err := errors.Join(err, g.Close()); err != nil {
		return err
	}
	fmt.Println("done")
	return nil
}

// configured prepares the process and its configuration for what happens before the group has formed.
func configured(ctx context.Context, role string) (c pg.Config, err error) {
	switch role {
	case "tls", "early clock":
		c.Transport = "tcp"
		c.TLS, err = secured(os.Getenv(filesVariable))
		if role == "early clock" && err == nil {
			c.TLS.Time = func() time.Time { return time.Now().AddDate(-1, 0, 0) }
		}
	case "old":
		c.Rank, c.Size = 1, 2
		c.Store, err = older(ctx)
	case "few descriptors":
		err = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 9, Max: 9})
	case "no memory to share":
		err = noFiles()
	}
	return c, err
}

// noFiles forbids files of any length.
func noFiles() error {
	signal.Ignore(syscall.SIGXFSZ)
	return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 0, Max: 0})
}

// secured reads the certificate that the tests have made.
func secured(dir string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(dir, "cert.pem"))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}, nil
}

// outdated is a store that a rank of an older format writes to.
type outdated struct{ store.Store }

func (s outdated) CompareSet(ctx context.Context, key string, expected, desired []byte) ([]byte, error) {
	old := version.ReplaceAll(desired, []byte(`"Version":3`))
	got, err := s.Store.CompareSet(ctx, key, expected, old)
	if bytes.Equal(got, old) {
		got = desired
	}
	return got, err
}

var version = regexp.MustCompile(`"Version":\d+`)

func older(ctx context.Context) (store.Store, error) {
	s, err := tcpstore.Dial(ctx, os.Getenv("MASTER_ADDR")+":"+os.Getenv("MASTER_PORT"), tcpstore.ClientOptions{})
	return outdated{s}, err
}

// signalled sends a signal to this process, and waits for what it does.
func signalled(s syscall.Signal) error {
	if err := syscall.Kill(os.Getpid(), s); err != nil {
		return err
	}
	time.Sleep(time.Hour)
	return nil
}

// call is what goes wrong when the group has formed.
func call(ctx context.Context, g *pg.Group, role string) error {
	x, first := colligo.Of(make([]float32, 1000)), g.Rank() == 0
	switch role {
	case "type":
		if !first {
			x = colligo.Of(make([]float64, 1000))
		}
	case "size":
		if !first {
			x = colligo.Of(make([]float32, 999))
		}
	case "root":
		if err := g.Broadcast(ctx, x, g.Rank()); err != nil {
			return err
		}
	case "order":
		if !first {
			if err := g.Barrier(ctx); err != nil {
				return err
			}
		}
	case "tag":
		if first { // longer than rank 1, which so is the rank that gives up
			ctx, cancel := context.WithTimeout(ctx, 2*limits*time.Second)
			defer cancel()
			return errors.Join(g.Send(ctx, x, 1, 1), g.Recv(ctx, x, 1, 1))
		}
		return g.Recv(ctx, x, 0, 2)
	case "killed":
		if !first {
			return signalled(syscall.SIGKILL)
		}
	case "stopped":
		if !first {
			return signalled(syscall.SIGSTOP)
		}
	case "disk full":
		if os.Getenv(limitVariable) != "" {
			if err := noFiles(); err != nil {
				return err
			}
		}
		if !first {
			return errors.New("this rank has left")
		}
	}
	return g.AllReduce(ctx, x, colligo.Sum)
}
