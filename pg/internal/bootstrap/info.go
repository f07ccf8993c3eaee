package bootstrap

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/colligo-go/colligo/transport/shm"
)

// formatVersion changes when ranks of different versions could not work together.
const formatVersion = 4

// info is the bootstrap info of a rank: what it tells the others of itself, through the store, before they link.
type info struct {
	Version   int
	Size      int
	Ranks     string // of the default group, where they are not all
	Transport string // wanted
	Backends  string // wanted; empty: the defaults
	Bound     string // kind of the device that the group is bound to
	Host      string // identity of the host for shm; empty if shm cannot be used
	Detail    bool   `json:",omitempty"` // calls are compared
	Table     string `json:",omitempty"` // by which algorithms are picked, empty for the default
	CPUs      []byte `json:",omitempty"` // set of those on which the process may run, a bit for each
	Process   string // for messages
	Node      string `json:",omitempty"` // name of the host
	Secret    []byte `json:",omitempty"` // of the group, in rank 0's
	GaveUp    string `json:",omitempty"` // why this rank has left before the group had formed
	Late      bool   `json:",omitempty"` // GaveUp says that the time was up
	Lost      bool   `json:",omitempty"` // GaveUp says how the store knows that the process has ended
	Heard     bool   `json:",omitempty"` // GaveUp says what followed when another rank had given up or died
	PeerLost  bool   `json:",omitempty"` // GaveUp says that another rank is gone
}

// Wants is what a rank asks of a group. All ranks must ask for the same.
type Wants struct {
	Transport string // "shm", "tcp" or "auto"
	Open      Opener // if set, opens the mesh in place of Transport
	Backends  string // empty fits whatever others ask for
	Bound     string // kind of the device that the group is bound to, empty for none
	Detail    bool   // calls are compared
	Table     string // digest of the table by which algorithms are picked, empty for the default
}

// info makes this rank's bootstrap info. Rank 0 makes the secret and hands it out in its own.
func (f *Formation) info() info {
	w, host := &f.wants, node()
	c := info{Version: formatVersion, Size: f.size(), Transport: w.Transport, Backends: w.Backends, Bound: w.Bound, Detail: w.Detail,
		Table: w.Table, CPUs: shm.CPUs(), Process: process(host), Node: host}
	if !f.Default {
		c.Ranks = fmt.Sprint(f.Ranks)
	}
	if w.Open != nil {
		c.Transport = "given"
	} else if c.Transport != "tcp" {
		c.Host = shm.HostID()
	}
	if f.Rank == 0 {
		c.Secret = make([]byte, 32)
		rand.Read(c.Secret)
	}
	return c
}

func readInfo(r int, b []byte) (info, error) {
	var c info
	if err := json.Unmarshal(b, &c); err != nil {
		return c, fmt.Errorf("the store's entry for rank %d is not ours: %w", r, err)
	}
	return c, nil
}

// leaver is a rank that has come and gone.
type leaver struct {
	rank int
	err  error // says so, or why the rank did not fit
}

// compare reads the bootstrap info of ranks. A rank that does not fit is an error, unless it has left.
func (c info) compare(ranks []int, all [][]byte) (infos []info, left *leaver, err error) {
	infos = make([]info, len(all))
	for i, b := range all {
		r := ranks[i]
		if infos[i], err = readInfo(r, b); err != nil {
			return nil, nil, err
		}
		theirs, unfit := &infos[i], c.fits(r, infos[i])
		switch {
		case theirs.GaveUp == "" && unfit != nil:
			return nil, nil, unfit
		case theirs.GaveUp != "" && left == nil && unfit != nil:
			left = &leaver{r, unfit}
		case theirs.GaveUp != "" && left == nil:
			left = &leaver{r, theirs.left(r)}
		}
	}
	return infos, left, nil
}

// fits refuses ranks that mean another group.
func (c info) fits(r int, theirs info) error {
	switch {
	case theirs.Version != c.Version:
		return fmt.Errorf("rank %d (%s) speaks version %d of the format, this rank version %d", r, theirs.Process, theirs.Version, c.Version)
	case theirs.Size != c.Size:
		return fmt.Errorf("rank %d (%s) says the group has %d ranks, here it has %d", r, theirs.Process, theirs.Size, c.Size)
	case theirs.Ranks != c.Ranks:
		return fmt.Errorf("rank %d (%s) says the group is of ranks %s, here it is of %s", r, theirs.Process, theirs.Ranks, c.Ranks)
	case theirs.Backends != c.Backends && theirs.Backends != "" && c.Backends != "":
		return fmt.Errorf("rank %d (%s) wants backends %s, this rank %s", r, theirs.Process, theirs.Backends, c.Backends)
	case theirs.Bound != c.Bound:
		return fmt.Errorf("rank %d (%s) binds the group to %s, this rank to %s", r, theirs.Process, device(theirs.Bound), device(c.Bound))
	case theirs.Detail != c.Detail:
		return fmt.Errorf("rank %d (%s) has debug level DETAIL: %v, this rank: %v", r, theirs.Process, theirs.Detail, c.Detail)
	case theirs.Table != c.Table:
		return fmt.Errorf("rank %d (%s) picks algorithms by a table of %s, this rank by one of %s", r, theirs.Process, table(theirs.Table), table(c.Table))
	case theirs.Transport != c.Transport:
		return fmt.Errorf("rank %d (%s) wants transport %s, this rank %s", r, theirs.Process, theirs.Transport, c.Transport)
	}
	return nil
}

func device(kind string) string {
	if kind == "" {
		return "no device"
	}
	return "a device of " + kind
}

func table(digest string) string {
	if digest == "" {
		return "the default's rules"
	}
	return digest
}

// node names this host.
func node() string {
	host, err := os.Hostname()
	if err != nil {
		return "unknown host"
	}
	return host
}

// process names this process on a host for messages on other ranks.
func process(host string) string {
	return fmt.Sprintf("process %d on %s, since %s", os.Getpid(), host, time.Now().UTC().Format(time.RFC3339Nano))
}
