package bootstrap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/ranklist"
	"github.com/colligo-go/colligo/store"
	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/shm"
	"github.com/colligo-go/colligo/transport/tcp"
)

// Member says which group is formed, and which of its ranks this is.
type Member struct {
	Name    string
	Rank    int
	Ranks   []int // of the default group, by rank of this group
	Tag     string
	Default bool   // the default group of an Init
	Root    string // of a group that was shrunk: the name of the one before the first time
	Epoch   int    // how often it was
}

// Formation is one rank's part in forming a group, in leaving it, and in forming other groups of its ranks.
type Formation struct {
	Member
	Store    store.Store // the group's part
	Departed Departed

	job     *Job
	hosts   int  // of its ranks, once they have agreed
	crowded bool // some host has more ranks than cores
	spare   bool // every host has two cores for each rank
	wants   Wants
	log     *slog.Logger
	keys    keys
	lookout lookout
	linked  linked
	made    made

	lastAbsent lastAbsent
	tries      tries
}

// NewFormation begins to form a group of a job.
func NewFormation(j *Job, m Member, w Wants, log *slog.Logger) Formation {
	if m.Root == "" {
		m.Root = m.Name
	}
	s := store.NewPrefix(storePrefix(m.Name), j.store)
	return Formation{Member: m, Store: s, job: j, wants: w, log: log, tries: tries{epoch: m.Epoch}}
}

// storePrefix is before the keys of a group.
func storePrefix(name string) string { return "colligo/" + name }

// rankKeyStart is before the number of a rank in the key of its bootstrap info, behind what is before the group's keys.
const rankKeyStart = "/rank/"

func rankKey(r int) string { return fmt.Sprintf("rank/%d", r) }

func (f *Formation) size() int { return len(f.Ranks) }

// Rendezvous is where the ranks' links find one another. The group takes the keys away that its links put there.
func (f *Formation) Rendezvous() transport.Rendezvous { return &rendezvous{f} }

// Hosts returns the number of hosts on which the ranks are, by the hosts' names.
func (f *Formation) Hosts() int { return max(f.hosts, 1) }

// Crowded reports whether some host has more ranks than cores, the same on all ranks.
func (f *Formation) Crowded() bool { return f.crowded }

// Spare reports whether every host has two cores for each of its ranks, the same on all ranks.
func (f *Formation) Spare() bool { return f.spare }

// Opener opens a mesh.
type Opener func(context.Context, *transport.Config) (transport.Mesh, error)

// Agree exchanges bootstrap info with all ranks. It returns the function that opens the mesh, and the group's secret.
func (f *Formation) Agree(ctx context.Context) (Opener, []byte, error) {
	mine := f.info()
	if err := f.register(ctx, mine); err != nil {
		return nil, nil, err
	}
	defer SayWhile(ctx, f.log, "waits for ranks that have not come", f.late)()
	defer f.askAhead(ctx)()
	sameHost, secret := mine.Host != "", mine.Secret
	ranks := census{}
	ranks.add(&mine)
	others := slices.Delete(AllRanks(f.size()), f.Rank, f.Rank+1)
	// In ever larger batches: few requests for the store, and a rank that does not fit is found before all have come.
	for n := 1; len(others) > 0; n *= 2 {
		batch := others[:min(n, len(others))]
		others = others[len(batch):]
		theirs, err := f.infosOf(ctx, mine, batch)
		if err != nil {
			return nil, nil, err
		}
		for i := range theirs {
			sameHost = sameHost && theirs[i].Host == mine.Host
			ranks.add(&theirs[i])
		}
		if batch[0] == 0 {
			secret = theirs[0].Secret
		}
	}
	f.hosts, f.crowded, f.spare = len(ranks), ranks.crowded(), ranks.spare()
	open, err := f.medium(sameHost)
	return open, secret, err
}

// medium picks the transport and says aloud when it is not the one that was hoped for.
func (f *Formation) medium(sameHost bool) (Opener, error) {
	switch {
	case f.wants.Open != nil:
		return f.wants.Open, nil
	case f.wants.Transport == "tcp":
		return tcp.Open, nil
	case sameHost:
		return shm.Open, nil
	case f.wants.Transport == "shm":
		return nil, errors.New("transport shm: the ranks are not on one Linux host and network namespace")
	}
	if f.Rank == 0 {
		f.log.Info("ranks cannot share memory, using tcp", "group", f.Name, "rank", f.Rank)
	}
	return tcp.Open, nil
}

// register puts this rank's bootstrap info into the store, once. Info of a rank that gave up may be written over.
func (f *Formation) register(ctx context.Context, mine info) error {
	b, err := json.Marshal(mine)
	if err != nil {
		return err
	}
	for was := []byte(nil); ; {
		got, err := f.Store.CompareSet(ctx, rankKey(f.Rank), was, b)
		if errors.Is(err, context.DeadlineExceeded) { // a store that can answer does so at once
			err = f.job.silent(err)
		}
		if err != nil {
			return fmt.Errorf("registering in the store: %w", err)
		}
		if string(got) == string(b) {
			f.keys.note(rankKey(f.Rank))
			return nil
		}
		other, err := readInfo(f.Rank, got)
		if err != nil {
			return err
		}
		if other.GaveUp == "" {
			return fmt.Errorf("rank %d of group %s is taken by %s: another process has the same rank, or the store is left over from another run",
				f.Rank, f.Name, other.Process)
		}
		was = got
	}
}

// secondChance is how long the bootstrap info of a rank that gave up may wait to be replaced by its next attempt. There are
// attempts for the default group only: the names of others count up. A rank that serves the store ends it with its attempt.
func (f *Formation) secondChance(rank int) time.Duration {
	if !f.Default || f.job.served && rank == 0 {
		return 0
	}
	return time.Second
}

// secondLook is how often a rank looks meanwhile.
const secondLook = 50 * time.Millisecond

// infosOf waits for the bootstrap info of ranks, and compares it with this rank's.
func (f *Formation) infosOf(ctx context.Context, mine info, ranks []int) ([]info, error) {
	names := make([]string, len(ranks))
	for i, r := range ranks {
		names[i] = rankKey(r)
	}
	var left *leaver
	for began := time.Now(); ; {
		all, err := f.read(ctx, names...)
		if err != nil && left != nil {
			return nil, left.err
		}
		if err != nil {
			return nil, f.missing(ctx, err)
		}
		var infos []info
		if infos, left, err = mine.compare(ranks, all); err != nil {
			return nil, err
		}
		if left == nil {
			return infos, nil
		}
		if time.Since(began) >= f.secondChance(left.rank) {
			return nil, left.err
		}
		select {
		case <-time.After(secondLook):
		case <-ctx.Done():
			return nil, left.err
		}
	}
}

// missing explains why bootstrap info could not be had: it names the ranks that have not registered, if they are the reason.
func (f *Formation) missing(ended context.Context, cause error) error {
	switch {
	case errors.As(cause, new(*GaveUp)):
		return cause
	case !errors.Is(cause, store.ErrTimeout) && ended.Err() == nil:
		return fmt.Errorf("group %s had not formed when the store failed: %w", f.Name, cause)
	}
	ctx, cancel := beyond(ended, time.Second, Grace/4)
	defer cancel()
	a, err := f.absent(ctx)
	when := ""
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		cause = f.job.silent(cause)
		when = fmt.Sprintf(" (asked %v before)", time.Since(a.asked).Round(time.Millisecond))
	case errors.Is(cause, store.ErrTimeout):
		cause = &timedOut{cause}
	case errors.Is(cause, context.DeadlineExceeded):
		cause = fmt.Errorf("%w: %w", colligo.ErrTimeout, cause)
	}
	if len(a.ranks) == 0 { // all have come, or the store does not answer
		return fmt.Errorf("group %s had not formed when the time was up: %w", f.Name, cause)
	}
	return fmt.Errorf("%s %s not come to group %s%s: %w", a.text(), ranklist.Verb(a.ranks, "has", "have"), f.Name, when, cause)
}

// giveUpLimit bounds how long a rank that gives up tries to say so.
const giveUpLimit = 250 * time.Millisecond

// arrived returns when the store has the keys that this rank has set before. A TCP store does not answer a set, so a request over
// another connection may overtake it. Such requests are the rank's next attempt, and a question of a peer that has seen this rank leave.
func arrived(ctx context.Context, s store.Store) error {
	_, err := s.Check(ctx, gaveUpKey)
	return err
}

// GiveUp puts into the store why this rank leaves before the group has formed, for the ranks that look for it there. Its
// keys are left behind to the job, but for the default group's: they tell the other ranks, and do not hinder another attempt.
func (f *Formation) GiveUp(why error, clip func(string) string) {
	set := f.keys.list()
	if !slices.Contains(set, rankKey(f.Rank)) {
		return
	}
	mine := f.info()
	mine.GaveUp, mine.Late, mine.Heard, mine.Secret = clip(why.Error()), errors.Is(why, colligo.ErrTimeout), consequence(why), nil
	mine.PeerLost = peerLost(why)
	b, err := json.Marshal(mine)
	ctx, cancel := context.WithTimeout(context.Background(), giveUpLimit)
	defer cancel()
	if err == nil {
		err = f.Store.Set(ctx, rankKey(f.Rank), b)
	}
	if err == nil {
		err = f.Store.Append(ctx, gaveUpKey, fmt.Appendf(nil, "%d,", f.Rank))
	}
	if err == nil {
		err = arrived(ctx, f.Store)
	}
	if err != nil {
		f.log.Debug("could not say in the store why this rank gave up", "group", f.Name, "rank", f.Rank, "error", err)
	}
	if !f.Default {
		f.job.LeaveBehind(f.Store, append(set, gaveUpKey))
	}
}
