package pg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/colligo-go/colligo/pg/flight"
	"github.com/colligo-go/colligo/pg/internal/control"
)

// dumper writes what the flight recorder holds, one file at a time.
type dumper struct {
	once sync.Once
	turn chan struct{} // has room for one: whoever writes
}

func (d *dumper) turns() chan struct{} {
	d.once.Do(func() { d.turn = make(chan struct{}, 1) })
	return d.turn
}

// DumpFile writes what the flight recorder holds to the file for this rank, over what was there, and returns its path.
// Config.Recorder says where the file is and what is left out.
//
// It may be called at any time before Close, and works when the group has failed. The context bounds the wait; a write that
// the system holds up goes on behind it. Errors leave the group as it was. c10d: _dump_nccl_trace, which returns what
// DumpFile writes.
func (g *Group) DumpFile(ctx context.Context) (string, error) {
	if g == nil || g.rank < 0 {
		return "", fmt.Errorf("pg: dump: %w", ErrNotMember)
	}
	path, err := g.handler.dumpFile(ctx, g.config.Recorder.DumpStacks == On)
	if err != nil {
		err = fmt.Errorf("pg: group %s: dump of rank %d: %w", g.name, g.rank, err)
	}
	return path, err
}

// RequestDumps asks all ranks of the group to write their dumps, and writes this rank's. It does not wait for the others',
// and works when the group has failed. Errors are those of this rank's dump, and leave the group as it was. c10d:
// broadcastDumpSignal of ProcessGroupNCCL.
func (g *Group) RequestDumps(ctx context.Context) error {
	if g != nil && g.rank >= 0 && g.size > 1 {
		g.control.Tell(&control.Message{Kind: control.Dump})
	}
	_, err := g.DumpFile(ctx)
	return err
}

// dumpBecause writes a dump and says so; a second attempt leaves out call stacks.
func (h *failureHandler) dumpBecause(why string) {
	g := h.g
	o := &g.config.Recorder
	for _, stacks := range [2]bool{o.DumpStacks == On, false} {
		ctx, cancel := context.WithTimeout(context.Background(), o.DumpLimit)
		path, err := h.dumpFile(ctx, stacks)
		cancel()
		switch {
		case errors.Is(err, errNoRecorder):
			return
		case err == nil:
			g.log.Warn("wrote what was recorded", "group", g.name, "rank", g.rank, "file", path, "reason", why)
			return
		}
		g.log.Warn("dump failed", "group", g.name, "rank", g.rank, "stacks", stacks, "reason", why, "error", err)
		if !stacks {
			return
		}
	}
}

// dumpAsked writes a dump because a peer asks for one.
func (h *failureHandler) dumpAsked(peer int) {
	g := h.g
	if g.job != nil && !h.dumping.Swap(true) {
		h.Go(func() {
			h.dumpBecause(fmt.Sprintf("rank %d asked", peer))
			h.dumping.Store(false)
		})
	}
}

var errNoRecorder = errors.New("there is no flight recorder: COLLIGO_FR_BUFFER_SIZE is 0")

// dumpFile gives up when the context ends; a write that the system holds up goes on behind it.
func (h *failureHandler) dumpFile(ctx context.Context, stacks bool) (string, error) {
	g := h.g
	recorder := g.job.recorder // the group's own may not be there yet when a peer asks
	if recorder == nil {
		return "", errNoRecorder
	}
	prefix, err := g.config.Recorder.dumpPrefix()
	if err != nil {
		return "", err
	}
	path := flight.Path(prefix, g.globalRank())
	turn := g.job.dumper.turns()
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return "", fmt.Errorf("%s: another dump is being written: %w", path, context.Cause(ctx))
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-turn }()
		d := recorder.Dump(flight.DumpOptions{Entries: true, Frames: stacks, OnlyActive: g.config.Recorder.DumpOnlyActive == On})
		d.Failures = g.job.open.failures()
		_, err := d.WriteFile(prefix, g.globalRank())
		done <- err
	}()
	select {
	case err = <-done:
		return path, err
	case <-ctx.Done():
		return "", fmt.Errorf("%s: %w", path, context.Cause(ctx))
	}
}

// globalRank is this rank's number in the default group, by which files are named.
func (m *member) globalRank() int {
	if m.rank < 0 || m.rank >= len(m.ranks) {
		return max(m.rank, 0)
	}
	return m.ranks[m.rank]
}

// dumpPrefix is the beginning of the path of all dumps.
func (o *RecorderOptions) dumpPrefix() (string, error) {
	beginning := o.DumpFile
	if o.DumpFileAnew == On && o.env != nil {
		if anew := o.env.First(append([]string{"COLLIGO_FR_DUMP_TEMP_FILE"}, dumpAliases()...)...); anew != "" {
			beginning = anew
		}
	}
	if beginning == "" {
		beginning = o.cachePath()
	}
	abs, err := filepath.Abs(beginning)
	if err == nil && os.IsPathSeparator(beginning[len(beginning)-1]) {
		abs += string(filepath.Separator) // a folder in which files are named by rank alone
	}
	return abs, err
}

// cachePath is where dumps go that nobody has named a place for.
func (o *RecorderOptions) cachePath() string {
	const name = "trace_rank_"
	env := o.env
	if env == nil {
		env = func(string) (string, bool) { return "", false }
	}
	if dir := env.First("XDG_CACHE_HOME"); dir != "" {
		return filepath.Join(dir, "colligo", name)
	}
	if dir := env.First("LOCALAPPDATA"); dir != "" && runtime.GOOS == "windows" {
		return filepath.Join(dir, "colligo", name)
	}
	if dir := env.First("HOME"); dir != "" {
		return filepath.Join(dir, ".cache", "colligo", name)
	}
	return filepath.Join(os.TempDir(), "colligo", name)
}
