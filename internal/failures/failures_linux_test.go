package failures

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var rewrite = flag.Bool("rewrite", false, "write docs/troubleshooting.md anew")

// soon is when a rank that waits has said for what, unless its process was slow to start. It does so after 5 s.
const soon = 7 * time.Second

// page quotes what ranks say.
const page = "../../docs/troubleshooting.md"

// failure is a job that goes wrong.
type failure struct {
	name      string // heading of the page
	cause     string // what is done, for the page
	size      int
	processes []process
	before    func(t *testing.T, port string) (env []string)
	waits     map[int]string // by rank: pattern of what has been said soon
	ends      map[int]string // by rank: pattern of what has been said at the end
}

// TestFailures makes all of them, several at a time whatever the number of processors is: most of their time is waiting.
func TestFailures(t *testing.T) {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	outcomes, turns := make([]*outcome, len(failures)), make(chan struct{}, 12)
	var all sync.WaitGroup
	for i := range failures {
		all.Go(func() {
			turns <- struct{}{}
			outcomes[i] = failures[i].run(t)
			<-turns
		})
	}
	all.Wait()
	for i := range failures {
		f := &failures[i]
		t.Run(f.name, func(t *testing.T) {
			f.check(t, outcomes[i])
			if !*rewrite {
				f.quoted(t, string(text))
			}
		})
	}
	if *rewrite && !t.Failed() {
		var b strings.Builder
		head, _, _ := strings.Cut(string(text), "\n## ")
		b.WriteString(strings.TrimRight(head, "\n") + "\n")
		for i := range failures {
			failures[i].write(&b, outcomes[i])
		}
		require.NoError(t, os.WriteFile(page, []byte(b.String()), 0o644))
	}
}

// check holds what was said against the table.
func (f *failure) check(t *testing.T, o *outcome) {
	t.Helper()
	for rank, pattern := range f.waits {
		require.Regexp(t, pattern, o.until(rank, o.soon(f, rank)), "rank %d has not said it in time:\n%v", rank, o)
	}
	for rank, pattern := range f.ends {
		require.Regexp(t, pattern, o.until(rank, time.Hour), "rank %d:\n%v", rank, o)
	}
	for i, p := range f.processes {
		if o.ended[i] > soon && p.role != "stopped" {
			require.NotEmpty(t, o.until(p.rank, o.soon(f, p.rank)), "rank %d waits in silence:\n%v", p.rank, o)
		}
	}
}

// quoted holds the page to the table: its section has what the patterns ask for.
func (f *failure) quoted(t *testing.T, text string) {
	t.Helper()
	_, section, found := strings.Cut(text, "\n## "+f.name+"\n")
	require.True(t, found, "the page has no section %q", f.name)
	section, _, _ = strings.Cut(section, "\n## ")
	for _, patterns := range []map[int]string{f.waits, f.ends} {
		for rank, pattern := range patterns {
			require.Regexp(t, pattern, section, "the page does not quote rank %d", rank)
		}
	}
}

// write adds a section to the page.
func (f *failure) write(b *strings.Builder, o *outcome) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n```text\n", f.name, f.cause)
	said := map[string]int{}
	for _, h := range o.lines {
		line := fmt.Sprintf("[%d] %s", h.rank, plain(h.line))
		if key := digits.ReplaceAllString(line, "0"); said[key] < 2 && line != fmt.Sprintf("[%d] done", h.rank) {
			said[key]++
			fmt.Fprintf(b, "%3.0f s %s\n", h.after.Seconds(), line)
		}
	}
	b.WriteString("```\n")
}

var digits = regexp.MustCompile(`\d+`)

// plain takes off a line what differs from run to run.
func plain(line string) string {
	for _, r := range []struct{ pattern, text string }{
		{`^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d `, ""},
		{`127\.0\.0\.1:\d{5}`, "127.0.0.1:29500"}, {`\((127\.0\.0\.1), \d{5}\)`, "($1, 29500)"}, {`(invalid|192\.0\.2\.1):\d{5}`, "$1:29500"},
		{`(invalid|192\.0\.2\.1), \d{5}`, "$1, 29500"}, {`tcp :\d+`, "tcp :29500"}, {`client=127\.0\.0\.1:\d+`, "client=127.0.0.1:40000"},
		{`/tmp/\S*/(\.?)rank_`, "/tmp/job/${1}rank_"}, {`(\.rank_\d)\.\d+`, "$1.tmp"},
		{`process \d+ on \S+, since \d{4}\S+Z`, "process 4242 on host0, since 2026-11-24T00:00:00Z"}, {`process \d+ on [^\s,]+`, "process 4242 on host0"},
		{` on \d+\.\d+\.\d+\.\d+:53`, ""}, {`@colligo-shm-[0-9a-f]+`, "@colligo-shm-0123"},
	} {
		line = regexp.MustCompile(r.pattern).ReplaceAllString(line, r.text)
	}
	return line
}

// certified makes a certificate, for roles that use TLS.
func certified(t *testing.T, _ string) []string {
	dir := t.TempDir()
	assert.NoError(t, certificate(dir))
	return []string{filesVariable + "=" + filepath.Clean(dir)}
}
