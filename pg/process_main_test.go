package pg_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"testing"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/internal/testload"
	"github.com/colligo-go/colligo/pg"
)

// Tests of real processes run this test binary again, once for each rank, with an order in the environment.
const orderVariable = "PG_TEST_ORDER"

// order tells a rank's process what it is and does.
type order struct {
	Role   string // what to do with the group, one of roles
	Arg    string // for the role
	Config config
}

// config is the part of pg.Config that crosses into a process.
type config struct {
	Init                    string
	Rank, Size              int
	Timeout, ConnectTimeout time.Duration
	Transport, Interface    string
	Compression             string
	Checksum, CloseBarrier  bool
	Certificates            string // folder of the files for TLS
	StoreAt                 string // address of a TCP store to be passed as Config.Store
	DumpSignal              int    // 0: none
	Held                    bool   // the mesh opens when the test says so
	Medium                  string // of a mesh that is opened in place of the transport's, "shm" or "tcp"
	Files                   int    // how many files the process may open for it; 0: any number
}

// report is what a process tells the test, one line of JSON each.
type report struct {
	At   string // "init", "done", "closed" or what a role calls it
	Err  string
	Is   []string // sentinels that the error is
	When time.Time
	Text string   // for roles
	Left []string // at "closed": what the group did not give back
}

var sentinels = map[string]error{"timeout": colligo.ErrTimeout, "mismatch": colligo.ErrMismatch, "lost": colligo.ErrPeerLost,
	"closed": colligo.ErrClosed, "corrupt": colligo.ErrCorrupt}

func TestMain(m *testing.M) {
	text, ok := os.LookupEnv(orderVariable)
	if _, set := os.LookupEnv("COLLIGO_DUMP_ON_TIMEOUT"); !set {
		os.Setenv("COLLIGO_DUMP_ON_TIMEOUT", "0") // tests of dumps say where they are to go
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // hundreds of groups form and leave, and little of them stays
	}
	if !ok {
		testload.AtLeast(16) // tests of processes wait more than they work
		os.Exit(m.Run())
	}
	signal.Notify(make(chan os.Signal, 1), os.Interrupt) // starts the goroutine that package signal keeps
	signal.Reset()
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if err := o.obey(&process{in: bufio.NewReader(os.Stdin), out: json.NewEncoder(os.Stdout)}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// process is a rank's side of the pipes to the test.
type process struct {
	in  *bufio.Reader
	out *json.Encoder
}

// tell reports; a test that does not listen any more ends the process.
func (p *process) tell(at, text string, err error, left ...string) error {
	r := report{At: at, When: time.Now(), Text: text, Left: left}
	if err != nil {
		r.Err = err.Error()
	}
	for name, sentinel := range sentinels {
		if errors.Is(err, sentinel) {
			r.Is = append(r.Is, name)
		}
	}
	return p.out.Encode(r)
}

// hear waits for the test's next line.
func (p *process) hear() (string, error) {
	line, err := p.in.ReadString('\n')
	if err == io.EOF {
		err = errors.New("the test has gone")
	}
	return line, err
}

// obey is the life of a rank's process. Errors of the group are reported; the result is an error of the process itself.
func (o *order) obey(p *process) error {
	before := holdings()
	c, err := o.Config.forPG(p)
	if err != nil {
		return err
	}
	g, err := pg.Init(context.Background(), c)
	if err != nil {
		return p.tell("init", "", err, holdings().beyond(before)...)
	}
	if err := p.tell("init", g.Transport(), nil); err != nil {
		return err
	}
	role := roles[o.Role]
	if role == nil {
		return fmt.Errorf("no role %q", o.Role)
	}
	if err := p.tell("done", "", role(p, g, o.Arg)); err != nil {
		return err
	}
	err = g.Close()
	if c.Store != nil {
		err = errors.Join(err, c.Store.Close())
	}
	return p.tell("closed", "", err, holdings().beyond(before)...)
}
