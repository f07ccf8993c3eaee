package backend

import (
	"fmt"
	"slices"
	"strings"

	"github.com/colligo-go/colligo"
)

// Selection says which backend a group uses for each kind of device. A nil Selection takes every kind's default.
type Selection map[colligo.DeviceKind]string

// ParseSelection reads pairs such as "cpu:host,cuda:peer", or one name for every kind that has it. Nothing is a nil
// Selection.
func ParseSelection(s string) (Selection, error) {
	if s == "" {
		return nil, nil
	}
	names := Selection{colligo.CPU: CPU}
	given := map[colligo.DeviceKind]bool{}
	for part := range strings.SplitSeq(s, ",") {
		device, name, pair := strings.Cut(strings.ToLower(strings.TrimSpace(part)), ":")
		if !pair && !strings.Contains(s, ",") {
			return names, names.everywhere(device)
		}
		kind, err := kindNamed(device)
		switch {
		case !pair:
			return nil, fmt.Errorf("backends %q: %q names no device", s, part)
		case err != nil:
			return nil, fmt.Errorf("backends %q: %w", s, err)
		case given[kind]:
			return nil, fmt.Errorf("backends %q name two for %v", s, kind)
		case !slices.Contains(Names(kind), name):
			return nil, fmt.Errorf("no backend %q for %v in this program: %s", name, kind, Linked())
		}
		names[kind], given[kind] = name, true
	}
	return names, nil
}

// everywhere uses one name for all kinds that have it.
func (s Selection) everywhere(name string) error {
	found := false
	for _, kind := range Kinds() {
		if slices.Contains(Names(kind), name) {
			s[kind], found = name, true
		}
	}
	if !found {
		return fmt.Errorf("no backend %q in this program: %s", name, Linked())
	}
	return nil
}

func kindNamed(device string) (colligo.DeviceKind, error) {
	kinds := append(Kinds(), colligo.CUDA)
	for _, kind := range kinds {
		if kind.String() == device {
			return kind, nil
		}
	}
	return 0, fmt.Errorf("no device is called %q", device)
}

// Linked lists the backends of this program for a message, and says how another is added.
func Linked() string {
	var all []string
	for _, kind := range Kinds() {
		for _, name := range Names(kind) {
			all = append(all, fmt.Sprintf("%v:%s", kind, name))
		}
	}
	return "there are " + strings.Join(all, ", ") + "; importing a backend's package, such as colligo's cuda/peer, adds it"
}

// Of returns the name for a kind of device; empty means that the group has none.
func (s Selection) Of(kind colligo.DeviceKind) string {
	if s != nil {
		return s[kind]
	}
	if all := Names(kind); len(all) > 0 {
		return all[0]
	}
	return ""
}

// Opener returns the opener for a kind of device, or an error that lists what there is.
func (s Selection) Opener(kind colligo.DeviceKind) (Opener, error) {
	open := Open(kind, s.Of(kind))
	switch {
	case open != nil:
		return open, nil
	case s != nil:
		return nil, fmt.Errorf("no backend for %v tensors in this group, which has %v", kind, s)
	}
	return nil, fmt.Errorf("no backend for %v tensors in this program: %s", kind, Linked())
}

// String prints the pairs as c10d does, such as "cpu:host,cuda:peer".
func (s Selection) String() string {
	var pairs []string
	for _, kind := range Kinds() {
		if name := s.Of(kind); name != "" {
			pairs = append(pairs, fmt.Sprintf("%v:%s", kind, name))
		}
	}
	return strings.Join(pairs, ",")
}
