package failures

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// pair is both ranks of a job in one role.
func pair(role string) []process { return []process{{rank: 0, role: role}, {rank: 1, role: role}} }

// bothSay wants both calls in each rank's error. A rank that hears of the mismatch before it finds it has the other's error.
func bothSay(one, other string) map[int]string {
	one, other = regexp.QuoteMeta(one), regexp.QuoteMeta(other)
	pattern := "called .*" + one + ".* this rank called .*" + other + "|called .*" + other + ".* this rank called .*" + one
	return map[int]string{0: pattern, 1: pattern}
}

// failures is the list. Ranks not named in waits and ends may say what they like, if they do not wait in silence.
var failures = []failure{
	{name: "Wrong address", cause: "`MASTER_ADDR` of rank 1 names another host.", size: 2,
		processes: []process{{rank: 0}, {rank: 1, env: []string{"MASTER_ADDR=192.0.2.1"}}},
		waits:     map[int]string{0: `waits for ranks that have not come .*missing="rank 1"`, 1: `cannot reach the store yet .*192\.0\.2\.1`},
		ends:      map[int]string{0: `rank 1 has not come to group 0`, 1: `store of rank 0 at 192\.0\.2\.1:\d+ cannot be reached`}},
	{name: "Port taken", cause: "Another program of rank 0's host listens at `MASTER_PORT`, and is no store.", size: 2, processes: pair(""),
		before: portTaken,
		waits:  map[int]string{0: `.`, 1: `cannot reach the store yet`},
		ends:   map[int]string{0: `address already in use|does not answer as a store`, 1: `cannot be reached`}},
	{name: "One rank twice", cause: "Two processes are started as rank 1, none as rank 2.", size: 3, processes: []process{{rank: 0}, {rank: 1}, {rank: 1}},
		waits: map[int]string{0: `missing="rank 2"`, 1: `rank 1 of group 0 is taken by process \d+ on .*: another process has the same rank`},
		ends:  map[int]string{0: `rank 2 has not come`}},
	{name: "Size differs", cause: "`WORLD_SIZE` is 2 for rank 0 and 3 for rank 1.", size: 2,
		processes: []process{{rank: 0}, {rank: 1, env: []string{"WORLD_SIZE=3"}}},
		waits:     map[int]string{0: `rank 1 .*says the group has 3 ranks, here it has 2`, 1: `rank 0 .*says the group has 2 ranks, here it has 3`}},
	{name: "Rank missing", cause: "Rank 2 of 3 is never started.", size: 3, processes: pair(""),
		waits: map[int]string{0: `missing="rank 2" size=3`, 1: `missing="rank 2" size=3`},
		ends:  map[int]string{0: `rank 2 has not come to group 0`, 1: `rank 2 has not come to group 0`}},
	{name: "Host name unknown", cause: "`MASTER_ADDR` is a name that no resolver knows.", size: 2, processes: pair(""),
		before: func(*testing.T, string) []string { return []string{"MASTER_ADDR=no-such-host.invalid"} },
		waits:  map[int]string{0: `cannot reach the store yet .*no-such-host\.invalid`, 1: `cannot reach the store yet .*no-such-host\.invalid`},
		ends:   map[int]string{0: `no-such-host\.invalid:\d+ cannot be reached`, 1: `no-such-host\.invalid:\d+ cannot be reached`}},
	{name: "Nobody listening", cause: "Rank 0, which serves the store, is never started.", size: 2, processes: pair("")[1:],
		waits: map[int]string{1: `cannot reach the store yet .*connection refused`},
		ends:  map[int]string{1: `store of rank 0 at .* cannot be reached: .*connection refused`}},
	{name: "A stranger on the port", cause: "Something asks the store's port by HTTP while the job forms. The job goes on.", size: 2,
		processes: []process{{rank: 0}, {rank: 1, after: stranger}},
		ends:      map[int]string{0: `(?s)connection dropped .*perhaps HTTP`}},
	{name: "Element types differ", cause: "Rank 0 sums float32, rank 1 float64.", size: 2, processes: pair("type"),
		waits: bothSay("1000 float32 elements", "1000 float64 elements")},
	{name: "Lengths differ", cause: "Rank 0 sums 1000 elements, rank 1 sums 999.", size: 2, processes: pair("size"),
		waits: bothSay("1000 float32", "999 float32")},
	{name: "Roots differ", cause: "Each rank broadcasts from itself, and then sums.", size: 2, processes: pair("root"),
		waits: map[int]string{0: `called broadcast #1 .*root [01]`, 1: `called broadcast #1 .*root [01]`}},
	{name: "Another order", cause: "Rank 0 sums, while rank 1 is in a barrier.", size: 2, processes: pair("order"),
		waits: bothSay("all_reduce #1", "barrier #1")},
	{name: "Wrong tag", cause: "Rank 0 sends with tag 1, rank 1 receives with tag 2. The limit of operations is 8 s.", size: 2, processes: pair("tag"),
		waits: map[int]string{0: `an operation waits .*op=recv .*nothing from rank 1 with tag 1 after 4s; rank 1 waits to receive from rank 0`,
			1: `an operation waits .*op=recv .*nothing from rank 0 with tag 2 after 4s; a message of rank 0 with tag 1 has come, which nothing receives`},
		ends: map[int]string{0: `nothing from rank 0 with tag 2 after 8s; a message of rank 0 with tag 1 has come, which nothing receives`,
			1: `nothing from rank 0 with tag 2 after 8s; a message of rank 0 with tag 1 has come, which nothing receives`}},
	{name: "Rank killed", cause: "Rank 1 gets SIGKILL while rank 0 waits for it.", size: 2, processes: pair("killed"),
		waits: map[int]string{0: `rank 1: peer lost: connection closed without goodbye: the process died`}},
	{name: "Rank stopped", cause: "Rank 1 gets SIGSTOP while rank 0 waits for it. The limit of operations is 8 s.", size: 2, processes: pair("stopped"),
		waits: map[int]string{0: `an operation waits .*op=all_reduce .*rank 1 does not answer after 4s; rank 0 waits`},
		ends:  map[int]string{0: `rank 1 does not answer after 8s; rank 0 waits`}},
	{name: "Disk full for dumps", cause: "Rank 1 leaves, and rank 0 dumps to a full disk, which is a tmpfs without a free page. Where the test may not mount one, a limit of 0 bytes for files stands for it, and the reason is \"file too large\".", size: 2,
		processes: pair("disk full"), before: fullDisk,
		waits: map[int]string{0: `dump failed .*(no space left on device|file too large)`, 1: `this rank has left`}},
	{name: "No memory to share", cause: "The system gives no memory for shared segments; a limit of 0 bytes for files stands for that. Segments are not in `/dev/shm`, which may be as full as it likes. `Config.Transport` may be \"tcp\" then.", size: 2,
		processes: pair("no memory to share"),
		waits:     map[int]string{0: `shm: ftruncate of a segment to \d+ bytes`, 1: `shm: ftruncate of a segment to \d+ bytes`}},
	{name: "TLS on rank 0 alone", cause: "`Config.TLS` is set on rank 0, which serves the store, and not on rank 1.", size: 2, before: certified,
		processes: []process{{rank: 0, role: "tls"}, {rank: 1}},
		waits: map[int]string{0: `connection dropped in the TLS handshake .*first record does not look like a TLS handshake`,
			1: `cannot reach the store yet .*it speaks TLS, is no store`},
		ends: map[int]string{1: `cannot be reached: .*it speaks TLS`}},
	{name: "TLS on rank 1 alone", cause: "The other way round, as with a launcher's store.", size: 2, before: certified,
		processes: []process{{rank: 0}, {rank: 1, role: "tls"}},
		waits: map[int]string{0: `not a store client: .*perhaps TLS where this server speaks plain TCP`,
			1: `cannot reach the store yet .*the server closed the connection: it speaks no TLS`},
		ends: map[int]string{1: `cannot be reached: .*it speaks no TLS`}},
	{name: "An old binary", cause: "Rank 1 runs a version with another format.", size: 2, processes: []process{{rank: 0}, {rank: 1, role: "old"}},
		waits: map[int]string{0: `rank 1 .*speaks version 3 of the format, this rank version \d+`, 1: `rank 0 .*has given up: .*speaks version 3`}},
	{name: "A wrong clock", cause: "The clock of rank 1 is a year behind. It matters for certificates alone.", size: 2, before: certified,
		processes: []process{{rank: 0, role: "tls"}, {rank: 1, role: "early clock"}},
		waits:     map[int]string{0: `missing="rank 1"`, 1: `certificate has expired or is not yet valid: current time \S+ is before`},
		ends:      map[int]string{0: `rank 1 has not come`}},
	{name: "Out of file descriptors", cause: "Rank 1 may have 9 of them.", size: 2, processes: []process{{rank: 0}, {rank: 1, role: "few descriptors"}},
		waits: map[int]string{0: `rank 1 .*has given up: .*too many open files`, 1: `too many open files`}},
}

// portTaken listens where rank 0 wants to, on all addresses, and answers nothing.
func portTaken(t *testing.T, port string) []string {
	l, err := net.Listen("tcp", ":"+port)
	if assert.NoError(t, err) {
		t.Cleanup(func() { l.Close() })
	}
	return nil
}

// fullDisk mounts a disk of one page, fills it, and has the ranks dump there. A test that may not mount has them take a limit instead.
func fullDisk(t *testing.T, _ string) []string {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "size=4096"); err != nil {
		t.Logf("a limit of 0 bytes stands for the full disk: mount: %v", err)
		return []string{limitVariable + "=1"}
	}
	t.Cleanup(func() { assert.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	assert.NoError(t, os.WriteFile(filepath.Join(dir, "full"), make([]byte, 4096), 0o600))
	assert.ErrorIs(t, os.WriteFile(filepath.Join(dir, "more"), []byte{0}, 0o600), syscall.ENOSPC)
	return []string{"COLLIGO_FR_DUMP_TEMP_FILE=" + dir + "/rank_"}
}

// stranger asks the port for a page as soon as something listens there.
func stranger(t *testing.T, port string) {
	c := http.Client{Timeout: 5 * time.Second}
	for until := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		r, err := c.Get("http://127.0.0.1:" + port + "/")
		if err == nil {
			_, _ = io.Copy(io.Discard, r.Body)
			r.Body.Close()
		}
		if !errors.Is(err, syscall.ECONNREFUSED) || !assert.True(t, time.Now().Before(until), "nothing listens") {
			return
		}
	}
}
