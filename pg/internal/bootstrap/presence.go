package bootstrap

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/colligo-go/colligo/store"
	"github.com/colligo-go/colligo/store/tcpstore"
)

// presence has the store that rank 0 serves tell when a rank ends that has registered. Its bootstrap info says from then on that it
// has given up, and it stands in the list of such ranks:
//
//  1. A rank registers over its first connection, and keeps that connection as long as its process and its job last.
//  2. Other ranks look at the list while they form the group, and no longer. No rank leaves a group before all are linked.
//  3. So a connection that ends while others look means that the process has ended, or that it cannot go on.
//
// A rank that died so may come again like one that gave up. Stores that others serve tell nothing.
func presence() *tcpstore.Presence { return &tcpstore.Presence{Stands: ofRank, Ended: ended} }

// ofRank reports whether a key of the store is that of a rank's bootstrap info.
func ofRank(key string) bool {
	_, _, ok := splitRankKey(key)
	return ok
}

// splitRankKey parts the key of a rank's bootstrap info, as it travels, into what is before a group's keys and the rank.
func splitRankKey(key string) (group string, rank int, ok bool) {
	at := strings.LastIndex(key, rankKeyStart)
	if !strings.HasPrefix(key, "/"+storePrefix("")) || at < 0 {
		return "", 0, false
	}
	rank, err := strconv.Atoi(key[at+len(rankKeyStart):])
	return key[:at+1], rank, err == nil && rank >= 0
}

// ended notes that the client has ended which had registered as a rank.
func ended(t *store.Table, key string, value []byte) {
	group, rank, ok := splitRankKey(key)
	theirs, err := readInfo(rank, value)
	if !ok || err != nil || theirs.GaveUp != "" {
		return
	}
	theirs.GaveUp, theirs.Lost, theirs.Secret = "its connection with the store has ended", true, nil
	b, err := json.Marshal(theirs)
	if err != nil {
		return
	}
	time.AfterFunc(giveUpLimit, func() { // a rank whose time is up may have cut its connection, and says why over another
		if string(t.CompareSet(key, value, b)) == string(b) {
			t.Append(group+gaveUpKey, fmt.Appendf(nil, "%d,", rank))
		}
	})
}
